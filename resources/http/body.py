"""Read the body of an answer into memory or into a sink, decode it, and continue a body that broke off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from resources.http.coding import decoded
from resources.http.errors import BROKEN_TRANSFERS, BodyTooLarge, BodyTooShort, BodyTruncated, ProtocolViolation
from resources.http.exchange import Reply, Send
from resources.http.messages import BodySink, ResponseHead, Unfinished
from resources.http.watchdog import Watched
from resources.http.wire_errors import translate_wire_errors

_MANY_CHUNKS = 100_000  # a body with more chunks than this is refused
_LEAST_CHUNK = 16  # if they have fewer bytes than this on average


class Body:
    """The decoded body in chunks, with connection errors translated. `as_sent`: the chunks are the bytes that came, so that an
    offset in one is an offset in the other."""

    def __init__(self, raw: Any, size: int, watched: Watched) -> None:
        self._raw, self._size, self._watched = raw, size, watched
        self.as_sent = True

    def __iter__(self) -> Iterator[bytes]:
        coding = self._raw.headers.get("content-encoding", "")
        return self._checked(lambda: decoded(self._looked_at(), coding, self._watched.check))

    def rest(self) -> Iterator[bytes]:
        """The rest of a body that began earlier; it cannot be decoded."""
        return self._checked(self._received)

    def _looked_at(self) -> Iterator[bytes]:
        for number, piece in enumerate(self._received()):
            self.as_sent = self.as_sent and not (number == 0 and piece.startswith(b"\x1f"))
            yield piece

    def _received(self) -> Iterator[bytes]:
        """The bytes as they come: of a chunked body, chunk by chunk. One of tiny chunks costs much and brings little."""
        size = 0
        for number, piece in enumerate(self._raw.stream(self._size, decode_content=False)):
            self._watched.check()
            size += len(piece)
            if number > _MANY_CHUNKS and size < _LEAST_CHUNK * number:
                raise ProtocolViolation(f"{number} chunks of the body hold {size} bytes")
            yield piece

    def _checked(self, pieces: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
        with translate_wire_errors(self._watched):
            for piece in pieces():
                self._watched.check()
                yield piece
            self._watched.check()


def read_body(send: Send, head: ResponseHead, body: Body) -> Reply:
    begun = send.unfinished
    if begun is not None and begun.is_continued_by(head):
        return _read_into(begun.sink, begun.head, body.rest(), body, begun.size, begun.whole_size(head))
    if begun is not None and head.status in (206, 416):
        raise BodyTruncated("the rest of the body does not fit its beginning", url=send.url)
    if begun is not None and 200 <= head.status < 300:
        begun.sink.abort()  # the file has changed and is sent whole
    if send.request.sink is not None and 200 <= head.status < 300:
        sink = send.request.sink(head)
        return _read_into(sink, head, body, body, 0)
    page = _page(send, body)
    return Reply(head, page, None, len(page), 0)


def _read_into(
    sink: BodySink, head: ResponseHead, pieces: Iterable[bytes], body: Body, size: int, wanted: int | None = None
) -> Reply:
    """A body that breaks off, and whose rest can be requested, is attached to the error; otherwise nothing is left of it.
    `wanted` is the size of the whole body, where it is known."""
    went_on_at = size
    try:
        for piece in pieces:
            sink.write(piece)
            size += len(piece)
        if wanted is not None and size != wanted:
            raise BodyTooShort(f"the rest ended at {size} of {wanted} bytes", url=head.url)
        return Reply(head, b"", sink.finish(), size, 0, went_on_at=went_on_at)
    except BROKEN_TRANSFERS as error:
        error.unfinished = Unfinished.of(head, sink, size) if body.as_sent else None
        if error.unfinished is None:
            sink.abort()
        raise
    except BaseException:
        sink.abort()
        raise


def _page(send: Send, chunks: Iterable[bytes]) -> bytes:
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > send.max_bytes:
            if send.request.beginning_only:
                break
            raise BodyTooLarge(f"the answer is larger than {send.max_bytes} bytes", url=send.url)
    return bytes(body[: send.max_bytes])
