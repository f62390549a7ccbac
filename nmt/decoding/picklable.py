"""A translator that can be pickled: its pickle names its files, which the other process opens again."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from nmt.config.language_pairs import LanguagePair
from nmt.config.schema import DecodingConfig
from nmt.decoding import model_loader
from nmt.decoding.glossary import Glossary
from nmt.decoding.model_loader import Loaded
from nmt.decoding.translator import Translator
from nmt.errors import NmtError


@dataclass(frozen=True)
class Origin:
    """What was opened: the arguments of `nmt.decoding.model_loader.load`, with the model file that a run folder stood
    for. paths: absolute, the first and the others of an ensemble; digests: of each when it was opened."""

    paths: tuple[Path, ...]
    device: str
    overrides: tuple[str, ...]
    glossary: Path | None
    digests: tuple[str, ...]

    def open(self) -> Loaded:
        """What this process has opened already, or inherited by a fork, or opens now. Raises NmtError as `load`, and
        where a file has changed."""
        return _opened.get(self) or _open(self)


_opened: WeakValueDictionary[Origin, Loaded] = WeakValueDictionary()


@lru_cache(4)  # a pool of processes sends a translator with each task: its model is opened once
def _open(origin: Origin) -> Loaded:
    first, *others = origin.paths
    loaded = model_loader.load(first, origin.device, others, origin.overrides, origin.glossary)
    for path, before in zip(loaded.paths, origin.digests, strict=True):
        if loaded.digests[path] != before:
            raise NmtError(f"{path}: has changed since the translator was opened: open it again with nmt.load")
    return loaded


class PicklableTranslator(Translator):
    """A translator that keeps where it is from. One from a pickle opens its files when it is first used: so an error is
    that of the task which uses it, where an error in unpickling would stop a pool of processes. Its counts are 0."""

    origin: Origin
    _used: LanguagePair | None = None  # as `LanguageChoice.used`, until it is opened

    @classmethod
    def load(
        cls,
        path: Path,
        device: str = "auto",
        ensemble: Sequence[Path] = (),
        overrides: Sequence[str] = (),
        glossary: Path | None = None,
    ) -> "PicklableTranslator":
        """As `Translator.load`."""
        translator = super().load(path, device, ensemble, overrides, glossary)
        assert isinstance(translator, PicklableTranslator)
        assert translator.loaded is not None
        paths, digests = translator.loaded.paths, translator.loaded.digests
        each = tuple(one.absolute() for one in paths), tuple(digests[one] for one in paths)
        translator.origin = Origin(each[0], device, tuple(overrides), glossary, each[1])
        _opened[translator.origin] = translator.loaded
        return translator

    def __reduce__(self) -> tuple[Any, ...]:
        used = self.languages.used if self.loaded else self._used
        return _unopened, (self.origin, self.decoding, self.glossary, used)

    def __getattr__(self, name: str) -> Any:
        """What an opened translator has, and this has not yet."""
        if self.loaded is None and not name.startswith("__"):
            loaded = self.origin.open()
            opened = Translator(loaded.engine, loaded.vocabulary, self.decoding, loaded.languages, loaded.source_text)
            opened.languages.used, opened.loaded = self._used, loaded
            for key, value in vars(opened).items():
                vars(self).setdefault(key, value)  # what was set since it was unpickled stays
            if name in vars(self):
                return vars(self)[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _unopened(
    origin: Origin, decoding: DecodingConfig, glossary: Glossary | None, used: LanguagePair | None
) -> PicklableTranslator:
    """Not with `__init__`, which is for what is opened."""
    translator = PicklableTranslator.__new__(PicklableTranslator)
    translator.origin, translator.decoding, translator.glossary, translator._used = origin, decoding, glossary, used
    return translator
