"""A model that learned terms gets their translations in its source; everything else stays as it is."""

import itertools

import numpy as np
import torch
from helpers.translators import DECODING, SIZES, WORDS

from nmt.config import schema
from nmt.config.special_subwords import TERM_TAGS
from nmt.data.subwords import vocabulary as vocabularies
from nmt.data.subwords.vocabulary import EOS, PAD, Vocabulary
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.translation import source_alignment
from nmt.decoding.translator import Translator
from nmt.models.transformer.model import Transformer
from nmt.terms.glossary import Glossary

TOKENIZER = vocabularies.learn(
    [" ".join(pair) for pair in itertools.permutations(WORDS, 2)], schema.VocabularyConfig(size=330), TERM_TAGS
)


def translator() -> Translator:
    torch.manual_seed(1)
    model = Transformer(SIZES, len(TOKENIZER), len(TOKENIZER), PAD).eval()
    return Translator(PyTorchEngine([model], torch.device("cpu")), Vocabulary(TOKENIZER, TOKENIZER), DECODING)


def test_lines_without_terms_and_the_pieces_of_those_with_terms() -> None:
    model, lines = translator(), ["two apples, in the barn", "six pears"]
    plain = model.hypotheses(lines, alignment=True)
    told = model.hypotheses(lines, alignment=True, glossary=Glossary([("apples|apple", "old pears|pears")]))
    assert [one.score for one in told[1]] == [one.score for one in plain[1]]
    assert told[0][0].source_pieces == plain[0][0].source_pieces and told[0][0].terms
    assert np.allclose(np.sum(told[0][0].alignment, axis=1), np.sum(plain[0][0].alignment, axis=1), atol=1e-4)


def test_the_attention_to_a_translation_counts_for_its_term() -> None:
    opening, closing = TOKENIZER.tags(TERM_TAGS)
    [first, second, pears] = TOKENIZER.encode(["two", "barn", "pears"])
    ids = [*first, opening, *pears, closing, *second]
    weights = np.random.default_rng(0).random((3, len(ids) + 1))
    pieces, rows = source_alignment(TOKENIZER, ids, weights.tolist())
    assert pieces == TOKENIZER.pieces([*first, *second, EOS])
    term = len(first) - 1
    assert np.allclose(np.array(rows)[:, term], weights[:, term : term + 3 + len(pears)].sum(axis=1))
    assert np.allclose(np.array(rows)[:, term + 1 :], weights[:, term + 3 + len(pears) :])


def test_the_length_of_a_source_does_not_count_the_translations_of_its_terms() -> None:
    model, glossary = translator(), Glossary([("apples|apple", "old pears|pears")])
    for line in ("two apples, in the barn", "six pears"):
        [[plain]], [[told]] = model.hypotheses([line]), model.hypotheses([line], alignment=True, glossary=glossary)
        assert told.source_subwords == plain.source_subwords == len(told.source_pieces or ())
