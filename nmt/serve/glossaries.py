"""The glossary of a service: a file that may be changed while the service runs."""

import logging
from pathlib import Path

from nmt.config.language_pairs import LanguagePairs
from nmt.errors import NmtError
from nmt.terms.glossary import Glossary

log = logging.getLogger("nmt")


class GlossaryFile:
    """The glossary in a file."""

    def __init__(self, path: Path, languages: LanguagePairs):
        """languages: of the model. Raises NmtError for a file with problems, and for a model of several pairs."""
        if languages.several:
            raise NmtError("--glossary: this model has several language pairs: send terms with each request")
        self.path, self._pair = path, languages.pairs[0]
        self._version = _version(path)
        self.glossary = Glossary.load(path, self._pair)

    def read_again(self) -> bool:
        """Read the file if it has changed. Returns whether there is a new glossary. What is wrong with the file is
        logged once, and the last valid glossary stays in use."""
        if (version := _version(self.path)) == self._version:
            return False
        self._version = version
        try:
            self.glossary = Glossary.load(self.path, self._pair)
        except Exception as error:  # the service continues
            log.warning("%s: the last valid glossary stays in use", error)
            return False
        return True


def _version(path: Path) -> tuple[int, int, int] | None:
    """Changes when the file changes; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
