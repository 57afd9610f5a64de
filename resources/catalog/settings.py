"""Settings of the catalog's database: a SQLite file or a PostgreSQL server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from resources.catalog.patience import POOL_SIZE
from resources.settings import Section

_POSTGRES = re.compile(r"postgres(ql)?(\+psycopg)?://(\S+@)?[^\s:/@]*(:\d+)?(/\S*)?$")


class StorageSettings(Section):
    backend: Literal["sqlite", "postgres"] = Field(
        "sqlite",
        description="which database: a file for the processes of one machine, or a server for those of several",
    )
    path: Path | None = Field(
        None, description="for backend `sqlite`: the file; `catalog.sqlite3` in the data root when not set"
    )
    url: SecretStr | None = Field(
        None, description="for backend `postgres`: postgresql://user:password@host:5432/database"
    )
    pool_size: int = Field(
        POOL_SIZE,
        ge=2,
        le=100,
        description="most connections of a process to its catalog; threads that find none free wait for one",
    )
    keep_attempts_days: int | None = Field(
        None,
        ge=1,
        description="days after which attempts are removed from the catalog, once they are in the lake, which is then their only "
        "copy; all are kept when not set",
    )

    @model_validator(mode="after")
    def _server_is_named(self) -> StorageSettings:
        if self.backend == "postgres" and self.url is None:
            raise ValueError("backend postgres needs url")
        return self

    @field_validator("url")
    @classmethod
    def _of_postgres(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not _POSTGRES.match(url.get_secret_value()):
            raise ValueError("must be like postgresql://user:password@host:5432/database")
        return url

    def location(self, data_root: Path) -> Path | SecretStr:
        """The file, or the address of the server, which is a secret."""
        if self.backend == "postgres" and self.url is not None:
            return self.url
        return self.path or data_root / "catalog.sqlite3"
