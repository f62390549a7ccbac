"""The section `data` of a new config, for corpora that a command line names."""

import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.config import corpus_files
from nmt.config.corpus_files import Codes, Files
from nmt.config.language_pairs import LanguagePair
from nmt.config.schema import Config
from nmt.errors import NmtError

log = logging.getLogger("nmt")

_DEFAULT = LanguagePair("en", "de")  # if nothing says the languages
_OLD_TEXT = "The first text is new, and the others are old text. The weights make half of the pairs new."
_SETS = "Each set is scored separately. Their mean, or the set training.best_set, decides which checkpoint is best."


class DataTemplate(NamedTuple):
    """settings, remarks: by dotted path; new: the number of corpora of data.train, at its beginning, that are not old
    text."""

    settings: dict[str, object]
    remarks: dict[str, str]
    new: int


class _Entry(NamedTuple):
    """A corpus in one direction. languages: of its files."""

    files: Files
    languages: LanguagePair
    is_reversed: bool = False

    @property
    def pair(self) -> LanguagePair:
        """The languages that the model translates from and into."""
        return LanguagePair(*reversed(self.languages)) if self.is_reversed else self.languages

    def setting(self, *, with_languages: bool) -> dict[str, object]:
        names = ["file"] if len(self.files) == 1 else ["source", "target"]
        setting: dict[str, object] = dict(zip(names, map(str, self.files), strict=True))
        setting |= {"languages": list(self.languages)} if with_languages else {}
        return setting | ({"reversed": True} if self.is_reversed else {})


def data_template(
    languages: Codes,
    train: Sequence[Files],
    validation: Sequence[Files],
    pairs: Sequence[LanguagePair],
    start: Config | None,
) -> DataTemplate:
    """The settings of the data.

    languages: those that the user gives; train, validation: corpora, or nothing for file names to replace; pairs: of
    the model, if it has several: a corpus is used for each pair of its languages; start: of the model to start from, or
    None. With such a model, corpora after the first are old text that is mixed in. Raises NmtError if the languages of
    a file cannot be read, and for a corpus without a pair, or a pair without a corpus.
    """
    known = list(pairs or (start.data.language_pairs.pairs if start is not None else ()))
    trained, count_new = list[_Entry](), 0
    for i, files in enumerate(train):
        trained += _entries("--train", files, languages, pairs, [*(entry.pair for entry in trained), *known])
        count_new = count_new if i and start is not None else len(trained)
    if not train:
        named = pairs or [_filled(corpus_files.language_codes((), languages, known), known[0] if known else _DEFAULT)]
        trained = [_Entry(_names("train", pair, several=bool(pairs)), pair) for pair in named]
    every = {entry.pair for entry in trained}
    if missing := [pair for pair in pairs if pair not in every]:
        raise NmtError(f"--pairs {missing[0]}: no --train has text in these languages: give some, or leave it out")
    first, validated = trained[0].languages, list[_Entry]()
    for files in validation:
        validated += _entries("--validation", files, languages, pairs, [*(entry.pair for entry in trained), *known])
    for pair in () if validation else pairs or [first]:
        validated.append(_Entry(_names("validation", pair, several=bool(pairs)), pair))
    if unscored := [str(pair) for pair in pairs if pair not in {entry.pair for entry in validated}]:
        log.warning("%s: no --validation has text in these languages: the run does not score them", ", ".join(unscored))
    several = len({entry.languages for entry in trained}) > 1
    corpora = [entry.setting(with_languages=several) for entry in trained]
    sets = [entry.setting(with_languages=several or entry.languages != first) for entry in validated]
    remarks = {"data.validation": _SETS} if len(sets) > 1 else {}
    if 0 < count_new < len(corpora):
        remarks["data.train"] = _OLD_TEXT
        count_old = len(corpora) - count_new
        for i, corpus in enumerate(corpora):
            corpus["weight"] = (count_old if i < count_new else count_new) // math.gcd(count_old, count_new)
    settings: dict[str, object] = {
        "data.source_language": first.source,
        "data.target_language": first.target,
        "data.train": corpora,
        "data.validation": sets if len(sets) > 1 else sets[0],
    }
    if tags := _language_tags(start, several=len(every) > 1):
        settings["data.language_tags"] = tags
    return DataTemplate(settings, remarks, count_new or len(corpora))


def _entries(
    option: str, files: Files, languages: Codes, pairs: Sequence[LanguagePair], known: Sequence[LanguagePair]
) -> list[_Entry]:
    """The corpus in its own direction, or for each of `pairs` in its languages. known: pairs, the likely ones first."""
    corpus_files.check(option, files)
    name, own = f"{option} {' '.join(map(str, files))}", None
    if pairs and corpus_files.is_memory(files):
        names = corpus_files.memory_languages(files[0], pairs)
    else:
        codes = corpus_files.language_codes(files, languages, known)
        names = list(own := _filled(codes, known[0] if known else _DEFAULT))
        if None in codes and len(set(known)) != 1:
            remedy = "rename them, such as a.en and a.de" if pairs else "give --source-language and --target-language"
            log.warning(
                "%s: the file names do not say the languages, and %s are written: correct them, or %s",
                name, " and ".join(own), remedy,
            )  # fmt: skip
        if not pairs:
            return [_Entry(files, own)]
    entries = list[_Entry]()
    for pair in pairs:
        if {*pair} <= {*names}:
            opposite = LanguagePair(pair.target, pair.source)
            is_reversed = opposite in (own, *(entry.languages for entry in entries))
            entries.append(_Entry(files, opposite if is_reversed else pair, is_reversed))
    if not entries:
        raise NmtError(f"{name}: its languages are {', '.join(names)}, which are no pair of --pairs: add their pair")
    return entries


def _filled(codes: Codes, default: LanguagePair) -> LanguagePair:
    source, target = codes
    return LanguagePair(default.source if source is None else source, default.target if target is None else target)


def _names(name: str, pair: LanguagePair, *, several: bool) -> Files:
    """File names for the user to replace."""
    beginning = f"{name}.{pair}" if several else name
    return Path(f"{beginning}.{pair.source}"), Path(f"{beginning}.{pair.target}")


def _language_tags(start: Config | None, *, several: bool) -> str | None:
    """The value of data.language_tags with which the run has the tokens that the model expects; None for the
    default."""
    if start is None:
        return "target" if several else None
    pairs = start.data.language_pairs
    return (start.data.language_tags if pairs.has_tags else "target") if several else pairs.tags_for_one
