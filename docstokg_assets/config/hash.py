"""The configuration as plain data without its secrets, and its hash, which is a column of every manifest row."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

from docstokg_assets.config.models import ContentDownloadConfig
from resources.http.redact import redact_url
from resources.settings import MASK

# The name of a run or of a policy (its values are hashed) and paths on one machine do not change what is collected or how: two
# machines, or one that was moved to a larger disk, have the same hash when they work under the same rules.
_FILES = tuple(f"telemetry.{key}" for key in ("manifest_path", "csv_path", "lake", "lake_endpoint_url", "lake_region"))
NOT_HASHED = ("policy", "run_id", "data_root", "storage.path", "artifacts", "http.ca_bundle", "http.cache_dir", *_FILES)


def plain(value: Any, secret: str | None = MASK) -> Any:
    """`value` in JSON's types, with `secret` in the place of every secret."""
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
    """SHA-256 of the values; equal for equal values, whichever layer they came from and in whatever order."""
    tree = plain(config, secret=None)  # keys do not change the rules
    for key in NOT_HASHED:
        *above, last = key.split(".")
        node = tree
        for part in above:
            node = node[part]
        del node[last]
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
