"""A value that was added to a setting is refused by all that does not know it yet: nothing takes it for another one."""

import dataclasses
import re
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

import nmt
from nmt.checkpoints.model_file import Checkpoint
from nmt.commands.export import EXPORTERS
from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.config.schema import Config, DecodingConfig, RecurrentConfig, TrainingConfig, TransformerConfig
from nmt.data.subwords.normalization import Normalization
from nmt.data.subwords.vocabulary import PAD
from nmt.decoding import mbr
from nmt.decoding.search.options import SearchOptions, length_penalties
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError
from nmt.interop.ctranslate2 import files as ctranslate2_files
from nmt.interop.ctranslate2.export import length_exponent
from nmt.interop.marian import export as marian
from nmt.loading import model_loader
from nmt.models.build import build
from nmt.training import schedule, sharding, train_step
from nmt.training.consistency import ConsistencyWeights
from nmt.training.data_parallel import data_parallel
from nmt.training.objective import Objective

MakeConfig = Callable[..., Config]
CPU = torch.device("cpu")
NEW: Any = "invented"
TRANSFORMER = TransformerConfig(d_model=8, feed_forward=8, layers=1, heads=2)
RECURRENT = RecurrentConfig(embedding_size=8, hidden_size=8)


def with_new_value(settings: Any) -> dict[str, Any]:
    """These settings with a new value of each that has a list of values."""
    hints = typing.get_type_hints(type(settings))
    fields = [each for each in dataclasses.fields(settings) if typing.get_origin(hints[each.name]) is Literal]
    several = [each.name for each in fields if len(typing.get_args(hints[each.name])) > 1]
    return {name: dataclasses.replace(settings, **{name: NEW}) for name in several}


def test_values_of_model_settings_are_matched_not_compared() -> None:
    """`if config.norm == "pre": … else: …` would take each value that is added for `post`. `match` with `assert_never`
    and a table raise, and mypy finds the first. The rules on settings may compare: they refuse a value, or do not."""
    names = {*OF_TRANSFORMER, *OF_RECURRENT}
    assert {"positions", "norm", "activation", "tie", "decoder_start", "cell", "attention"} <= names
    comparison = re.compile(rf"\.({'|'.join(names)}) (==|!=|in|not in) .*[\"']")
    assert comparison.search('    untied = config.tie == "none"') and not comparison.search("case 'none':")
    for path in Path(nmt.__file__).parent.rglob("*.py"):
        found = comparison.search(path.read_text(encoding="utf-8")) if path.name != "conflicts.py" else None
        assert not found, f"{path}: {found[0]}: use match or a table"


OF_TRANSFORMER, OF_RECURRENT = with_new_value(TRANSFORMER), with_new_value(RECURRENT)


@pytest.mark.parametrize(
    "settings", [*OF_TRANSFORMER.values(), *OF_RECURRENT.values()], ids=[*OF_TRANSFORMER, *OF_RECURRENT]
)
def test_no_model_is_built(settings: TransformerConfig | RecurrentConfig) -> None:
    """Or it does not compute: what the decoder starts with is read then."""
    with pytest.raises((AssertionError, KeyError)):
        build(settings, 9, 9, PAD)(torch.tensor([[5, 3]]), torch.tensor([[2, 6]]))


@pytest.mark.parametrize("setting", OF_TRANSFORMER)
@pytest.mark.parametrize("name", ["ctranslate2", "marian", "argos", "bergamot"])
def test_exports_refuse_it(name: Any, setting: str, make_config: MakeConfig, tmp_path: Path) -> None:
    """Before any work, with the setting: also where the model itself knows the new value."""
    assert set(EXPORTERS) == {"ctranslate2", "marian", "argos", "bergamot"}
    known = {
        "marian": {"positions": "interleaved"},
        "bergamot": {"positions": "concatenated", "decoder_start": "zero", "norm_epsilon": 1e-6, "d_model": 64,
                     "feed_forward": 64},
    }  # fmt: skip
    config = make_config()
    model = dataclasses.replace(TRANSFORMER, **known.get(name, {}))
    loaded = Checkpoint(dataclasses.replace(config, model=dataclasses.replace(model, **{setting: NEW})), NEW, {}, {})
    with pytest.raises(NmtError, match=rf"^model\.{setting}: {NEW}: "):
        EXPORTERS[name].check(loaded.config, NEW)
    if name == "ctranslate2":  # as the engine does
        with pytest.raises(NmtError, match=rf"^model\.{setting}: {NEW}: "):
            ctranslate2_files.write(tmp_path, loaded.config, NEW, {}, 9)


def decoding(**changes: Any) -> SearchOptions:
    return SearchOptions(DecodingConfig(**changes))


def model() -> Any:
    return build(TRANSFORMER, 9, 9, PAD)


PAIRS = (LanguagePair("en", "de"), LanguagePair("en", "fr"))


def consistency_weights() -> ConsistencyWeights:
    return ConsistencyWeights.from_config(TrainingConfig(consistency=NEW, consistency_weight=1.0))


USES: dict[str, Callable[[], object]] = {
    "decoding.method": lambda: decoding(method=NEW),
    "decoding.method, exported": lambda: marian._method(DecodingConfig(method=NEW)),
    "decoding.normalization": lambda: length_penalties(5, DecodingConfig(normalization=NEW)),
    "decoding.normalization, exported": lambda: length_exponent(DecodingConfig(normalization=NEW)),
    "decoding.consensus": lambda: mbr.rank_by_agreement(["one", "two"], NEW),
    "decoding.precision": lambda: model_loader.search_type(NEW, "float32", CPU),
    "training.schedule": lambda: schedule.learning_rate(9000, TrainingConfig(schedule=NEW, learning_rate=1.0), 8),
    "training.consistency": consistency_weights,
    "training.optimizer": lambda: train_step._optimizer(model(), TrainingConfig(optimizer=NEW)),
    "training.gradient_precision": lambda: data_parallel(Objective(model(), TrainingConfig()), NEW),
    "training.gradient_precision, sharded": lambda: sharding.shard(
        Objective(model(), TrainingConfig()), CPU, Ranks(), NEW
    ),
    "training.precision": lambda: Objective(model(), TrainingConfig(precision=NEW)),
    "data.language_tags": lambda: LanguagePairs(PAIRS, NEW).tags(PAIRS[0]),
    "vocabulary.normalization": lambda: Normalization.from_setting(NEW, 0),
}  # fmt: skip


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_new_value_is_not_taken_for_another_one(use: Callable[[], object]) -> None:
    with pytest.raises((AssertionError, KeyError)):
        use()
