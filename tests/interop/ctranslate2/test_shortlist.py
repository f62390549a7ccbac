"""Search with a shortlist in CTranslate2: what it may write, and whose probabilities are reported."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.export_models import LINES, SEPARATE, engine_of, make_model, make_settings, random_model, random_shortlist
from helpers.model_files import tokenizer

import nmt
from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.config.schema import DecodingConfig
from nmt.data.subwords.shortlist import Shortlist
from nmt.data.subwords.vocabulary import EOS, Vocabulary
from nmt.decoding.engine_protocol import SearchInput
from nmt.decoding.search.options import SearchOptions
from nmt.interop.ctranslate2 import export as ctranslate2
from nmt.interop.ctranslate2.engine import CTranslate2Engine, from_model_file
from nmt.terms.glossary import FoundTerm, Term

GREEDY = DecodingConfig(beam_size=1)
TEXT = SearchOptions(GREEDY, scores=False)


def engine(made: Checkpoint) -> CTranslate2Engine:
    return from_model_file("it", made, made.config, lambda: engine_of(made))


def sources(vocabulary: Vocabulary, count: int = 40) -> list[SearchInput]:
    chance, subwords = random.Random(2), range(EOS + 1, len(vocabulary.source))
    return [SearchInput(chance.choices(subwords, k=1 + number % 9), 12) for number in range(count)]


def searched(made: Checkpoint, given: Sequence[SearchInput], options: SearchOptions) -> list[list[int]]:
    return [best.tokens for [best, *_] in engine(made).search(given, options, 16_000)]


@pytest.mark.parametrize("variant", [(), SEPARATE])
def test_an_output_is_the_best_of_the_subwords_that_are_allowed(variant: tuple[str, ...]) -> None:
    """As PyTorch writes without the others, each source alone; together, each source has the subwords of all."""
    plain = make_model(*variant)
    made = replace(plain, shortlist=random_shortlist(plain.vocabulary, 12))
    inputs, size = sources(made.vocabulary), len(made.vocabulary.target)
    assert made.shortlist is not None
    allowed = [made.shortlist.allowed(source.ids) for source in inputs]
    limited, pytorch = engine(made), engine_of(made)
    alone, restricted = list[list[int]](), list[list[int]]()
    for source, own in zip(inputs, allowed, strict=True):
        [[best]] = limited.search([source], TEXT, 16_000)
        never = tuple(np.setdiff1d(np.arange(size), own).tolist())
        [[expected]] = pytorch.search([source], SearchOptions(GREEDY, never=(0, 1, 2, *never)), 16_000)
        alone.append(best.tokens)
        restricted.append(expected.tokens)
    same = [one == other for one, other in zip(alone, restricted, strict=True)]
    assert sum(same) >= len(inputs) - 2  # rounding decides between equal probabilities
    assert alone != searched(plain, inputs, TEXT)
    union = set(np.concatenate(allowed).tolist())
    together = searched(made, inputs, TEXT)
    assert union >= {token for tokens in together for token in tokens}
    everything = replace(plain, shortlist=random_shortlist(plain.vocabulary, size))
    for options in (TEXT, SearchOptions(DecodingConfig(beam_size=4), scores=False)):
        assert searched(everything, inputs, options) == searched(plain, inputs, options)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_with_scores_every_subword_is_searched(beam_size: int) -> None:
    plain = make_model()
    made = replace(plain, shortlist=random_shortlist(plain.vocabulary, 3))
    inputs = sources(made.vocabulary, 6)  # a batch has the subwords of all its lines, which should not be most
    for token_scores in (True, False):
        options = SearchOptions(DecodingConfig(beam_size=beam_size), n_best=beam_size, token_scores=token_scores)
        assert engine(made).search(inputs, options, 16_000) == engine(plain).search(inputs, options, 16_000)


def test_subwords_that_the_file_of_a_shortlist_cannot_hold(tmp_path: Path) -> None:
    """It has tabs, spaces and line feeds between subwords."""
    for name in ("<a b>", "<a\tb>", "<a\nb>", "<ab>"):
        both = tokenizer().with_tags([name])
        made = random_model(0, make_settings(), Vocabulary(both, both))
        (folder := tmp_path / str(hash(name))).mkdir()
        ctranslate2.write(folder, replace(made, shortlist=random_shortlist(made.vocabulary, 3)))
        assert (folder / "vmap.txt").exists() == (name == "<ab>")


def test_prefixes_terms_and_off_use_every_subword() -> None:
    """CTranslate2 finds the subwords of a prefix by their places in the shortlist of the batch before."""
    plain = make_model()
    made = replace(plain, shortlist=random_shortlist(plain.vocabulary, 3))
    inputs, options = sources(made.vocabulary, 16), TEXT
    term = FoundTerm(0, 3, "one", Term(("one",), ("eins",)))
    for changed in ({"start": (290,)}, {"terms": (term,)}):
        given = [replace(source, **changed) for source in inputs]
        assert searched(made, given, options) == searched(plain, given, options)
    some = [replace(source, terms=(term,)) if number % 2 else source for number, source in enumerate(inputs)]
    found, without = searched(made, some, options), searched(plain, some, options)
    assert found[1::2] == without[1::2] and found[::2] != without[::2]
    off = SearchOptions(replace(GREEDY, shortlist="off"), scores=False)
    assert searched(made, inputs, off) == searched(plain, inputs, off)


def test_the_file_the_folder_and_the_settings(tmp_path: Path) -> None:
    """A model file keeps its shortlist; the folder has it; both translate alike."""
    plain = make_model("decoding.beam_size=1")
    shortlist = random_shortlist(plain.vocabulary, 12)
    made, path, folder = replace(plain, shortlist=shortlist), tmp_path / "it", tmp_path / "out"
    model_file.save(path, made)
    read = model_file.load(path).shortlist
    assert isinstance(read, Shortlist)
    assert (read.offsets.tolist(), read.targets.tolist()) == (shortlist.offsets.tolist(), shortlist.targets.tolist())
    folder.mkdir()
    ctranslate2.write(folder, made)
    assert '"use_vmap": True' in (folder / "README.md").read_text(encoding="utf-8")
    off = ["decoding.shortlist=off"]
    lines = [line for line in LINES if line]
    limited, exported, complete = nmt.load(path, "cpu"), nmt.load(folder), nmt.load(path, "cpu", overrides=off)
    assert limited.translate(lines) == exported.translate(lines) != complete.translate(lines)
    assert nmt.load(folder, overrides=off).translate(lines) == complete.translate(lines)
