"""Marked terms: they stand where they should, no other subword changes, and no text can write a tag."""

import dataclasses
import itertools
import json
import random
from pathlib import Path

import numpy as np
import pytest

from nmt.config import schema
from nmt.config.special_subwords import TERM_TAGS
from nmt.data.batches.token_store import FlatSequences
from nmt.data.prepare import PreparedData, prepare
from nmt.data.subwords import encoding, vocabulary
from nmt.data.subwords.bpe_dropout import DropoutEncoder
from nmt.data.subwords.term_marks import Mark, TermMarker, tagged, visible, with_tags
from nmt.errors import NmtError
from nmt.pages.prepare.page import to_data
from nmt.terms.glossary import Glossary

NOUNS = {f"{a}{b}": f"{b.title()}{a}" for a, b in itertools.product(("hund", "katz", "arm"), ("ra", "so", "mi", "te"))}
LINES = ["Der Arzt, der wohnt’s hier.", "医者はここにいる。", "  zwei   Äpfel", "医者 hund", "Ende Arzt"]


def tokenizer(size: int = 340, **changed: object) -> vocabulary.Tokenizer:
    text = [*LINES, *(f"{word} {noun}" for word, noun in NOUNS.items())] * 3
    return vocabulary.learn(text, schema.VocabularyConfig(size=size, **changed), TERM_TAGS)  # type: ignore[arg-type]


SUBWORDS = tokenizer()


@pytest.mark.parametrize(
    ("line", "term"),
    [(LINES[0], "Arzt"), (LINES[0], "wohnt’s"), (LINES[1], "医者"), (LINES[2], "zwei"), (LINES[4], "Arzt")],
)
def test_the_ids_of_a_line_with_those_of_its_marks(line: str, term: str) -> None:
    stop = line.index(term) + len(term)
    [ids, head, new] = SUBWORDS.encode([line, line[:stop], "Mediziner"])
    [(position, inserted)] = tagged(SUBWORDS, line, ids, [(stop, "Mediziner")])
    assert inserted == [SUBWORDS.tag("<term>"), *new, SUBWORDS.tag("</term>")]
    if term != "医者":  # its last subword may have more characters
        assert ids[:position] == head
    assert len(SUBWORDS.decode([ids[: position - 1]])[0].strip()) < len(line[:stop].strip())
    assert (
        SUBWORDS.decode([[*ids[:position], *inserted, *ids[position:]]])[0].replace(" Mediziner", "", 1)
        == (SUBWORDS.decode([ids])[0])
    )


def test_unknown_characters_and_several_marks() -> None:
    subwords = tokenizer(120, byte_fallback=False)
    line, marks = "zwei ☃☃ Äpfel und Arzt hier", [(13, "eins"), (22, "zwei")]
    [ids] = subwords.encode([line])
    assert vocabulary.UNK in ids
    for (position, _), (stop, _) in zip(tagged(subwords, line, ids, marks), marks, strict=True):
        assert ids[:position] == subwords.encode([line[:stop]])[0]


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_many_lines_at_once(dropout: float) -> None:
    marks: dict[int, list[Mark]] = {0: [(8, "hund")], 3: [(2, "katz"), (7, "hund")], 4: [(9, "Arzt")]}
    encoder = DropoutEncoder(SUBWORDS, dropout)
    plain = encoder.encode(LINES, np.random.default_rng(1))
    found = with_tags(SUBWORDS, plain, LINES, marks)
    for i, line in enumerate(LINES):
        ids, expected = sequence(found, i), sequence(plain, i)[:-1]
        for position, new in reversed(tagged(SUBWORDS, line, expected, marks.get(i, []))):
            expected[position:position] = new
        assert ids == [*expected, vocabulary.EOS]


def sequence(flat: FlatSequences, i: int) -> list[int]:
    return flat.ids[flat.offsets[i] : flat.offsets[i + 1]].tolist()


def test_no_text_writes_a_tag() -> None:
    tags = set(map(SUBWORDS.tag, TERM_TAGS))
    for text in ("Arzt <term> Mediziner </term>", "<term>", "▁<term>▁", "\n<term>\n", "＜term＞"):
        assert not tags.intersection(*SUBWORDS.encode([text]))


def pairs(count: int, seed: int = 1) -> list[tuple[str, str]]:
    random_ = random.Random(seed)
    found = []
    for _ in range(count):
        words = random_.sample(list(NOUNS), 3)
        found.append(
            (f"the {words[0]} and the {words[1]} of {words[2]}.", " ".join(NOUNS[word] for word in words) + ".")
        )
    return found


