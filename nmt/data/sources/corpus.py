"""Read parallel corpora as pairs of sentences: text files, tables, translation memories, and downloaded corpora."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from nmt.config import corpus_files, schema
from nmt.data.sources import arrow_tables, delimited_tables, invalid_lines, opus, sacrebleu_sets, tables, tmx
from nmt.errors import NmtError, current_folder, no_such_file
from nmt.files import compression
from nmt.files.notes import Note, say_once
from nmt.files.text import Digests, content_key, file_digest, line_pairs

Pair = tuple[str, str]  # source sentence, target sentence


def read_pairs(
    corpus: schema.Corpus,
    data: schema.DataConfig,
    default_split: str,
    expected: str | None = None,
    notes: list[str] | None = None,
) -> Iterator[Pair]:
    """Yield the pairs of a corpus in its order, unchanged, streamed.

    Columns that the corpus does not name are found by its languages, or by the languages of `data`. default_split: the
    split of a hub dataset if the corpus names none. The sides of a corpus with `reversed` are exchanged. A line feed,
    tab or carriage return in a field of a table becomes a space, and a missing text (null) becomes an empty text.
    expected: the fingerprint that the corpus must have, because results are stored under it. notes: remarks on the file
    are added, such as how it is read and which lines are left out. They are also logged, once.

    Raises NmtError for a corpus that is missing, misaligned, damaged, not UTF-8, or empty; and after the last pair if
    the content that was read does not have the expected fingerprint. With `invalid: drop`, a pair that is not UTF-8
    becomes an empty pair, with a note.
    """
    digests: Digests = {}
    read_as = data.with_languages_of(corpus)
    with invalid_lines.explained(corpus, (read_as.source_language, read_as.target_language)):
        pairs = _pairs(corpus, read_as, default_split, digests, [] if notes is None else notes)
        first = next(pairs, None)
        if first is None:
            where = f" ({replace(corpus, name=None).label})" if corpus.own_name else ""
            raise NmtError(f"{corpus.label}{where}: no sentence pairs: choose a corpus that has some")
        yield first
        yield from pairs
    if expected is not None and fingerprint(corpus, data, default_split, digests) != expected:
        raise NmtError(f"{corpus.label}: has changed while it was read: run the command again")


def _pairs(
    corpus: schema.Corpus, data: schema.DataConfig, default_split: str, digests: Digests, notes: list[str]
) -> Iterator[Pair]:
    errors = _errors(corpus)
    if corpus.hub:
        pairs = arrow_tables.hub_pairs(corpus, data, default_split)
    elif corpus.opus:
        pairs = opus.opus_pairs(corpus, data, errors)
    elif corpus.file:
        pairs = _file_pairs(Path(corpus.file), corpus, data, digests, _noted(str(Path(corpus.file)), notes))
    else:
        pairs = line_pairs(*_text_files(corpus, data), digests, errors)
    if corpus.invalid == "drop":
        note = _noted(replace(corpus, reversed=False).label, notes)
        pairs = invalid_lines.emptied(pairs, (data.source_language, data.target_language), note)
    return ((target, source) for source, target in pairs) if corpus.reversed else pairs


def _errors(corpus: schema.Corpus) -> str:
    """The error handler for bytes that are not UTF-8; see `bytes.decode`."""
    return invalid_lines.KEPT_BYTES if corpus.invalid == "drop" else "strict"


def _noted(name: str, notes: list[str]) -> Note:
    """A function that logs a remark, with this name, and adds it to the notes."""

    def note(remark: str) -> None:
        say_once(f"{name}: {remark}")
        notes.append(remark)

    return note


def _file_pairs(
    path: Path, corpus: schema.Corpus, data: schema.DataConfig, digests: Digests, note: Note
) -> Iterator[Pair]:
    errors = _errors(corpus)
    match compression.plain_ending(path):
        case ".tsv" | ".csv":
            return delimited_tables.delimited_pairs(path, corpus, data, digests, note, errors)
        case ".jsonl":
            return tables.jsonl_pairs(path, corpus, data, digests, note, errors)
        case ".tmx":
            return tmx.tmx_pairs(path, corpus, data, digests, note)
        case ".parquet" if path.name.lower().endswith(".parquet"):
            return arrow_tables.parquet_pairs(path, corpus, data)
    raise NmtError(
        f"{path}: its name must end in .tsv, .csv, .jsonl or .tmx (compressed: followed by .gz, .xz, .bz2 or .zst), or "
        "in .parquet"
    )


def column_values(corpus: schema.Corpus, data: schema.DataConfig, name: str) -> Iterator[object]:
    """The values of a further column of the corpus's file, one for each pair; None for a missing value. Raises NmtError
    as `read_pairs` does, and for a column that does not exist."""
    path = Path(corpus.file or "")
    match compression.plain_ending(path):
        case ".tsv" | ".csv":
            return delimited_tables.column_values(path, corpus, data.with_languages_of(corpus), name)
        case ".jsonl":
            return tables.jsonl_column(path, name)
        case ".tmx":
            return tmx.unit_properties(path, corpus, data.with_languages_of(corpus), name)
    return arrow_tables.column_values(corpus, name)


def _text_files(corpus: schema.Corpus, data: schema.DataConfig) -> tuple[Path, Path]:
    """The files of the source and of the target. Raises NmtError for XML."""
    if corpus.sacrebleu:
        return sacrebleu_sets.sacrebleu_files(corpus, data)
    assert corpus.source and corpus.target
    files = Path(corpus.source), Path(corpus.target)
    corpus_files.check_texts("file:", files)
    return files


def files_of(data: schema.DataConfig) -> list[Path]:
    """The user's files that are read as training and validation text, and the glossary, for checks that nothing
    overwrites them."""
    return [*_files((*data.train, *data.held_out)), *_glossary_files(data)]


def _files(corpora: Sequence[schema.Corpus]) -> list[Path]:
    texts = chain.from_iterable((corpus.source, corpus.target, corpus.file) for corpus in corpora)
    scores = chain.from_iterable(corpus.named_scores.values() for corpus in corpora)
    return [Path(file) for file in (*texts, *scores) if isinstance(file, str)]


def _glossary_files(data: schema.DataConfig) -> list[Path]:
    terms = data.augment.marked_terms
    return [Path(terms.file)] if terms.share and terms.file else []


def check_files(data: schema.DataConfig) -> None:
    """Raise NmtError if files of training and validation text or the glossary are missing (it names all of them), and
    for training text that cannot be read several times."""
    files_by_key = {
        "data.train": _files(data.train),
        "data.validation": _files(data.held_out),
        "data.augment.terms.file": _glossary_files(data),
    }
    missing_by_key = {key: [path for path in files if not path.exists()] for key, files in files_by_key.items()}
    keys = ", ".join(key for key, paths in missing_by_key.items() if paths)
    missing = list(dict.fromkeys(chain.from_iterable(missing_by_key.values())))
    if len(missing) == 1:
        raise NmtError(f"{keys}: {no_such_file(missing[0])}")
    if missing:
        folder = "" if all(path.is_absolute() for path in missing) else f" in {current_folder()}"
        raise NmtError(f"{keys}: {len(missing)} files are missing{folder}: {', '.join(map(str, missing))}")
    for path in _files(data.train):
        if not path.is_file() and not path.is_dir():
            raise NmtError(f"{path}: is a pipe or a device, but training text is read several times: save it to a file")


def fingerprint(
    corpus: schema.Corpus, data: schema.DataConfig, default_split: str, digests: Digests | None = None
) -> str:
    """A hash of the corpus's content, of its scores, and of the settings that decide how it is read and that are
    declared `by_content`.

    The content of files is hashed (about one second per gigabyte). So a copied or touched file is the same corpus, and
    an edited file is not. For a hub dataset the commit of its revision is hashed; the library gets it from the hub,
    unless `revision` is a commit. A corpus of OPUS and a test set are downloaded first. digests: by path, of files that
    have been read already; those of other files are added. Raises NmtError as `read_pairs` does.
    """
    known: Digests = {} if digests is None else digests

    def digest(file: Path) -> str:
        return known.get(file) or known.setdefault(file, file_digest(file))

    content: list[object] = [corpus.source_column, corpus.target_column, corpus.invalid]
    if corpus.hub:
        content += [corpus.name, corpus.split or default_split, *arrow_tables.hub_content(corpus)]
    elif corpus.opus:
        content += opus.opus_content(corpus, data.with_languages_of(corpus))
    elif corpus.file:
        path = Path(corpus.file)
        content += [compression.plain_ending(path), digest(path)]  # the format follows from the ending
    else:
        content += [digest(path) for path in _text_files(corpus, data.with_languages_of(corpus))]
    for name, place in corpus.named_scores.items():
        scores = digest(Path(place)) if isinstance(place, str) else [place.column]
        content.append(scores if isinstance(corpus.scores, str) else [name, scores])
    return content_key(*content)


def training_text_record(
    data: schema.DataConfig, fingerprints: Sequence[str], kept: Sequence[int], digests: Mapping[Path, str]
) -> list[dict[str, Any]]:
    """What a model file says about each corpus of data.train: name, languages, number of kept pairs, tag, and the
    SHA-256 of its files, or the fingerprint of text that was downloaded. digests: by path, of the files."""
    record = list[dict[str, Any]]()
    for corpus, key, pairs in zip(data.train, fingerprints, kept, strict=True):
        paths = [Path(file) for file in (corpus.source, corpus.target, corpus.file) if file]
        files = [{"name": path.name, "sha256": digests[path]} for path in paths]
        about = {"name": corpus.name_without_folders, "languages": str(data.pair_of(corpus)), "pairs": pairs}
        record.append({**about, "tag": corpus.tag, "files": files, "fingerprint": None if files else key})
    return record
