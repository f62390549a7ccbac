"""The settings of a run: what cannot go together, each with the keys that collide; written and read back equal."""

import dataclasses
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from nmt.config import reader, schema, writer
from nmt.config.declaration import all_settings
from nmt.config.schema import AugmentConfig, CleaningConfig, Config, Corpus, Stage, Variation
from nmt.errors import NmtError

MINIMAL = """
run_dir: runs/test
data:
  source_language: en
  target_language: no
  train: [{source: train.en, target: train.no}]
"""


def read(*overrides: str) -> Config:
    return reader.parse(Config, MINIMAL, "test.yaml", overrides)


def problems(*overrides: str) -> list[str]:
    with pytest.raises(NmtError) as error:
        read(*overrides)
    lines = str(error.value).split("\n")
    return [line.strip() for line in lines[1:]] or [lines[0].removeprefix("test.yaml: ")]


def test_every_default_is_within_its_range() -> None:
    declarations = (Config, Corpus, CleaningConfig, Stage, Variation)
    for path, own in [each for declaration in declarations for each in all_settings(declaration).items()]:
        for number in own.default if isinstance(own.default, tuple) else (own.default,):
            assert not isinstance(number, int | float) or own.allows(number), path


def test_stages_name_corpora() -> None:
    stages = "{weights: {europarl: 1, crawled: 0.5}, passes: {europarl: 2}}, {temperature: 5, steps: 9}, {}"
    loaded = read(NAMED, f"data.stages=[{stages}]")
    first, *rest = loaded.data.stages
    assert first == Stage(weights={"europarl": 1.0, "crawled": 0.5}, passes={"europarl": 2.0})
    assert rest == [Stage(temperature=5, steps=9), Stage()]
    assert schema.parse(writer.to_yaml(loaded), "written") == loaded
    assert writer.flatten(loaded)["data.stages"] == (
        "[{weights: {europarl: 1.0, crawled: 0.5}, passes: {europarl: 2.0}}, {temperature: 5.0, steps: 9}, {}]"
    )


# --------------------------------------------------------------------------- what cannot go together

