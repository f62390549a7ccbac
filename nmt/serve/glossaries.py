"""The glossaries of a service, one for each language pair: files that may be changed while the service runs."""

import logging
from collections.abc import Sequence
from pathlib import Path

from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.errors import NmtError
from nmt.files.text import to_path
from nmt.terms.glossary import Glossary

log = logging.getLogger("nmt")


class GlossaryFile:
    """The glossary in a file, for a language pair."""

    def __init__(self, path: Path, pair: LanguagePair):
        """Raises NmtError for a file with problems."""
        self.path, self._pair = path, pair
        self._version = _version(path)
        self.glossary = Glossary.load(path, pair)

    def read_again(self) -> bool:
        """Read the file if it has changed. Returns whether there is a new glossary. What is wrong with the file is
        logged once, and the glossary stays as it was."""
        if (version := _version(self.path)) == self._version:
            return False
        self._version = version
        try:
            self.glossary = Glossary.load(self.path, self._pair)
        except Exception as error:  # the service continues
            log.warning("%s: the glossary stays as it was", error)
            return False
        return True


GlossaryFiles = dict[LanguagePair | None, GlossaryFile]  # None: the pair of a model that has only one


def open_glossaries(arguments: Sequence[str], languages: LanguagePairs) -> GlossaryFiles:
    """The glossaries of a service. arguments: `FILE`, or for a model of several pairs `PAIR=FILE`, such as
    `en-de=terms.tsv`. Raises NmtError for a file with problems, a missing pair, and two files for a pair."""
    pairs, files = {str(pair): pair for pair in languages.pairs}, GlossaryFiles()
    for argument in arguments:
        name, _, path = argument.partition("=")
        pair = pairs.get(name)
        if pair is None:
            path, pair = argument, languages.pairs[0]
            if languages.several:
                raise NmtError(f"--glossary {argument}: write the language pair and =, such as {pair}=terms.tsv")
        key = pair if languages.several else None
        if key in files:
            raise NmtError(f"--glossary {argument}: a second file for {pair}: put all its terms into one file")
        files[key] = GlossaryFile(to_path(path), pair)
    return files


def _version(path: Path) -> tuple[int, int, int] | None:
    """Changes when the file changes; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
