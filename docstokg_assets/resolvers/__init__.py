"""Who may know a copy of a work: a registry, and one file a provider. Importing this package loads no resolver."""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType

# Modules that older code takes from here, and where they are to be had.
_DEPRECATED = {"time": "the standard library: import time", "requests": "the package of that name: import requests"}


def __getattr__(name: str) -> ModuleType:
    if name not in _DEPRECATED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"{__name__}.{name} will be removed in the next minor version; take it from {_DEPRECATED[name]}",
        DeprecationWarning,
        stacklevel=2,
    )
    return importlib.import_module(name)
