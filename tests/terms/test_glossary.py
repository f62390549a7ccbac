"""The terms of a glossary that are found in lines, and near misses."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.terms.glossary import Glossary


def found(line: str, *terms: str) -> list[str]:
    """Those of the terms that are in the line, in its order."""
    return [one.term.source for one in Glossary((term, "x") for term in terms).find(line)]


def near(line: str, *terms: str) -> list[tuple[str, str]]:
    return [(term.source, text) for term, text in Glossary((term, "x") for term in terms).near_misses(line)]


# --------------------------------------------------------------------------- terms in lines


@pytest.mark.parametrize(
    ("line", "term", "text"),
    [
        ("(house)", "house", "house"),
        ("HOUSE rules", "house", "HOUSE"),
        ("a dry\tdock", "dry dock", "dry\tdock"),
        ("in C++, say", "C++", "C++"),
        ("an iPhone case", "iPhone", "iPhone"),
        ("der Mu\u0308ller ist", "müller", "Mu\u0308ller"),
        ("die Wör\u00adter hier", "Wörter", "Wör\u00adter"),
        ("bei ＮＡＳＡ heute", "NASA", "ＮＡＳＡ"),
        ("مى\u200cخواهم", "مى\u200cخواهم", "مى\u200cخواهم"),
        ("في كتاب، جديد", "كتاب", "كتاب"),
        ("ฉันกินน้ำแล้ว", "น้ำ", "น้ำ"),
        ("그 의사가 왔다", "의사", "의사"),
        ("\u110b\u1174\u1109\u1161\u1100\u1161", "의사", "\u110b\u1174\u1109\u1161"),
        ("我住在东京都", "东京", "东京"),
        ("これはﾊﾟｿｺﾝです", "パソコン", "ﾊﾟｿｺﾝ"),
        ("ב ירושלים", "ירושלים", "ירושלים"),
        ("İlaç aldım", "ilaç", "İlaç"),
        ("a doctor 👩\u200d⚕️ here", "👩\u200d⚕", "👩\u200d⚕"),
    ],
)
def test_terms_that_are_there(line: str, term: str, text: str) -> None:
    [one] = Glossary([(term, "x")]).find(line)
    assert one.found_as == line[one.start : one.stop] == text


@pytest.mark.parametrize(
    ("line", "term"),
    [
        ("houses", "house"),
        ("greenhouse", "house"),
        ("the nasa", "NASA"),
        ("东 x 京", "东京"),
        ("น้ำ", "น"),
        ("בירושלים", "ירושלים"),
        ("والكتاب", "كتاب"),
    ],
)
def test_terms_that_are_not_there(line: str, term: str) -> None:
    assert found(line, term) == []


def test_longest_first_without_overlaps() -> None:
    assert found("the dry dock gate", "dock", "dry dock", "dry", "gate") == ["dry dock", "gate"]
    assert found("dry dock gate", "dry dock", "dock gate") == ["dock gate"], "longer in letters"
    assert found("dry dock gate, dock", "dock", "dry", "dock gate") == ["dry", "dock gate", "dock"]
    assert found("a b c", "a b", "b c") == ["a b"], "else the first"
    assert found("x a", "a b c d e f g h", "a") == ["a"], "at the end, where the longer term does not fit"
    assert found("一二三四", "二三四", "一二", "一") == ["一", "二三四"]


def test_forms() -> None:
    glossary = Glossary([("doctor|doctors", "Arzt|Ärzte"), (r"a\|b", r"x\|y"), ("nurse", "Arzt|Ärzte")])
    assert [one.found_as for one in glossary.find("The Doctors met a doctor")] == ["Doctors", "doctor"]
    assert glossary.targets == ["Arzt", "Ärzte", "x|y"]
    assert glossary.entries("a|b doctors doctor") == {"a|b": ["x|y"], "doctor": ["Arzt", "Ärzte"]}


def test_terms_that_differ_in_case_only() -> None:
    glossary = Glossary([("Essen", "food"), ("essen", "to eat"), ("Haus", "house"), ("haus", "house")])
    lines = {"Essen": "food", "essen": "to eat", "ESSEN": None, "HAUS": "house"}
    assert {line: next((one.term.target for one in glossary.find(line)), None) for line in lines} == lines


def test_entries_that_are_wrong() -> None:
    with pytest.raises(ValueError, match=r"^'the house' has two translations, 'Haus' and 'Heim': remove one"):
        Glossary([("the house", "Haus"), ("x", "y"), ("the  house", "Heim")])
    for source, target in (("doctor|", "Arzt"), ("doctor", "|Arzt"), (" ", "x")):
        with pytest.raises(ValueError, match="empty term or form"):
            Glossary([(source, target)])
    assert len(Glossary([("house", "Haus"), ("house", "Haus")]).find("house")) == 1


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
    places = [(one.start, one.found_as) for one in Glossary((term, "x") for term in terms).find(line)]
    assert places == sorted(taken.items())


# --------------------------------------------------------------------------- near misses


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ("doctor", "doctors"),
        ("city", "Cities"),
        ("train", "trains"),
        ("car", "cars"),
        ("dry dock", "dry  docks"),
        ("Arzt", "Ärzte"),
        ("Haus", "Häuser"),
        ("araba", "arabalar"),
        ("talo", "talossa"),
        ("страна", "страны"),
        ("счёт", "счета"),
        ("New York", "New Yorks"),
    ],
)
def test_near_misses(term: str, text: str) -> None:
    assert near(f"In {text}, there", term) == [(term, text)]


@pytest.mark.parametrize(
    ("term", "line"),
    [
        ("car", "carpet card care"),
        ("war", "ward warn wars2"),
        ("test", "tested testing"),
        ("doctor", "doctor Doctor documents"),
        ("NASA", "nasa Nasa"),
        ("doctor|doctores", "doctors"),
        ("dry dock", "docks wet docks"),
        ("docks", "dockyard"),
        ("2019", "2018 20191"),
        ("의사소통", "의사소리 의사소통은"),
        ("東京駅前", "東京駅内"),
    ],
)
def test_no_near_misses(term: str, line: str) -> None:
    assert near(line, term) == []


def test_a_found_term_is_no_near_miss_of_another() -> None:
    assert near("trains doctors", "train", "trains", "doctor") == [("doctor", "doctors")]
    assert near("planes parts", "plan", "plane", "party", "part") == [("plane", "planes"), ("part", "parts")], (
        "the longest stem"
    )
