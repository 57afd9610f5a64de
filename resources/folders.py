"""Read-only input: folders on disk or in S3 through one small interface, and text files in any encoding."""

from __future__ import annotations

import codecs
import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyarrow import fs

from resources.errors import ExplainedError, translate_errors

_BUFFER = 1 << 20
_TRIES = 10  # of several readers at once, each may be refused several times in a row


class FolderError(ExplainedError):
    """A file cannot be read; the message has its name, the cause and the remedy."""


class ReadFolder:
    """A folder whose files are read by their relative names."""

    def __init__(self, location: str, *, endpoint: str | None = None, signed: bool = False) -> None:
        """`s3://bucket/prefix`, without credentials unless `signed`; else a path. `endpoint`: an S3 that is not Amazon's."""
        self.location = location.rstrip("/")
        if location.startswith("s3://"):
            self._files: Any = s3_files(endpoint, signed=signed)
            self._root = self.location.removeprefix("s3://")
        else:
            self._files = fs.LocalFileSystem()
            self._root = os.path.abspath(os.path.expanduser(location))

    def has(self, name: str) -> bool:
        with self._readable(name):
            return bool(self._files.get_file_info(self._path(name)).type == fs.FileType.File)

    def read(self, name: str) -> bytes:
        with self._readable(name), self._files.open_input_stream(self._path(name), compression=None) as stream:
            return bytes(stream.read())

    def stream(self, name: str) -> Any:
        """Open a file to be read from the beginning, decompressed where its name ends in `.gz`."""
        with self._readable(name):
            return self._files.open_input_stream(self._path(name), compression="detect", buffer_size=_BUFFER)

    def random_access(self, name: str) -> Any:
        with self._readable(name):
            return self._files.open_input_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _readable(self, name: str) -> AbstractContextManager[None]:
        def folder_error(error: OSError) -> FolderError:
            cause = str(error).splitlines()[0][:300]
            remedy = "Check the place, the credentials and the network."
            return FolderError(f"{self.location}/{name} cannot be read: {cause}. {remedy}")

        return translate_errors(OSError, folder_error, hide_cause=True)


def s3_files(endpoint: str | None, *, signed: bool, region: str | None = None) -> Any:
    """The S3 file system of Arrow's readers."""
    parts = urlsplit(endpoint or "")
    options: dict[str, Any] = {"anonymous": not signed, "region": region or os.environ.get("AWS_REGION", "us-east-1")}
    if endpoint:
        options |= {"endpoint_override": parts.netloc or parts.path, "scheme": parts.scheme or "https"}
    patience = fs.AwsStandardS3RetryStrategy(max_attempts=_TRIES)
    return fs.S3FileSystem(**options, connect_timeout=10, request_timeout=60, retry_strategy=patience)


def read_bytes(file: Path | int) -> bytes:
    """The content of a file or an open descriptor. Raises OSError."""
    with open(file, "rb", closefd=not isinstance(file, int)) as opened:
        return opened.read()


_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def decode_text(data: bytes) -> str:
    """Text of any usual encoding, with `\\n` as line end: by its byte order mark, UTF-16 without one, UTF-8, and for lines that
    are not UTF-8 Windows-1252."""
    mark, encoding = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", ""))
    if not encoding and data[:2000].count(0) > len(data[:2000]) // 4:
        encoding = "utf-16-le" if data[1:2000:2].count(0) > data[:2000:2].count(0) else "utf-16-be"
    if encoding not in ("", "utf-8"):
        text = data[len(mark) :].decode(encoding, "replace")
    else:
        data = data[len(mark) :]
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:  # somebody has put files of several encodings together
            text = "".join(map(_decode_line, data.splitlines(keepends=True)))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decode_line(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("cp1252", "replace")


def text_lines(text: str) -> list[str]:
    """Not `splitlines`, which also splits at characters that editors do not count as line ends."""
    return text.removesuffix("\n").split("\n") if text else []
