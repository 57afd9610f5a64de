"""A web server for benchmarks, as a process of its own: any host, any PDF, as fast as the kernel sends. Asked directly it is an
origin, asked with whole URLs a plain proxy. `/…/<bytes>.pdf` is a PDF of that size; everything else is not there.

Python's own servers, and the sandbox, take more CPU for each answer than the client whose cost is to be seen.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_SIZE = re.compile(rb"/(\d+)\.pdf ")
_BEGIN, _END = b"%PDF-1.7\n", b"\n%%EOF\n"
_LARGEST = 2**28
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
_FOUND = b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\nContent-Length: %d\r\n\r\n"


@contextmanager
def origin() -> Iterator[int]:
    """The port of a server that ends with the block."""
    process = subprocess.Popen([sys.executable, str(Path(__file__))], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def _answer(connection: socket.socket, filler: memoryview) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection, suppress(ConnectionError):
        asked = b""
        while data := connection.recv(65_536):
            asked += data
            if not asked.endswith(b"\r\n\r\n"):
                continue
            wanted, asked = _SIZE.search(asked.partition(b"\r\n")[0]), b""
            if wanted is None:
                connection.sendall(_NOT_FOUND)
                continue
            size = int(wanted[1])
            connection.sendall(_FOUND % size + _BEGIN, socket.MSG_MORE)
            connection.sendall(filler[: size - len(_BEGIN) - len(_END)], socket.MSG_MORE)
            connection.sendall(_END)


def _serve(listener: socket.socket) -> None:
    filler = memoryview(bytes(range(256)) * (_LARGEST // 256))
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_answer, args=(connection, filler), daemon=True).start()


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0), backlog=256)
    threading.Thread(target=_serve, args=(listening,), daemon=True).start()
    print(listening.getsockname()[1], flush=True)
    sys.stdin.read()
