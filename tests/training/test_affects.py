"""What settings are declared to affect is what they affect: keys of what is stored, and what a saved run can change."""

import dataclasses
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from nmt.config import writer
from nmt.config.declaration import Result, Setting, setting, setting_at, settings
from nmt.config.schema import CleaningConfig, Config
from nmt.data.prepare import PreparedData, prepare
from nmt.errors import NmtError
from nmt.training.identity import check_settings
from nmt.training.validation_key import search_settings

MakeConfig = Callable[..., Config]


def test_a_setting_that_does_not_say_what_it_affects_cannot_be_declared() -> None:
    with pytest.raises(TypeError, match="affects"):
        setting(1, "a number")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="affects: unknown: weather"):
        setting(1, "a number", affects="weather")  # type: ignore[arg-type]


def other_value(own: Setting, value: Any) -> Any:
    """Some other value of the setting, of its type."""
    kinds = typing.get_args(own.type) if typing.get_origin(own.type) is not Literal else (own.type,)
    kind = next((kind for kind in kinds if kind is not type(None)), own.type)
    if typing.get_origin(kind) is Literal:
        return next((choice for choice in typing.get_args(kind) if choice != value), "other")
    if isinstance(value, tuple):
        return (*value, *value) or ("x",)
    if typing.get_origin(kind) is Mapping:
        return {"a": 7.0}
    if dataclasses.is_dataclass(value):
        return None if type(None) in kinds else dataclasses.replace(value, rate=0.5)
    if value is None:
        return {bool: True, int: 7, float: 7.5, CleaningConfig: CleaningConfig()}.get(kind, "x")
    return not value if isinstance(value, bool) else value + "x" if isinstance(value, str) else value + 1


def changed_everywhere(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """For each setting, also of entries of lists: its path, and the dataclass with another value of this one alone."""
    for name, own in settings(type(value)).items():
        inner, path = getattr(value, name), f"{prefix}{name}"
        if isinstance(inner, tuple) and own.declarations:
            for place, changed in changed_everywhere(inner[0], f"{path}[0]."):
                yield place, dataclasses.replace(value, **{name: (changed, *inner[1:])})
        if dataclasses.is_dataclass(inner):
            for place, changed in changed_everywhere(inner, f"{path}."):
                yield place, dataclasses.replace(value, **{name: changed})
        if not own.is_section:
            yield path, dataclasses.replace(value, **{name: other_value(own, inner)})


def test_a_change_of_a_setting_changes_what_it_is_declared_to_affect_and_nothing_else(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    """Which keys, and whether a saved run can be resumed. In this config every list has an entry."""
    config = make_config(
        "data.train=[{file: a.tsv, name: a}]",
        "data.clean={}",
        "data.stages=[{weights: {a: 1}, steps: 3}, {}]",
        "data.augment.uppercase={rate: 0.1}",
    )
    seen = set()
    for path, other in changed_everywhere(config):
        own = setting_at(Config, path)
        for result in typing.get_args(Result):
            keys = [writer.affecting(one, result) for one in (config, other)]
            assert (keys[0] != keys[1]) == (result in own.affects and not own.by_content), (path, result)
        search = [search_settings(one.training, one.decoding) for one in (config, other)]
        assert (search[0] != search[1]) == ("score" in own.affects and not path.startswith("data")), path
        moved = own.by_content and not (own.path and None in (value_at(config, path), value_at(other, path)))
        try:
            check_settings(other, config, tmp_path)
            refused = False
        except NmtError:
            refused = True
        assert refused == (bool(own.affects - {"score"}) and not moved), path
        seen.add(path.partition("[")[0])
    assert {"seed", "data.train", "data.stages", "data.clean.digits", "data.augment.uppercase.sides"} <= seen


def value_at(config: Any, path: str) -> Any:
    for name in path.replace("[0]", ".0").split("."):
        config = config[0] if name == "0" else getattr(config, name)
    return config


CHANGES = [
    "data.drop_copies=true", "data.drop_duplicates=true", "data.clean={language: null}", "data.clean={digits: 0.1}",
    "data.max_length=20", "data.max_length_ratio=1.5", "data.target_language=nl", "data.augment.uppercase=0.5",
    "data.augment.joined=0.5", "data.augment.uppercase={rate: 0.5, sides: source}", "data.temperature=5",
    "data.stages=[{weights: {a: 1}, steps: 1}, {}]", "data.pool_pairs=7", "vocabulary.size=320",
    "vocabulary.shared=false", "vocabulary.normalization=nfkc_cf", "vocabulary.sample_sentences=50",
    "vocabulary.bpe_dropout=0.5", "data.train.tag=<bt>", "data.train.languages=[en, nl]", "data.train.reversed=true",
    "data.train.target_column='3'", "seed=2",
]  # fmt: skip


def test_a_store_that_others_have_used_gives_what_a_new_one_gives(make_config: MakeConfig, tmp_path: Path) -> None:
    """Whatever setting is changed; and what the setting does not affect is found there."""
    first, second = (tmp_path / name for name in ("a.tsv", "b.tsv"))
    first.write_text("".join(f"Dog {i} is here.\tHund {i} ist hier\tHond {i}\n" for i in range(60)))
    second.write_text(
        "".join(f"A cat ö{i}.\tEine Katze ö{i % 5}.\tKat\n" for i in range(9)) * 2 + "Oh no!\tOh no!\tx\n"
    )

    def config(override: str, store: str) -> Config:
        name, _, value = override.removeprefix("data.train.").partition("=")
        entry = f", {name}: {value}" if override.startswith("data.train.") else ""
        train = f"data.train=[{{file: {first}, name: a}}, {{file: {second}, name: b{entry}}}]"
        own = (override,) if override and not entry else ()
        common = ("data.validation=null", "data.workers=1", "vocabulary.size=330", "model.tie=none")
        return make_config(train, f"data.store_dir={tmp_path / store}", *common, *own)

    def content(config: Config) -> tuple[PreparedData, object]:
        prepared = prepare(config)
        pairs = prepared.train.pairs(np.arange(len(prepared.train)))
        return prepared, [prepared.vocabulary.protos, [[ids.tolist() for ids in side] for side in pairs]]

    before, _ = content(config("", "shared"))
    for i, override in enumerate(CHANGES):
        prepared, made = content(config(override, "shared"))
        assert made == content(config(override, f"new{i}"))[1], override
        path = override.partition("=")[0].replace("data.train.", "data.train[1].")
        if not setting_at(Config, path).affects & {"text", "vocabulary", "tokens"}:
            assert prepared.folder == before.folder, override
