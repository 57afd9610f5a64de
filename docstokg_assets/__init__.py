"""Collect the full text of scholarly works: a Dagster project, a command line (`content`) and a library.

Programs import the public names from here::

    from docstokg_assets import ContentDownloadConfig, ContentOrchestrator

    config = ContentDownloadConfig.from_yaml("content.yaml")
    result = ContentOrchestrator(config).run_sync()

Each name is loaded on first use, so `import docstokg_assets` and `content --help` stay fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docstokg_assets.config import ContentDownloadConfig
    from docstokg_assets.engine.search import ResolverPipeline
    from docstokg_assets.runs.run import ContentOrchestrator, DownloadRun
    from resources.catalog.catalog import CatalogConnector

__version__ = "0.1.0"

__all__ = [
    "CatalogConnector",
    "ContentDownloadConfig",
    "ContentOrchestrator",
    "DownloadRun",
    "ResolverPipeline",
    "__version__",
]

_MODULES = {
    "CatalogConnector": "resources.catalog.catalog",
    "ContentDownloadConfig": "docstokg_assets.config",
    "ContentOrchestrator": "docstokg_assets.runs.run",
    "DownloadRun": "docstokg_assets.runs.run",
    "ResolverPipeline": "docstokg_assets.engine.search",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
