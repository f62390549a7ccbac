"""A translator that can be pickled: its pickle names its files, which the other process opens again."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.config.schema import DecodingConfig
from nmt.data.cleaning.source_text import SourceText
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.decoding.engine_protocol import Engine
from nmt.decoding.translator import Translator


@dataclass(frozen=True)
class LoadedModel:
    """What a translator is made of. digests: of each model file, or of an exported folder."""

    engine: Engine
    vocabulary: Vocabulary
    decoding: DecodingConfig
    languages: LanguagePairs
    source_text: SourceText | None
    digests: Mapping[Path, str]


class Origin(Protocol):
    """Where a model was loaded from: can be pickled."""

    def load(self) -> LoadedModel:
        """The model, loaded once in each process."""


class PicklableTranslator(Translator):
    """A translator that keeps where it is from. One from a pickle opens its files when it is first used: so an error is
    that of the task which uses it, where an error in unpickling would stop a pool of processes. Its counts are 0."""

    _used: LanguagePair | None = None  # of one from a pickle, as `LanguageChoice.used`, until it is opened

    def __init__(self, origin: Origin, loaded: LoadedModel):
        super().__init__(loaded.engine, loaded.vocabulary, loaded.decoding, loaded.languages, loaded.source_text)
        self.origin, self.loaded = origin, loaded

    @property
    def digests(self) -> Mapping[Path, str]:
        """Of the model files."""
        return self.loaded.digests

    def __getstate__(self) -> dict[str, Any]:
        used = self.languages.used if "languages" in vars(self) else self._used
        return {"origin": self.origin, "decoding": self.decoding, "glossary": self.glossary, "_used": used}

    def __getattr__(self, name: str) -> Any:
        """What an opened translator has, and this has not yet."""
        if "loaded" not in vars(self) and not name.startswith("__"):
            opened = PicklableTranslator(self.origin, self.origin.load())
            opened.languages.used = self._used
            for key, value in vars(opened).items():
                vars(self).setdefault(key, value)  # what was set since it was unpickled stays
            if name in vars(self):
                return vars(self)[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
