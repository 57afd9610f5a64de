"""A server in a process of its own that answers `/bad/<n>` with the n-th malformed answer and `/good/<n>` with a sound one
that says its number. The answers are made from valid ones by seeded chance, so that any of them can be asked for again.

`python hostile_server.py` prints its port and serves until its standard input is closed.
"""

from __future__ import annotations

import asyncio
import gzip
import random
import socket
import sys
import threading
import zlib
from collections.abc import Callable

SEED = 20_260_217
LEAK = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nX-Leak: 1\r\n\r\nLEAKED"
TEXT = b"<html><p>some words, said over and over</p></html>" * 20
NASTY = [
    b"\0",
    b"\r",
    b"\n",
    b"\r\n",
    b"\r\n\r\n",
    b":",
    b" ",
    b"\t",
    b"\xff\xfe",
    b"\x80",
    b"HTTP/1.1 ",
    b"%00",
    b"\x1b[2J",
    b",",
]
NUMBERS = [
    b"-1",
    b"+5",
    b"0x10",
    b"1e3",
    b" ",
    b"",
    b"5, 5",
    b"5, 6",
    b"1" * 30,
    b"9" * 5000,
    b"\xb2",
    b"4294967296",
    b"NaN",
    b"5;5",
]
CODINGS = [
    b"gzip",
    b"deflate",
    b"br",
    b"zstd",
    b"gzip, br, deflate",
    b", ".join([b"gzip"] * 20),
    b"identity",
    b"x" * 3000,
    b",,,",
    b"\xff",
]
LOCATIONS = [
    b"", b" ", b"//", b"///x", b"http://", b"https://[", b"http://[::1", b"http://127.0.0.1:99999/", b"http://a:b@c:d@/",
    b"file:///etc/passwd", b"javascript:alert(1)", b"data:,x", b"ftp://x/", b"\xff\xfe\xfd", b"/" + b"a" * 60_000, b"?" * 500,
    b"http://169.254.169.254/latest", b"http://0x7f.1/", b"http://xn--a/", b"http://" + b"a" * 300 + b".example/", b"/bad/\0",
    b"http://\xe2\x91\xa0.example:x", b"..", b"#", b"%", b"http:", b"http:/a", b"https://*/", b"\\\\host\\x",
    b"/good/0\r\nX-Injected: 1",
]  # fmt: skip
LINES = [
    b"HTTP/0.9 200 OK", b"HTTP/1.0 200 OK", b"HTTP/3.0 200 OK", b"HTTP/1.1 000 No", b"HTTP/1.1 99 No", b"HTTP/1.1 1000 No",
    b"HTTP/1.1 99999999999 No", b"HTTP/1.1 2OO OK", b"HTTP/1.1", b"HTTP/1.1 200", b"HTTP/1.1200 OK",
    b"ICY 200 OK", b"http/1.1 200 ok",
    b"HTTP/1.1 -200 OK", b"HTTP/1.1 200 " + b"x" * 70_000, b"", b" ", b"\0", b"HTTP/1.1 599 \xff",
    b"HTTP/1.1 204 None", b"HTTP/1.1 304 Same",
    b"HTTP/1.1 101 Switching", b"HTTP/1.1 102 Wait", b"HTTP/1.1 103 Hints", b"HTTP/11 200 OK", b"HTTPS/1.1 200 OK", b"SSH-2.0-x",
]  # fmt: skip


def message(line: bytes, headers: list[bytes], body: bytes) -> bytes:
    return b"\r\n".join([line, *headers, b"", body])


def sized(body: bytes, line: bytes = b"HTTP/1.1 200 OK", *headers: bytes) -> bytes:
    return message(line, [b"Content-Length: %d" % len(body), *headers], body)


def chunked(body: bytes, size: int = 300) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    coded = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return message(b"HTTP/1.1 200 OK", [b"Transfer-Encoding: chunked"], coded + b"0\r\n\r\n")


def valid(dice: random.Random) -> bytes:
    return dice.choice(
        [
            sized(TEXT),
            chunked(TEXT),
            sized(gzip.compress(TEXT), b"HTTP/1.1 200 OK", b"Content-Encoding: gzip"),
            sized(zlib.compress(TEXT), b"HTTP/1.1 200 OK", b"Content-Encoding: deflate"),
            sized(b"", b"HTTP/1.1 302 Found", b"Location: /good/0"),
            sized(b"gone", b"HTTP/1.1 404 Not Found"),
            sized(b"busy", b"HTTP/1.1 503 Busy"),
            sized(TEXT, b"HTTP/1.1 200 OK", b"Content-Type: text/html; charset=utf-8", b"Set-Cookie: a=b; Path=/"),
        ]
    )


def damaged(dice: random.Random) -> bytes:
    """A valid answer with bytes changed, taken out, doubled or put in."""
    answer = bytearray(valid(dice))
    for _ in range(dice.randint(1, 12)):
        at = dice.randrange(len(answer) + 1) if dice.random() < 0.3 else dice.randrange(min(len(answer), 120) + 1)
        match dice.randrange(4):
            case 0:
                answer[at : at + 1] = bytes([dice.randrange(256)])
            case 1:
                del answer[at : at + dice.randint(1, 20)]
            case 2:
                answer[at:at] = answer[at : at + dice.randint(1, 40)]
            case _:
                answer[at:at] = dice.choice(NASTY)
    return bytes(answer)


