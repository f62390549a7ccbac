"""An evaluation from files and models to scores: what is compared with what, and what is refused."""

import json
import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import sacrebleu
from helpers.chat_server import Asked, Said, backwards, serving
from helpers.model_files import make_checkpoint
from typer.testing import CliRunner

from nmt.checkpoints import model_file
from nmt.cli import app
from nmt.commands.evaluate import EvaluateRequest, evaluate
from nmt.config.schema import Config
from nmt.decoding.confidence import Calibration
from nmt.errors import NmtError
from nmt.evaluation import comet
from nmt.evaluation import scores as scoring
from nmt.evaluation.aligned_texts import AlignedText
from nmt.evaluation.output import Evaluation, to_json, to_text
from nmt.evaluation.scores import MetricScore
from nmt.evaluation.systems import count_words
from nmt.loading.opened_model import OpenedModel, open_model


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
    request = EvaluateRequest(
        models=models, overrides=overrides, source=texts["source"], references=references, outputs=outputs
    )
    scores = evaluate(request).scores
    lines = texts["source"].read_text(encoding="utf-8").split("\n")[:-1]
    for model, output in zip(models, outputs, strict=True):
        translated = open_model(model).translator("cpu", overrides=overrides).translate(lines)
        assert output.read_text(encoding="utf-8").split("\n") == [*translated, ""]
    again = evaluate(EvaluateRequest(hypotheses=outputs, references=references, language="de")).scores
    assert [(one.name, one.value, one.signature, one.difference) for one in scores] == [
        (one.name, one.value, one.signature, one.difference) for one in again
    ]


def test_details_say_where_words_were_counted(texts: dict[str, Path], tmp_path: Path) -> None:
    training = tmp_path / "train.de"
    training.write_text("eins\n" * 12, encoding="utf-8")
    request = EvaluateRequest(hypotheses=[texts["first"]], references=[texts["reference"]], language="de", sentences=1)
    details = evaluate(EvaluateRequest(**{**vars(request), "details": True})).details
    assert details is not None and details.frequencies.text == str(texts["reference"])
    assert [one.text for one in details.lengths] == [str(texts["reference"])]
    assert len(details.worst[0].sentences) == 1 and details.changed == []
    details = evaluate(
        EvaluateRequest(**{**vars(request), "training_texts": [training, training], "source": texts["source"]})
    ).details
    assert details is not None and details.frequencies.text == f"{training}, {training}"
    assert [(str(one.frequency), one.reference_words) for one in details.frequencies.buckets] == [
        ("0", 6),
        ("10-99", 1),
    ]
    assert [one.text for one in details.lengths] == [str(texts["source"]), str(texts["reference"])]


