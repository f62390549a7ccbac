"""sacreBLEU's metrics as they are set up for languages."""

import re
from pathlib import Path
from urllib.error import URLError

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.tokenizers import tokenizer_spm

from nmt.config.metrics import OF_TRANSLATIONS
from nmt.errors import NmtError
from nmt.evaluation.metrics import ValidationMetrics, _warn_of_characters, bleu_metric, check_tokenizer


@pytest.mark.parametrize(("language", "tokenizer"), [("de", "13a"), ("", "13a"), ("zh-CN", "zh"), ("zho_Hans", "zh")])
def test_the_language_chooses_the_tokenizer(language: str, tokenizer: str) -> None:
    assert bleu_metric(language).tokenizer.signature() == tokenizer


def test_each_score_of_a_validation_has_its_metric() -> None:
    metrics = ValidationMetrics("zh")
    scores = metrics.scores(["我们都喜欢 pe\u0301re"], ["我们都喜欢 pé\u00adre"])  # compared in NFC
    assert (
        scores == {"bleu": pytest.approx(100), "chrf": pytest.approx(100)} and scores.keys() == OF_TRANSLATIONS.keys()
    )
    assert "tok:zh" in metrics.signatures()["bleu"] and "nc:6" in metrics.signatures()["chrf"]


def test_texts_are_scored_in_one_place() -> None:
    """Which brings them into one form. Of the others, one needs a type, and one compares translations of one model."""
    root = Path(__file__).parents[2]
    files = [*(root / "nmt").rglob("*.py"), *(root / "scripts").glob("*.py")]
    scoring = [
        path for path in files if re.search(r"sacrebleu\.metrics|corpus_(bleu|chrf|ter)", path.read_text("utf-8"))
    ]
    assert {path.relative_to(root).as_posix() for path in scoring} == {
        "nmt/evaluation/metrics.py", "nmt/evaluation/scores.py", "nmt/decoding/mbr.py",
    }  # fmt: skip


def test_single_sentences_are_scored_by_the_orders_that_fit() -> None:
    short = bleu_metric("de", sentences=True).sentence_score("Nichts da", ["Nichts da"])
    assert short.score == pytest.approx(BLEU(effective_order=True).sentence_score("Nichts da", ["Nichts da"]).score)
    assert short.score > bleu_metric("de").corpus_score(["Nichts da"], [["Nichts da"]]).score


@pytest.mark.parametrize(("language", "package"), [("ja", "tok:ja-mecab"), ("ko", "tok:ko-mecab")])
def test_a_tokenizer_that_is_missing_is_told(language: str, package: str, caplog: pytest.LogCaptureFixture) -> None:
    _warn_of_characters.cache_clear()
    assert bleu_metric(language, quiet=True) and not caplog.text
    metric = bleu_metric(language)
    metric.corpus_score(["梨"], [["梨"]])
    signature = str(metric.get_signature())
    missing = f"pip install 'sacrebleu[{language}]'"
    assert (package in signature and not caplog.text) or ("tok:char" in signature and missing in caplog.text)


def test_text_that_is_tokenized_already_is_scored_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    output, right = ["two @-@ sided men 's talk ."] * 200, ["two @-@ sided men talk ."] * 200
    by_hand = BLEU(tokenize="none", force=True).corpus_score(output, [right])
    metric = bleu_metric("zh", tokenizer="none")
    assert metric.corpus_score(output, [right]).score == by_hand.score
    assert "tokenized period" not in caplog.text
    assert by_hand.score != bleu_metric("de").corpus_score(output, [right]).score
    assert "tok:none" in str(metric.get_signature())


@pytest.mark.parametrize(("name", "hint"), [("13", "did you mean 13a?"), ("moses", "choose from none, zh, 13a")])
def test_a_tokenizer_that_is_not_known(name: str, hint: str) -> None:
    with pytest.raises(NmtError, match=f"--tokenize {name}: sacreBLEU knows no such tokenizer: {re.escape(hint)}"):
        check_tokenizer(name)


def test_a_tokenizer_whose_model_cannot_be_had(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refused(*_: object) -> None:
        raise URLError("no network")

    monkeypatch.setattr(tokenizer_spm, "download_file", refused)
    monkeypatch.setattr(tokenizer_spm, "SACREBLEU_DIR", str(tmp_path))
    with pytest.raises(NmtError, match=r"--tokenize flores200: its model cannot be downloaded .*no network"):
        check_tokenizer("flores200")
