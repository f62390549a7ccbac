"""Glossary files, and the terms found in lines."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.terms.glossary import Glossary
from nmt.errors import NmtError


def found(line: str, *terms: str) -> list[str]:
    """Those of the terms that are in the line, in its order."""
    return [term for [term] in Glossary((term, term) for term in terms).terms(line)]


# --------------------------------------------------------------------------- files


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_bytes(
        "\ufeff# source\ttarget\r\n\n   \nhouse\tHaus\r\n  dry dock \t Trockendock\nhouse\tGebäude\nhouse\tHaus\n"
        "House\tHeim\nNASA\tNASA".encode()
    )
    glossary = Glossary.load(path)
    assert glossary.terms("The NASA house at the dry  dock") == [["NASA"], ["Haus", "Gebäude", "Heim"], ["Trockendock"]]
    assert glossary.terms("") == glossary.terms("\n") == glossary.terms("source") == []
    glossary.terms("house")[0].clear()
    assert glossary.terms("house") == [["Haus", "Gebäude", "Heim"]], "what is handed out is the caller's own"
    path.write_text("# nothing yet\n", encoding="utf-8")
    assert Glossary.load(path).terms("anything at all") == []


def test_lines_that_are_no_entries(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("a\tb\n\nhouse\nc\n", encoding="utf-8")
    with pytest.raises(NmtError, match=r"terms\.tsv:3: .* one tab") as caught:
        Glossary.load(path)
    assert "\n" not in str(caught.value)


# --------------------------------------------------------------------------- terms in lines


@pytest.mark.parametrize(
    ("line", "term"),
    [
        ("(house)", "house"),
        ("HOUSE rules", "house"),
        ("a dry\tdock", "dry dock"),
        ("in C++, say", "C++"),
        ("der Mu\u0308ller", "müller"),
        ("我住在东京都", "东京"),
        ("an iPhone case", "iPhone"),
    ],
)
def test_terms_that_are_there(line: str, term: str) -> None:
    assert found(line, term) == [term]


@pytest.mark.parametrize(
    ("line", "term"),
    [
        ("houses", "house"),
        ("greenhouse", "house"),
        ("the nasa", "NASA"),
        ("东 x 京", "东京"),
    ],
)
def test_terms_that_are_not_there(line: str, term: str) -> None:
    assert found(line, term) == []


def test_longest_first_without_overlaps() -> None:
    assert found("the dry dock gate", "dock", "dry dock", "dry", "gate") == ["dry dock", "gate"]
    assert found("dry dock gate", "dry dock", "dock gate") == ["dock gate"], "longer in letters"
    assert found("dry dock gate, dock", "dock", "dry", "dock gate") == ["dry", "dock gate", "dock"]
    assert found("a b c", "a b", "b c") == ["a b"], "else the first"
    assert found("一二三四", "二三四", "一二", "一") == ["一", "二三四"]


texts = st.lists(st.sampled_from(["a", "b", "ab", "ba.", "."]), min_size=1, max_size=8).map(" ".join)


@settings(max_examples=40, deadline=None)
@given(line=texts, terms=st.lists(texts.filter(lambda text: len(text) < 8), max_size=6, unique=True))
def test_equals_looking_for_each_term_everywhere(line: str, terms: list[str]) -> None:
    terms = [term for term in terms if "." not in term]
    matches = [
        (-len(term.replace(" ", "")), match.start(), term)
        for term in terms
        for match in re.finditer(rf"(?<!\w)(?={term}(?!\w))", line)
    ]
    taken: dict[int, str] = {}
    for _, start, term in sorted(matches):
        place = range(start, start + len(term))
        if not any(at in range(other, other + len(name)) for at in place for other, name in taken.items()):
            taken[start] = term
    assert found(line, *terms) == list(dict.fromkeys(taken[start] for start in sorted(taken)))
