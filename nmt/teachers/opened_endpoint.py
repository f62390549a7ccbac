"""Opens the file of an endpoint: what is wrong with it is found before any request."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.config import reader
from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.config.sections import DecodingConfig
from nmt.decoding.glossary import Glossary
from nmt.errors import NmtError
from nmt.teachers import endpoint as endpoints
from nmt.teachers.client import PATIENCE, Client
from nmt.teachers.endpoint import Endpoint
from nmt.teachers.prompts import Prompts
from nmt.teachers.teacher import Teacher

log = logging.getLogger("nmt")

_DECODING = ("consensus", "candidates", "seed")  # the settings of `decoding` that a teacher has


@dataclass(frozen=True)
class OpenedEndpoint:
    """The file of an endpoint, checked. Nothing was sent yet."""

    path: Path
    endpoint: Endpoint

    @classmethod
    def open(cls, path: Path, to: str | None = None, from_: str | None = None) -> "OpenedEndpoint":
        """Raises NmtError for a file with problems, a key that the environment lacks, examples that are no pairs, and
        other languages."""
        opened = cls(path, endpoints.load(path))
        opened.languages.choose(to, from_)
        opened._client()
        Prompts(opened.endpoint)
        return opened

    @property
    def files(self) -> list[Path]:
        """The YAML file and the examples."""
        examples = self.endpoint.examples
        return [self.path] if examples is None else [self.path, Path(examples)]

    @property
    def pair(self) -> LanguagePair:
        return self.endpoint.pair

    @property
    def languages(self) -> LanguagePairs:
        return LanguagePairs((self.pair,))

    def log(self) -> None:
        """Log the model and the address."""
        log.info("model: %s, at %s", self.endpoint.model, self._client().address)

    def teacher(
        self, overrides: Sequence[str] = (), glossary: Path | None = None, patience: float = PATIENCE
    ) -> Teacher:
        """overrides: `decoding.consensus=…`, `decoding.candidates=…`, `decoding.seed=…`; glossary: a file of lines
        `source term TAB target term`; patience: as of Client. Raises NmtError for other overrides and for a file with
        problems."""
        terms = None if glossary is None else Glossary.load(glossary)
        decoding = self._decoding(overrides)
        return Teacher(self.endpoint, self._client(patience), Prompts(self.endpoint, terms), decoding)

    def _client(self, patience: float = PATIENCE) -> Client:
        return Client(self.endpoint, endpoints.key_of(self.endpoint, self.path), patience)

    def _decoding(self, overrides: Sequence[str]) -> DecodingConfig:
        for override in overrides:
            name = override.partition("=")[0]
            if name.removeprefix("decoding.") not in _DECODING:
                raise NmtError(
                    f"{name}: an endpoint has only decoding.consensus, decoding.candidates and decoding.seed: set "
                    f"temperature and other fields of a request in {self.path}"
                )
        own = [override.removeprefix("decoding.") for override in overrides]
        return reader.override(DecodingConfig(), "decoding", own)
