"""The files of a corpus that a command line names: one file with both sides, or the text files of both sides."""

import re
from collections.abc import Iterator, Sequence
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
Codes = tuple[str | None, str | None]  # of the source and the target; None if unknown
_XML = re.compile(r"\s*<(\?xml|!doctype|tmx|xliff)\b", re.IGNORECASE)
_HEADER = re.compile(rb"""<header\b[^>]*?\ssrclang\s*=\s*["']([\w-]+)""")
_PROPERTY = re.compile(rb"""<prop\b[^>]*?\stype\s*=\s*["']([^"']+)""")
_VARIANT = re.compile(rb"""<tuv\b[^>]*?\s(?:xml:)?lang\s*=\s*["']([\w-]+)""")


def check(option: str, files: Files) -> None:
    """Raises NmtError if a side of two is a file with both sides or XML, and if both sides are the same file. Files
    that do not exist are allowed. option: its name in messages."""
    if len(files) == 1:
        return
    for path in files:
        if plain_ending(path) in FILE_ENDINGS:
            raise NmtError(f"{option}: {path} has both sides: give it alone: {option} {path}")
    check_texts(option, files)
    source, target = files
    if source == target or (source.exists() and target.exists() and source.samefile(target)):
        raise NmtError(
            f"{option} {source} {target}: both sides are the same file: give the files of the source and of the "
            f"target, or one file with both sides: {', '.join(FILE_ENDINGS)}"
        )


def check_texts(option: str, files: Files) -> None:
    """Raises NmtError if a file that exists is XML, not text in one language. option: for a file with both sides."""
    for path in files:
        if path.is_file() and _is_xml(path):
            raise NmtError(
                f"{path}: is XML, not plain text: if it is a translation memory (TMX), let its name end in .tmx, and "
                f"give it alone: {option} {path.with_suffix('.tmx')}"
            )


def _is_xml(path: Path) -> bool:
    try:
        return any(_XML.match(line) for line in islice(read_lines(path), 1))
    except NmtError:  # not text
        return False


def is_memory(files: Files) -> bool:
    """Whether the corpus is a TMX file that exists, which names its languages."""
    return len(files) == 1 and plain_ending(files[0]) == ".tmx" and files[0].is_file()


def language_codes(
    files: Files, given: Codes, known: Sequence[LanguagePair], options: str = "--source-language and --target-language"
) -> Codes:
    """The languages of a corpus; None for a language that is unknown. files: of the corpus, or none.

    given: the codes that the user gives. Other codes are those at the end of the file names, or those of a TMX file: of
    a pair in `known`, or else its only two. A code that means a language of `known` is written as there. Raises
    NmtError for a TMX file that cannot be read, and if the choice of its languages is unclear; options: with which the
    user chooses.
    """
    if not is_memory(files) or None not in given:
        codes = (ending if code is None else code for code, ending in zip(given, _endings(files), strict=True))
        source, target = _spelled(list(codes), known)
        return source, target
    names = memory_languages(files[0], known)
    wanted = [code and (matching(code, names) or code) for code in given]
    pairs = [pair for pair in known if {*pair} <= {*names}] or map(LanguagePair._make, permutations(names, 2))
    fitting = [pair for pair in pairs if all(code in (None, own) for code, own in zip(wanted, pair, strict=True))]
    if len(set(map(frozenset, fitting))) != 1:
        fault = f"its languages are {', '.join(names)}: choose two of them" if names else "names no language: give two"
        raise NmtError(f"{files[0]}: {fault} with {options}")
    return min(fitting, key=lambda pair: names.index(pair.source))


def memory_languages(path: Path, known: Sequence[LanguagePair]) -> list[str]:
    """The languages of a TMX file without their regions, in the order of its texts, but the source language that its
    header names is the first. Only tags are searched for, which is fast. known: as for `language_codes`. Raises
    NmtError if the file cannot be read."""
    header, codes = set[str](), dict[str, None]()
    for block in _whole_tags(path):
        header.update(base(code.decode()) for code in _HEADER.findall(block))
        codes |= dict.fromkeys(base(code.decode()) for code in _VARIANT.findall(block))
    return [str(code) for code in _spelled(sorted(codes, key=lambda code: code not in header), known)]


def memory_properties(path: Path) -> list[str]:
    """The types of `prop` in a TMX file, in their order; none for other files. Raises NmtError if it cannot be read."""
    blocks = _whole_tags(path) if is_memory((path,)) else ()
    types = dict.fromkeys(chain.from_iterable(map(_PROPERTY.findall, blocks)))
    return [name.decode(errors="replace") for name in types]


def _whole_tags(path: Path) -> Iterator[bytes]:
    """The content of an XML file in blocks that cut no tag in two."""
    rest = b""
    with opened(path) as stream:
        content = as_utf8(stream, str(path))
        while block := content.read(BLOCK_BYTES):
            block = rest + block
            end = block.rfind(b">") + 1
            yield block[:end]
            rest = block[end:][-BLOCK_BYTES:]


def _spelled(codes: Sequence[str | None], known: Sequence[LanguagePair]) -> list[str | None]:
    every = list(dict.fromkeys(chain.from_iterable(known)))
    return [code and (matching(code, every) or code) for code in codes]


def _endings(files: Files) -> Codes:
    """The languages in the file names: of `a.en` and `a.de`, or of `a.en-de.tsv`; None if there are none."""
    if len(files) == 2:
        return language_of_file(files[0]), language_of_file(files[1])
    codes = Path(plain_name(files[0])).stem.rpartition(".")[2].split("-") if files else []
    return (codes[0], codes[1]) if len(codes) == 2 and all(map(is_known, codes)) else (None, None)
