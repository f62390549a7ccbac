"""Opens the file of an endpoint: its problems are found before any request."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.config import reader
from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.config.sections import DecodingConfig
from nmt.errors import NmtError
from nmt.teachers import endpoint as endpoints
from nmt.teachers.client import PATIENCE, Client
from nmt.teachers.endpoint import Endpoint
from nmt.teachers.prompts import Prompts
from nmt.teachers.teacher import Teacher
from nmt.terms.glossary import Glossary

log = logging.getLogger("nmt")

_DECODING = ("consensus", "candidates", "seed")  # the settings of `decoding` that a teacher has


@dataclass(frozen=True)
class OpenedEndpoint:
    """The file of an endpoint, checked. Nothing was sent yet."""

    path: Path
    endpoint: Endpoint
    client: Client
    prompts: Prompts

    @classmethod
    def open(
        cls, path: Path, to: str | None = None, from_: str | None = None, patience: float = PATIENCE
    ) -> "OpenedEndpoint":
        """patience: as of Client. Raises NmtError for a file with problems, a key that the environment lacks, examples
        that are no pairs, and other languages."""
        endpoint = endpoints.load(path)
        client = Client(endpoint, endpoints.key_of(endpoint, path), patience)
        opened = cls(path, endpoint, client, Prompts(endpoint))
        opened.languages.choose(to, from_)
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
        log.info("model: %s, at %s", self.endpoint.model, self.client.address)

    def teacher(self, overrides: Sequence[str] = (), glossary: Path | None = None) -> Teacher:
        """overrides: `decoding.consensus=…`, `decoding.candidates=…`, `decoding.seed=…`; glossary: a file of terms.
        Raises NmtError for other overrides and for a file with problems."""
        for override in overrides:
            name = override.partition("=")[0]
            if name.removeprefix("decoding.") not in _DECODING:
                raise NmtError(
                    f"{name}: an endpoint has only decoding.consensus, decoding.candidates and decoding.seed: set "
                    f"temperature and other fields of a request in {self.path}"
                )
        own = [override.removeprefix("decoding.") for override in overrides]
        decoding = reader.override(DecodingConfig(), "decoding", own)
        prompts = self.prompts if glossary is None else Prompts(self.endpoint, Glossary.load(glossary, self.pair))
        return Teacher(self.endpoint, self.client, prompts, decoding)
