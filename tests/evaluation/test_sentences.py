"""The worst and the most changed lines: the order that scoring each line alone gives."""

import sacrebleu

from nmt.evaluation.aligned_texts import AlignedText
from nmt.evaluation.sentences import example_sentences

SOURCE = AlignedText("in.en", [f"sentence {i}" for i in range(4)])
REFERENCE = AlignedText("ref.de", ["der Hund rennt im Park", "zwei Männer reden", "eine rote Scheune", "es regnet"])
BASE = AlignedText("base.de", ["der Hund rennt im Park", "zwei Frauen reden", "ein Auto", "es schneit"])
OTHER = AlignedText("other.de", ["ein Hund im Park", "zwei Männer reden", "ein Auto", "es regnet heute"])


def test_worst() -> None:
    (base, other), _ = example_sentences(SOURCE, [BASE, OTHER], [REFERENCE], "de", count=3)
    assert (base.system, other.system) == ("base.de", "other.de")
    chrf = [
        sacrebleu.sentence_chrf(text, [right]).score for text, right in zip(BASE.lines, REFERENCE.lines, strict=True)
    ]
    order = sorted(range(4), key=chrf.__getitem__)[:3]
    assert [sentence.line for sentence in base.sentences] == [i + 1 for i in order]
    first, (translation,) = base.sentences[0], base.sentences[0].translations
    assert (first.source, first.references) == (SOURCE.lines[order[0]], [REFERENCE.lines[order[0]]])
    assert (translation.text, translation.chrf) == (BASE.lines[order[0]], chrf[order[0]])
    assert translation.bleu == sacrebleu.sentence_bleu(translation.text, first.references).score


def test_changed() -> None:
    _, (changed,) = example_sentences(SOURCE, [BASE, OTHER], [REFERENCE], "de", count=5)
    assert (changed.system, changed.baseline, changed.different) == ("other.de", "base.de", 3)
    assert {one.line for one in changed.better} == {2, 4} and [one.line for one in changed.worse] == [1]
    gains = [one.translations[1].chrf - one.translations[0].chrf for one in changed.better]
    assert gains == sorted(gains, reverse=True) and gains[-1] > 0
    assert [one.text for one in changed.worse[0].translations] == [BASE.lines[0], OTHER.lines[0]]