NAMED = "data.train=[{file: a.tsv, name: europarl}, {file: b.tsv, name: crawled}]"
A_AND = "{file: a.tsv}, {file: b.tsv"
RECURRENT = "model.architecture=recurrent"
IMPOSSIBLE = [  # overrides, and the keys and values that the one message names
    *(([NAMED, f"data.stages=[{stages}]"], [f"data.stages{key}"]) for stages, key in {
        "{weights: {europral: 1}}": "[0].weights.europral", "{passes: {crawld: 2}}, {}": "[0].passes.crawld",
        "{weights: {crawled: 0}}": "[0].weights", "{weights: {crawled: much}}": "[0].weights.crawled",
        "{weights: {crawled: 1}, temperature: 5}": "[0] has weights and a temperature", "{}, {}": "[0] never ends",
        "{steps: 9, passes: {crawled: 2}}, {}": "[0] has steps and passes", "{steps: 9}, {steps: 9}": "[1].steps",
        "{passes: {europarl: 1, crawled: 1}}, {}": "[0].passes",
        "{weights: {europarl: 1}, passes: {crawled: 2}}, {}": "[0].passes.crawled is never reached",
    }.items()),
    ([NAMED, "data.stages=[{}]", "data.temperature=5"], ["data.temperature", "data.stages"]),
    (["data.train=[{file: a.tsv, weight: 2}]", "data.stages=[{}]"], ["data.train[0].weight"]),
    (["data.train=[{file: a.tsv, name: a}, {file: b.tsv, name: a}]", "data.stages=[{weights: {a: 1}}]"],
     ["data.train", "named a"]),
    (["data.train=[{file: a.tsv, weight: 1}]", "data.temperature=5"], ["data.temperature", "data.train[0].weight"]),
    (["data.train=[{file: a.tsv, scores: c}]"], ["data.train[0].scores", "data.clean.score"]),
    (["data.clean={score: -5}"], ["data.clean.score", "data.train[0]"]),
    (["data.train=[{file: a.tsv, scores: {kiwi: c}}]", "data.clean.scores={kivi: {min: 1}}"],
     ["data.clean.scores.kivi", "did you mean kiwi?"]),
    (["data.clean.scores={kiwi: {max: 1}}"], ["data.clean.scores.kiwi", "data.train[0].scores: {kiwi: FILE}"]),
    (["data.train=[{file: a.tsv, scores: {kiwi: c}}]", "data.clean.scores={kiwi: {min: 2, max: 1}}"],
     ["data.clean.scores.kiwi", "min 2 is above max 1"]),
    (["data.train=[{file: a.tsv, scores: {kiwi: c}}]", "data.clean.scores={kiwi: {lower_is_beter: true}}"],
     ["data.clean.scores.kiwi.lower_is_beter", "did you mean data.clean.scores.kiwi.lower_is_better"]),
    (["data.train=[{file: a.tmx, scores: {mx: {column: 3}}}]"], ["data.train[0].scores.mx", "give a file"]),
    (["data.train=[{source: a, target: b, scores: {mx: {column: 3}}}]"], ["data.train[0].scores.mx", "give a file"]),
    (["data.train=[{file: a.tsv, scores: {'k w': c}}]"], ["data.train[0].scores: 'k w'"]),
    (["data.clean={rules: none, digits: 0.3}"], ["data.clean.digits", "data.clean.rules"]),
    (["data.clean={rules: [digit]}"], ["data.clean.rules", "digits"]),
    (["data.validation=[{file: a.tsv, name: 'b '}]"], ["name: 'b '"]),
    (["data.train=[]"], ["data.train"]), (["data.train=[{hub: a/b, invalid: drop}]"], ["data.train[0].invalid"]),
    (["training.sharded=true", "training.optimizer=muon"], ["training.sharded", "training.optimizer=muon"]),
    ([f"data.train=[{A_AND}, weight: 1}}]"], ["data.train[0]", "weight"]),
    (["data.validation={file: c.tsv, weight: 2}"], ["data.validation.weight"]),
    ([f"data.train=[{A_AND}, languages: [en, fr], tag: <2fr>}}]"], ["data.train: <2fr>"]),
    ([f"data.train=[{A_AND}, languages: [en, 'new norse']}}]"], ["<2new norse>"]),
    (["data.target_language=EN"], ["en and EN"]),
    ([f"data.validation=[{A_AND}, reversed: true}}]"], ["data.validation[1].reversed=false", "en-no", "same order"]),
    (["training.best_set=news", "data.validation=[]"], ["training.best_set", "data.validation"]),
    (["data.validation=[{file: a.tsv, name: news}, {file: b.tsv, name: news}]"],
     ["data.validation[1] and data.validation[0]", "news"]),
    (["data.train=[{}]"], ["data.train[0]", "source + target, file, hub, opus, sacrebleu"]),
    (["data.train=[{source: a, target: b, hub: c}]"], ["data.train[0]", "source + target and hub"]),
    (["data.validation={hub: a, version: c}"], ["data.validation.version", "data.validation.opus"]),
    (["data.train=[{sacrebleu: wmt14}]"], ["data.train[0].sacrebleu", "data.validation"]),
    (["data.validation={target: b}"], ["data.validation.target", "data.validation.source"]),
    (["data.validation={source: a, target: b, source_column: c}"], ["data.validation.source_column"]),
    (["vocabulary.target_model=a"], ["vocabulary.target_model", "vocabulary.shared=false", "vocabulary.source_model"]),
    (["model.heads=7"], ["model.d_model=512", "model.heads=7", "model.key_size and value_size"]),
    (["model.d_model=33", "model.heads=3"], ["model.d_model=33", "model.positions=interleaved"]),
    (["model.key_size=7", "model.value_size=8", "model.positions=rotary"],
     ["model.key_size=7", "model.positions=rotary"]),
    (["vocabulary.shared=false"], ["model.tie=all", "vocabulary.shared=true"]),
    (["model.positions=learned", "model.max_positions=257", "data.train=[{file: a.tsv, tag: <bt>}]"],
     ["model.max_positions=257", "data.max_length=256"]),
    (["training.micro_batch_tokens=9000", "training.batch_tokens=8000"],
     ["training.micro_batch_tokens=9000", "training.batch_tokens=8000"]),
    (["training.learning_rate=1"], ["training.learning_rate", "training.schedule=paper"]),
    (["training.schedule=cosine"], ["training.schedule=cosine", "training.learning_rate"]),
    (["training.warmup_steps=0"], ["training.warmup_steps=0", "training.schedule=paper"]),
    (["training.warmup_steps=50", "training.max_steps=50", "training.schedule=linear", "training.learning_rate=1"],
     ["training.warmup_steps=50", "training.max_steps=50", "set training.warmup_steps=10"]),
    (["training.final_learning_rate=1", "training.schedule=linear", "training.learning_rate=0.1"],
     ["training.final_learning_rate=1", "training.learning_rate=0.1"]),
    (["training.final_learning_rate=1e-5"], ["training.final_learning_rate", "training.schedule=paper"]),
    (["training.best_metric=chrf", "training.validation_bleu=false"], ["training.best_metric=chrf"]),
    ([RECURRENT, "training.packed=true"], ["training.packed=true", RECURRENT]),
    (["training.patience=3"], ["training.patience", "data.validation"]),
    (["model.dropout=0", "training.consistency=rdrop"], ["training.consistency=rdrop", "training.token_cutoff"]),
    (["decoding.beam_size=900", "vocabulary.size=500"], ["decoding.beam_size=900", "vocabulary.size=500"]),
    (["decoding.max_source_tokens=20000", "decoding.max_length_ratio=60"],
     ["decoding.max_length_ratio=60", "decoding.max_source_tokens"]),
    (["decoding.banned=[a, '-!']"], ["decoding.banned[1]: '-!'"]),
]  # fmt: skip


