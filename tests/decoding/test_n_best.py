"""Which of the outputs that a search finds are returned."""

import pytest
from helpers.translators import LINES, MODEL, new_translator

from nmt.config.language_pairs import LanguagePair
from nmt.decoding import translation
from nmt.decoding.capitals import in_capitals
from nmt.decoding.translate_request import TranslateRequest

IN_CAPITALS = "SIX OLD APPLES, PEARS IN THE RED BARN"


def every_text(beam_size: int, lines: list[str]) -> list[list[tuple[str, float]]]:
    """What the whole beam of each line gives, with its score, best first."""
    translator = new_translator(MODEL, beam_size=beam_size)
    request = TranslateRequest(translator.decoding, LanguagePair("", ""), n_best=beam_size)
    [inputs] = translator._inputs(lines, request, translator.batch_tokens)
    found = translator.engine.search(inputs.sources, request.search_options(None), translator.batch_tokens)
    texts = [translation.texts(of_line, translator.vocabulary.target) for of_line in found]
    for place in inputs.capitals:
        texts[place] = [in_capitals(text, "") for text in texts[place]]
    return [list(zip(each, (one.score for one in ones), strict=True)) for each, ones in zip(texts, found, strict=True)]


@pytest.mark.parametrize(("beam_size", "n_best"), [(8, 2), (5, 5)])
def test_the_n_best_are_different_texts(beam_size: int, n_best: int) -> None:
    """Each with the score of its best subwords, and as many as the beam has."""
    lines = [*LINES, IN_CAPITALS]
    everything = every_text(beam_size, lines)
    found = new_translator(MODEL, beam_size=beam_size).hypotheses(lines, n_best, alignment=True)
    for its, every in zip(found, everything, strict=True):
        different = list(dict.fromkeys(text for text, _ in every))
        assert [one.text for one in its] == different[:n_best]
        first = dict(reversed(every))
        assert [one.score for one in its] == pytest.approx([first[one.text] for one in its], abs=1e-4)
        assert all(len(one.alignment or ()) == len(one.pieces) for one in its)
    assert any(len(every) > len({text for text, _ in every}) for every in everything), "no text comes twice"


def test_samples_are_returned_as_they_were_drawn() -> None:
    """How often a text is drawn says how probable it is."""
    found = new_translator(MODEL, method="sample", temperature=0.2).hypotheses(LINES, 20)
    assert [len(each) for each in found] == [20] * len(LINES)
    assert any(len({one.text for one in each}) < 20 for each in found)
