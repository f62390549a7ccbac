"""Corpora that a command line gives as files: one file with both sides, or the text files of both sides."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain, islice, permutations
from pathlib import Path

from nmt.config.data_section import FILE_ENDINGS
from nmt.config.language_codes import base, is_known, language_of_file, matching
from nmt.config.language_pairs import LanguagePair
from nmt.errors import NmtError
from nmt.files.compression import BLOCK_BYTES, plain_ending, plain_name
from nmt.files.text import opened, read_lines
from nmt.files.utf16 import as_utf8

Files = tuple[Path, ...]  # one file with both sides, or the source and the target
Codes = tuple[str | None, str | None]  # of the source and the target
_XML = re.compile(r"\s*<(\?xml|!doctype|tmx|xliff)\b", re.IGNORECASE)
_HEADER = re.compile(rb"""<header\b[^>]*?\ssrclang\s*=\s*["']([\w-]+)""")
_VARIANT = re.compile(rb"""<tuv\b[^>]*?\s(?:xml:)?lang\s*=\s*["']([\w-]+)""")
_FORMATS = f"{', '.join(FILE_ENDINGS[:-1])} or {FILE_ENDINGS[-1]}"


def check(option: str, corpora: Sequence[Files]) -> None:
    """Raises NmtError for a corpus that is given twice, for a corpus whose sides are the same file, and for a text file
    that contains XML. Files that do not exist are not checked. option: its name in messages."""
    for files in corpora:
        given = f"{option} {' '.join(map(str, files))}"
        if len(files) == 1 and plain_ending(files[0]) not in FILE_ENDINGS:
            raise NmtError(f"{given}: give two text files, or one file with both sides: {_FORMATS}")
        for path in files if len(files) == 2 else ():
            if _is_xml(path):
                raise NmtError(
                    f"{path}: is XML, not plain text: if it is a translation memory (TMX), let its name end in .tmx, "
                    f"and give this file alone: {option} {path.with_suffix('.tmx')}"
                )
            if plain_ending(path) in FILE_ENDINGS:
                raise NmtError(f"{given}: {path} has both sides: give each such file alone: {option} {path}")
        if len(files) == 2 and len(set(map(_identity, files))) == 1:
            raise NmtError(
                f"{given}: both sides are the same file: give the files of the source and of the target, or one file "
                f"with both sides: {_FORMATS}"
            )
    identities = [tuple(map(_identity, files)) for files in corpora]
    if twice := [files for files, count in Counter(identities).items() if count > 1]:
        raise NmtError(f"{option} {' '.join(map(str, twice[0]))}: is given twice: leave one out")


def check_apart(train: Sequence[Files], validation: Sequence[Files]) -> None:
    """Raises NmtError if a validation set has a file of the training text."""
    trained = set(map(_identity, chain.from_iterable(train)))
    for path in chain.from_iterable(validation):
        if _identity(path) in trained:
            raise NmtError(
                f"--validation {path}: is also training text, so that its scores would be too high: hold out other "
                "text, as nmt split does"
            )


def _identity(path: Path) -> object:
    """The same for all paths of one file."""
    if path.exists():
        stat = path.stat()
        return stat.st_dev, stat.st_ino
    return path


def _is_xml(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        return any(_XML.match(line) for line in islice(read_lines(path), 1))
    except NmtError:  # not text
        return False


def language_codes(files: Files, given: Codes, known: Sequence[LanguagePair]) -> Codes:
    """The languages of a corpus; None for a language that is unknown. files: of the corpus, or none.

    given: the codes that the user gives. Other codes are those at the end of the file names, or those of a TMX file: of
    a pair in `known`, or else its only two. A code that means a language of `known` is written as there. Raises
    NmtError for a TMX file that cannot be read, and if the choice of its languages is unclear.
    """
    every = list(dict.fromkeys(chain.from_iterable(known)))
    if len(files) == 1 and plain_ending(files[0]) == ".tmx" and files[0].is_file() and None in given:
        return _chosen(files[0], tmx_languages(files[0]), given, known)
    source, target = (ending if code is None else code for code, ending in zip(given, _endings(files), strict=True))
    return source and (matching(source, every) or source), target and (matching(target, every) or target)


def tmx_languages(path: Path) -> list[str]:
    """The languages of a TMX file without their regions, in the order of its texts, but the source language that its
    header names is the first. Only tags are searched for, which is fast. Raises NmtError if it cannot be read."""
    header, codes, rest = set[str](), dict[str, None](), b""
    with opened(path) as stream:
        content = as_utf8(stream, str(path))
        while block := content.read(BLOCK_BYTES):
            block = rest + block
            end = block.rfind(b">") + 1  # no tag is cut in two
            header.update(base(code.decode()) for code in _HEADER.findall(block, 0, end))
            codes |= dict.fromkeys(base(code.decode()) for code in _VARIANT.findall(block, 0, end))
            rest = block[end:][-BLOCK_BYTES:]
    return sorted(codes, key=lambda code: code not in header)


def _chosen(path: Path, languages: Sequence[str], given: Codes, known: Sequence[LanguagePair]) -> LanguagePair:
    """Two of the languages of a TMX file, in the form of `known`."""
    every = list(dict.fromkeys(chain.from_iterable(known)))
    names = [matching(code, every) or code for code in languages]
    wanted = [code and (matching(code, names) or code) for code in given]
    pairs = [pair for pair in known if {*pair} <= {*names}] or map(LanguagePair._make, permutations(names, 2))
    fitting = [pair for pair in pairs if all(code in (None, own) for code, own in zip(wanted, pair, strict=True))]
    if not fitting or (len(names) > 2 and len(fitting) > 1):
        raise NmtError(
            f"{path}: its languages are {', '.join(languages) or 'not named'}: choose two of them with "
            "--source-language and --target-language"
        )
    return min(fitting, key=lambda pair: names.index(pair.source))


def _endings(files: Files) -> Codes:
    """The languages in the file names: of `a.en` and `a.de`, or of `a.en-de.tsv`; None if there are none."""
    if len(files) != 1:
        source, target = map(language_of_file, files) if files else (None, None)
        return source, target
    codes = Path(plain_name(files[0])).stem.rpartition(".")[2].split("-")
    return (codes[0], codes[1]) if len(codes) == 2 and all(map(is_known, codes)) else (None, None)