@pytest.mark.parametrize(("overrides", "named"), IMPOSSIBLE)
def test_impossible_combinations_name_the_keys_that_collide(overrides: list[str], named: list[str]) -> None:
    (problem,) = problems(*overrides)
    for part in named:
        assert part in problem


def test_kinds_of_augmentation_take_a_rate_or_a_rate_and_sides() -> None:
    augment = read("data.augment={uppercase: 0.07, titlecase: {rate: 0.05, sides: source}}", "data.augment.typos=1")
    assert augment.data.augment == AugmentConfig(0.07, Variation(0.05, "source"), typos=1.0)
    assert (augment.versions, read().versions) == (10, 1), "how many times the training text is stored"
    for override in ("uppercase=much", "lowercase={rate: -1}", "lowercase={sides: source}", "lowercase=0.7"):
        [problem] = problems("data.augment.titlecase=0.5", f"data.augment.{override}")
        assert override.partition("=")[0] in problem


@pytest.mark.parametrize(
    "overrides",
    [
        ["decoding.max_source_tokens=20000", "decoding.max_length_ratio=60", "decoding.max_length=1000000"],
        ["decoding.beam_size=900", "vocabulary.size=500", "vocabulary.source_model=a"],
        ["training.schedule=cosine", "training.learning_rate=1", "training.final_learning_rate=0.1"],
        ["vocabulary.shared=false", "vocabulary.target_model=a", "model.tie=target"],
        ["model.heads=7", "model.key_size=4", "model.value_size=4"],
        ["training.schedule=linear", "training.learning_rate=1", "training.warmup_steps=49", "training.max_steps=50"],
        ["training.best_metric=bleu", "data.validation={file: a.tsv}", "training.patience=3"],
        ["data.train=[{file: a.tsv, languages: [unk, 'new norse']}]"],
    ],
)
def test_what_is_next_to_impossible_is_possible(overrides: list[str]) -> None:
    assert read(*overrides) != read()


def test_all_that_collides_is_in_one_report_with_the_unknown_names() -> None:
    found = problems("training.patience=3", "model.heads=7", "vocabulary.shared=false", "model.width=3")
    assert len(found) == 4
    assert "model.width" in found[0]


# --------------------------------------------------------------------------- there and back


