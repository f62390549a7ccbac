"""A model of another program as a model of nmt: what every reader of this folder returns, and what they share."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from nmt.checkpoints.model_file import Checkpoint
from nmt.config import reader, writer
from nmt.config.language_pairs import LanguagePair
from nmt.config.schema import Config, Corpus, DataConfig, DecodingConfig, TransformerConfig, VocabularyConfig
from nmt.data.subwords.vocabulary import Vocabulary

# The output bias of a subword that the other program does not have: it is never chosen, and has no share of the
# probability. Training with label smoothing can hardly raise it.
ABSENT = -1000.0
# A model must have a corpus. The text that this one was trained on is not known.
_TEXT = "(the text that the imported model was trained on)"


@dataclass(frozen=True)
class Imported:
    """weights: by nmt's names; notes: what the user must know, a sentence each; license: of the model, None if it is
    not known; to_theirs: of each subword the other program's id, -1 where it has none, source and target; dimensions:
    of each dimension of the model theirs; says_languages: whether its files name its languages."""

    config: Config
    vocabulary: Vocabulary
    weights: Mapping[str, Tensor]
    to_theirs: tuple[Sequence[int], Sequence[int]]
    dimensions: Sequence[int]
    license: str | None = None
    notes: Sequence[str] = ()
    says_languages: bool = True

    def checkpoint(self, provenance: Mapping[str, Any]) -> Checkpoint:
        """As a model file holds it. Raises NmtError where the settings are out of range."""
        return Checkpoint(checked(self.config), self.vocabulary, self.weights, provenance)

    def with_punctuation(self) -> "Imported":
        """The same, with vocabularies that normalize punctuation by the rules for their languages."""
        pair, vocabulary = self.config.data.language_pairs.pairs[0], self.vocabulary
        source, target = (
            vocabulary.source.with_punctuation(pair.source),
            vocabulary.target.with_punctuation(pair.target),
        )
        return replace(self, vocabulary=Vocabulary(source, target, same_subwords=vocabulary.shared))


def checked(config: Config) -> Config:
    """The settings. Raises NmtError where one is out of its range, such as a width that no machine can hold."""
    return reader.from_dict(Config, writer.to_dict(config), "the imported model")


def settings(
    name: str,
    pairs: Sequence[LanguagePair],
    vocabulary: Vocabulary,
    model: TransformerConfig,
    decoding: DecodingConfig,
    language_tags: Any = "target",
    max_length: int = 256,
) -> Config:
    """The settings of an imported model. pairs: the languages that it translates; max_length: subwords of the longest
    source that is translated in one piece. Raises NmtError as `checked`."""
    corpora = tuple(Corpus(file=_TEXT, languages=(pair.source, pair.target)) for pair in pairs)
    shared = model.ties_embeddings
    config = Config(
        run_dir=f"runs/{name}",
        data=DataConfig(
            source_language=pairs[0].source,
            target_language=pairs[0].target,
            train=corpora,
            language_tags=language_tags,
            max_length=max_length,
        ),
        vocabulary=VocabularyConfig(
            size=max(8, len(vocabulary.target)),
            shared=shared,
            byte_fallback=vocabulary.target.has_bytes,
        ),
        model=model,
        decoding=decoding,
    )
    return checked(config)


def attention(name: str, linear: Mapping[str, tuple[Tensor, Tensor | None]]) -> Iterator[tuple[str, Tensor]]:
    """An attention by our names, with queries, keys and values in one projection. linear: weight [outputs, inputs] and
    bias of `query`, `key`, `value` and `output`."""
    joint = [linear[part] for part in ("query", "key", "value")]
    yield f"{name}.projection.weight", torch.cat([weight for weight, _ in joint])
    if biases := [bias for _, bias in joint if bias is not None]:
        yield f"{name}.projection.bias", torch.cat(biases)
    weight, bias = linear["output"]
    yield f"{name}.output.weight", weight
    if bias is not None:
        yield f"{name}.output.bias", bias
