"""One model of several pairs of languages, trained for seconds: every command that takes text uses the right ones."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from helpers.languages import SPELLED, counting_config, write_counting
from helpers.runs import rows_of
from helpers.services import service
from typer.testing import CliRunner, Result

import nmt
from nmt.checkpoints import model_file
from nmt.cli import app
from nmt.commands import average
from nmt.commands.export import export
from nmt.commands.train import train
from nmt.commands.translation_job import TranslationJob
from nmt.config import reader
from nmt.config.metrics import METRICS
from nmt.config.schema import Config
from nmt.decoding.translator import Translator
from nmt.errors import NmtError
from nmt.files.text import read_lines
from nmt.interop.argos import export as argos
from nmt.interop.exporter import Format
from nmt.pages.report.page import to_data
from nmt.pages.report.run import gather

SECONDS = 300  # the first test trains
pytestmark = pytest.mark.usefixtures("time_limit")
SMALL = (  # learns three languages in 200 steps: each word is a subword
    "vocabulary.size=400", "model.layers=2", "model.dropout=0", "training.label_smoothing=0",
    "training.learning_rate=0.005", "training.warmup_steps=30", "training.max_steps=200", "training.validate_every=100",
    "training.checkpoint_every=100", "training.log_every=100", "training.validation_samples=1",
)  # fmt: skip


def config_of(folder: Path, run: Path, *overrides: str) -> Config:
    return reader.parse(Config, counting_config(folder, run), "test config", overrides)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("counting")
    write_counting(folder, "train", 400, seed=1, longest=2)
    write_counting(folder, "validation", 30, seed=2, longest=2)
    return folder


@pytest.fixture(scope="module")
def run(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("several") / "run"
    train(config_of(texts, folder, *SMALL), "cpu")
    return folder


@pytest.fixture(scope="module")
def translator(run: Path) -> Translator:
    return nmt.load(run, "cpu", overrides=["decoding.engine=torch"])


def lines_of(texts: Path, language: str) -> list[str]:
    return list(read_lines(texts / f"validation.{language}"))


def invoke(*arguments: object, text: str | None = None) -> Result:
    return CliRunner().invoke(app.app, list(map(str, arguments)), input=text)


def assert_in(language: str, lines: list[str]) -> None:
    """Nearly all lines have words of this language, and none of another one. (A tiny model may also misspell words.)"""
    known = set(SPELLED[language].values())
    others = {word for spelled in SPELLED.values() for word in spelled.values()} - known
    right = sum(bool(known & set(line.split())) and not others & set(line.split()) for line in lines)
    assert right >= 0.7 * len(lines), lines


# --------------------------------------------------------------------------- translation


@pytest.mark.parametrize(("source", "target"), [("en", "de"), ("de", "en"), ("en", "fr")])
def test_each_direction_is_learned(translator: Translator, texts: Path, source: str, target: str) -> None:
    translations = translator.translate(lines_of(texts, source), to=target)
    assert_in(target, translations)
    right = sum(one == other for one, other in zip(translations, lines_of(texts, target), strict=True))
    assert right > 0.6 * len(translations)


def test_languages_of_a_call_and_of_all_later_ones(run: Path, texts: Path) -> None:
    translator, lines = nmt.load(run, "cpu"), lines_of(texts, "en")
    with pytest.raises(NmtError, match=r"no target language: give --to .*: one of de, en, fr"):
        translator.translate(lines)
    german, french = (translator.translate(lines, to=to) for to in ("de", "fr"))
    assert german != french
    assert [one[0].text for one in translator.hypotheses(lines, to="fr", from_="en")] == french
    translator.languages.use("de")
    assert translator.translate(lines) == list(translator.stream(lines)) == german
    assert translator.translate(lines, to="fr") == french
    with pytest.raises(NmtError, match="language 'it': this model translates into de, en, fr"):
        translator.languages.use("it")


def test_the_token_is_a_subword_of_the_source_and_not_counted_in_lengths(translator: Translator) -> None:
    [[found]] = translator.hypotheses(["one two"], alignment=True, to="fr")
    assert found.source_pieces is not None and found.source_pieces[0] == "<2fr>"
    assert {len(row) for row in found.alignment or ()} == {len(found.source_pieces)}
    assert translator.encode(["one two"], to="fr")[0].shape[0] == len(found.source_pieces)
    [scored] = translator.score(["one two"], [found.text], to="fr")
    [other] = translator.score(["one two"], [found.text], to="de")
    assert scored is not None and other is not None
    assert scored.log_probability == pytest.approx(found.log_probability, abs=1e-4)
    assert scored.log_probability > other.log_probability + 1
    assert translator.longest_source == 256


def test_a_model_of_one_pair_takes_its_own_languages_only(texts: Path, tmp_path: Path) -> None:
    one = f"data.train=[{{source: {texts}/train.en, target: {texts}/train.fr, languages: [en, fr]}}]"
    config = config_of(texts, tmp_path / "run", one, "data.validation=null", "training.max_steps=5")
    train(config, "cpu")
    translator = nmt.load(tmp_path / "run", "cpu")
    assert translator.translate(["one"]) == translator.translate(["one"], to="fr", from_="en")
    [[found]] = translator.hypotheses(["one"], alignment=True)
    assert found.source_pieces is not None and not found.source_pieces[0].startswith("<2")
    with pytest.raises(NmtError, match="language 'de': this model translates into fr"):
        translator.translate(["one"], to="de")


def test_an_ensemble_needs_models_of_the_same_pairs(run: Path, texts: Path, tmp_path: Path) -> None:
    loaded = model_file.load(run / model_file.BEST)
    fewer = dataclasses.replace(loaded.config.data, train=loaded.config.data.train[:2], validation=None)
    other = dataclasses.replace(loaded, config=dataclasses.replace(loaded.config, data=fewer))
    model_file.save(tmp_path / "other.safetensors", other)
    with pytest.raises(NmtError, match=r"other\.safetensors: its language pairs, en-de, de-en, or their tags differ"):
        nmt.load(run, "cpu", ensemble=[tmp_path / "other.safetensors"])
    twice = nmt.load(run, "cpu", ensemble=[run])
    assert_in("fr", twice.translate(lines_of(texts, "en"), to="fr"))


# --------------------------------------------------------------------------- commands


def test_translate(run: Path, texts: Path, tmp_path: Path) -> None:
    source = texts / "validation.en"
    outputs = {to: tmp_path / f"out.{to}" for to in ("de", "fr")}
    for to, output in outputs.items():
        assert invoke("translate", run, source, "--output", output, "--to", to).exit_code == 0
        assert_in(to, list(read_lines(output)))
        streamed = invoke("translate", run, "--to", to, text=source.read_text())
        assert streamed.stdout == output.read_text()
    refused = invoke("translate", run, source, "--output", tmp_path / "none")
    assert refused.exit_code == 1 and not (tmp_path / "none").exists()


def test_another_target_continues_no_translation(run: Path, texts: Path, tmp_path: Path) -> None:
    from nmt.commands import translate

    def key(to: str, from_: str | None) -> str:
        request = TranslationJob(model=run, source=texts / "validation.en", output=tmp_path / "out", to=to, from_=from_)
        return translate.job_of(request, translate.open_models(request)).key

    keys = {key(to, from_) for to, from_ in (("de", None), ("fr", None), ("fr", "en"))}
    assert len(keys) == 2


def test_score_and_evaluate(run: Path, texts: Path, tmp_path: Path) -> None:
    source = texts / "validation.en"
    totals = {}
    for to in ("de", "fr"):
        found = invoke("score", run, "--source", source, "--target", texts / "validation.fr", "--to", to)
        totals[to] = sum(float(line.split("\t")[1]) for line in found.stdout.split("\n") if line)
    assert totals["fr"] > totals["de"]
    chrf = {}
    for to in ("de", "fr"):
        output = tmp_path / f"evaluated.{to}"
        found = invoke(
            *("evaluate", run, "--source", source, "--reference", texts / f"validation.{to}", "--to", to),
            *("--output", output, "--format", "json"),
        )
        assert_in(to, list(read_lines(output)))
        chrf[to] = next(one["value"] for one in json.loads(found.stdout) if one["name"] == "chrF2")
    by_set = {one["name"]: one["chrf"] for one in rows_of(run / "metrics.jsonl")[-1]["validation"]}
    assert chrf == {"de": pytest.approx(by_set["en-de"], abs=3), "fr": pytest.approx(by_set["en-fr"], abs=3)}


def test_average_selects_by_the_mean_of_the_sets(run: Path) -> None:
    _, tried = average.select(run, "cpu")
    last = next(one for one in tried if "last 1" in one.name)
    row = rows_of(run / "metrics.jsonl")[-1]
    assert last.scores == pytest.approx({name: row[name] for name in METRICS}, rel=1e-5)


# --------------------------------------------------------------------------- the service


def test_the_service_offers_all_pairs(translator: Translator) -> None:
    with service(translator) as (served, _):
        assert [(one["code"], one["targets"]) for one in served.get("/languages").json] == [
            ("en", ["de", "fr"]), ("de", ["en"]), ("fr", []),
        ]  # fmt: skip
        answers = [served.post({"text": ["one two"], "to": to, "n_best": 2}) for to in ("de", "fr")]
        assert [one.status for one in answers] == [200, 200]
        texts = [one.json["translations"][0][0]["text"] for one in answers]
        assert texts == [translator.translate(["one two"], to=to)[0] for to in ("de", "fr")] and texts[0] != texts[1]
        libre = served.post({"q": "one two", "source": "auto", "target": "fr"}).json
        assert libre["translatedText"] == texts[1] and libre["detectedLanguage"]["language"] == "en"
        for fields, said in {
            '{"text": "a"}': "no target language",
            '{"text": "a", "to": "it"}': "language 'it': this model translates into de, en, fr",
            '{"text": "a", "to": 3}': "to: Input should be a valid string",
            '{"q": "a", "source": "fr", "target": "de"}': "source: fr is not supported: this model has en, de",
        }.items():
            refused = served.post(json.loads(fields))
            assert refused.status == 400 and said in refused.json["error"]


# --------------------------------------------------------------------------- exports


@pytest.mark.parametrize("format", ["ctranslate2", "marian", "argos"])
def test_an_export_tells_the_languages(
    format: Format, run: Path, texts: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("transformers" if format == "marian" else "ctranslate2")
    lines = lines_of(texts, "en")
    with caplog.at_level("INFO", logger="nmt"):
        found = export(run, format, tmp_path / "out", "float32", lines)
    assert found is not None and len(found.different) <= 0.1 * len(lines), str(found)
    if format == "argos":
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
            f"translate-{pair}-100_0.argosmodel" for pair in ("de_en", "en_de", "en_fr")
        ]
        # Each package puts the token of its languages before a source by itself.
        package = tmp_path / "out" / "translate-en_fr-100_0.argosmodel"
        greedy = nmt.load(run, "cpu", overrides=["decoding.beam_size=1"])
        assert argos.translate(package, lines, beam_size=1) == greedy.translate(lines, to="fr")
        return
    [said] = [message for message in caplog.messages if message.startswith("languages: ")]
    if format == "ctranslate2":
        assert "en-de: <2de>; de-en: <2en>; en-fr: <2fr>" in said
        exported, model = (nmt.load(one, "cpu") for one in (tmp_path / "out", run))
        assert exported.translate(lines, to="fr") == model.translate(lines, to="fr")
        return
    assert said.endswith(">>de<<, >>en<<, >>fr<<")
    from transformers import MarianTokenizer

    tokenizer = MarianTokenizer.from_pretrained(tmp_path / "out", local_files_only=True)
    translator = nmt.load(run, "cpu")
    source = translator.vocabulary.source
    assert tokenizer([">>fr<< one two"])["input_ids"][0][:-1] == source.tags(["<2fr>"]) + source.encode(["one two"])[0]


def test_marian_has_no_room_for_two_tokens(texts: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    train(config_of(texts, tmp_path / "run", "data.language_tags=both", "training.max_steps=1"), "cpu")
    with pytest.raises(NmtError, match=r"data\.language_tags: both: MarianTokenizer puts one token before a source"):
        export(tmp_path / "run", "marian", tmp_path / "out")
    translator = nmt.load(tmp_path / "run", "cpu")
    [[found]] = translator.hypotheses(["one"], alignment=True, to="fr")
    assert found.source_pieces is not None and found.source_pieces[:2] == ["<en>", "<2fr>"]


# --------------------------------------------------------------------------- validation and resuming


def test_each_set_is_scored_and_the_best_is_that_of_the_mean(run: Path) -> None:
    rows = [row for row in rows_of(run / "metrics.jsonl") if "validation_loss" in row]
    assert len(rows) == 2
    for row in rows:
        assert [one["name"] for one in row["validation"]] == ["en-de", "de-en", "en-fr"]
        for score in ("validation_loss", "bleu", "chrf"):
            assert row[score] == pytest.approx(sum(one[score] for one in row["validation"]) / 3)
    provenance = model_file.load_provenance(run / model_file.BEST)
    assert provenance["validation"] == min(rows, key=lambda row: row["validation_loss"])["validation"]
    assert {row["set"] for row in rows_of(run / "samples.jsonl")} == {"en-de", "de-en", "en-fr"}
    [read] = gather([run])
    assert read.notes == []
    best = next(table for table in to_data([read])["scores"] if "best checkpoint" in table["title"])
    labels = [row["label"] for row in best["rows"]]
    assert labels[1:4] == ["validation loss", "BLEU", "chrF"]
    assert {"BLEU, en-fr", "validation loss, de-en"} <= set(labels)
