"""Robustness: each variation of a test set, what is lost on it, and what is kept of what must be copied."""

from collections.abc import Sequence

import pytest
import sacrebleu

from nmt.data.subwords.copied_items import find_items
from nmt.evaluation.robustness import CLEAN, INSERTED, VARIATIONS, VariedText, count_kept, measure, varied_texts

SOURCE = ["a dog runs here.", "We saw Anna in 2016", "一只狗。"]
REFERENCE = ["ein Hund läuft hier.", "Wir sahen Anna 2016.", "ein Maß."]


def texts(source: Sequence[str] = SOURCE, *references: Sequence[str]) -> dict[str, VariedText]:
    return {one.variation: one for one in varied_texts(source, references or [REFERENCE], ("en", "de"))}


def test_variations() -> None:
    found = texts()
    assert list(found) == [CLEAN, *VARIATIONS]
    assert found[CLEAN] == VariedText(CLEAN, SOURCE, [REFERENCE], [])
    upper = found["uppercase"]
    assert upper.source == ["A DOG RUNS HERE.", "WE SAW ANNA IN 2016", "一只狗。"] and upper.changed == [0, 1]
    assert upper.references == [["EIN HUND LÄUFT HIER.", "WIR SAHEN ANNA 2016.", "ein Maß."]]
    assert found["titlecase"].references[0][0] == "Ein Hund Läuft Hier."
    assert found["lowercase"].source[1] == "we saw anna in 2016" and found["lowercase"].changed == [1]
    plain = found["no final punctuation"]
    assert plain.source == ["a dog runs here", "We saw Anna in 2016", "一只狗"] and plain.changed == [0, 2]
    assert plain.references == [["ein Hund läuft hier", "Wir sahen Anna 2016.", "ein Maß"]]
    assert found["typos"].references == [REFERENCE] and found["typos"].changed == [0, 1]


@pytest.mark.parametrize("variation", INSERTED)
def test_inserted_items_are_the_same_in_source_and_references(variation: str) -> None:
    other = ["zwei", "drei", "vier"]
    found = texts(SOURCE, REFERENCE, other)[variation]
    assert found.changed == [0, 1, 2] and len(found.references) == 2
    for i, line in enumerate(found.source):
        before, after = line.split(SOURCE[i])
        assert {item[0] for item in find_items(before + after)} == {INSERTED[variation]}
        assert found.references[0][i] == f"{before}{REFERENCE[i]}{after}"
        assert found.references[1][i] == f"{before}{other[i]}{after}"


def test_scores_and_losses() -> None:
    """The model of this test copies small letters, and gives nothing for anything else."""
    asked: dict[str, Sequence[str]] = {}

    def translate(lines: Sequence[str], variation: str) -> list[str]:
        asked[variation] = lines
        return ["" if variation == "uppercase" else line for line in lines]

    source = ["a dog runs here now", "a cat sleeps there today"]
    varied = list(varied_texts(source, [source], ("en", "de")))
    found = measure("m", source, varied, translate, "de")
    assert (found.system, found.tokenizer, found.lines) == ("m", "13a", 2)
    clean, upper, title, lower, punctuation, typos, *_ = found.variations
    assert (clean.bleu, clean.bleu_loss, clean.chrf_loss, clean.changed) == (pytest.approx(100), 0, 0, 0)
    assert (upper.bleu, upper.chrf, upper.changed) == (0, 0, 2)
    assert (upper.bleu_loss, upper.chrf_loss) == (clean.bleu, clean.chrf)
    assert title.bleu == pytest.approx(100) and list(asked["titlecase"]) == varied[2].source
    assert lower.changed == punctuation.changed == 0 and "lowercase" not in asked  # not translated again
    assert lower.bleu == clean.bleu
    assert typos.bleu == sacrebleu.corpus_bleu(list(varied[5].source), [source]).score < 100
    assert typos.bleu_loss == clean.bleu - typos.bleu


@pytest.mark.parametrize(
    ("source", "translation", "in_source", "kept"),
    [
        ("1,000 and 1,000", "1.000 und 5", 2, 1),
        ("5", "5 5", 1, 1),
        ("12:30", "12.30 Uhr", 1, 1),
    ],
)
def test_numbers_kept(source: str, translation: str, in_source: int, kept: int) -> None:
    numbers, *others = count_kept([source, ""], [translation, source])
    assert (numbers.kind, numbers.in_source, numbers.kept) == ("number", in_source, kept)
    assert all(one.in_source == one.kept == 0 for one in others)
