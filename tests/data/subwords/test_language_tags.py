"""Corpora in several languages: read by their own languages, and told apart by tokens before their sources."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.languages import counting_config, write_counting

from nmt.config import reader, schema
from nmt.config.schema import Config, Corpus
from nmt.data.prepare import PreparedData, prepare


def changed(run: Config, **sections: dict[str, Any]) -> Config:
    new = {name: dataclasses.replace(getattr(run, name), **values) for name, values in sections.items()}
    return dataclasses.replace(run, **new)


def ids_of(prepared: PreparedData) -> list[object]:
    return [[row.tolist() for row in side] for side in prepared.train.pairs(np.arange(len(prepared.train)))]


def first_sources(prepared: PreparedData, sizes: int = 30) -> list[list[str]]:
    """The subwords of the first source of each corpus of this size."""
    firsts = np.arange(0, len(prepared.train), sizes)
    return [prepared.vocabulary.source.pieces(ids.tolist()) for ids in prepared.train.pairs(firsts)[0]]


@pytest.fixture
def counting(tmp_path: Path) -> Config:
    write_counting(tmp_path, "train", 30, seed=1)
    write_counting(tmp_path, "validation", 5, seed=2)
    return reader.parse(Config, counting_config(tmp_path, tmp_path / "run"), "test config")


def test_the_target_is_named_before_each_source(counting: Config) -> None:
    prepared = prepare(counting)
    assert [pieces[0] for pieces in first_sources(prepared)] == ["<2de>", "<2en>", "<2fr>"]
    assert not any(piece.startswith("<2") for pieces in first_sources(prepared) for piece in pieces[1:])
    assert [(one.name, one.tags) for one in prepared.validation] == [
        ("en-de", ("<2de>",)), ("de-en", ("<2en>",)), ("en-fr", ("<2fr>",)),
    ]  # fmt: skip
    for one in prepared.validation:
        source, target = (side[0].tolist() for side in one.ids.pairs(np.arange(1)))
        assert prepared.vocabulary.source.pieces(source[:1]) == list(one.tags)
        assert prepared.vocabulary.source.decode([source[1:]]) == [one.pairs[0][0]]
        assert prepared.vocabulary.target.decode([target]) == [one.pairs[0][1]]
    assert prepared.summary.languages == ("en, de", "de, en, fr")


def test_both_languages_then_the_tag_of_the_corpus(counting: Config) -> None:
    one, *others = counting.data.train
    train = (dataclasses.replace(one, tag="<bt>"), *others)
    prepared = prepare(changed(counting, data={"language_tags": "both", "train": train}))
    first, *rest = first_sources(prepared)
    assert first[:3] == ["<en>", "<2de>", "<bt>"]
    assert [pieces[:2] for pieces in rest] == [["<de>", "<2en>"], ["<en>", "<2fr>"]]
    assert prepare(counting).data_key != prepared.data_key


def test_a_reversed_corpus_is_the_one_of_the_exchanged_files(counting: Config) -> None:
    mine = counting.data.train[1]
    assert mine.reversed
    exchanged = Corpus(source=mine.target, target=mine.source)
    stores = [
        prepare(changed(counting, data={"train": (one,), "source_language": source, "target_language": target,
                                        "validation": None}))
        for one, source, target in ((mine, "en", "de"), (exchanged, "de", "en"))
    ]  # fmt: skip
    assert ids_of(stores[0]) == ids_of(stores[1])
    assert stores[0].summary.languages == stores[1].summary.languages == ("de", "en")


def test_text_is_varied_by_the_rules_of_its_own_language(counting: Config, tmp_path: Path) -> None:
    (tmp_path / "i.tr").write_text("iki i\n" * 30)
    (tmp_path / "i.en").write_text("it is i\n" * 30)
    corpus = Corpus(source=str(tmp_path / "i.tr"), target=str(tmp_path / "i.en"), languages=("tr", "en"))
    train = (*counting.data.train, corpus, dataclasses.replace(corpus, reversed=True))
    varied = changed(
        counting,
        data={"train": train, "augment": schema.AugmentConfig(uppercase=1.0)},
        vocabulary={"bpe_dropout_samples": 1},
    )
    prepared = prepare(varied)
    places = np.array([90, 120])
    sides = zip((prepared.vocabulary.source, prepared.vocabulary.target), prepared.train.pairs(places), strict=True)
    assert [tokenizer.decode([ids.tolist() for ids in side]) for tokenizer, side in sides] == [
        ["İKİ İ", "IT IS I"], ["IT IS I", "İKİ İ"],
    ]  # fmt: skip


def test_duplicates_are_those_of_the_same_languages(counting: Config, tmp_path: Path) -> None:
    for side in ("source", "target"):
        (tmp_path / side).write_text("Hotel Adlon Berlin\nHotel Adlon Berlin\n")
    one = Corpus(source=str(tmp_path / "source"), target=str(tmp_path / "target"))
    both = (*counting.data.train[:1], one, dataclasses.replace(one, reversed=True))
    clean = schema.CleaningConfig(copies=None, language=None)
    data = {"train": both, "validation": None, "clean": clean}
    _, mine, others = prepare(changed(counting, data=data)).summary.counts
    assert (mine.kept, others.kept) == (1, 1)
