"""ContentDownloadConfig: the sections of all packages in one tree, the resolvers' settings included, and its hash.

Most sections are defined in the packages that use them. The resolvers' section is built from the registry, so that a new resolver
file brings its settings with it. `resources.settings` loads the tree.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from pydantic import BaseModel, Field, SecretStr, create_model, field_validator, model_validator

from docstokg_assets.config.ingest import IngestSettings
from docstokg_assets.config.serve import ServeSettings
from docstokg_assets.engine.settings import DownloadSettings
from docstokg_assets.reporting.settings import CheckSettings
from docstokg_assets.resolvers.registry import (
    Resolver,
    ResolverSettings,
    build_resolvers,
    default_order,
    key_variables,
    load_resolvers,
)
from docstokg_assets.sources.settings import OpenAlexSettings
from resources.artifacts.settings import ArtifactSettings
from resources.catalog.settings import StorageSettings
from resources.http.redact import redact_url
from resources.http.settings import HttpSettings, RobotsSettings
from resources.layers import policies_in
from resources.rate_limit.settings import RateLimitSettings
from resources.settings import MASK, Loaded, Section, load

if TYPE_CHECKING:
    from resources.lake.files import LakeFiles

POLICIES = Path(__file__).parent / "policies"  # rules for a field, as files like the user's own
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TAKEN_FOLDERS = frozenset({"PDF", "HTML", "XML", "cas", "spool", "lake", "reports", "logs", "sandbox", "dagster"})
ALIASES = {"DOCSTOKG_CONTENT_API_KEY_OPENALEX": "openalex.api_key", **key_variables(load_resolvers())}
# Not hashed: names of run and policy (the values of the policy are hashed), bounds of checks, and paths, so that two machines
# have the same hash when they work under the same rules.
NOT_HASHED = (
    *(
        "policy",
        "run_id",
        "data_root",
        "storage.path",
        "artifacts",
        "checks",
        "alerts",
        "http.ca_bundle",
        "http.cache_dir",
    ),
    *(f"telemetry.{key}" for key in ("manifest_path", "csv_path", "lake", "lake_endpoint_url", "lake_region")),
    "ingest.kafka",
    "serve",
)


class TelemetrySettings(Section):
    sinks: tuple[Literal["jsonl", "csv", "console", "otlp"], ...] = Field(
        ("jsonl", "csv"), description="where attempts are written"
    )
    manifest_path: Path | None = Field(None, description="the JSONL manifest; in the run's folder when not set")
    csv_path: Path | None = Field(None, description="the attempts as CSV; in the run's folder when not set")
    last_csv_rows: int = Field(1000, ge=1, description="rows of manifest.last.csv")
    otlp_endpoint: str | None = Field(None, description="URL of the OTLP collector: http://host:4318/v1/logs")
    otlp_timeout_s: float = Field(5.0, gt=0, description="timeout for a batch, and for the last ones of a run")
    lake: str | None = Field(None, description="s3://bucket/prefix of a shared lake; default: in the data folder")
    lake_endpoint_url: str | None = Field(None, description="for `lake`: the URL of an S3 service other than Amazon's")
    lake_region: str | None = Field(None, description="for `lake`: the region; default: that of the AWS configuration")

    @field_validator("lake")
    @classmethod
    def _lake_is_in_a_bucket(cls, lake: str | None) -> str | None:
        if lake is not None and not re.fullmatch(r"s3://[^/?#]+(/[^?#]*)?", lake):
            raise ValueError("must be s3://bucket/prefix; leave it out to keep the lake in the data root")
        return lake

    @model_validator(mode="after")
    def _otlp_has_its_endpoint(self) -> TelemetrySettings:
        if "otlp" in self.sinks and not (self.otlp_endpoint or "").startswith(("http://", "https://")):
            raise ValueError("the sink otlp needs otlp_endpoint, for example http://localhost:4318/v1/logs")
        return self


class AlertSettings(Section):
    webhook: SecretStr | None = Field(None, description="URL that is sent a JSON message for each failed run")
    pages: str | None = Field(
        None, description="folder or s3://bucket/prefix for pages about failed runs; default: in the data folder"
    )

    @field_validator("webhook")
    @classmethod
    def _webhook_is_a_url(cls, webhook: SecretStr | None) -> SecretStr | None:
        if webhook is not None and not webhook.get_secret_value().startswith(("http://", "https://")):
            raise ValueError("must be a URL that begins with http:// or https://")
        return webhook


class ResolversSettings(Section):
    """The keys that are not of one resolver; `resolvers_model` adds a field for each resolver."""

    aliases: ClassVar[Mapping[str, str]] = {}  # other name -> name

    order: tuple[str, ...] = Field((), min_length=1, description="resolvers to query, in this order inside each tier")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(name for name in cls.model_fields if name not in ResolversSettings.model_fields)

    def by_name(self) -> Mapping[str, ResolverSettings]:
        return {name: cast(ResolverSettings, getattr(self, name)) for name in self.names()}

    @field_validator("order")
    @classmethod
    def _order_is_known(cls, order: tuple[str, ...]) -> tuple[str, ...]:
        order = tuple(cls.aliases.get(name, name) for name in order)
        unknown = [name for name in order if name not in cls.names()]
        if unknown:
            near = difflib.get_close_matches(unknown[0], cls.names(), 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(cls.names())}"
            raise ValueError(f"there is no resolver {unknown[0]}; {hint}")
        if len(set(order)) < len(order):
            raise ValueError("names a resolver twice")
        return order


def resolvers_model(registry: Mapping[str, type[Resolver]]) -> type[ResolversSettings]:
    """The settings model with a field for each resolver, and the default order that follows from their classes."""
    names = default_order(registry)
    order = ResolversSettings.model_fields["order"]
    fields: dict[str, Any] = {
        "order": (tuple[str, ...], Field(names, min_length=1, description=order.description)),
        **{name: (registry[name].Settings, registry[name].Settings()) for name in names},
    }
    model = create_model("RegisteredResolversSettings", __base__=ResolversSettings, **fields)
    model.aliases = {alias: name for name in registry for alias in registry[name].aliases}
    return model


if TYPE_CHECKING:
    RegisteredResolvers = ResolversSettings
else:
    RegisteredResolvers = resolvers_model(load_resolvers())


class ContentDownloadConfig(Section):
    policy: str | None = Field(None, description="a named preset below the file: biomedicine, computer_science")
    run_id: str | None = Field(None, description="name of the run and of its folder; made from the time when not set")
    data_root: Path = Field(Path("data"), description="data folder (catalog, lake, artifacts and runs)")
    workers: int = Field(8, ge=1, le=256, description="number of download threads")
    processes: int | None = Field(
        None,
        ge=1,
        le=64,
        description="processes that share the threads; default: one per core, up to 4, from 5,000 due works on, else one",
    )
    http: HttpSettings = HttpSettings()
    robots: RobotsSettings = RobotsSettings()
    download: DownloadSettings = DownloadSettings()
    rate_limit: RateLimitSettings = RateLimitSettings()
    storage: StorageSettings = StorageSettings()
    artifacts: ArtifactSettings = ArtifactSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    checks: CheckSettings = CheckSettings()
    alerts: AlertSettings = AlertSettings()
    resolvers: RegisteredResolvers = RegisteredResolvers()
    openalex: OpenAlexSettings = OpenAlexSettings()
    ingest: IngestSettings = IngestSettings()
    serve: ServeSettings = ServeSettings()

    @field_validator("policy")
    @classmethod
    def _is_shipped(cls, policy: str | None) -> str | None:
        if policy is not None and policy not in (known := policies_in(POLICIES)):
            raise ValueError(f"there is no policy {policy}; there are {', '.join(known)}")
        return policy

    @field_validator("run_id")
    @classmethod
    def _names_a_folder(cls, run_id: str | None) -> str | None:
        if run_id is not None and (run_id in _TAKEN_FOLDERS or not _RUN_ID.fullmatch(run_id)):
            raise ValueError(
                "must be a name of letters, digits, dots, hyphens or underscores that the data root does not use"
            )
        return run_id

    @classmethod
    def from_yaml(
        cls, path: Path | str, *, env: Mapping[str, str] | None = None, overrides: Mapping[str, Any] | None = None
    ) -> ContentDownloadConfig:
        """Load file, environment (by default that of the process) and overrides, merged. For programs."""
        return load_config(Path(path), os.environ if env is None else env, overrides).value

    @property
    def catalog_location(self) -> Path | SecretStr:
        return self.storage.location(self.data_root)

    @property
    def artifact_root(self) -> Path | str:
        """The folder of the files, or the URL of their bucket."""
        if self.artifacts.store == "s3":
            return f"s3://{self.artifacts.bucket}/{self.artifacts.prefix}"
        return self.artifacts.root or self.data_root

    def lake_files(self) -> LakeFiles:
        """Open the files of the lake. Raises StoreError when its bucket cannot be used."""
        place = self.telemetry
        if place.lake is None:
            from resources.lake.files import LakeFolder

            return LakeFolder(self.data_root / "lake")
        from resources.lake.bucket import LakeBucket

        bucket, _, prefix = place.lake.removeprefix("s3://").partition("/")
        return LakeBucket(bucket, prefix, place.lake_endpoint_url, place.lake_region, self.data_root / "spool")


def load_config(
    path: Path | None, env: Mapping[str, str], overrides: Mapping[str, Any] | None = None
) -> Loaded[ContentDownloadConfig]:
    return load(ContentDownloadConfig, file=path, env=env, overrides=overrides, aliases=ALIASES, policies=POLICIES)


def plain(value: Any, secret: str | None = MASK) -> Any:
    """Convert to JSON types, with `secret` in place of every secret."""
    if isinstance(value, BaseModel):
        return {name: plain(getattr(value, name), secret) for name in type(value).model_fields}
    if isinstance(value, dict):
        return {str(key): plain(item, secret) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, secret) for item in value]
    if isinstance(value, SecretStr):
        return secret
    if isinstance(value, Path):
        return value.as_posix()
    return redact_url(value) if isinstance(value, str) else value


def config_hash(config: ContentDownloadConfig) -> str:
    """SHA-256 of the values, a column of every manifest row; the layers and the order that they came from do not matter."""
    tree = plain(config, secret=None)  # keys do not change the rules
    for key in NOT_HASHED:
        *above, last = key.split(".")
        node = tree
        for part in above:
            node = node[part]
        del node[last]
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def resolvers_of(config: ContentDownloadConfig) -> tuple[Resolver, ...]:
    """The enabled resolvers, in the configured order."""
    return build_resolvers(config.resolvers.order, config.resolvers.by_name())
