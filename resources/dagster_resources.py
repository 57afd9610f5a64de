"""The four resources as Dagster injects them. Each holds the path of a configuration file and overrides of its own section.

They open nothing and hold no state: a step loads the configuration once, with the overrides of its resources, and opens the
plain objects from it, each once.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import dagster as dg
from pydantic import Field

from resources.layers import SourcedValue
from resources.settings import config_file


class ConfiguredResource(dg.ConfigurableResource[Any]):
    config_file: str | None = Field(default=None, description="YAML file; $DTKG_CONFIG when it is not set")
    overrides: dict[str, Any] = Field(
        default={}, description="keys of its section that replace those of file and environment"
    )
    section: ClassVar[str]

    @property
    def file(self) -> Path | None:
        return Path(self.config_file) if self.config_file else config_file(os.environ)

    def section_overrides(self) -> Mapping[str, SourcedValue]:
        """The overrides by their keys in the whole configuration."""
        origin = f"Dagster resource {type(self).__name__}"
        return {f"{self.section}.{key}": SourcedValue(value, origin) for key, value in self.overrides.items()}


class CatalogResource(ConfiguredResource):
    """The catalog: queue, attempts, outcomes, hosts."""

    section = "storage"


class ArtifactStoreResource(ConfiguredResource):
    """The store of full-text files."""

    section = "artifacts"


class RateLimiterResource(ConfiguredResource):
    """The rate limits. Tokens are counted for all processes of the data root together."""

    section = "rate_limit"


class HttpClientResource(ConfiguredResource):
    """The polite HTTP client, through which every request goes."""

    section = "http"
