"""Vocabularies of several kinds, and text that is hard to cut into subwords."""

import io
from typing import Any

import numpy as np
import sentencepiece
from hypothesis import strategies as st

from nmt.config import schema
from nmt.data.batches.token_store import FlatSequences
from nmt.data.subwords import vocabulary
from nmt.data.subwords.normalization import Normalization
from nmt.data.subwords.vocabulary import EOS, Tokenizer

SENTENCES = [
    "the cat sat on the mat",
    "a dog and a cat",
    "thé çat, ﬁne Ａ１",
    "これは猫です。 猫",
    "it's 10 % of 3.5 €",
] * 9
NORMALIZATIONS = ("nfc", "nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity")


def learned(**changed: Any) -> Tokenizer:
    return vocabulary.learn(SENTENCES, schema.VocabularyConfig(**({"size": 360} | changed)))


TOKENIZERS = [
    *(learned(normalization=name) for name in NORMALIZATIONS),
    learned().normalized_by(Normalization.from_setting("fold_source", 0)),
    *(learned(normalization=name, byte_fallback=False, size=100) for name in NORMALIZATIONS),
]
CHARACTERS = st.sampled_from("  ab cthe▁\u0301\u00a8\u200b\u3000\u00a0\u0085\u2028\t\r猫で…ﬁ⁇😀") | st.characters(
    codec="utf-8"
)


def trained_elsewhere(**options: Any) -> Tokenizer:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(SENTENCES), model_writer=model, vocab_size=90, pad_id=0, unk_id=1, bos_id=2, eos_id=3,
        minloglevel=2, hard_vocab_limit=options.get("model_type") != "unigram", **({"model_type": "bpe"} | options),
    )  # fmt: skip
    return Tokenizer(model.getvalue())


def without_end(found: FlatSequences, lines: int) -> list[list[int]]:
    """The ids of each of the lines, which an encoder has laid end to end, without the EOS after each."""
    assert found.offsets.tolist() == [0, *found.lengths.cumsum().tolist()] and len(found.ids) == found.offsets[-1]
    sequences = [ids.tolist() for ids in found.take(np.arange(lines))]
    assert all(ids.pop() == EOS for ids in sequences)
    return sequences