def test_how_to_score_is_checked_before_any_work(texts: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(NmtError) as caught:
        evaluate(EvaluateRequest(hypotheses=[tmp_path / "gone"], references=[texts["reference"]], tokenizer="13b"))
    assert str(caught.value) == "--tokenize 13b: sacreBLEU knows no such tokenizer: did you mean 13a?"


def test_models_of_several_languages_leave_the_language_to_be_said(
    models: list[Path], make_config: Callable[..., Config], texts: dict[str, Path]
) -> None:
    model_file.save(models[1], make_checkpoint(make_config("data.target_language=zh")))
    request = {"models": models, "source": texts["source"], "references": [texts["reference"]]}
    with pytest.raises(NmtError, match=r"models have different target languages \(de, zh\): give --language"):
        evaluate(EvaluateRequest(**request))
    scores = evaluate(EvaluateRequest(**request, language="zh")).scores
    assert "|tok:zh|" in scores[0].signature


@pytest.mark.parametrize(
    ("line", "settings", "warned"),
    [("我喜欢在公园里散步。", {}, True), ("我喜欢在公园里散步。", {"language": "zh"}, False)],
)
def test_a_text_without_spaces_needs_a_language(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, line: str, settings: dict[str, str], warned: bool
) -> None:
    text = tmp_path / "text"
    text.write_text(f"{line}\n" * 3, encoding="utf-8")
    evaluate(EvaluateRequest(hypotheses=[text], references=[text], **settings))  # type: ignore[arg-type]
    assert (f"{text}: no spaces between words, so BLEU counts whole sentences as words" in caplog.text) == warned


def test_a_named_test_set(texts: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    lines = {name: path.read_text(encoding="utf-8").split("\n")[:-1] for name, path in texts.items()}
    found = (AlignedText("s", lines["source"]), [AlignedText("r", lines["reference"])])
    monkeypatch.setattr(
        "nmt.commands.evaluate.load_test_set", lambda name, pair: {("wmt14", "en-de"): found}[name, pair]
    )
    hypotheses = [texts["first"]]
    named = evaluate(EvaluateRequest(hypotheses=hypotheses, test_set="wmt14", language_pair="en-de")).scores
    given = evaluate(EvaluateRequest(hypotheses=hypotheses, references=[texts["reference"]], language="de")).scores
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
            evaluate(EvaluateRequest(**given))


def test_comet_is_a_further_score(texts: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def score(name: str, command: list[str], *given: AlignedText | list[AlignedText] | str) -> list[MetricScore]:
        source, systems, reference, device = given
        assert (name, command[1:], device) == ("x", ["-n"], "auto")
        assert (source.name, reference.name) == (str(texts["source"]), str(texts["reference"]))
        return [MetricScore(system.name, "COMET", 0.8123, None, None, "model:x") for system in systems]

    monkeypatch.setattr(comet, "score", score)
    files = [texts["first"], texts["second"]]
    given = {"hypotheses": files, "source": texts["source"], "references": [texts["reference"]]}
    found = evaluate(EvaluateRequest(**given, comet="x", comet_command="cat -n"))
    text = to_text(found)
    assert re.search(r"\nCOMET +0\.8123 +0\.8123\n", text) and "\nCOMET  model:x\n" in text
    assert "words per second" not in text, "nothing was translated"


def test_robustness_is_that_of_each_model(models: list[Path], texts: dict[str, Path], tmp_path: Path) -> None:
    outputs = [tmp_path / "a.out", tmp_path / "b.out"]
    given = {"models": models, "source": texts["source"], "references": [texts["reference"]]}
    request = EvaluateRequest(**given, hypotheses=[texts["first"]], outputs=outputs, robustness=True)
    result = evaluate(request)
    scores, found = result.scores, result.robustness
    assert result.details is None
    assert [score.system for score in scores[::3]] == [*map(str, models), str(texts["first"])]
    assert [score.difference is None for score in scores] == [True] * 3 + [False] * 6, "the first is the baseline"
    assert [one.system for one in found] == [str(model) for model in models]
    for number, model in enumerate(models):
        clean, upper, *_ = found[number].variations
        assert clean.bleu == scores[3 * number].value and clean.chrf == scores[3 * number + 1].value
        lines = open_model(model).translator("cpu").translate(["ONE TWO THREE", "FOUR FIVE", "SIX SEVEN"])
        expected = sacrebleu.corpus_chrf(lines, [["DREI ZWEI EINS", "FÜNF VIER", "SIEBEN SECHS"]]).score
        assert (upper.variation, upper.changed, upper.chrf) == ("uppercase", 3, expected)
    text = to_text(result)
    assert "Robustness of system 2: scores of variations of the 3 lines" in " ".join(text.split())
    assert "Robustness of system 3" not in text
    assert max(map(len, text.partition("Robustness")[2].split("\n"))) <= 80
    data = json.loads(to_json(result))
    assert data.keys() == {"scores", "robustness"} and len(data["robustness"]) == 2
    assert data["robustness"][0]["variations"][6]["kept"][0] == {"kind": "number", "in_source": 3, "kept": 0}


# ------------------------------------------------------------------------ glossaries


def test_each_model_is_scored_without_and_with_a_glossary(
    models: list[Path], texts: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Beside each other, also with the other options. The output is the translation with the glossary."""
    caplog.set_level(logging.INFO, "nmt")
    glossary, outputs = tmp_path / "terms.tsv", [tmp_path / "a.out", tmp_path / "b.out"]
    glossary.write_text("two|three\tzwei\nsix\tsechs\nten\tzehn\n", encoding="utf-8")
    given = {"models": models, "source": texts["source"], "references": [texts["reference"]]}
    request = EvaluateRequest(
        **given,
        hypotheses=[texts["first"]],
        glossary=glossary,
        outputs=outputs,
        details=True,
        overrides=["decoding.beam_size=2"],
    )
    result = evaluate(request)
    names = [f"{model}{more}" for model in models for more in ("", f", {glossary}")]
    assert [system.name for system in result.systems] == [*names, str(texts["first"])]
    lines = texts["source"].read_text(encoding="utf-8").split("\n")[:-1]
    for i, (model, output) in enumerate(zip(models, outputs, strict=True)):
        plain = evaluate(EvaluateRequest(**{**given, "models": [model]}, overrides=request.overrides))
        assert result.scores[6 * i].value == plain.scores[0].value and result.systems[2 * i].terms is None
        translator = open_model(model).translator("cpu", request.overrides, glossary=glossary)
        best = [first for first, *_ in translator.hypotheses(lines)]
        assert output.read_text(encoding="utf-8").split("\n") == [*(one.text for one in best), ""]
        used, counts = [term.how for one in best for term in one.terms or ()], result.systems[2 * i + 1].terms
        assert counts == Counter(used) and len(used) == 3
    text, rows = to_text(result), json.loads(to_json(result))["scores"]
    [heads, *table] = re.search(r"\n\n(system  terms .*?)\n\n", text, re.DOTALL)[1].split("\n")  # type: ignore[index]
    assert [row.split()[:2] for row in table] == [["2", "3"], ["4", "3"]] and heads.endswith("failed  in translation")
    assert all(len(line) <= 80 for line in text.partition("\n\n")[2].split("\n") if "|version:" not in line)
    assert rows[0]["terms"] is None and sum(rows[3]["terms"].values()) == 3 and rows[3]["name"] == "BLEU"
    assert caplog.text.count("glossary: ") >= len(models), "counted once for each model"
    assert to_text(result, compare=True).count(str(glossary)) == 2


def test_terms_of_an_endpoint_are_in_the_prompt(texts: dict[str, Path], tmp_path: Path) -> None:
    """They are not counted, because its answers have no alignment."""
    teacher, glossary = tmp_path / "teacher.yaml", tmp_path / "terms.tsv"
    glossary.write_text("two\tOW|zwei\nsix\tsechs\nfour\truo\n", encoding="utf-8")
    with serving(lambda asked: Said(backwards(asked.line))) as server:
        teacher.write_text(ENDPOINT.format(address=server.address), encoding="utf-8")
        given = {"models": [teacher], "source": texts["source"], "references": [texts["reference"]]}
        result = evaluate(EvaluateRequest(**given, glossary=glossary))
        asked = [str(one.body) for one in server.asked]
    assert len(asked) == 6 and ["Use these translations of terms" in one for one in asked] == [False] * 3 + [True] * 3
    assert [system.terms for system in result.systems] == [None, None]


# ------------------------------------------------------------------------ confidence


@pytest.mark.parametrize("beam_size", [1, 3])
def test_details_compare_the_confidence_with_chrf(
    models: list[Path], make_config: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    beam_size: int,
) -> None:  # fmt: skip
    """Of a calibrated model, without and with a glossary, by all references, as they are compared. Its translations
    stay the same."""
    monkeypatch.setattr(scoring, "MOST_LINES_RESAMPLED", 0)  # as intervals and p-values take long
    calibration = Calibration("val.en", 1_014, 0.5, (-1.0, 0.0, 0.0, 0.5, 2.0), 30.0)
    known = make_checkpoint(make_config("decoding.max_extra_tokens=3"), 2, calibration=calibration.to_json())
    calibrated, outputs = tmp_path / "c.safetensors", [tmp_path / "a.out", tmp_path / "c.out"]
    model_file.save(calibrated, known)
    lines = ["one two three", "four five", " ", "six seven"]
    source = written(tmp_path, "source", lines)
    references = [
        written(tmp_path, name, [odd(line) for line in reference])
        for name, reference in (("r1", ["eins", "né", "", "sechs"]), ("r2", ["drei zwei eins", "vier", "", "na"]))
    ]
    glossary = written(tmp_path, "terms.tsv", ["two\tzwei"])
    given = {
        "models": [models[0], calibrated],
        "source": source,
        "references": references,
        "overrides": [f"decoding.beam_size={beam_size}"],
        "glossary": glossary,
    }
    result = evaluate(EvaluateRequest(**given, hypotheses=[references[0]], details=True, outputs=outputs))
    plain = evaluate(EvaluateRequest(**given, hypotheses=[references[0]]))
    assert result.scores == plain.scores and plain.details is None and result.details is not None
    names = [f"{model}{more}" for model in given["models"] for more in ("", f", {glossary}")]
    found = result.details.confidence
    assert list(found) == names[2:]
    for name, of in ((names[2], None), (names[3], glossary)):
        translator = open_model(calibrated).translator("cpu", given["overrides"], glossary=of)
        best = [first for first, *_ in translator.hypotheses(lines)]
        assert [one.text for one in best] == translator.translate(lines)
        expected = [
            (one.confidence, sacrebleu.sentence_chrf(one.text, right).score)
            for one, right in zip(best, [["eins", "drei zwei eins"], ["né", "vier"], [], ["sechs", "na"]], strict=True)
            if right
        ]
        measured = found[name]
        assert measured.calibration == "val.en, 1,014 sentences"
        pairs = sorted(zip(measured.expected, measured.real, strict=True))
        assert pairs == [pytest.approx(pair) for pair in sorted(expected)] and None not in measured.expected
    assert outputs[1].read_text("utf-8") == "".join(f"{one.text}\n" for one in best)
    text, read = to_text(result), json.loads(to_json(result))
    assert "\nConfidence of system 4, calibrated with val.en, 1,014 sentences. " in text
    assert "\nConfidence of system 3, " in text and text.count("\nConfidence of ") == 2
    assert read["confidence"].keys() == found.keys() and read["confidence"][names[2]]["lines"] == [1, 1, 1]


# ------------------------------------------------------------------------ endpoints, speed and size

ENDPOINT = """
endpoint: {address}
model: tiny
key: very-secret
source_language: en
target_language: de
retries: 0
clean: {{language: null, script: null}}
"""


def refuses_the_second(asked: Asked) -> Said:
    return Said("I'm sorry, I can't translate this." if asked.line == "four five" else backwards(asked.line))


def test_an_endpoint_is_a_system_beside_models(
    models: list[Path], texts: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It translates last, but stays in its place; a line without a translation is empty; what it used is logged."""
    caplog.set_level(logging.INFO, "nmt")
    teacher, outputs = tmp_path / "teacher.yaml", [tmp_path / "teacher.out", tmp_path / "a.out"]
    with serving(refuses_the_second) as server:
        teacher.write_text(ENDPOINT.format(address=server.address), encoding="utf-8")
        given = {"models": [teacher, models[0]], "source": texts["source"], "references": [texts["reference"]]}
        with pytest.raises(NmtError, match="beam_sise"):
            evaluate(EvaluateRequest(**given, overrides=["decoding.beam_sise=2"]))
        with pytest.raises(NmtError, match="an endpoint has only"):
            evaluate(EvaluateRequest(**{**given, "models": [teacher]}, overrides=["decoding.beam_size=2"]))
        assert server.asked == [], "paid for before another system failed"
        result = evaluate(
            EvaluateRequest(
                **given, hypotheses=[texts["first"]], overrides=["decoding.beam_size=2"], outputs=outputs, details=True
            )
        )
        assert len(server.asked) == 3
        robust = evaluate(EvaluateRequest(**{**given, "models": [teacher]}, robustness=True)).robustness
    assert outputs[0].read_text("utf-8") == "eno owt eerht\n\nxis neves\n"
    assert [score.system for score in result.scores[::3]] == [str(teacher), str(models[0]), str(texts["first"])]
    assert [one.name for one in result.systems] == [str(teacher), str(models[0]), str(texts["first"])]
    assert [one.bytes for one in result.systems] == [None, models[0].stat().st_size, None]
    assert result.details is not None and result.details.worst[0].sentences[0].translations[0].text == ""
    assert re.search("1 of 3 lines .*: 1 refusal", caplog.text) and "used: 3 requests, " in caplog.text
    assert "very-secret" not in caplog.text
    assert [one.variation for one in robust[0].variations][:2] == ["clean", "uppercase"]


def test_what_an_endpoint_used_before_it_failed_is_logged(
    texts: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "nmt")
    teacher = tmp_path / "teacher.yaml"
    with serving(lambda asked: Said(backwards(asked.line), status=401 if asked.line == "six seven" else 200)) as server:
        teacher.write_text(ENDPOINT.format(address=server.address) + "requests: 1\n", encoding="utf-8")
        with pytest.raises(NmtError, match="the key is not accepted"):
            evaluate(EvaluateRequest(models=[teacher], source=texts["source"], references=[texts["reference"]]))
    assert len(server.asked) == 3 and re.search(r"used: [1-9]\d* tokens of requests", caplog.text)


def test_speed_and_size_of_what_translated(models: list[Path], texts: dict[str, Path]) -> None:
    given = {"models": models[:1], "source": texts["source"], "references": [texts["reference"]]}
    result = evaluate(EvaluateRequest(**given, hypotheses=[texts["first"], texts["second"]]))
    model, *others = result.systems
    assert model.words_per_second is not None and model.words_per_second > 0
    assert [one.words_per_second for one in others] == [None, None]
    assert re.search(r"\nwords per second +[\d,.]+ +- +-\n", to_text(result))
    rows = json.loads(to_json(result))
    assert [row["bytes"] for row in rows[::3]] == [models[0].stat().st_size, None, None]
    assert rows[0]["words_per_second"] == model.words_per_second and rows[3]["words_per_second"] is None
    assert (rows[1]["system"], rows[1]["name"]) == (str(models[0]), "chrF2")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("  A dog's  life, 3 days.\t", 5),
        ("我喜欢在公园里散步。", 9),
        ("GPT 模型\u3000好", 4),  # with an ideographic space
        ("사과를 먹었다.", 2),
        ("ฉันกิน", 4),  # without the vowels above
        ("", 0),
    ],
)
def test_words_are_counted_where_there_are_spaces_and_letters_elsewhere(line: str, words: int) -> None:
    assert count_words([line]) == words


# ------------------------------------------------------------------------ the form in which texts are compared

REFERENCES = ["Ọ̀rẹ́ mi ń lọ sí ọjà ní òwúrọ̀.", "Ẹ káàárọ̀ o, ẹ ṣé gan.", "Àwọn ọmọ náà ń sùn."]


def written(folder: Path, name: str, lines: list[str]) -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def odd(line: str) -> str:
    """The same for readers: in NFD, with two spaces, and invisible characters between its letters."""
    return (
        unicodedata.normalize("NFD", line).replace(" ", " \u00a0").replace("n", "n\u00ad\u200b").replace("m", "\ufeffm")
    )


def test_texts_are_compared_as_vocabularies_write_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In scores, p-values, breakdowns and examples; with --raw as they are."""
    lines, other = list(map(odd, REFERENCES)), [*REFERENCES[:2], "Rárá."]
    files = [written(tmp_path, *one) for one in (("a", lines), ("b", REFERENCES), ("c", other))]
    reference = written(tmp_path, "r", [unicodedata.normalize("NFD", line) for line in REFERENCES])
    training = written(tmp_path, "t", [unicodedata.normalize("NFD", "mi mi ń")])
    given = {"hypotheses": files, "references": [reference], "language": "yo", "training_texts": [training]}
    result = evaluate(EvaluateRequest(**given))
    scores, details = result.scores, result.details
    assert [round(one.value, 6) for one in scores[:6]] == [100, 100, 0] * 2
    assert {one.compared for one in scores} == {"in NFC with single spaces, without invisible characters"}
    assert not {"NFC", "norm:NFC"} & set(scores[0].signature.split("|"))  # it stays sacreBLEU's
    assert scores[3].difference is not None and scores[3].difference.value == 0
    assert scores[6].difference is not None and scores[6].difference.p_randomisation == 1  # one line differs
    assert details is not None and details.worst[0].sentences[0].references[0] in REFERENCES
    assert [one.different for one in details.changed] == [0, 1]
    assert [str(one.frequency) for one in details.frequencies.buckets] == ["0", "1", "2"]
    assert all(matches.f1 == 1 for one in details.frequencies.buckets for matches in one.systems[:2])
    assert all(one.bleu[0] == pytest.approx(100) for breakdown in details.lengths for one in breakdown.buckets)
    text = to_text(Evaluation(scores))
    assert text.endswith("\ntexts  compared in NFC with single spaces, without invisible characters")
    monkeypatch.setattr(scoring, "MOST_LINES_RESAMPLED", 0)  # as intervals and p-values take long
    raw = evaluate(EvaluateRequest(**given, raw=True)).scores
    assert raw[0].value < 50 and raw[3].value < 50 and "as they are" in to_text(Evaluation(raw))
    assert [one.value for one in raw] == [
        metric(path.read_text("utf-8").split("\n")[:-1], [reference.read_text("utf-8").split("\n")[:-1]]).score
        for path in files
        for metric in (sacrebleu.corpus_bleu, sacrebleu.corpus_chrf, sacrebleu.corpus_ter)
    ]  # fmt: skip


# ------------------------------------------------------------------------ tokenized text


@pytest.mark.parametrize(
    "arguments",
    [
        ["--hypothesis", "h", "--source", "s", "--reference", "r", "--robustness"],
        ["m", "--reference", "r"],
        ["--hypothesis", "h", "--reference", "r", "--glossary", "g"],
        ["m", "--source", "s", "--reference", "r", "--glossary", "g", "--robustness"],
        ["m", "--source", "s", "--test-set", "wmt14", "--language-pair", "en-de"],
    ],
)
def test_usage(arguments: list[str]) -> None:
    assert CliRunner().invoke(app.app, ["evaluate", *arguments]).exit_code == 2
