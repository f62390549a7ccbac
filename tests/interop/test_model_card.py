"""A model card says what the model file tells, in the way that the hub reads it, and its code translates."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from helpers.export_models import make_model, written
from huggingface_hub import ModelCard

from nmt.checkpoints.model_file import Checkpoint
from nmt.config.language_pairs import LanguagePair
from nmt.decoding.confidence import CALIBRATION, Calibration
from nmt.interop import model_card
from nmt.interop.ctranslate2.export import CTranslate2Exporter
from nmt.interop.exporter import Exporter
from nmt.interop.marian.export import MarianExporter
from nmt.interop.model_card import EngineUsage

PROVENANCE = {
    "nmt": "0.1.0",
    "run_dir": "/home/someone/runs/mine",
    "step": 1200,
    "bleu": 37.6976,
    "chrf": 61.1,
    "training_text": [{"name": "train.en + train.de", "languages": "en-de", "pairs": 20000}],
    "translated": [
        {"source_language": "en", "target_language": "de", "sentences": 1014, "compared": "in NFC",
         "signatures": {"bleu": "nrefs:1|case:mixed|tok:13a"}}
    ],
    "start_from": {
        "file": "/home/someone/start.safetensors",
        "imported_from": "Helsinki-NLP/opus-mt-en-de",
        "license": "cc-by-4.0",
    },
}  # fmt: skip


def made(provenance: dict[str, object] = PROVENANCE) -> Checkpoint:
    given = make_model()
    data = replace(given.config.data, validation=given.config.data.train[0], license="cc0-1.0")
    return replace(given, provenance=provenance, config=replace(given.config, data=data))


def test_the_hub_reads_what_the_model_file_tells(tmp_path: Path) -> None:
    model_card.write(tmp_path, made(), EngineUsage("ctranslate2", "How it is used."))
    card = ModelCard.load(tmp_path / "README.md")
    assert card.data.language == ["en", "de"] and card.data.license == ["cc-by-4.0", "cc0-1.0"]
    assert card.data.base_model == "Helsinki-NLP/opus-mt-en-de" and card.data.pipeline_tag == "translation"
    assert [(one.metric_type, one.metric_value) for one in card.data.eval_results] == [("bleu", 37.7), ("chrf", 61.1)]
    for words in (
        "BLEU 37.70 (`nrefs:1|case:mixed|tok:13a`)",
        "1,200 steps",
        "Training text: train.en + train.de (20,000 pairs).",
        "How it is used.",
        "license: cc-by-4.0",
    ):
        assert words in card.text
    assert "someone" not in card.content and str(Path.home()) not in card.content  # no folders of this machine


def test_it_says_what_the_confidence_was_calibrated_with() -> None:
    calibration = Calibration("news.en", 1014, 0.6512, (0.0,) * 5, 0.0).to_json()
    loaded = replace(made(), provenance={**made().provenance, CALIBRATION: calibration})
    text = model_card.to_text(loaded, EngineUsage("ctranslate2", ""))
    line = "- Confidence with nmt: calibrated with news.en, 1,014 sentences, correlation with chrF 0.65\n"
    assert line in text
    assert "Confidence" not in model_card.to_text(made(), EngineUsage("ctranslate2", ""))


def test_of_a_model_that_tells_nothing_nothing_is_claimed() -> None:
    text = model_card.to_text(make_model(), EngineUsage("ctranslate2", ""))
    assert "has no scores" in text and "does not say how it was trained" in text
    assert "license" not in text and "model-index" not in text


def test_a_corpus_of_both_directions_is_named_once_and_one_checkpoint_is_no_mean() -> None:
    """Two files of one name in different folders are two corpora, and each has its own tag."""
    files = [[{"name": "train.en", "sha256": checksum}] for checksum in ("ab", "ab", "cd")]
    text = [{"name": "train", "languages": "en-de", "pairs": 5, "files": each} for each in files]
    text[2]["tag"] = "<bt>"
    provenance = {"step": 1, "training_text": text, "averaged": [{"file": "a", "step": 1}]}
    card = model_card.to_text(made(provenance), EngineUsage("ctranslate2", ""))
    assert "Training text: train (5 pairs), train (5 pairs) with the tag `<bt>`." in card and "mean of" not in card


def of_two_ways() -> Checkpoint:
    """A model of en-de and de-en with the scores of both, of one text each."""
    given = make_model()
    one = given.config.data.train[0]
    corpora = (one, replace(one, reversed=True))
    validation = replace(given.config.data, train=corpora, validation=corpora)
    of_sets = [{"name": "en-de", "bleu": 21.239, "chrf": 50.0}, {"name": "de-en", "bleu": 31.0, "chrf": 60.0}]
    texts = [
        {"source_language": source, "target_language": target, "sentences": count, "compared": "in NFC",
         "signatures": {"bleu": f"tok:{target}"}}
        for source, target, count in (("en", "de", 1500), ("de", "en", 200))
    ]  # fmt: skip
    provenance = {"bleu": 26.0, "chrf": 55.0, "validation": of_sets, "translated": texts}
    return replace(given, provenance=provenance, config=replace(given.config, data=validation))


def scores_of(loaded: Checkpoint, *pairs: LanguagePair) -> list[str]:
    text = model_card.to_text(loaded, EngineUsage("argostranslate", "", pairs or None))
    front_matter = yaml.safe_load(text.split("---\n")[1])
    results = [
        result["dataset"]["name"] for model in front_matter.get("model-index", ()) for result in model["results"]
    ]
    lines = re.findall("^- (.*): (BLEU [^\n]*)", text, re.MULTILINE)
    assert [name for name, _ in lines] == results
    return [f"{name}: {score}" for name, score in lines]


def test_scores_are_those_of_the_languages_with_the_number_of_sentences() -> None:
    [english_german], [german_english] = (
        scores_of(of_two_ways(), LanguagePair(*pair)) for pair in (("en", "de"), ("de", "en"))
    )
    assert re.fullmatch(r"train\.en \+ train\.de, en-de, 1,500 sentences: BLEU 21\.24 \(`tok:de`\)", english_german)
    assert re.fullmatch(r"train\.en \+ train\.de, de-en, 200 sentences: BLEU 31\.00 \(`tok:en`\)", german_english)
    assert scores_of(of_two_ways()) == [english_german, german_english]
    assert scores_of(of_two_ways(), LanguagePair("en", "fr")) == []
    assert "compared in NFC." in model_card.to_text(of_two_ways(), EngineUsage("argostranslate", ""))


def test_the_hub_keeps_the_scores_of_both_directions_apart(tmp_path: Path) -> None:
    """It joins results with the same dataset type, config and split, under the name of the first."""
    model_card.write(tmp_path, of_two_ways(), EngineUsage("ctranslate2", ""))
    card = ModelCard.load(tmp_path / "README.md")
    card.save(tmp_path / "README.md")  # writes the results as the library has read them
    results = ModelCard.load(tmp_path / "README.md").data.eval_results
    bleu = {one.dataset_name: one.metric_value for one in results if one.metric_type == "bleu"}
    assert bleu == {
        "train.en + train.de, en-de, 1,500 sentences": 21.24,
        "train.en + train.de, de-en, 200 sentences": 31.0,
    }
    assert [one.metric_name for one in results if one.metric_type == "bleu"] == ["BLEU en-de", "BLEU de-en"]


def test_a_direction_without_scores_is_named() -> None:
    """One validation set does not stand for the other direction of the model, nor for a pair that is exported alone."""
    both = of_two_ways()
    english_german, german_english = both.config.data.held_out
    texts = both.provenance["translated"]
    for corpus, text, missing in ((english_german, texts[0], "de-en"), (german_english, texts[1], "en-de")):
        config = replace(both.config, data=replace(both.config.data, validation=corpus))
        one = replace(both, config=config, provenance={"bleu": 26.0, "translated": [text]})
        scored = f"{text['source_language']}-{text['target_language']}"
        [line] = scores_of(one)
        assert f", {scored}, " in line and "BLEU 26.00" in line
        assert f"\n- {missing}: no scores\n" in model_card.to_text(one, EngineUsage("ctranslate2", ""))
        assert scores_of(one, LanguagePair(*missing.split("-"))) == []
        assert "no scores for" in model_card.to_text(
            one, EngineUsage("argostranslate", "", [LanguagePair(*missing.split("-"))])
        )
    assert "no scores" not in model_card.to_text(both, EngineUsage("ctranslate2", ""))


@pytest.mark.parametrize("exporter", [CTranslate2Exporter(), MarianExporter()])
def test_the_code_of_the_card_translates_in_the_folder(
    exporter: Exporter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    written(exporter, tmp_path, make_model("decoding.beam_size=1"))
    [code] = re.findall(r"```python\n(.*?)```", (tmp_path / "README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(code.replace("A sentence.", "seven eight seven"), {})
    assert capsys.readouterr().out.strip()
