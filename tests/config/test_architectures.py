"""`model.architecture` decides which settings the model has, and each architecture has its own rules."""

import pytest

from nmt.config import reader, writer
from nmt.config.schema import Config, RecurrentConfig, TransformerConfig
from nmt.errors import NmtError

MINIMAL = """
run_dir: runs/test
data: {source_language: en, target_language: de, train: [{source: train.en, target: train.de}]}
"""
RECURRENT = "model.architecture=recurrent"


def read(*overrides: str) -> Config:
    return reader.parse(Config, MINIMAL, "test.yaml", overrides)


def recurrent(*overrides: str) -> RecurrentConfig:
    found = read(RECURRENT, *overrides).model
    assert isinstance(found, RecurrentConfig)
    return found


def problem(*overrides: str) -> str:
    with pytest.raises(NmtError) as error:
        read(*overrides)
    (line,) = str(error.value).split("\n")
    return line.removeprefix("test.yaml: ")


# ------------------------------------------------------------------------ which settings there are


def test_a_transformer_unless_another_one_is_chosen() -> None:
    for overrides in ([], ["model.layers=2"], ["model={}"], ["model=null"], ["model.architecture=transformer"]):
        assert isinstance(read(*overrides).model, TransformerConfig)
    assert recurrent() == RecurrentConfig()
    assert recurrent("model.cell=gru", "model.hidden_size=64") == RecurrentConfig(cell="gru", hidden_size=64)


@pytest.mark.parametrize(
    ("overrides", "chosen", "has", "key"),
    [
        ([RECURRENT, "model.heads=2"], "recurrent", "transformer", "heads"),
        (["model.cell=gru"], "transformer", "recurrent", "cell"),
    ],
)
def test_a_setting_of_the_other_architecture_is_refused_as_one(
    overrides: list[str], chosen: str, has: str, key: str
) -> None:
    assert problem(*overrides) == (
        f"override model.{key}: unknown setting of model.architecture: {chosen}; {has} has it: delete it, "
        f"or set model.architecture={has}"
    )


# ------------------------------------------------------------------------ written, compared


@pytest.mark.parametrize(
    "overrides",
    [
        [RECURRENT, "model.cell=gru"],
        ["data.train=[{source: a.no, target: b.de, reversed: true}, {source: c, target: d}]"],
        ["training.learning_rate=1e-9", "training.schedule=inverse_sqrt", "training.start_from='1'", "model.tie=none"],
    ],
)
def test_overrides_of_a_config_are_those_of_its_text(overrides: list[str]) -> None:
    config = read(*overrides)
    later = ["decoding.beam_size=3", "decoding.banned=[no, '1_0']", "seed=7", "decoding.max_length=null"]
    assert reader.override(config, "the model", later) == read(*overrides, *later)


@pytest.mark.parametrize("wrong", ["beam_size=x", "method=sampling"])
def test_wrong_overrides_of_a_config_are_told_as_those_of_its_text(wrong: str) -> None:
    config, overrides = read(), [f"decoding.{wrong}", "decoding.coverage_penalty=1"]
    with pytest.raises(NmtError) as expected:
        reader.parse(Config, writer.to_yaml(config), "the model", overrides)
    with pytest.raises(NmtError) as error:
        reader.override(config, "the model", overrides)
    assert str(error.value) == str(expected.value)


def test_two_architectures_differ_as_a_whole() -> None:
    changed = writer.differences(read("model.heads=4"), read(RECURRENT, "model.cell=gru", "seed=2"))
    assert changed == {
        "model": ("{architecture: transformer, heads: 4}", "{architecture: recurrent, cell: gru}"),
        "seed": ("1", "2"),
    }
    assert read(f"model={changed['model'][1]}") == read(RECURRENT, "model.cell=gru")


def test_defaults_are_those_of_the_architecture_but_its_own_name() -> None:
    default = writer.defaults(read(RECURRENT))
    assert list(default) == list(writer.flatten(read(RECURRENT)))
    assert (default["model.dropout"], default["model.architecture"]) == ("0.2", "transformer")
    assert default["run_dir"] == "" and writer.defaults(read())["model.dropout"] == "0.1"


# ------------------------------------------------------------------------ what cannot go together


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (["embedding_size=8", "tie=all"], ["model.tie=all", "model.embedding_size=8", "model.hidden_size=512"]),
        (["hidden_size=7"], ["model.hidden_size=7", "even", "model.encoder_size"]),
        (["attention=dot", "encoder_size=8"], ["model.attention=dot", "model.hidden_size=512", "16", "general"]),
        (["attention_window=3"], ["model.attention_window=3", "delete it, or choose a local span: local-m or local-p"]),
        (["attention=none", "attention_span=local-m"], ["model.attention=none", "set model.attention_span=global"]),
        (["attention=none", "attention_choice=hard"], ["model.attention=none", "set model.attention_choice=soft"]),
        (["attention=latent", "attention_span=local-p"], ["model.attention=latent", "model.attention_span=local-p"]),
        (["attention=location", "max_positions=256"], ["model.max_positions=256", "data.max_length=256 + 1"]),
    ],
)
def test_impossible_combinations_name_the_keys_that_collide(overrides: list[str], named: list[str]) -> None:
    found = problem(RECURRENT, *(f"model.{override}" for override in overrides))
    assert [part for part in named if part not in found] == []


@pytest.mark.parametrize(
    "overrides",
    [
        ["hidden_size=7", "encoder_size=4"],
        ["attention=dot", "hidden_size=8", "encoder_size=4"],
        ["attention=location", "max_positions=257"],
    ],
)
def test_what_is_next_to_impossible_is_possible(overrides: list[str]) -> None:
    assert recurrent(*(f"model.{override}" for override in overrides)) != RecurrentConfig()


def test_hard_attention_is_refused_with_two_passes_only() -> None:
    """A consistency of weight 0 has one."""
    hard = "model.attention=additive", "model.attention_choice=hard", "training.consistency=rdrop"
    found = problem(RECURRENT, *hard)
    assert "training.consistency=rdrop does not go with model.attention_choice=hard" in found
    assert read(RECURRENT, *hard, "training.consistency_weight=0")
