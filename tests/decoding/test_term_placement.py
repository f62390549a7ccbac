"""Where terms are put, with an engine whose translations, attention and scores are given."""

import dataclasses
from collections.abc import Sequence

import pytest
from helpers.translators import DECODING, VOCABULARY

from nmt.decoding.engine_protocol import Pair, SearchInput
from nmt.decoding.search.banned_words import banned_words
from nmt.decoding.search.options import Hypothesis, SearchOptions
from nmt.decoding.term_counts import TermCounts
from nmt.decoding.term_placement import TermPlacer
from nmt.decoding.term_texts import in_case, own_places
from nmt.terms.glossary import FoundTerm, Glossary, Term

ids = VOCABULARY.target.encode


class _Engine:
    """Word i of a translation has its attention to word i of the source, or to word order[i]."""

    aligns, positions = True, None

    def __init__(self, order: Sequence[int] = range(20), improbable: str = "\0"):
        self.order, self.improbable = order, improbable
        self.calls: list[tuple[str, int]] = []

    def align(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[list[float]]]:
        self.calls.append(("align", len(pairs)))
        return [self._weights(*pair) for pair in pairs]

    def _weights(self, source: list[int], target: list[int]) -> list[list[float]]:
        columns, rows = words_of(VOCABULARY.source, source), words_of(VOCABULARY.target, target)
        weights = []
        for row in [*rows, -1]:
            word = -1 if row < 0 else self.order[row]
            shares = [0.8 if column == word else 0.01 for column in columns]
            weights.append([share / max(1, columns.count(word)) for share in shares] + [0.05])
        return weights

    def score(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[float]]:
        self.calls.append(("score", len(pairs)))
        texts = VOCABULARY.target.decode([target for _, target in pairs])
        return [
            [-9.0 if self.improbable in text else -1.0] * (len(target) + 1)
            for text, (_, target) in zip(texts, pairs, strict=True)
        ]


def words_of(tokenizer: object, tokens: list[int]) -> list[int]:
    """The index of each subword's word."""
    pieces, word, words = tokenizer.pieces(tokens), -1, []  # type: ignore[attr-defined]
    for piece in pieces:
        word += piece.startswith("▁") or word < 0
        words.append(word)
    return words


def place(
    engine: object, line: str, text: str, *entries: tuple[str, str], prefix: str = "", **options: object
) -> tuple[str, list[tuple[str, str]]]:
    """The translation with the terms, and what became of each."""
    source_ids, output = VOCABULARY.source.encode([line])[0], ids([text])[0]
    source = SearchInput(
        source_ids, 99, prefix=tuple(ids([prefix])[0]), text=line, terms=tuple(Glossary(entries).find(line))
    )
    settings = SearchOptions(**{"decoding": DECODING, **options})  # type: ignore[arg-type]
    placer = TermPlacer(engine, VOCABULARY, settings, 1000, "en")  # type: ignore[arg-type]
    [[found]] = placer.placed([source], [[Hypothesis(output, 0.0, 0.0, [])]])
    return VOCABULARY.target.decode([found.tokens])[0], [(term.how, term.target) for term in found.terms]


def test_a_word_is_replaced_or_the_models_own() -> None:
    """No alignment is computed for a line whose translation has its terms."""
    engine = _Engine()
    assert place(engine, "one old barn", "two red pears", ("old", "red")) == ("two red pears", [("own", "red")])
    assert not engine.calls
    assert place(engine, "one old barn", "two red pears", ("old", "six")) == ("two six pears", [("placed", "six")])
    assert engine.calls == [("align", 1), ("score", 1)]  # of the new translation; the choice needed none


def test_the_most_probable_form_of_several_terms() -> None:
    engine = _Engine(improbable="five")
    entries = ("old", "five|four"), ("barn", "apples|five")
    text, terms = place(engine, "one old barn old", "two red pears red", *entries)
    assert (text, terms) == (
        "two four apples four",
        [("placed", "four"), ("placed", "apples"), ("placed", "four")],
    )
    assert engine.calls == [("align", 1), ("score", 6), ("score", 1)]


def test_a_term_that_no_word_is_aligned_to_is_not_placed() -> None:
    """Neither is it put after the end, nor in place of a word of another source word."""
    engine = _Engine(order=(0, 2, 2))  # no word for `old`
    assert place(engine, "one old barn", "two red pears", ("old", "six")) == ("two red pears", [("failed", "six")])


def test_a_user_prefix_is_never_changed() -> None:
    line, text, entry = "one old barn", "two red pears", ("old", "six")
    assert place(_Engine(), line, text, entry, prefix="two red") == (text, [("failed", "six")])
    assert place(_Engine(), line, text, entry, prefix="two")[0] == "two six pears"


def test_a_word_of_two_source_words_is_no_place() -> None:
    class Compound(_Engine):
        def _weights(self, source: list[int], target: list[int]) -> list[list[float]]:
            rows = super()._weights(source, target)
            columns = words_of(VOCABULARY.source, source)
            for row, word in zip(rows, words_of(VOCABULARY.target, target), strict=False):
                if word == 1:
                    row[:-1] = [0.4 if column in (1, 2) else 0.01 for column in columns]
            return rows

    assert place(Compound(), "one old barn", "two red", ("barn", "six")) == ("two red", [("failed", "six")])


