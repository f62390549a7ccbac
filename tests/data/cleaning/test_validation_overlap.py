"""Validation text in training text: counted exactly, stored, and an error where it is no chance."""

import unicodedata
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config.schema import Config, Corpus, DataConfig
from nmt.data.cleaning import validation_overlap
from nmt.data.cleaning.validation_overlap import Overlap, OverlappingPair, OverlapSearch
from nmt.data.prepare import prepare
from nmt.data.sources.corpus import Pair
from nmt.errors import NmtError
from nmt.files.text import read_lines

PAIRS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), max_size=8)
MakeConfig = Callable[..., Config]


def find(held_out: list[Pair], *corpora: list[Pair], chunk: int = 100) -> Overlap:
    search = OverlapSearch([held_out], [["same"] * len(corpora)])
    for number, pairs in enumerate(corpora):
        for start in range(0, len(pairs), chunk):
            search.add(number, pairs[start : start + chunk])
    (overlap,) = search.overlaps()
    return overlap


@given(PAIRS, PAIRS, PAIRS, st.integers(1, 5))
def test_counts_are_those_of_comparing_everything(
    held_out: list[Pair], one: list[Pair], other: list[Pair], chunk: int
) -> None:
    found, training = find(held_out, one, other, chunk=chunk), one + other
    sources = [source for source, _ in training]
    assert found.total == len(held_out)
    assert found.pairs == sum(pair in training for pair in held_out)
    assert found.sources == sum(pair not in training and pair[0] in sources for pair in held_out)
    assert found.by_corpus == tuple(
        (sum(pair in pairs for pair in held_out), sum(source in dict(pairs) for source, _ in held_out))
        for pairs in (one, other)
    )


def test_case_accents_spaces_and_punctuation_do_not_count_and_numbers_do() -> None:
    held_out = [(f"The café has {i} chairs.", f"Das Café hat {i} Stühle.") for i in range(100)]
    spaced = [(f" {source.replace(' ', '  ')}", target) for source, target in held_out]
    twins = [
        *held_out[:5],
        *((source.upper(), target.lower()) for source, target in held_out[3:10]),
        *((unicodedata.normalize("NFD", source), target) for source, target in held_out[10:20]),
        *((source, target) for source, target in spaced[20:30]),
        (held_out[30][0], "Etwas anderes."), ("the cafe has 31 chairs", "Auch."), *held_out[100:],
    ]  # fmt: skip
    found = find(held_out, [("x", "y")], twins, chunk=7)
    assert (found.pairs, found.folded, found.sources, found.by_corpus) == (30, 25, 2, ((0, 0), (30, 32)))
    assert found.pair_examples[5] == OverlappingPair(*held_out[5], held_out[5][1].lower(), 1)
    assert found.source_examples[1] == OverlappingPair(*held_out[31], "Auch.", 1)
    data = DataConfig("en", "de", (Corpus(file="a.tsv"), Corpus(file="b.tsv")), validation=Corpus(file="held-out.tsv"))
    said = (
        "are training pairs too (25 of them differ only in case, accents, punctuation or "
        "spaces), most of them in b.tsv: scores"
    )
    assert said in next(validation_overlap.problems([found], data))
    assert find(held_out, [(f"The café has {i} chairs.", "x") for i in range(100, 200)]).sources == 0


def held_out_with(folder: Path, corpus: Path, number: int) -> str:
    """An override: a validation set with so many training pairs, and the usual ones."""
    folder.mkdir(exist_ok=True)
    for side in ("en", "de"):
        lines = [*islice(read_lines(corpus / f"train.{side}"), number), *read_lines(corpus / f"validation.{side}")]
        (folder / f"held-out.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return f"data.validation={{source: {folder}/held-out.en, target: {folder}/held-out.de}}"


def test_the_opposite_direction_is_compared_with_its_sides_exchanged() -> None:
    """A model of both directions has seen these sentences; text of another pair of languages says nothing."""
    train = (
        Corpus(file="forward.tsv"),
        Corpus(file="back.tsv", reversed=True),
        Corpus(file="fr.tsv", languages=("en", "fr")),
    )
    data = DataConfig("en", "de", train, validation=Corpus(file="v.tsv"))
    assert validation_overlap.compared(data) == [["same", "opposite", None]]
    held_out = [(f"s{i}", f"t{i}") for i in range(100)]
    search = OverlapSearch([held_out], validation_overlap.compared(data))
    search.add(0, [("s1", "t1")])
    search.add(1, [(target, source) for source, target in held_out[:50]] + [("other", "s70"), ("s60", "t60")])
    search.add(2, held_out[80:])
    (overlap,) = search.overlaps()
    assert (overlap.pairs, overlap.sources, overlap.by_corpus) == (50, 1, ((1, 1), (50, 51), (0, 0)))
    with pytest.raises(NmtError, match=r"50 of 100 pairs .* most of them in back\.tsv"):
        validation_overlap.check([overlap], data)


def test_it_is_an_error_before_the_text_is_encoded(make_config: MakeConfig, corpus: Path, tmp_path: Path) -> None:
    settings = (held_out_with(tmp_path, corpus, 30), f"data.store_dir={tmp_path / 'store'}")
    for _ in range(2):  # the second time from what is stored
        with pytest.raises(NmtError, match=r"held-out.de: 3\d of 50 pairs \(\d+\.0%\) are training pairs too"):
            prepare(make_config(*settings))
        names = sorted(path.name.partition("-")[0] for path in (tmp_path / "store").iterdir() if path.suffix != ".nmt")
        assert "tokens" not in names and names.count("overlap") == 1
    prepared = prepare(make_config(*settings, "data.validation_in_training=warn"))
    assert prepared.overlaps[0].pairs >= 30 and "are training pairs too" in prepared.problems[0]
