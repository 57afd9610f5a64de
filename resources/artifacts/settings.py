"""Settings of the artifact store: where files are kept, and in which layout."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from resources.settings import Section

if TYPE_CHECKING:
    from resources.artifacts.store import ArtifactStore


class ArtifactSettings(Section):
    store: Literal["fs", "s3"] = Field(
        "fs", description="`fs`: a folder; `s3`: a bucket, with the usual AWS credentials"
    )
    layout: Literal["readable", "cas"] = Field(
        "readable",
        description="`readable`: PDF/<year>__<title>__<work>.pdf; `cas`: by hash, the same bytes once; for large stores",
    )
    root: Path | None = Field(
        None,
        description="folder of the artifacts; the data root when not set; for `s3` where files are gathered before they are sent",
    )
    bucket: str | None = Field(None, description="for `s3`: the bucket, which must exist")
    prefix: str = Field("", description="for `s3`: what all keys begin with, e.g. papers/; one catalog for each prefix")
    endpoint_url: str | None = Field(
        None, description="for `s3`: another server than Amazon's, e.g. http://localhost:8333"
    )
    region: str | None = Field(None, description="for `s3`: the region; that of the AWS configuration when not set")

    @model_validator(mode="after")
    def _bucket_goes_with_s3(self) -> ArtifactSettings:
        if self.store == "s3" and not self.bucket:
            raise ValueError("store s3 needs a bucket")
        if self.store == "fs" and self.bucket:
            raise ValueError("a bucket needs store: s3")
        return self

    def open(self, data_root: Path) -> ArtifactStore:
        """StoreError when it cannot be used, now and not after the first download."""
        if self.store == "fs":
            from resources.artifacts.file_system import FileSystemStore

            return FileSystemStore(self.root or data_root, self.layout)
        from resources.artifacts.s3 import S3Store, s3_client

        assert self.bucket is not None
        client = s3_client(self.endpoint_url, self.region)
        return S3Store(client, self.bucket, self.prefix, self.root or data_root / "spool", self.layout)
