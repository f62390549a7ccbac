"""The result of an import, and the interface of importers."""

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

# The config needs a corpus, but the training text of an imported model is not known.
UNKNOWN_TEXT = "(the text that the imported model was trained on)"


@dataclass(frozen=True)
class Imported:
    """A model of another program as a model of nmt.

    weights: by nmt's names; license: of the model, None if it is not known; notes: sentences for the user;
    says_languages: whether the model's files name its languages.
    """

    config: Config
    vocabulary: Vocabulary
    weights: Mapping[str, Tensor]
    license: str | None = None
    notes: Sequence[str] = ()
    says_languages: bool = True

    def checkpoint(self, provenance: Mapping[str, Any]) -> Checkpoint:
        """The contents of a model file. Raises NmtError if a setting is out of range."""
        return Checkpoint(checked(self.config), self.vocabulary, self.weights, provenance)

    def with_punctuation(self) -> "Imported":
        """The same model with vocabularies that normalize punctuation by the rules of their languages."""
        pair, vocabulary = self.config.data.language_pairs.pairs[0], self.vocabulary
        source = vocabulary.source.with_punctuation(pair.source)
        target = vocabulary.target.with_punctuation(pair.target)
        return replace(self, vocabulary=Vocabulary(source, target, same_subwords=vocabulary.shared))


class Importer(Protocol):
    """Reads the models of one program.

    program: the name of the program; reads_text: whether the vocabulary can be reduced to the subwords of a text.
    """

    program: str
    reads_text: bool

    def read(self, path: Path, name: str, codes: Sequence[str], text: Sequence[Path] = ()) -> Imported:
        """Read the model in a folder or a file.

        name: of the model; codes: of the requested languages, the source first, or none for those that the model names;
        text: files in these languages whose subwords are kept, or none to keep all subwords.
        Raises NmtError if files are missing or damaged, if nmt has no such model, or for languages that the model does
        not have.
        """

    def translate(self, path: Path, config: Config, lines: Sequence[str]) -> list[str] | None:
        """The program's own translations, by greedy search on the CPU, for the model's first language pair; None if the
        program cannot be called from Python. Raises NmtError if the program is not installed, and any exception that
        the program raises."""


def checked(config: Config) -> Config:
    """The same settings. Raises NmtError if one is out of range, such as a width that does not fit any machine."""
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
    """The settings of an imported model. pairs: its language pairs; max_length: the most subwords of a source that is
    translated in one piece. Raises NmtError as `checked`."""
    corpora = tuple(Corpus(file=UNKNOWN_TEXT, languages=(pair.source, pair.target)) for pair in pairs)
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
