"""sacreBLEU's metrics as they are set up for languages."""

import re
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU

from nmt.evaluation.metrics import _warn_of_characters, bleu_metric


@pytest.mark.parametrize(("language", "tokenizer"), [("de", "13a"), ("zh-CN", "zh")])
def test_the_language_chooses_the_tokenizer(language: str, tokenizer: str) -> None:
    assert bleu_metric(language).tokenizer.signature() == tokenizer


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