def soup(dice: random.Random) -> bytes:
    names = [
        b"X-A",
        b"Content-Length",
        b"Content-Encoding",
        b"Transfer-Encoding",
        b"Set-Cookie",
        b"Location",
        b"",
        b" ",
        b"\xff",
        b"A" * 300,
    ]
    values = [b"", b"chunked", b"a=b; Expires=never; Domain=..", b"gzip", b"\0", b"x" * 4000, *NUMBERS]
    colons = [b": ", b":", b" : ", b"", b"::"]
    count = dice.choice([1, 3, 20, 90, 101, 300])
    lines = [dice.choice(names) + dice.choice(colons) + dice.choice(values) for _ in range(count)]
    return message(b"HTTP/1.1 200 OK", lines, TEXT)


def lengths(dice: random.Random) -> bytes:
    headers = [b"Content-Length: " + dice.choice(NUMBERS) for _ in range(dice.randint(1, 3))]
    return message(b"HTTP/1.1 200 OK", headers, TEXT[: dice.randrange(200)])


def chunks(dice: random.Random) -> bytes:
    sizes = [
        b"5",
        b"zz",
        b"-5",
        b"ffffffffffffffff",
        b"f" * 300,
        b"0x5",
        b"5;" + b"e" * 70_000,
        b" 5 ",
        b"",
        b"5\r",
        b"\0",
        b"0",
        b"00005",
    ]
    ends = [b"\r\n", b"\n", b"", b"\r\n\r\n"]
    body = b"".join(
        dice.choice(sizes) + dice.choice(ends) + b"abcde" + dice.choice(ends) for _ in range(dice.randint(1, 8))
    )
    names = [b"chunked", b"chunked, chunked", b"gzip, chunked", b"xchunked", b"CHUNKED"]
    return message(b"HTTP/1.1 200 OK", [b"Transfer-Encoding: " + dice.choice(names)], body)


def folded(dice: random.Random) -> bytes:
    fold = dice.choice([b"\r\n ", b"\r\n\t", b"\n ", b"\r "])
    return message(b"HTTP/1.1 200 OK", [b"X-Folded: a" + fold + b"b", b"Content-Length:" + fold + b"5"], b"abcde")


def interim(dice: random.Random) -> bytes:
    line = dice.choice([b"HTTP/1.1 100 Continue", b"HTTP/1.1 102 Processing", b"HTTP/1.1 103 Early Hints"])
    return (line + b"\r\nX-A: b\r\n\r\n") * dice.choice([1, 2, 50, 2000]) + valid(dice)


def coded(dice: random.Random) -> bytes:
    inner = dice.choice(
        [
            TEXT,
            gzip.compress(TEXT),
            gzip.compress(TEXT)[:-5],
            zlib.compress(TEXT)[3:],
            b"\x1f\x8b\x08" + dice.randbytes(50),
        ]
    )
    return sized(inner, b"HTTP/1.1 200 OK", b"Content-Encoding: " + dice.choice([*CODINGS, b""]))


def moved(dice: random.Random) -> bytes:
    status = dice.choice([b"301 A", b"302 B", b"303 C", b"307 D", b"308 E", b"300 F", b"399 G"])
    return sized(b"", b"HTTP/1.1 " + status, b"Location: " + dice.choice(LOCATIONS))


def split(dice: random.Random) -> bytes:
    """A whole answer, and behind it one that nobody asked for."""
    first = dice.choice(
        [sized(b"short"), chunked(b"short"), sized(b"", b"HTTP/1.1 304 Same"), sized(b"", b"HTTP/1.1 204 None")]
    )
    return first + dice.choice([b"", b"\r\n", b"\0"]) + LEAK * dice.randint(1, 3)


KINDS: list[Callable[[random.Random], bytes]] = [
    damaged, damaged, damaged, soup, lengths, chunks, folded, interim, coded, moved, split, split,
    lambda dice: dice.choice(LINES) + b"\r\nContent-Length: 5\r\n\r\nabcde",
    lambda dice: dice.randbytes(dice.choice([0, 1, 10, 1000, 70_000])),
    lambda dice: valid(dice)[: dice.randrange(200)],
]  # fmt: skip


def malformed(number: int) -> tuple[bytes, str]:
    """The answer, and what is done behind it: `close`, `stay` (wait for the next request), or `hang` for a while."""
    dice = random.Random(f"{SEED} {number}")
    answer = dice.choice(KINDS)(dice)
    return answer, dice.choices(["close", "stay", "hang"], [80, 18, 2])[0] if LEAK not in answer else "stay"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            kind, _, number = head.split(b" ")[1].strip(b"/").partition(b"/")
            if kind != b"bad" or not number.isdigit():
                writer.write(sized(b"good " + number))
                continue
            answer, then = malformed(int(number))
            writer.write(answer)
            if then == "hang":
                await asyncio.sleep(1)
            if then != "stay":
                break
        await writer.drain()
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
        pass
    finally:
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "0.0.0.0", 0, backlog=500)
    print(server.sockets[0].getsockname()[1], flush=True)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    threading.Thread(target=lambda: (sys.stdin.read(), loop.call_soon_threadsafe(ended.set)), daemon=True).start()
    await ended.wait()
    server.close()
    for connection in asyncio.all_tasks() - {asyncio.current_task()}:
        connection.cancel()


if __name__ == "__main__":
    asyncio.run(main())