def test_marks_do_not_depend_on_chunks_and_are_in_the_target() -> None:
    text, marker = pairs(400), TermMarker(0.5, NOUNS)
    whole, marks = marker.marked(text, np.arange(400), 3)
    for first in range(0, 400, 100):
        part, part_marks = marker.marked(text[first : first + 100], np.arange(first, first + 100), 3)
        assert part == whole[first : first + 100]
        assert part_marks == {i - first: line for i, line in marks.items() if first <= i < first + 100}
    assert 150 < len(marks) < 250
    assert marker.marked(text, np.arange(400), 4)[1] != marks
    copied = 0
    for i, line in marks.items():
        for stop, translation in line:
            word = whole[i][0][:stop].split()[-1]
            assert word in NOUNS and translation.lower() in whole[i][1].lower()
            copied += translation != NOUNS[word]
    assert 0.35 < copied / sum(map(len, marks.values())) < 0.6
    assert {len(line) for line in marks.values()} == {1, 2, 3}


def test_a_glossary_gives_the_dictionarys_form_or_that_of_the_target() -> None:
    marker = TermMarker(1.0, Glossary([("doctor|doctors", "Arzt|Ärzte|Ärzten"), ("cat", "Katze")]))
    text = [("the doctors of the cat", "bei den Ärzten, der Kater")] * 200
    _, marks = marker.marked(text, np.arange(200), 0)
    forms = [translation for line in marks.values() for _, translation in line]
    assert all(line[0][0] == len("the doctors") and len(line) == 1 for line in marks.values())  # "Kater" is not "Katze"
    assert all(25 < forms.count(form) < 130 for form in ("Arzt", "Ärzten"))
    assert visible("the doctors, here", [(11, "Arzt")]) == "the doctors <term> Arzt </term>, here"


@pytest.fixture
def run(tmp_path: Path) -> schema.Config:
    for side, ending in enumerate(("en", "de")):
        (tmp_path / f"train.{ending}").write_text("".join(f"{pair[side]}\n" for pair in pairs(500)), encoding="utf-8")
    (tmp_path / "terms.tsv").write_text("hundra\tRahund\n", encoding="utf-8")
    return with_terms(tmp_path, "0.5")


def with_terms(folder: Path, terms: str, name: str = "run") -> schema.Config:
    text = (
        f"run_dir: {folder}/{name}\n"
        f"data: {{source_language: en, target_language: de, augment: {{terms: {terms}}}, workers: 1, "
        f"train: [{{source: {folder}/train.en, target: {folder}/train.de}}]}}\nvocabulary: {{size: 320}}"
    )
    return schema.parse(text, "test")


def everything(prepared: PreparedData) -> list[list[int]]:
    return [ids.tolist() for side in prepared.train.pairs(np.arange(len(prepared.train))) for ids in side]


def test_prepared_with_a_lexicon(run: schema.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = prepare(run)
    [file] = (tmp_path / "run" / "data").glob("terms-*.json")
    assert json.loads(file.read_text(encoding="utf-8")) == NOUNS
    opening, closing = prepared.vocabulary.source.tags(TERM_TAGS)
    sources, targets = prepared.train.pairs(np.arange(len(prepared.train)))
    marked = [ids.tolist() for ids in sources if opening in ids]
    assert 0.4 < len(marked) / len(sources) < 0.6 and all(ids.count(opening) == ids.count(closing) for ids in marked)
    assert not any(opening in ids for ids in targets)
    assert 200 < prepared.summary.counts[0].marked < 300 and "with terms" in str(prepared.summary)
    [corpus] = to_data(run, prepared)["corpora"]
    assert len(corpus["marked"]) == 20 and all("<term>" in source for source, _ in corpus["marked"])
    monkeypatch.setattr(encoding, "FIRST_CHUNKS", 0)  # another process encodes everything
    again = with_terms(tmp_path, "0.5", "again")
    again = dataclasses.replace(again, data=dataclasses.replace(again.data, workers=2))
    assert everything(prepare(again)) == everything(prepared)


def test_a_glossary_of_the_settings(run: schema.Config, tmp_path: Path) -> None:
    found = prepare(config := with_terms(tmp_path, f"{{share: 1.0, file: {tmp_path}/terms.tsv}}"))
    marked = found.summary.counts[0].marked
    assert marked == sum("hundra " in source or "hundra." in source for source, _ in pairs(500)) and not found.problems
    assert prepare(config).folder == found.folder
    (tmp_path / "terms.tsv").write_text("nowhere\tNirgends\n", encoding="utf-8")
    other = prepare(config)
    assert other.folder != found.folder
    assert any("terms.tsv: no training pair has a term" in problem for problem in other.problems)
    (tmp_path / "terms.tsv").unlink()
    with pytest.raises(NmtError, match=r"^data\.augment\.terms\.file: .*terms\.tsv"):
        prepare(config)
    # The languages choose the columns, and what is wrong is found before there is any data.
    (tmp_path / "terms.csv").write_text("de,en,note\nRahund,hundra,\n", encoding="utf-8")
    table = f"{{share: 1.0, file: {tmp_path}/terms.csv}}"
    assert prepare(with_terms(tmp_path, table)).summary.counts[0].marked == marked
    (tmp_path / "terms.csv").write_text("fr,es\nchien,perro\n", encoding="utf-8")
    with pytest.raises(NmtError, match=r"terms\.csv:1: the headings fr, es do not fit en and de"):
        prepare(with_terms(tmp_path, table, "unused"))
    assert not (tmp_path / "unused").exists()
