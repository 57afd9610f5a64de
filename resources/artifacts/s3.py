"""Artifacts as objects of an S3 bucket, Amazon's or any other. An object appears whole or not at all, which is S3's own promise.

A part is gathered in a local folder and sent when it is committed, with its SHA-256, which the server checks before it keeps
anything. Every write is conditional, so that of several writers one makes the name, and one whose answer was lost knows its
object by the mark that it carries. Requests are repeated by botocore and by nothing else; credentials are found by it and written
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
from typing import Any, BinaryIO, cast

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from resources.artifacts.file_system import FileSystemStore, PartFile
from resources.artifacts.store import Creator, Found, NameTaken, Stored, StoreError, final_path, named_by_hash, names_of
from resources.errors import translate_errors

S3_ERRORS = (ClientError, BotoCoreError)
MULTIPART_FROM = 50 * 1024 * 1024
PIECE_BYTES = 16 * 1024 * 1024
_MOST_TURNS = 8  # of writers who replace each other's object under one name; more than that is no coincidence
_UPLOAD = "?uploadId="
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
    """The S3 client that all of the system uses: six tries with growing pauses, also after a lost answer."""
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


class S3Store:
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
        self._client, self._bucket, self.layout = client, bucket, layout
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._multipart_from, self._piece_bytes = multipart_from, piece_bytes
        self._spool = FileSystemStore(spool, layout)
        with self._translated(""):
            client.head_bucket(Bucket=bucket)  # what cannot be used is known now, not after the first download

    def begin(self, folder: str) -> PartFile:
        return self._spool.begin(folder)

    def commit(self, part: PartFile, path: str, sha256: str, note: bytes = b"", by: str = "") -> Stored:
        try:
            place = final_path(self.layout, path, sha256)
            by_hash = named_by_hash(self.layout, path)
            told = {"sha256": sha256} if by_hash else {"sha256": sha256, "by": by, "part": part.path.name}
            with part.reader() as body, self._translated(place):
                self._put(body, part.bytes_written, self._key(place), told, replace=by_hash)
        except NameTaken:
            raise
        except BaseException:
            part.discard()
            raise
        part.discard()
        return Stored(place, part.bytes_written, own=not by_hash)

    def creator_of(self, path: str) -> Creator | None:
        with self._translated(path):
            there = self._head(self._key(path))
        by = None if there is None else there["Metadata"].get("by")
        return Creator(by, there["LastModified"].timestamp()) if there is not None and by else None

    def note_of(self, path: str) -> None:
        """None: reading it would cost a request for each work."""

    def settled(self, path: str) -> tuple[str, int] | None:
        return self.sha256_of(path) if self.exists(path) else None

    def open_read(self, path: str) -> BinaryIO:
        with self._translated(path):
            return io.BufferedReader(self._client.get_object(Bucket=self._bucket, Key=self._key(path))["Body"])

    def exists(self, path: str) -> bool:
        with self._translated(path):
            return self._head(self._key(path)) is not None

    def sha256_of(self, path: str) -> tuple[str, int]:
        """Read from the bucket again: what the server says of it may be what it was told."""
        digest, size = hashlib.sha256(), 0
        with self.open_read(path) as body, self._translated(path):
            while chunk := body.read(1024 * 1024):
                digest.update(chunk)
                size += len(chunk)
        return digest.hexdigest(), size

    def set_aside(self, path: str, to: str) -> bool:
        with self._translated(path):
            if self._head(self._key(path)) is None:
                return False
            if self._head(self._key(to)) is not None:
                raise NameTaken(f"{self.place(to)} exists already. Choose another name.")
            source = {"Bucket": self._bucket, "Key": self._key(path)}
            self._client.copy(source, self._bucket, self._key(to))  # in the bucket, in pieces where it is large
            self._client.delete_object(Bucket=self._bucket, Key=self._key(path))
        return True

    def delete(self, path: str) -> bool:
        place, _, upload = path.partition(_UPLOAD)
        with self._translated(place):
            if upload:
                return self._abort(self._key(place), upload)
            if self._spool.delete(path):
                return True
            if self._head(self._key(path)) is None:
                return False
            self._client.delete_object(Bucket=self._bucket, Key=self._key(path))
        return True

    def iter_files(self, under: str) -> Iterator[Found]:
        pages = self._client.get_paginator("list_objects_v2")
        with self._translated(under):
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._under(under)):
                for item in page.get("Contents", ()):
                    path = item["Key"].removeprefix(self._prefix)
                    yield Found(path, item["Size"], item["LastModified"].timestamp())

    def stale_parts(self, older_than_s: float, folder: str) -> list[Found]:
        """Files that were gathered here, and uploads in several pieces that were begun and never ended. What the pieces of an
        upload weigh is not asked for."""
        before = time.time() - older_than_s
        stale = self._spool.stale_parts(older_than_s, folder)
        pages = self._client.get_paginator("list_multipart_uploads")
        with self._translated(folder):
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._under(folder)):
                for upload in page.get("Uploads", ()):
                    path = upload["Key"].removeprefix(self._prefix) + _UPLOAD + upload["UploadId"]
                    begun = upload["Initiated"].timestamp()
                    stale += [Found(path, 0, begun)] if begun < before else []
        return stale

    def place(self, folder: str = "") -> str:
        return f"s3://{self._bucket}/{self._prefix}{folder}"

    # -- writing ------------------------------------------------------------------------------------------------------

    def _put(self, body: BinaryIO, size: int, key: str, told: dict[str, str], *, replace: bool) -> None:
        """Until these bytes are there: as the first under this name (NameTaken when they are not), or with `replace` in the place
        of exactly those that were looked at. `told` is kept with them."""
        condition = {"IfNoneMatch": "*"}
        for _ in range(_MOST_TURNS):
            body.seek(0)
            try:
                if size < self._multipart_from:
                    self._put_whole(body, key, told, condition)
                else:
                    self._put_in_pieces(body, key, told, condition)
                return
            except ClientError as error:
                if _code(error) not in (*_THERE, *_GONE, "NoSuchUpload"):
                    raise
            there = self._head(key)
            if there is not None and not replace:
                if there["Metadata"].get("part") == told["part"]:
                    return  # the answer to an earlier try of this request was lost
                raise NameTaken(f"{key} exists already in the bucket {self._bucket}. Choose another name.")
            if there is not None and self._has(there, key, size, told["sha256"]):
                return
            condition = {"IfNoneMatch": "*"} if there is None else {"IfMatch": there["ETag"]}
        raise StoreError(
            f"{key} in the bucket {self._bucket} is replaced by somebody else again and again. "
            "Give each catalog an artifacts.prefix of its own."
        )

    def _put_whole(self, body: BinaryIO, key: str, told: dict[str, str], condition: dict[str, str]) -> None:
        checksum = _base64(bytes.fromhex(told["sha256"]))
        named = {"Bucket": self._bucket, "Key": key, "Metadata": told}
        self._client.put_object(Body=body, ChecksumSHA256=checksum, **named, **condition)

    def _put_in_pieces(self, body: BinaryIO, key: str, told: dict[str, str], condition: dict[str, str]) -> None:
        """The server checks each piece; the hash of the whole is kept with the object."""
        named = {"Bucket": self._bucket, "Key": key}
        begun = self._client.create_multipart_upload(ChecksumAlgorithm="SHA256", Metadata=told, **named)
        upload = {**named, "UploadId": begun["UploadId"]}
        sent: list[dict[str, Any]] = []
        try:
            while piece := body.read(self._piece_bytes):
                number, checksum = len(sent) + 1, _base64(hashlib.sha256(piece).digest())
                answer = self._client.upload_part(PartNumber=number, Body=piece, ChecksumSHA256=checksum, **upload)
                sent.append({"PartNumber": number, "ETag": answer["ETag"], "ChecksumSHA256": checksum})
            self._client.complete_multipart_upload(MultipartUpload={"Parts": sent}, **upload, **condition)
        except BaseException:
            with suppress(*S3_ERRORS):  # else it is a stale part, and found as one
                self._client.abort_multipart_upload(**upload)
            raise

    def _abort(self, key: str, upload: str) -> bool:
        try:
            self._client.abort_multipart_upload(Bucket=self._bucket, Key=key, UploadId=upload)
        except ClientError as error:
            if _code(error) not in ("NoSuchUpload", *_GONE):  # another machine was quicker
                raise
            return False
        return True

    def _has(self, there: dict[str, Any], key: str, size: int, sha256: str) -> bool:
        """Whether the object has these bytes. One that somebody else put there is read."""
        if there["ContentLength"] != size:
            return False
        kept = there["Metadata"].get("sha256") or self.sha256_of(key.removeprefix(self._prefix))[0]
        return bool(kept == sha256)

    def _head(self, key: str) -> dict[str, Any] | None:
        try:
            return cast(dict[str, Any], self._client.head_object(Bucket=self._bucket, Key=key))
        except ClientError as error:
            if _code(error) in _GONE:
                return None
            raise

    # -- names and errors ---------------------------------------------------------------------------------------------

    def _key(self, path: str) -> str:
        return self._prefix + "/".join(names_of(path))

    def _under(self, folder: str) -> str:
        return f"{self._prefix}{folder}/" if folder else self._prefix

    def _translated(self, path: str) -> AbstractContextManager[None]:
        """Errors of botocore as a StoreError with the place and the remedy; a missing object as FileNotFoundError."""

        def translate(error: ClientError | BotoCoreError) -> Exception:
            if path and _code(error) in _GONE:
                return FileNotFoundError(path)
            keys = ("artifacts.bucket", "artifacts.endpoint_url")
            return s3_error(error, "the artifact store", self.place(path), *keys)

        return translate_errors(S3_ERRORS, translate)


def s3_error(error: ClientError | BotoCoreError, store: str, place: str, bucket: str, endpoint: str) -> StoreError:
    """With the remedy, in which `bucket` and `endpoint` are the names of their settings."""
    remedy = _REMEDIES.get(_code(error), "Check the server, then run the same command again.")
    cause = _code(error) if isinstance(error, ClientError) else str(error).rstrip(".")
    return StoreError(f"{store} cannot use {place}: {cause}. {remedy.format(bucket=bucket, endpoint=endpoint)}")


def _code(error: ClientError | BotoCoreError) -> str:
    if not isinstance(error, ClientError):
        return type(error).__name__
    return str(error.response.get("Error", {}).get("Code", "unknown"))


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()
