"""An evaluation from files and models to scores: what is compared with what, and what is refused."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sacrebleu
from helpers.model_files import make_checkpoint
from typer.testing import CliRunner

from nmt.checkpoints import model_file
from nmt.cli import app
from nmt.commands.evaluate import Request, evaluate
from nmt.config.schema import Config
from nmt.decoding.opened_model import OpenedModel, open_model
from nmt.decoding.translator import Translator
from nmt.errors import NmtError
from nmt.evaluation import comet
from nmt.evaluation.aligned_texts import AlignedText
from nmt.evaluation.output import to_json, to_text
from nmt.evaluation.scores import Score


@pytest.fixture
def models(make_config: Callable[..., Config], tmp_path: Path) -> list[Path]:
    """Two untrained models."""
    paths = [tmp_path / f"{name}.safetensors" for name in ("a", "b")]
    for seed, path in enumerate(paths):
        model_file.save(path, make_checkpoint(make_config("decoding.max_extra_tokens=3"), seed))
    return paths


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, Path]:
    """A source, its reference, two translations."""
    written = {
        "source": ["one two three", "four five", "six seven"],
        "reference": ["drei zwei eins", "fünf vier", "sieben sechs"],
        "first": ["drei zwei", "fünf vier", "sechs"],
        "second": ["drei zwei eins", "vier", "sieben sechs"],
    }
    paths = {name: tmp_path / f"{name}.txt" for name in written}
    for name, path in paths.items():
        path.write_text("".join(line + "\n" for line in written[name]), encoding="utf-8")
    return paths


def test_a_model_scores_as_the_file_of_its_translations(
    models: list[Path], texts: dict[str, Path], tmp_path: Path
) -> None:
    outputs, references = [tmp_path / "a.out", tmp_path / "b.out"], [texts["reference"]]
    overrides = ["decoding.beam_size=3"]
    request = Request(
        models=models, overrides=overrides, source=texts["source"], references=references, outputs=outputs
    )
    scores, details, _ = evaluate(request)
    assert details is None
    lines = texts["source"].read_text(encoding="utf-8").split("\n")[:-1]
    for model, output in zip(models, outputs, strict=True):
        translated = open_model(model).translator("cpu", overrides=overrides).translate(lines)
        assert output.read_text(encoding="utf-8").split("\n") == [*translated, ""]
    again, *_ = evaluate(Request(hypotheses=outputs, references=references, language="de"))
    assert [(one.name, one.value, one.signature, one.difference) for one in scores] == [
        (one.name, one.value, one.signature, one.difference) for one in again
    ]


def test_details_say_where_words_were_counted(texts: dict[str, Path], tmp_path: Path) -> None:
    training = tmp_path / "train.de"
    training.write_text("eins\n" * 12, encoding="utf-8")
    request = Request(hypotheses=[texts["first"]], references=[texts["reference"]], language="de", sentences=1)
    _, details, _ = evaluate(Request(**{**vars(request), "details": True}))
    assert details is not None and details.frequencies.text == str(texts["reference"])
    assert [one.text for one in details.lengths] == [str(texts["reference"])]
    assert len(details.worst[0].sentences) == 1 and details.changed == []
    _, details, _ = evaluate(
        Request(**{**vars(request), "training_texts": [training, training], "source": texts["source"]})
    )
    assert details is not None and details.frequencies.text == f"{training}, {training}"
    assert [(str(one.frequency), one.reference_words) for one in details.frequencies.buckets] == [
        ("0", 6),
        ("10-99", 1),
    ]
    assert [one.text for one in details.lengths] == [str(texts["source"]), str(texts["reference"])]


def test_details_of_texts_without_a_word(tmp_path: Path) -> None:
    blank = tmp_path / "blank"
    blank.write_text("\n\n")
    scores, details, _ = evaluate(Request(hypotheses=[blank], references=[blank], language="de", details=True))
    assert details is not None and "No words in" in to_text(scores, details)


def test_a_tokenizer_given_is_that_of_scores_and_details(texts: dict[str, Path]) -> None:
    given = Request(hypotheses=[texts["first"]], references=[texts["reference"]], tokenizer="none", details=True)
    (bleu, *_), details, _ = evaluate(given)
    assert "|tok:none|" in bleu.signature
    assert details is not None
    assert [one.tokenizer for one in details.lengths] == [details.frequencies.tokenizer] == ["none"]
    assert details.worst[0].sentences[0].translations[0].bleu < 100


@pytest.mark.parametrize(
    ("changed", "seed", "message"),
    [
        ({"tokenizer": "13b"}, "12345", "--tokenize 13b: sacreBLEU knows no such tokenizer: did you mean 13a?"),
        ({}, "abc", "SACREBLEU_SEED=abc: expected an integer, or none for a new seed each time"),
    ],
)
def test_how_to_score_is_checked_before_any_work(
    changed: dict[str, str], seed: str, message: str, texts: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", seed)
    with pytest.raises(NmtError) as caught:
        evaluate(Request(hypotheses=[texts["first"].parent / "gone"], references=[texts["reference"]], **changed))
    assert str(caught.value) == message


def test_models_of_several_languages_leave_the_language_to_be_said(
    models: list[Path], make_config: Callable[..., Config], texts: dict[str, Path]
) -> None:
    model_file.save(models[1], make_checkpoint(make_config("data.target_language=zh")))
    request = {"models": models, "source": texts["source"], "references": [texts["reference"]]}
    with pytest.raises(NmtError, match=r"models with different target languages \(de, zh\): give --language"):
        evaluate(Request(**request))
    scores, *_ = evaluate(Request(**request, language="zh"))
    assert "|tok:zh|" in scores[0].signature


@pytest.mark.parametrize(
    ("line", "settings", "warned"),
    [
        ("我喜欢在公园里散步。", {}, True),
        ("ฉันชอบเดินเล่นในสวนสาธารณะ", {"language": "th"}, True),  # sacreBLEU has no tokenizer for it
        ("我喜欢在公园里散步。", {"language": "zh"}, False),
    ],
)
def test_a_text_without_spaces_needs_a_language(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, line: str, settings: dict[str, str], warned: bool
) -> None:
    text = tmp_path / "text"
    text.write_text(f"{line}\n" * 3, encoding="utf-8")
    evaluate(Request(hypotheses=[text], references=[text], **settings))  # type: ignore[arg-type]
    assert (f"{text}: no spaces between words, so BLEU counts whole sentences as words" in caplog.text) == warned


def test_a_named_test_set(texts: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    lines = {name: path.read_text(encoding="utf-8").split("\n")[:-1] for name, path in texts.items()}
    found = (AlignedText("s", lines["source"]), [AlignedText("r", lines["reference"])])
    monkeypatch.setattr(
        "nmt.commands.evaluate.load_test_set", lambda name, pair: {("wmt14", "en-de"): found}[name, pair]
    )
    named, *_ = evaluate(Request(hypotheses=[texts["first"]], test_set="wmt14", language_pair="en-de"))
    given, *_ = evaluate(Request(hypotheses=[texts["first"]], references=[texts["reference"]], language="de"))
    assert [one.value for one in named] == [one.value for one in given]
    assert "|lang:en-de|" in named[0].signature and "|test:wmt14" in named[0].signature


def test_lines_are_counted_before_anything_is_translated(
    models: list[Path], texts: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = tmp_path / "short.txt"
    short.write_text("eins\n")
    monkeypatch.setattr(OpenedModel, "translator", lambda *_, **__: pytest.fail("loaded"))
    for changed in ({"source": short}, {"hypotheses": [short]}, {"references": [texts["reference"], short]}):
        given = {"models": models, "source": texts["source"], "references": [texts["reference"]], **changed}
        with pytest.raises(NmtError, match=r"short\.txt"):
            evaluate(Request(**given))


def test_a_system_given_twice_is_refused_before_anything_is_translated(
    models: list[Path], texts: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Translator, "translate", None)
    twice = Request(models=[models[0]] * 2, source=texts["source"], references=[texts["reference"]])
    with pytest.raises(NmtError, match="is given twice: give each system once"):
        evaluate(twice)


def test_comet_is_asked_for_before_any_work(texts: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request(hypotheses=[texts["first"]], references=[texts["reference"].parent / "gone"], comet="x")
    monkeypatch.setitem(sys.modules, "comet", None)
    with pytest.raises(NmtError, match=r"pip install 'nmt-toolkit\[comet\]'$"):
        evaluate(request)
    monkeypatch.setattr(comet, "check_installed", lambda: None)
    with pytest.raises(NmtError, match=r"--comet x: needs the source too: give --source"):
        evaluate(request)


def test_comet_is_a_further_score(texts: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def score(
        name: str, source: AlignedText, systems: list[AlignedText], reference: AlignedText, device: str
    ) -> list[Score]:
        assert (name, source.name, reference.name) == ("x", str(texts["source"]), str(texts["reference"]))
        return [Score(system.name, "COMET", 0.8123, None, None, "model:x") for system in systems]

    monkeypatch.setattr(comet, "check_installed", lambda: None)
    monkeypatch.setattr(comet, "score", score)
    files = [texts["first"], texts["second"]]
    found, *_ = evaluate(Request(hypotheses=files, source=texts["source"], references=[texts["reference"]], comet="x"))
    text = to_text(found)
    assert re.search(r"\nCOMET +0\.8123 +0\.8123\n", text) and text.endswith("\nCOMET  model:x")


def test_robustness_is_that_of_each_model(models: list[Path], texts: dict[str, Path], tmp_path: Path) -> None:
    outputs = [tmp_path / "a.out", tmp_path / "b.out"]
    given = {"models": models, "source": texts["source"], "references": [texts["reference"]]}
    request = Request(**given, hypotheses=[texts["first"]], outputs=outputs, robustness=True)
    scores, details, found = evaluate(request)
    assert details is None
    assert [score.system for score in scores[::3]] == [*map(str, models), str(texts["first"])]
    assert [score.difference is None for score in scores] == [True] * 3 + [False] * 6, "the first is the baseline"
    assert [one.system for one in found] == [str(model) for model in models]
    for number, model in enumerate(models):
        clean, upper, *_ = found[number].variations
        assert clean.bleu == scores[3 * number].value and clean.chrf == scores[3 * number + 1].value
        lines = open_model(model).translator("cpu").translate(["ONE TWO THREE", "FOUR FIVE", "SIX SEVEN"])
        expected = sacrebleu.corpus_chrf(lines, [["DREI ZWEI EINS", "FÜNF VIER", "SIEBEN SECHS"]]).score
        assert (upper.variation, upper.changed, upper.chrf) == ("uppercase", 3, expected)
    text = to_text(scores, details, found)
    assert "Robustness of system 2: scores of variations of the 3 lines" in " ".join(text.split())
    assert "Robustness of system 3" not in text
    assert max(map(len, text.partition("Robustness")[2].split("\n"))) <= 80
    data = json.loads(to_json(scores, details, found))
    assert data.keys() == {"scores", "robustness"} and len(data["robustness"]) == 2
    assert data["robustness"][0]["variations"][6]["kept"][0] == {"kind": "number", "in_source": 3, "kept": 0}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--hypothesis", "h", "--source", "s", "--reference", "r", "--robustness"],
        ["m", "--reference", "r"],
        ["--hypothesis", "h", "--reference", "r", "--output", "o"],
        ["m", "--source", "s", "--test-set", "wmt14", "--language-pair", "en-de"],
    ],
)
def test_usage(arguments: list[str]) -> None:
    assert CliRunner().invoke(app.app, ["evaluate", *arguments]).exit_code == 2
