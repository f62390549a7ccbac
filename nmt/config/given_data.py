"""The section `data` of a config for files that a command line gives."""

import logging
from collections.abc import Sequence
from pathlib import Path

from nmt.config import given_files
from nmt.config.given_files import Codes, Files
from nmt.config.language_pairs import LanguagePair
from nmt.config.schema import Config

log = logging.getLogger("nmt")

_OLD_TEXT = "The first corpus is the new text; the others are old text. The weights make half of the pairs new."
_SETS = "Each set is scored separately. Their mean, or the set training.best_set, decides which checkpoint is best."


def data_settings(
    languages: Codes,
    train: Sequence[Files],
    validation: Sequence[Files],
    pairs: Sequence[LanguagePair],
    start: Config | None,
) -> tuple[dict[str, object], dict[str, str]]:
    """The settings of the data by dotted path, and remarks on some of them.

    languages: those that the user gives; train, validation: corpora, or nothing for file names to replace; pairs: of
    such names, if the model has several; start: of the model to start from, or None. With such a model, corpora after
    the first are old text that is mixed in. Raises NmtError if the languages of a file cannot be read.
    """
    known = list(start.data.language_pairs.pairs) if start is not None else []
    default = known[0] if known else LanguagePair("en", "de")
    if train:
        trained = list[LanguagePair]()
        for files in train:
            codes = given_files.language_codes(files, languages, [*trained, *known])
            if None in codes and not trained and start is None:
                _warn_of_unknown_languages(files, _filled(codes, default))
            trained.append(_filled(codes, trained[0] if trained else default))
    else:
        every: Sequence[Codes] = pairs or [languages]
        trained = [_filled(given_files.language_codes((), codes, known), default) for codes in every]
        train = [_names("train", pair, several=bool(pairs)) for pair in trained]
    if validation:
        found = (given_files.language_codes(files, languages, [*trained, *known]) for files in validation)
        validated = [_filled(codes, trained[0]) for codes in found]
    else:
        validated = trained if pairs else trained[:1]
        validation = [_names("validation", pair, several=bool(pairs)) for pair in validated]
    several = len(set(trained)) > 1
    corpora = [_corpus(files, pair, several) for files, pair in zip(train, trained, strict=True)]
    sets = [
        _corpus(files, pair, several or pair != trained[0]) for files, pair in zip(validation, validated, strict=True)
    ]
    remarks = {"data.validation": _SETS} if len(sets) > 1 else {}
    if start is not None and len(corpora) > 1:
        remarks["data.train"] = _OLD_TEXT
        for i, corpus in enumerate(corpora):
            corpus["weight"] = 1 if i else len(corpora) - 1
    settings: dict[str, object] = {
        "data.source_language": trained[0].source,
        "data.target_language": trained[0].target,
        "data.train": corpora,
        "data.validation": sets if len(sets) > 1 else sets[0],
    }
    if tags := _language_tags(start, several):
        settings["data.language_tags"] = tags
    return settings, remarks


def _filled(codes: Codes, default: LanguagePair) -> LanguagePair:
    source, target = codes
    return LanguagePair(default.source if source is None else source, default.target if target is None else target)


def _warn_of_unknown_languages(files: Files, pair: LanguagePair) -> None:
    log.warning(
        "%s: the file names do not say the languages, and %s are written: correct them, or give --source-language and "
        "--target-language",
        " ".join(map(str, files)),
        " and ".join(pair),
    )


def _names(name: str, pair: LanguagePair, *, several: bool) -> Files:
    """File names for the user to replace."""
    beginning = f"{name}.{pair}" if several else name
    return Path(f"{beginning}.{pair.source}"), Path(f"{beginning}.{pair.target}")


def _corpus(files: Files, pair: LanguagePair, with_languages: bool) -> dict[str, object]:
    corpus: dict[str, object] = {"file": str(files[0])}
    if len(files) == 2:
        corpus = {"source": str(files[0]), "target": str(files[1])}
    if with_languages:
        corpus["languages"] = list(pair)
    return corpus


def _language_tags(start: Config | None, several: bool) -> str | None:
    """The value of data.language_tags with which the run has the tokens that the model expects; None for the
    default."""
    if start is None:
        return "target" if several else None
    pairs = start.data.language_pairs
    return (start.data.language_tags if pairs.has_tags else "target") if several else pairs.tags_for_one
