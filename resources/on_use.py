"""Modules that are imported when they are first used, so that a command that does not need them starts sooner."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


class ModuleOnUse:
    """Stands for a module, and imports it when an attribute is asked for.

    For mypy, import the module under `if TYPE_CHECKING` and put this under `else`.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


class _WithoutPandas:
    """A finder of modules that finds no pandas."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def arrow_without_pandas() -> None:
    """Keep pyarrow from importing pandas, which takes longer than a small run and is not used by our programs.

    pyarrow looks for pandas once, when it makes its first array from Python values.
    """
    import pyarrow

    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _WithoutPandas)
        pyarrow.array([0])
        sys.meta_path.remove(_WithoutPandas)
