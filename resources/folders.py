"""Read-only input: folders on disk or in S3 through one small interface, and text files by lines."""

from __future__ import annotations

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


def read_lines(file: Path | int) -> list[str]:
    """The lines of a text file or an open descriptor. Raises OSError."""
    with open(file, "rb", closefd=not isinstance(file, int)) as opened:
        data = opened.read()
    # Not `splitlines`, which also splits at characters that editors do not count as line ends.
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    return text.removesuffix("\n").split("\n") if text else []
