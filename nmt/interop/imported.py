"""A model of another program as a model of nmt: what every import gives, and what reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from nmt.checkpoints.model_file import Checkpoint
from nmt.config import reader, writer
from nmt.config.language_pairs import LanguagePair
from nmt.config.schema import Config, Corpus, DataConfig, DecodingConfig, TransformerConfig, VocabularyConfig
from nmt.data.subwords.vocabulary import Vocabulary

# A model must have a corpus. The text that this one was trained on is not known.
_TEXT = "(the text that the imported model was trained on)"


@dataclass(frozen=True)
class Imported:
    """weights: by nmt's names; notes: what the user must know, a sentence each; license: of the model, None if it is
    not known; says_languages: whether its files name its languages."""

    config: Config
    vocabulary: Vocabulary
    weights: Mapping[str, Tensor]
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


class Importer(Protocol):
    """Reads the models of one program.

    program: its name; reads_text: whether a vocabulary can be cut to the subwords of a text.
    """

    program: str
    reads_text: bool

    def read(self, path: Path, name: str, codes: Sequence[str], text: Sequence[Path] = ()) -> Imported:
        """The model in a folder or a file. name: what it is called; codes: of the languages that the user wants, the
        source first; none: as the model names them; text: files in these languages: only subwords that they use are
        kept; none: all.

        Raises NmtError if files are missing or damaged, if the model is of another kind than nmt's, or for languages
        that it does not have.
        """

    def translate(self, path: Path, config: Config, lines: Sequence[str]) -> list[str] | None:
        """The translations of lines by the program itself, by greedy search on the CPU, into the first of the model's
        languages; None if it cannot be called from here. Raises NmtError if the program is not installed, and what the
        program raises."""


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
