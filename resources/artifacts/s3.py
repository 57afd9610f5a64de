"""Artifacts as objects of an S3 bucket, Amazon's or any other. S3 itself promises that an object appears whole or not at all.

A part is written to a local folder and sent when it is committed, with its SHA-256, which the server checks before it keeps
anything. Every write is conditional, so that only one of several writers makes a name; a writer whose answer was lost recognizes
its object by the name of the part in the metadata. Only botocore repeats requests and finds credentials, which are written
nowhere.
"""

from __future__ import annotations

import base64
import hashlib
import io
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, cast

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from resources.artifacts.file_system import FileSystemStore, PartFile
from resources.artifacts.store import ArtifactStore, Creator, Found, NameTaken, StoreError, names_of
from resources.errors import translate_errors

MULTIPART_FROM = 50 * 1024 * 1024
PIECE_BYTES = 16 * 1024 * 1024
_MOST_TURNS = 8  # tries of a write whose object is replaced by other writers; more than that is no coincidence
_UPLOAD = "?uploadId="
_Listed = tuple[str, dict[str, Any]]
_THERE = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
_GONE = ("NoSuchKey", "NotFound", "404")
_REMEDIES = {
    "NoSuchBucket": "Create the bucket, or correct {bucket}.",
    "404": "Create the bucket, or correct {bucket}.",
    "403": "Give these credentials the right to list, read and write there.",
    "AccessDenied": "Give these credentials the right to list, read and write there.",
    "InvalidAccessKeyId": "Check the AWS credentials.",
    "SignatureDoesNotMatch": "Check the AWS credentials.",
    "NoCredentialsError": "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.",
    "PartialCredentialsError": "Set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
    "EndpointConnectionError": "Check the network and {endpoint}.",
}


def s3_client(endpoint_url: str | None, region: str | None) -> Any:
    """The S3 client of the whole project: six tries with growing pauses, also after a lost answer."""
    settings = Config(
        retries={"mode": "legacy", "total_max_attempts": 6},  # the others give up for good after a hundred retries
        connect_timeout=10,
        read_timeout=60,
        max_pool_connections=64,
        tcp_keepalive=True,
        user_agent_extra="docstokg-contentdownload",
    )
    with translate_errors((BotoCoreError, ValueError), lambda error: StoreError(f"S3 cannot be used: {error}")):
        return boto3.session.Session().client("s3", endpoint_url=endpoint_url, region_name=region, config=settings)


class Bucket:
    """The objects of an S3 bucket below a prefix. Paths are relative to the prefix."""

    names: ClassVar[
        tuple[str, str, str]
    ]  # in messages: what it holds, and the settings of the bucket and of the endpoint

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        """StoreError when the bucket cannot be used, now and not after the first download."""
        self._client, self._bucket = client, bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        with self._translated():
            client.head_bucket(Bucket=bucket)

    def _object(self, path: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + "/".join(names_of(path))}

    def _url(self, path: str = "") -> str:
        return f"s3://{self._bucket}/{self._prefix}{path}"

    def _list(self, folder: str, operation: str = "list_objects_v2", kind: str = "Contents") -> Iterator[_Listed]:
        """The path and the description of each object below a folder, or of another kind of thing."""
        under = f"{self._prefix}{folder}/" if folder else self._prefix
        with self._translated(folder):
            for page in self._client.get_paginator(operation).paginate(Bucket=self._bucket, Prefix=under):
                for item in page.get(kind, ()):
                    yield item["Key"].removeprefix(self._prefix), item

    def _move(self, path: str, to: str) -> None:
        """Copied inside the bucket, in pieces where it is large."""
        self._client.copy(self._object(path), self._bucket, self._object(to)["Key"])
        self._client.delete_object(**self._object(path))

    def _translated(self, path: str = "") -> AbstractContextManager[None]:
        """Raise errors of botocore as a StoreError with the place and the remedy; a missing object as FileNotFoundError."""

        def translate(error: ClientError | BotoCoreError) -> Exception:
            code = _code(error)
            if path and code in _GONE:
                return FileNotFoundError(path)
            what, bucket, endpoint = self.names
            remedy = _REMEDIES.get(code, "Check the server, then run the same command again.")
            cause = code if isinstance(error, ClientError) else str(error).rstrip(".")
            remedy = remedy.format(bucket=bucket, endpoint=endpoint)
            return StoreError(f"{what} cannot use {self._url(path)}: {cause}. {remedy}")

        return translate_errors((ClientError, BotoCoreError), translate)