class _Doubtful(_Engine):
    """The first word has the most attention to `old`, but log P of one word is lower without `old` in the source."""

    def __init__(self, influenced: int | None):
        super().__init__()
        self.influenced = influenced

    def _weights(self, source: list[int], target: list[int]) -> list[list[float]]:
        columns, rows = words_of(VOCABULARY.source, source), words_of(VOCABULARY.target, target)
        share = {0: (0.6, 0.22, 0.1), 1: (0.1, 0.21, 0.1), 2: (0.1, 0.1, 0.7)}
        return [
            [share[max(0, row)][column] / columns.count(column) for column in columns] + [0.05] for row in [*rows, 2]
        ]

    def score(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[float]]:
        lines = VOCABULARY.source.decode([source for source, _ in pairs])
        return [
            [
                -5.0 if word == self.influenced and "old" not in line else -1.0
                for word in words_of(VOCABULARY.target, target)
            ]
            + [-1.0]
            for line, (_, target) in zip(lines, pairs, strict=True)
        ]


def test_a_doubtful_place_is_the_word_that_needs_the_term() -> None:
    line, text, entry = "one old barn", "two red pears", ("old", "six")
    assert place(_Doubtful(1), line, text, entry) == ("two six pears", [("placed", "six")])
    assert place(_Doubtful(None), line, text, entry) == (text, [("failed", "six")])


def test_terms_that_are_not_placed() -> None:
    """Those with banned words, in place of protected text, and where the model has too few positions."""
    line, text, entry = "one old barn", "two red pears", ("old", "six|four")
    banned = banned_words(VOCABULARY.target, ("six",))
    assert place(_Engine(), line, text, entry, banned_words=banned)[0] == "two four pears"
    keep = dataclasses.replace(DECODING, keep=("r.d",))
    assert place(_Engine(), line, text, entry, decoding=keep) == (text, [("failed", "six")])
    engine = _Engine()
    engine.positions = len(ids([text])[0])  # type: ignore[assignment]
    assert place(engine, line, text, entry) == (text, [("failed", "six")])


def test_without_an_alignment_terms_are_their_own_or_failed() -> None:
    engine = _Engine()
    engine.aligns = False
    entries = ("old", "red"), ("barn", "six")
    assert place(engine, "one old barn", "two red pears", *entries) == (
        "two red pears",
        [("own", "red"), ("failed", "six")],
    )
    assert not engine.calls


@pytest.mark.parametrize(
    ("text", "targets", "expected"),
    [
        ("Der Arzt kam.", ("Arzt",), "Arzt"), ("Die Ärzte kamen.", ("Arzt", "Ärzte"), "Ärzte"),
        ("Der Arztbesuch", ("Arzt",), None), ("der arzt", ("Arzt",), None), ("Old red", ("old",), "Old"),
        ("ein nasa test", ("NASA",), None), ("漢字が好き", ("漢字",), "漢字"), ("הרופא הגיע", ("הרופא",), "הרופא"),
        ("İyi bir Işık", ("ışık",), "Işık"),
    ],
)  # fmt: skip
def test_terms_in_a_text_are_complete_words(text: str, targets: tuple[str, ...], expected: str | None) -> None:
    found = FoundTerm(0, 1, "x", Term(("x",), targets))
    language = "tr" if "ş" in text else "de"
    places = own_places(text, [found, found], language)
    assert [text[slice(*span)] for span in places.values()] == ([] if expected is None else [expected])


@pytest.mark.parametrize(
    ("form", "text", "word", "found_as", "language", "expected"),
    [
        ("physician", "Doctor Smith", "Doctor", "Arzt", "en", "Physician"),
        ("physician", "A Doctor", "Doctor", "Arzt", "en", "physician"),
        ("iPhone", "Phone calls", "Phone", "arzt", "en", "iPhone"),
        ("ışık", "Lamba yandı", "Lamba", "arzt", "tr", "Işık"), ("ilaç", "Hap var", "Hap", "arzt", "tr", "İlaç"),
        ("physician", "THE DOCTOR", "DOCTOR", "ARZT", "en", "PHYSICIAN"),
        ("physician", "Yes. Doctor Smith", "Doctor", "Arzt", "en", "Physician"),
    ],
)  # fmt: skip
def test_case_follows_the_sentence(
    form: str, text: str, word: str, found_as: str, language: str, expected: str
) -> None:
    start = text.index(word)
    found = FoundTerm(0, 1, found_as, Term(("Arzt",), (form,)))
    assert in_case(form, text, (start, start + len(word)), found, language) == expected


def test_counts_add_up_and_name_the_first_ten(caplog: pytest.LogCaptureFixture) -> None:
    one = TermCounts({"own": 5, "failed": 9}, 12, [f"line {i}: a -> b" for i in range(1, 10)], {"cat|cats": "line 1: "})
    two = TermCounts({"failed": 3, "placed": 4}, 7, ["line 20: c -> d"] * 3, {"cat|cats": "line 20: "})
    both = one + two
    assert both.how == {"own": 5, "failed": 12, "placed": 4} and both.near == {"cat|cats": "line 1: "}
    caplog.set_level("INFO")
    both.log(30)
    counts, near = caplog.messages
    assert counts.startswith(
        "glossary: 21 terms in 19 of 30 lines: 5 in the model's own translation, 4 inserted, 12 not inserted: "
    )
    assert counts.endswith("line 9: a -> b, line 20: c -> d, and 2 more")
    assert "line 1: cat|cats: add" in near
