"""How many requests a second the sandbox answers, with its client on the same machine.

The first two rows are the cheapest answers there are (2 KB over plain HTTP, robots.txt over TLS through the proxy):
they bound the overhead of the server. The others are what a collector really asks for: PDFs of different works, and
pages of 100 OpenAlex records. All with keep-alive, the client in a process of its own; it is a bare asyncio reader, so
the numbers are about the server, and a client such as requests will see far fewer. On a busy machine only the server's
CPU time for a request means anything, so that is printed beside the rate (where /proc tells it).

    python benchmarks/sandbox_throughput.py [requests] [connections]
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import ssl
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from docstokg_assets.sandbox import Sandbox

_HOST = "journals.aurora-press.example"
# label, host ("" is plain HTTP to loopback, without proxy), paths asked in turn, divisor of the number of requests
_ROWS = (
    ("2 KB, plain HTTP, direct", "", ["/bench/2000"], 1),
    ("robots.txt, TLS, proxy", _HOST, ["/robots.txt"], 1),
    ("PDF 50-200 KB, plain", "", [f"/bench/pdf/{n}" for n in range(1000)], 4),
    ("100 OpenAlex records, TLS", "api.openalex.org",
     [f"/works?filter=publication_year:2024&per_page=100&page={n}&api_key=sandbox-paid-1" for n in (1, 2)], 40),
)  # fmt: skip


async def _read_answer(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in head[:16]:
        raise RuntimeError(head[:200].decode())
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    await reader.readexactly(length)


async def _open(port: int, host: str, ca: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4 * 1024 * 1024)
    if host:
        writer.write(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        await writer.start_tls(ssl.create_default_context(cafile=ca), server_hostname=host)
    return reader, writer


async def _one_connection(port: int, host: str, ca: str, paths: list[str], numbers: range) -> None:
    reader, writer = await _open(port, host, ca)
    for number in numbers:
        path = paths[number % len(paths)]
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host or '127.0.0.1'}\r\nUser-Agent: bench\r\n\r\n".encode())
        await _read_answer(reader)
    writer.close()


async def _all(port: int, host: str, ca: str, paths: list[str], count: int, connections: int) -> float:
    started = time.perf_counter()
    shares = [range(n, count, connections) for n in range(connections)]
    await asyncio.gather(*(_one_connection(port, host, ca, paths, share) for share in shares))
    return count / (time.perf_counter() - started)


def _client(
    port: int, host: str, ca: str, paths: list[str], count: int, connections: int, results: multiprocessing.Queue[float]
) -> None:
    results.put(asyncio.run(_all(port, host, ca, paths, count, connections)))


def measure(sandbox: Sandbox, host: str, paths: list[str], count: int, connections: int) -> float:
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[float] = context.Queue()
    arguments = (sandbox.port, host, str(sandbox.ca_bundle), paths, count, connections, results)
    process = context.Process(target=_client, args=arguments)
    process.start()
    rate = results.get(timeout=120)
    process.join()
    return rate


def _cpu_seconds(pid: int) -> float:
    """CPU time of a process so far; 0 where there is no /proc."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return 0.0
    fields = stat.read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    connections = int(sys.argv[2]) if len(sys.argv) > 2 else 16
    with tempfile.TemporaryDirectory() as folder, Sandbox.start(folder, enforce_limits=False) as sandbox:
        for label, host, paths, divisor in _ROWS:
            asked = max(connections, count // divisor)
            before = _cpu_seconds(sandbox.pid)
            rate = measure(sandbox, host, paths, asked, connections)
            cost = (_cpu_seconds(sandbox.pid) - before) / asked * 1e6
            print(f"{label:28} {rate:8.0f} requests/s  server CPU {cost:6.0f} us a request  ({asked} requests)")


if __name__ == "__main__":
    main()
