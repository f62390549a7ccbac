"""Hashes of values."""

from nmt.files.text import content_key


def test_key_follows_the_parts() -> None:
    key = content_key(1, ["a", None], {"x": 1, "y": 2.5})
    assert key == content_key(1, ["a", None], {"y": 2.5, "x": 1})
    assert len(key) == 16
    different = [(1, ["a", None]), (1, ["a", "None"], {"x": 1, "y": 2.5}), ("1", ["a", None], {"x": 1, "y": 2.5})]
    assert len({key, *(content_key(*parts) for parts in different)}) == 4