class S3Store(Bucket, ArtifactStore):
    names = ("the artifact store", "artifacts.bucket", "artifacts.endpoint_url")

    def __init__(
        self,
        client: Any,
        bucket: str,
        prefix: str,
        spool: Path,
        layout: str = "readable",
        *,
        multipart_from: int = MULTIPART_FROM,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        self.layout, self._multipart_from, self._piece_bytes = layout, multipart_from, piece_bytes
        self._spool = FileSystemStore(spool, layout)
        super().__init__(client, bucket, prefix)

    def begin(self, folder: str) -> PartFile:
        return self._spool.begin(folder)

    def _keep(
        self, part: PartFile, place: str, sha256: str, note: bytes, by: str, *, replace: bool, durable: bool
    ) -> None:
        metadata = {"sha256": sha256} if replace else {"sha256": sha256, "by": by, "part": part.path.name}
        with part.reader() as body, self._translated(place):
            self._put(body, part.bytes_written, place, metadata, replace=replace)
        part.discard()

    def creator_of(self, path: str) -> Creator | None:
        with self._translated(path):
            there = self._head(path)
        by = None if there is None else there["Metadata"].get("by")
        return Creator(by, there["LastModified"].timestamp()) if there is not None and by else None

    def note_of(self, path: str) -> None:
        """None: reading it would cost a request for each work."""

    def settled(self, path: str) -> tuple[str, int] | None:
        return self.sha256_of(path) if self.exists(path) else None

    def open_read(self, path: str) -> BinaryIO:
        with self._translated(path):
            return io.BufferedReader(self._client.get_object(**self._object(path))["Body"])

    def exists(self, path: str) -> bool:
        with self._translated(path):
            return self._head(path) is not None

    def sha256_of(self, path: str) -> tuple[str, int]:
        """Read from the bucket again: the server may only repeat the hash that it was given."""
        digest, size = hashlib.sha256(), 0
        with self.open_read(path) as body, self._translated(path):
            while chunk := body.read(1024 * 1024):
                digest.update(chunk)
                size += len(chunk)
        return digest.hexdigest(), size

    def set_aside(self, path: str, to: str) -> bool:
        with self._translated(path):
            if self._head(path) is None:
                return False
            if self._head(to) is not None:
                raise NameTaken(self.place(to))
            self._move(path, to)
        return True

    def delete(self, path: str) -> bool:
        place, _, upload = path.partition(_UPLOAD)
        with self._translated(place):
            if upload:
                return self._abort(place, upload)
            if self._spool.delete(path):
                return True
            if self._head(path) is None:
                return False
            self._client.delete_object(**self._object(path))
        return True

    def iter_files(self, under: str) -> Iterator[Found]:
        for path, item in self._list(under):
            yield Found(path, item["Size"], item["LastModified"].timestamp())

    def stale_parts(self, older_than_s: float, folder: str) -> list[Found]:
        """Local parts, and uploads in several pieces that were begun and never completed; their size is not asked for."""
        before = time.time() - older_than_s
        uploads = self._list(folder, "list_multipart_uploads", "Uploads")
        begun = [Found(path + _UPLOAD + item["UploadId"], 0, item["Initiated"].timestamp()) for path, item in uploads]
        return self._spool.stale_parts(older_than_s, folder) + [part for part in begun if part.changed_at < before]

    def place(self, folder: str = "") -> str:
        return self._url(folder)

    def _put(self, body: BinaryIO, size: int, path: str, metadata: dict[str, str], *, replace: bool) -> None:
        """Send until these bytes are there: as the first under this name (else NameTaken), or with `replace` in the place of
        exactly those that were there before. `metadata` is kept with them."""
        condition = {"IfNoneMatch": "*"}
        for _ in range(_MOST_TURNS):
            body.seek(0)
            try:
                put = self._put_whole if size < self._multipart_from else self._put_in_pieces
                return put(body, path, metadata, condition)
            except ClientError as error:
                if _code(error) not in (*_THERE, *_GONE, "NoSuchUpload"):
                    raise
            there = self._head(path)
            if there is not None and not replace:
                if there["Metadata"].get("part") == metadata["part"]:
                    return  # the answer to an earlier try of this request was lost
                raise NameTaken(self.place(path))
            if there is not None and self._has(there, path, size, metadata["sha256"]):
                return
            condition = {"IfNoneMatch": "*"} if there is None else {"IfMatch": there["ETag"]}
        raise StoreError(
            f"{self.place(path)} is replaced by another program again and again. "
            "Give each catalog an artifacts.prefix of its own."
        )

    def _put_whole(self, body: BinaryIO, path: str, metadata: dict[str, str], condition: dict[str, str]) -> None:
        checksum = {"ChecksumSHA256": _base64(bytes.fromhex(metadata["sha256"]))}
        self._client.put_object(Body=body, Metadata=metadata, **self._object(path), **checksum, **condition)

    def _put_in_pieces(self, body: BinaryIO, path: str, metadata: dict[str, str], condition: dict[str, str]) -> None:
        """The server checks each piece; the hash of the whole is kept with the object."""
        named = self._object(path)
        begun = self._client.create_multipart_upload(ChecksumAlgorithm="SHA256", Metadata=metadata, **named)
        upload = {**named, "UploadId": begun["UploadId"]}
        sent: list[dict[str, Any]] = []
        try:
            while piece := body.read(self._piece_bytes):
                number, checksum = len(sent) + 1, _base64(hashlib.sha256(piece).digest())
                answer = self._client.upload_part(PartNumber=number, Body=piece, ChecksumSHA256=checksum, **upload)
                sent.append({"PartNumber": number, "ETag": answer["ETag"], "ChecksumSHA256": checksum})
            self._client.complete_multipart_upload(MultipartUpload={"Parts": sent}, **upload, **condition)
        except BaseException:
            with suppress(ClientError, BotoCoreError):  # else `stale_parts` finds it
                self._client.abort_multipart_upload(**upload)
            raise

    def _abort(self, path: str, upload: str) -> bool:
        try:
            self._client.abort_multipart_upload(UploadId=upload, **self._object(path))
        except ClientError as error:
            if _code(error) not in ("NoSuchUpload", *_GONE):  # another machine was faster
                raise
            return False
        return True

    def _has(self, there: dict[str, Any], path: str, size: int, sha256: str) -> bool:
        """Whether the object has these bytes. One that another program put there is read."""
        if there["ContentLength"] != size:
            return False
        kept = there["Metadata"].get("sha256") or self.sha256_of(path)[0]
        return bool(kept == sha256)

    def _head(self, path: str) -> dict[str, Any] | None:
        try:
            return cast(dict[str, Any], self._client.head_object(**self._object(path)))
        except ClientError as error:
            if _code(error) in _GONE:
                return None
            raise


def _code(error: ClientError | BotoCoreError) -> str:
    if not isinstance(error, ClientError):
        return type(error).__name__
    return str(error.response.get("Error", {}).get("Code", "unknown"))


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()
