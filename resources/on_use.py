"""Modules that are imported when they are first used, or not at all, so that a command starts sooner."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


class ModuleOnUse:
    """Stands for a module, and imports it when an attribute is asked for.

    For mypy, import the module under `if TYPE_CHECKING` and put this under `else`. `without` names libraries that the module
    would import for features that are not used.
    """

    def __init__(self, name: str, without: tuple[str, ...] = ()) -> None:
        self._name, self._without = name, without

    def __getattr__(self, attribute: str) -> Any:
        if self._name not in sys.modules:
            with hidden(*self._without):
                import_module(self._name)
        return getattr(import_module(self._name), attribute)


@contextmanager
def hidden(*libraries: str) -> Iterator[None]:
    """Importing these libraries fails for the duration of the block, as if they were not installed. Those that are imported
    already stay."""
    finder = _Hiding(libraries)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Hiding:
    def __init__(self, libraries: tuple[str, ...]) -> None:
        self._libraries = libraries

    def find_spec(self, name: str, *_: object) -> None:
        if name in self._libraries:
            raise ModuleNotFoundError(name=name)


def arrow_without_pandas() -> None:
    """Keep pyarrow from importing pandas, which takes longer than a small run and is not used by our programs.

    pyarrow looks for pandas once, when it makes its first array from Python values.
    """
    import pyarrow

    with hidden("pandas"):
        pyarrow.array([0])
