"""The lake in a bucket. DuckDB's S3 extension must be downloaded, so DuckDB reads parts as an Arrow dataset instead.

A part is written to a temporary local file and sent in one request, or in pieces when it is large (S3 takes no more than 5 GB
in one); S3 shows it whole or not at all. Credentials are found where AWS tools look for them and written nowhere.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from boto3.s3.transfer import TransferConfig

from resources.artifacts.s3 import Bucket, s3_client
from resources.folders import s3_files
from resources.lake.files import ASIDE, LakeFiles

_YEARS = ds.HivePartitioning(pa.schema([("year", pa.int16())]), null_fallback="0")
_PIECE = 64 * 1024 * 1024
_TRANSFER = TransferConfig(multipart_threshold=_PIECE, multipart_chunksize=_PIECE, max_concurrency=4)
_PART = re.compile(r"[a-z]+/year=\d+/part-\w+\.parquet")


class LakeBucket(Bucket, LakeFiles):
    names = ("the lake", "telemetry.lake", "telemetry.lake_endpoint_url")
    readable = ()

    def __init__(self, bucket: str, prefix: str, endpoint_url: str | None, region: str | None, spool: Path) -> None:
        """`spool`: where parts are written before they are sent. StoreError when the bucket cannot be used."""
        super().__init__(s3_client(endpoint_url, region), bucket, prefix)
        self._spool, self.place = spool, self._url().rstrip("/")
        self._files = s3_files(endpoint_url, signed=True, region=self._client.meta.region_name)

    @contextmanager
    def new_part(self, part: str) -> Iterator[Path]:
        self._spool.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=".tmp-", dir=self._spool) as file:
            yield Path(file.name)
            with self._translated(), open(file.name, "rb") as body:
                self._client.upload_fileobj(body, **self._object(part), Config=_TRANSFER)

    def parts(self, table: str, year: int | None = None) -> list[str]:
        found = self._list(table if year is None else f"{table}/year={year}")
        return [path for path, _ in found if _PART.fullmatch(path)]

    def is_empty(self) -> bool:
        return next(self._list(""), None) is None

    def remove(self, part: str) -> None:
        with self._translated():
            self._client.delete_object(**self._object(part))

    def set_aside(self, part: str) -> str:
        with self._translated():
            self._move(part, part + ASIDE)
        return f"{self.place}/{part}{ASIDE}"

    def size(self, part: str) -> int:
        with self._translated():
            return int(self._client.head_object(**self._object(part))["ContentLength"])

    def rows(
        self, con: duckdb.DuckDBPyConnection, table: str, schema: pa.Schema, years: Sequence[int] = ()
    ) -> str | None:
        """Covers the parts that exist now. DuckDB passes a filter on the year to Arrow, which then skips the other parts."""
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