def values(annotation: Any, bounds: dict[str, float]) -> st.SearchStrategy[Any]:
    """Any value of a setting's type and range."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple:
        items = [values(arguments[0], bounds)] * 2
        return st.lists(items[0], max_size=3).map(tuple) if arguments[-1] is Ellipsis else st.tuples(*items)
    if origin is Mapping:
        names = st.text(st.characters(categories=["L", "N", "P"]), min_size=1)
        return st.dictionaries(names, values(arguments[1], bounds), max_size=3)
    if arguments:
        return st.one_of(values(inner, bounds) for inner in arguments)
    if annotation is type(None):
        return st.none()
    if dataclasses.is_dataclass(annotation):
        return builds(typing.cast(type, annotation))
    low, high = bounds.get("at least", bounds.get("above", 0)), bounds.get("at most", bounds.get("below"))
    numbers = {"min_value": low, "max_value": high, "exclude_min": "above" in bounds, "exclude_max": "below" in bounds}
    return {
        str: st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1).filter(
            lambda text: text.strip() and text[0] != "~"
        ),
        int: st.integers(int(low), int(low) + 10_000 if high is None else int(high)),
        float: st.floats(**numbers, allow_nan=False, allow_infinity=False),
        bool: st.booleans(),
    }[annotation]


def builds(declaration: type) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(declaration)
    fields = {
        field.name: values(hints[field.name], field.metadata["bounds"]) for field in dataclasses.fields(declaration)
    }
    return st.builds(declaration, **fields)


@st.composite
def configs(draw: st.DrawFn) -> Config:
    """The least config with a few settings changed, possible together or not."""
    value = read(f"model.architecture={draw(st.sampled_from(['transformer', 'recurrent']))}")
    for path in draw(st.lists(st.sampled_from(list(writer.flatten(value))), max_size=6)):
        value = changed(draw, value, *path.split("."))
    return value


def changed(draw: st.DrawFn, owner: Any, name: str, *inner: str) -> Any:
    """The section with another value of the setting `name`, or of a setting in that section."""
    if inner:
        return dataclasses.replace(owner, **{name: changed(draw, getattr(owner, name), *inner)})
    (field,) = (field for field in dataclasses.fields(owner) if field.name == name)
    value = draw(values(typing.get_type_hints(type(owner))[name], field.metadata["bounds"]))
    return dataclasses.replace(owner, **{name: value})


@given(configs())
@settings(max_examples=25)
@example(read("data.train=[{hub: a, revision: '08154711'}, {hub: a, revision: '1e10'}]"))  # numbers, if not quoted
def test_a_written_config_is_read_back_equal_or_refused_for_what_is_impossible(value: Config) -> None:
    conflicts = value.conflicts()
    event("conflicts" if conflicts else "possible")
    text = writer.to_yaml(value)
    assert yaml.safe_load(text) == writer.to_dict(value)
    if not conflicts:
        assert schema.parse(text, "written") == value
        return
    with pytest.raises(NmtError) as error:
        schema.parse(text, "written")
    assert str(error.value) == reader.error_text("written", conflicts)


# ------------------------------------------------------------------------ values that no run can have

EXTREMES = [
    "-1", "0", "-0.0", "1e308", "-1e308", "1e400", "1e-320", "nan", ".nan", "inf", ".inf", "-.inf", "9" * 17, "9" * 30,
    "-" + "9" * 400, "0x10", "1__0", "true", "null", "~", "''", "' '", '"\\0"', '"\\ud800"', "[]", "[[]]", "[nan, nan]",
    "[1e-320, 0.5]", "{}", "{a: 1}", "~nobody-of-this-name/x", "\u202e", "a" * 100_000, "[" * 100, "{" * 30, "\t", "@",
    "|\n x", "? a", "a: b: c", "'", "!!python/object 1", "&a 1", "*a", "2020-01-01",
]  # fmt: skip
PATHS = list(all_settings(Config))
OF_EACH_KIND = list({own.expected: path for path, own in all_settings(Config).items()}.values())
OF_DEFAULT = writer.flatten(read()).keys()  # not of another architecture
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3),
    max_leaves=5,
)


def assert_taken_or_refused(path: str, value: str) -> None:
    """A config that is read back equal, or an NmtError of a few short lines that name the setting."""
    try:
        taken = read(*["model.architecture=recurrent"][path in OF_DEFAULT :], f"{path}={value}")
    except NmtError as refused:
        lines = str(refused).split("\n")
        assert len(lines) <= 6 and all(len(line) < 500 for line in lines)
        assert path.partition(".")[0] in lines[0] or len(lines) > 1
    else:
        assert reader.parse(Config, writer.to_yaml(taken), "written") == taken


def test_extreme_values_are_taken_or_refused() -> None:
    for i, path in enumerate(OF_EACH_KIND):
        for value in EXTREMES[i % 6 :: 6]:
            assert_taken_or_refused(path, value)


@given(st.sampled_from(PATHS), anything)
@settings(max_examples=40)
def test_any_value_is_taken_or_refused(path: str, value: object) -> None:
    assert_taken_or_refused(path, yaml.safe_dump(value, default_flow_style=True, allow_unicode=True))


# ------------------------------------------------------------------------ the user's home


def test_the_home_is_meant_by_a_tilde_in_every_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    read_ = read(
        "run_dir=~/run", "data.store_dir=~", "vocabulary.source_model=~/v.model", "vocabulary.size=300",
        "data.train=[{source: ~/a.en, target: ~/a.de}, {file: ~/b.tsv}, {hub: ~/c}]",
    )  # fmt: skip
    home = "/home/someone"
    assert (read_.run_dir, read_.vocabulary.source_model) == (f"{home}/run", f"{home}/v.model")
    assert read_.data.store_dir is None  # ~ alone is YAML's null
    assert read("data.store_dir='~'").data.store_dir == home
    text, table, hub = read_.data.train
    found = [text.source, text.target, table.file, hub.hub]
    assert found == [f"{home}/{name}" for name in ("a.en", "a.de", "b.tsv", "c")]
    assert reader.parse(Config, writer.to_yaml(read_), "written") == read_
    assert read("run_dir=./~/x").run_dir == "./~/x"
    assert read("run_dir=a/~").run_dir == "a/~"


# ------------------------------------------------------------------------ of trained models


@pytest.mark.parametrize(
    ("override", "word"),
    [("beam_size=8", "decoding.beam_size=8"), ("out.de", "--output"), ("training.max_steps=2", "decoding settings")],
)
def test_what_is_no_decoding_setting(override: str, word: str) -> None:
    with pytest.raises(NmtError, match=f"^{override}: .*{word}"):
        schema.override(read(), [override])


def test_a_run_folder_in_place_of_its_settings_is_answered_with_how_to_resume_it(tmp_path: Path) -> None:
    for remedy in ("give a YAML file", f"give {tmp_path / 'config.yaml'}"):
        with pytest.raises(NmtError, match=remedy):
            schema.load(tmp_path)
        (tmp_path / "config.yaml").write_text("run_dir: x\n")


def test_the_longest_config_can_be_read_from_a_model_file() -> None:
    """There it is in full, with what is left at its default in the file."""
    shortest = "{source: a, target: b},"
    in_full = yaml.safe_dump([dataclasses.asdict(schema.Corpus(source="a", target="b"))])
    assert len(in_full) < len(shortest) * reader.LONGEST_IN_FULL / reader._LONGEST


@pytest.mark.parametrize(("changes", "differ"), [({}, set()), ({"positions": "learned"}, {"model.max_positions"})])
def test_a_limit_without_effect_is_no_difference_of_models(changes: dict[str, str], differ: set[str]) -> None:
    models = [schema.TransformerConfig(max_positions=positions, **changes) for positions in (100, 200)]  # type: ignore[arg-type]
    text = "run_dir: r\ndata: {source_language: en, target_language: de, train: [{source: a, target: b}]}\n"
    one, other = (dataclasses.replace(schema.parse(text, "test"), model=model) for model in models)
    assert schema.differences_of_models(one, other).keys() == differ
