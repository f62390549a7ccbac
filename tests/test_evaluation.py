"""Scores equal those of sacreBLEU called directly."""

import json

import pytest
import sacrebleu
from sacrebleu.metrics.ter import TER

from nmt.errors import NmtError
from nmt.evaluation import Lines, Score, bleu_metric, evaluate, to_json, to_text

HYPOTHESIS = Lines("out.de", ["The dog runs in the park.", "Two men talk about a red car.", "Nothing"])
REFERENCE = Lines(
    "one.de", ["The dog is running in the park.", "Two men talk about a car that is red.", "Nothing here"]
)
OTHER = Lines("two.de", ["A dog runs through the park.", "A pair of men talk about a red car.", "Nothing"])


@pytest.mark.parametrize("references", [[REFERENCE], [REFERENCE, OTHER]])
def test_equal_to_sacrebleu(references: list[Lines]) -> None:
    texts = [list(reference.lines) for reference in references]
    bleu, chrf, ter = evaluate(HYPOTHESIS, references, "de")
    assert (bleu.name, chrf.name, ter.name) == ("BLEU", "chrF2", "TER")
    assert bleu.value == sacrebleu.corpus_bleu(HYPOTHESIS.lines, texts).score
    assert chrf.value == sacrebleu.corpus_chrf(HYPOTHESIS.lines, texts).score
    assert ter.value == sacrebleu.corpus_ter(HYPOTHESIS.lines, texts).score
    assert 0 < bleu.value < 100


def test_signatures_say_how() -> None:
    bleu, chrf, ter = (score.signature for score in evaluate(HYPOTHESIS, [REFERENCE, OTHER], "de"))
    version = f"version:{sacrebleu.__version__}"
    assert bleu == f"nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|{version}"
    assert chrf == f"nrefs:2|case:mixed|eff:yes|nc:6|nw:0|space:no|{version}"
    assert ter == f"nrefs:2|case:lc|tok:tercom|norm:no|punct:yes|asian:no|{version}"


def test_case_counts() -> None:
    lower = Lines("lower", [line.lower() for line in HYPOTHESIS.lines])
    assert evaluate(lower, [HYPOTHESIS], "de")[0].value < evaluate(HYPOTHESIS, [HYPOTHESIS], "de")[0].value


@pytest.mark.parametrize("language", ["zh", "zh-CN", "zh_TW"])
def test_chinese_is_scored_by_characters(language: str) -> None:
    hypothesis, reference = Lines("h", ["我们喜欢苹果和梨。"]), Lines("r", ["我们都喜欢苹果和梨。"])
    bleu, _, ter = evaluate(hypothesis, [reference], language)
    assert bleu.value == sacrebleu.corpus_bleu(hypothesis.lines, [reference.lines], tokenize="zh").score
    assert "tok:zh" in bleu.signature
    direct = TER(normalized=True, asian_support=True).corpus_score(hypothesis.lines, [reference.lines])
    assert 0 < ter.value == direct.score < 50


@pytest.mark.parametrize(("language", "package"), [("ja", "tok:ja-mecab"), ("ko", "tok:ko-mecab")])
def test_the_signature_tells_when_a_tokenizer_is_missing(language: str, package: str) -> None:
    metric = bleu_metric(language)
    metric.corpus_score(["梨"], [["梨"]])
    signature = str(metric.get_signature())
    assert package in signature or "tok:char" in signature


@pytest.mark.parametrize("quiet", [False, True])
def test_tokenized_text_is_remarked_on(quiet: bool, caplog: pytest.LogCaptureFixture) -> None:
    lines = ["Two men talk ."] * 200
    bleu_metric("de", quiet=quiet).corpus_score(lines, [lines])
    assert ("tokenized period" in caplog.text) is not quiet


def test_counts_that_differ() -> None:
    short = Lines("two.de", OTHER.lines[:2])
    with pytest.raises(NmtError, match=r"^out\.de has 3 lines and two\.de 2: they must be the same text"):
        evaluate(HYPOTHESIS, [REFERENCE, short], "de")


def test_nothing_to_score() -> None:
    with pytest.raises(NmtError, match=r"^out\.de has no lines"):
        evaluate(Lines("out.de", []), [Lines("one.de", [])], "de")


def test_written_for_people_and_for_machines() -> None:
    scores = [Score("BLEU", 34.7219, "nrefs:1|tok:13a"), Score("chrF2", 60.0, "nrefs:1")]
    assert to_text(scores) == "BLEU   34.72  nrefs:1|tok:13a\nchrF2  60.00  nrefs:1"
    assert json.loads(to_json(scores)) == [
        {"name": "BLEU", "value": 34.7219, "signature": "nrefs:1|tok:13a"},
        {"name": "chrF2", "value": 60.0, "signature": "nrefs:1"},
    ]
