"""Reading JSON of uncertain shape."""

from __future__ import annotations

import pytest

from docstokg_assets.domain.json_access import dig, objects


@pytest.mark.parametrize("value", [None, 3, "x", [], {"a": None}, {"a": [1]}, {"a": {"c": 1}}])
def test_a_missing_path_is_none(value: object) -> None:
    assert dig(value, "a", "b") is None


def test_a_path_leads_to_its_value() -> None:
    assert dig({"a": {"b": 0}}, "a", "b") == 0


def test_items_that_are_not_objects_are_empty_objects() -> None:
    assert list(objects([{"a": 1}, None, "x"])) == [{"a": 1}, {}, {}]
    assert list(objects({"a": 1})) == []
