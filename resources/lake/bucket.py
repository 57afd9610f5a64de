"""The lake in a bucket. DuckDB's S3 extension must be downloaded, so DuckDB reads parts as an Arrow dataset instead.

A part is written to a passing local file and sent in one request, or in pieces when it is large (S3 takes no more than 5 GB in
one); S3 shows it whole or not at all. Credentials are found where
AWS tools look for them and written nowhere.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from boto3.s3.transfer import TransferConfig

from resources.artifacts.s3 import S3_ERRORS, s3_client, s3_error
from resources.errors import translate_errors
from resources.folders import s3_files
from resources.lake.files import ASIDE, reading_part

_YEARS = ds.HivePartitioning(pa.schema([("year", pa.int16())]), null_fallback="0")
_TRANSFER = TransferConfig(
    multipart_threshold=64 * 1024 * 1024, multipart_chunksize=64 * 1024 * 1024, max_concurrency=4
)
_PART = re.compile(r"[a-z]+/year=\d+/part-\w+\.parquet")


class LakeBucket:
    def __init__(self, bucket: str, prefix: str, endpoint_url: str | None, region: str | None, spool: Path) -> None:
        """`spool`: where parts are written before they are sent. StoreError when the bucket cannot be used."""
        self._bucket, self._spool = bucket, spool
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._client = s3_client(endpoint_url, region)
        self._files = s3_files(endpoint_url, signed=True, region=self._client.meta.region_name)
        with self._translated():
            self._client.head_bucket(Bucket=bucket)

    @property
    def place(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    @property
    def readable(self) -> Sequence[str]:
        return ()

    @contextmanager
    def new_part(self, part: str) -> Iterator[Path]:
        self._spool.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=".tmp-", dir=self._spool) as file:
            yield Path(file.name)
            with self._translated(), open(file.name, "rb") as body:
                self._client.upload_fileobj(body, self._bucket, self._prefix + part, Config=_TRANSFER)

    def parts(self, table: str, year: int | None = None) -> list[str]:
        under = f"{self._prefix}{table}/" + ("" if year is None else f"year={year}/")
        pages = self._client.get_paginator("list_objects_v2")
        with self._translated():
            keys = [
                item["Key"].removeprefix(self._prefix)
                for page in pages.paginate(Bucket=self._bucket, Prefix=under)
                for item in page.get("Contents", ())
            ]
        return [key for key in keys if _PART.fullmatch(key)]

    def is_empty(self) -> bool:
        with self._translated():
            found = self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1)
        return not found.get("Contents")

    def schema(self, part: str) -> pa.Schema:
        with reading_part(f"{self.place}/{part}"):
            return pq.read_schema(self._path(part), filesystem=self._files)

    def batches(self, part: str) -> Iterator[pa.RecordBatch]:
        with (
            reading_part(f"{self.place}/{part}"),
            self._files.open_input_file(self._path(part)) as opened,
            pq.ParquetFile(opened, page_checksum_verification=True) as file,
        ):
            yield from file.iter_batches()

    def remove(self, part: str) -> None:
        with self._translated():
            self._client.delete_object(Bucket=self._bucket, Key=self._prefix + part)

    def set_aside(self, part: str) -> str:
        key = self._prefix + part
        with self._translated():
            source = {"Bucket": self._bucket, "Key": key}
            self._client.copy(source, self._bucket, key + ASIDE)
            self._client.delete_object(**source)
        return f"{self.place}/{part}{ASIDE}"

    def size(self, part: str) -> int:
        with self._translated():
            return int(self._client.head_object(Bucket=self._bucket, Key=self._prefix + part)["ContentLength"])

    def rows(
        self, con: duckdb.DuckDBPyConnection, table: str, schema: pa.Schema, years: Sequence[int] = ()
    ) -> str | None:
        """The parts that exist now. DuckDB passes a filter on the year to Arrow, which then skips the other parts."""
        wanted: Sequence[int | None] = years or (None,)
        parts = [self._path(part) for year in wanted for part in self.parts(table, year)]
        if not parts:
            return None
        options = ds.FileSystemFactoryOptions(partition_base_dir=self._path(table), partitioning=_YEARS)
        factory = ds.FileSystemDatasetFactory(self._files, parts, ds.ParquetFileFormat(), options)
        con.register(f"parts_of_{table}", factory.finish(schema.append(pa.field("year", pa.int16()))))
        return f"SELECT * FROM parts_of_{table}"

    def _path(self, part: str) -> str:
        return f"{self._bucket}/{self._prefix}{part}"

    def _translated(self) -> AbstractContextManager[None]:
        keys = ("telemetry.lake", "telemetry.lake_endpoint_url")
        return translate_errors(S3_ERRORS, lambda error: s3_error(error, "the lake", self.place, *keys))
