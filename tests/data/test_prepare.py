"""Prepared data is found again by what it was made from, and nothing half-made is ever found."""

import dataclasses
import errno
import hashlib
import logging
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import schema
from nmt.config.schema import Config, Corpus, DataConfig
from nmt.data.batches import token_store
from nmt.data.cleaning import training_text
from nmt.data.cleaning.cleaned_text import sampled_evenly
from nmt.data.cleaning.source_text import SourceText
from nmt.data.prepare import PreparedData, prepare, sample_sizes
from nmt.data.subwords import vocabulary
from nmt.errors import NmtError
from nmt.files import checksums
from nmt.files.text import read_lines

MakeConfig = Callable[..., Config]
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"]


def write_text(folder: Path, name: str, count: int, seed: int, more: str = "") -> Corpus:
    """Two aligned files of `count` lines; the target spells its words backwards."""
    random_ = random.Random(seed)
    lines = [" ".join(random_.choices(WORDS, k=random_.randint(4, 9))) + more for _ in range(count)]
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / f"{name}.de").write_text("".join(f"{line[::-1]}\n" for line in lines), encoding="utf-8")
    return Corpus(source=str(folder / f"{name}.en"), target=str(folder / f"{name}.de"))


@pytest.fixture
def run(tmp_path: Path) -> Config:
    """A run on two small corpora, with a validation corpus."""
    train = tuple(write_text(tmp_path / "text", f"train{i}", 150, seed=i) for i in (1, 2))
    data = DataConfig("en", "de", train, validation=write_text(tmp_path / "text", "validation", 20, seed=3))
    return Config(run_dir=str(tmp_path / "run"), data=data, vocabulary=schema.VocabularyConfig(size=300))


def changed(run: Config, **sections: dict[str, Any]) -> Config:
    new = {name: dataclasses.replace(getattr(run, name), **values) for name, values in sections.items()}
    return dataclasses.replace(run, **new)


def test_the_model_file_is_told_what_the_training_text_is(run: Config, tmp_path: Path) -> None:
    """Names without folders, the kept pairs, and the checksums of the files, each of which is read once."""
    one, other = run.data.train
    back = dataclasses.replace(one, reversed=True, name="back", tag="<bt>")
    hub = Corpus(hub=str(tmp_path / "hub"))
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "train.jsonl").write_text('{"en": "alpha beta", "de": "beta alpha"}\n' * 30)
    lines = Path(str(other.target)).read_text(encoding="utf-8").splitlines(keepends=True)
    Path(str(other.target)).write_text("\n" * 50 + "".join(lines[50:]), encoding="utf-8")  # these 50 are dropped
    found = prepare(changed(run, data={"train": (one, back, other, hub), "language_tags": "target"})).training_text
    names = [(each["name"], each["languages"], each["pairs"]) for each in found]
    assert names[:3] == [
        ("train1.en + train1.de", "en-de", 150), ("back", "de-en", 150), ("train2.en + train2.de", "en-de", 100)
    ]  # fmt: skip
    assert [each["tag"] for each in found] == [None, "<bt>", None, None]
    assert names[3][1:] == ("en-de", 30) and found[3]["files"] == [] and len(str(found[3]["fingerprint"])) == 16
    digests = [hashlib.sha256(Path(str(path)).read_bytes()).hexdigest() for path in (one.source, one.target)]
    files = [{"name": f"train1.{side}", "sha256": digest} for side, digest in zip(("en", "de"), digests, strict=True)]
    assert found[0]["files"] == found[1]["files"] == files


def contents(prepared: PreparedData) -> list[object]:
    """All that a run could notice of its data."""
    everything = np.arange(len(prepared.train))
    ids = [[row.tolist() for row in side] for side in prepared.train.pairs(everything)]
    protos = [prepared.vocabulary.source.proto, prepared.vocabulary.target.proto]
    return [protos, ids, [(one.name, one.pairs) for one in prepared.validation], str(prepared.summary)]


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was done with each thing, in the words of the log: `vocabulary learned`, `token store reused`."""
    lines = [record.getMessage() for record in caplog.records]
    caplog.clear()
    verbs = ("learned", "reused", "from", "kept")
    done = [(line.split(":")[0], next((verb for verb in verbs if f" {verb} " in line), None)) for line in lines]
    return [f"{thing} {verb}" for thing, verb in done if verb]


@pytest.fixture(autouse=True)
def info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="nmt")


BUILT = ["cleaned text kept", "vocabulary learned", "token store kept"]
ENCODED = ["vocabulary reused", "cleaned text reused", "token store kept"]
LEARNED = ["cleaned text reused", "vocabulary learned", "token store kept"]
REUSED = ["vocabulary reused", "token store reused"]


# --------------------------------------------------------------------------- found again by content


def test_prepared_once_and_found_again(run: Config, caplog: pytest.LogCaptureFixture) -> None:
    first = prepare(run)
    assert said(caplog) == BUILT
    assert len(first.train) == 300
    assert len(first.vocabulary.source) == 300
    assert first.vocabulary.shared
    second = prepare(run)
    assert said(caplog) == REUSED
    assert contents(second) == contents(first)
    assert second.data_key == first.data_key


def test_same_content_elsewhere_is_the_same_data(run: Config, tmp_path: Path, caplog: Any) -> None:
    first = prepare(run)
    said(caplog)
    copy = shutil.copytree(tmp_path / "text", tmp_path / "copy", copy_function=shutil.copyfile)  # with new times
    train = tuple(
        dataclasses.replace(corpus, source=f"{copy}/train{i}.en", target=f"{copy}/train{i}.de")
        for i, corpus in enumerate(run.data.train, start=1)
    )
    moved = changed(run, data={"train": train, "store_dir": f"{run.run_dir}/data"})
    second = prepare(dataclasses.replace(moved, run_dir=str(tmp_path / "another run"), seed=7))
    assert said(caplog) == REUSED
    assert contents(second)[:2] == contents(first)[:2]
    assert f"{copy}/train2.en" in str(second.summary)


def test_changed_content_is_other_data(run: Config, caplog: pytest.LogCaptureFixture) -> None:
    before = prepare(run)
    said(caplog)
    path = Path(str(run.data.train[1].source))
    path.write_text(path.read_text().replace("alpha", "aleph"))
    prepared = prepare(run)
    assert said(caplog) == BUILT
    assert prepared.data_key != before.data_key
    assert prepare(changed(run, data={"train": run.data.train[::-1]})).data_key not in (
        before.data_key,
        prepared.data_key,
    )
    sources, _ = prepared.train.pairs(np.arange(150, 300))
    assert any("aleph" in line for line in prepared.vocabulary.source.decode([row.tolist() for row in sources]))


@pytest.mark.parametrize(
    ("sections", "done"),
    [
        ({"data": {"max_length": 40}}, ENCODED),
        ({"data": {"drop_duplicates": True}}, BUILT),
        ({"data": {"workers": 2, "pool_pairs": 10, "validation": None}}, REUSED),
        ({"vocabulary": {"size": 301}}, LEARNED),
        ({"vocabulary": {"shared": False, "size": 280}},
         ["cleaned text reused", "source vocabulary learned", "target vocabulary learned", "token store kept"]),
    ],
)  # fmt: skip
def test_what_each_setting_builds_anew(
    run: Config, caplog: pytest.LogCaptureFixture, sections: dict[str, dict[str, Any]], done: list[str]
) -> None:
    prepare(run)
    said(caplog)
    prepare(changed(run, **sections))
    assert said(caplog) == done


def test_what_another_version_wrote_is_not_reused(run: Config, caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(run)
    said(caplog)
    monkeypatch.setattr(training_text, "FORMAT", "another")
    prepare(run)
    assert said(caplog) == BUILT


# --------------------------------------------------------------------------- vocabulary


def test_vocabulary_is_learned_from_the_training_data_alone(run: Config, tmp_path: Path) -> None:
    plain = prepare(run).vocabulary.source.proto
    validation = write_text(tmp_path / "text", "validation", 500, seed=4, more=" 漢字")
    assert prepare(changed(run, data={"validation": validation})).vocabulary.source.proto == plain


SEPARATE: dict[str, Any] = {"shared": False, "size": 60, "byte_fallback": False}


PERSIAN, HYPHENATED = "می\u200cروم （m²）", "Pe\u00adter"


def write_persian(folder: Path) -> Corpus:
    """30 pairs: sources with a soft hyphen in every third, targets with a joiner and full-width brackets in each."""
    folder.mkdir(exist_ok=True)
    sources = [f"alpha {HYPHENATED if i % 3 == 0 else 'Peter'} beta ｇａｍｍａ {i}" for i in range(30)]
    (folder / "a.en").write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
    (folder / "a.fa").write_text("".join(f"{PERSIAN} {i}\n" for i in range(30)), encoding="utf-8")
    return Corpus(source=str(folder / "a.en"), target=str(folder / "a.fa"))


def test_what_is_written_is_the_text_and_what_is_removed_is_said(
    run: Config, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The language uses the joiner and the brackets; the soft hyphen means nothing."""
    data = {"train": (write_persian(tmp_path / "persian"),), "validation": None}
    mine = changed(run, data=data, vocabulary={"shared": False, "size": 290})
    prepared = prepare(mine)
    source, target = prepared.vocabulary.source, prepared.vocabulary.target
    assert not prepared.vocabulary.shared
    assert target.written([PERSIAN]) == [PERSIAN]
    assert source.encode(["alpha Peter gamma"]) == source.encode([f"alpha {HYPHENATED} ｇａｍｍａ"])
    [[first], [translation]] = prepared.train.pairs(np.arange(1))
    assert [first.tolist()[:-1]] == source.encode(["alpha Peter beta gamma 0"])
    assert [translation.tolist()[:-1]] == target.encode([f"{PERSIAN} 0"])
    *_, heading, removed = str(prepared.summary).split("\n")
    assert heading.split() == ["change", "lines", "characters", "which"]
    assert removed.split()[:3] == ["invisible,", "removed:", "source"] and removed.endswith("10  U+00AD SOFT HYPHEN 10")
    assert not prepared.problems
    again = prepare(mine)  # from the store
    assert contents(again) == contents(prepared) and again.vocabulary.shared is prepared.vocabulary.shared


def test_given_models_are_used(run: Config, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = tmp_path / "mine.model"
    model.write_bytes(vocabulary.learn(WORDS * 5, schema.VocabularyConfig(size=290)).proto)
    for models in ({"source_model": str(model)}, {"source_model": str(model), "target_model": str(model)}):
        prepared = prepare(changed(run, vocabulary=models))
        assert prepared.vocabulary.shared
        assert prepared.vocabulary.source.proto == model.read_bytes()
    said(caplog)
    twice = {**SEPARATE, "source_model": str(model), "target_model": str(model)}
    assert not prepare(changed(run, vocabulary=twice)).vocabulary.shared  # as the settings say
    said(caplog)
    half = prepare(changed(run, vocabulary={**SEPARATE, "target_model": str(model)}))
    assert said(caplog) == [
        "cleaned text reused",
        "source vocabulary learned",
        "target vocabulary from",
        "token store kept",
    ]
    assert half.vocabulary.target.proto == model.read_bytes()
    assert len(half.vocabulary.source) == 60
    with pytest.raises(NmtError, match=r"vocabulary\.source_model: nowhere\.model: cannot be read"):
        prepare(changed(run, vocabulary={"source_model": "nowhere.model"}))


@given(st.integers(0, 100), st.data())
def test_a_sample_has_the_size_wanted_at_equal_distances(total: int, draw: st.DataObject) -> None:
    size = draw.draw(st.integers(0, total))
    taken = np.flatnonzero(sampled_evenly(np.arange(total), total, size)) if total else np.zeros(0)
    assert len(taken) == size
    gaps = set(np.diff(taken).tolist())
    assert max(gaps, default=1) - min(gaps, default=1) <= 1
    assert not size or total - taken[-1] <= max(gaps, default=total) + 1


# --------------------------------------------------------------------------- validation


def test_validation_pairs_as_text_and_ids(run: Config, tmp_path: Path) -> None:
    prepared = prepare(run)
    source = list(read_lines(tmp_path / "text" / "validation.en"))
    target = list(read_lines(tmp_path / "text" / "validation.de"))
    [held_out] = prepared.validation
    assert held_out.pairs == list(zip(source, target, strict=True))
    ids = held_out.ids.pairs(np.arange(20))
    assert prepared.vocabulary.source.decode([row.tolist() for row in ids[0]]) == source
    assert prepared.vocabulary.target.decode([row.tolist() for row in ids[1]]) == target
    without = prepare(changed(run, data={"validation": None}))
    assert without.validation == ()


def test_validation_pairs_are_left_out_only_if_empty(run: Config, tmp_path: Path, caplog: Any) -> None:
    path = tmp_path / "validation.tsv"
    path.write_text("alpha\talpha\nalpha\talpha\n \tbeta\ngamma\t\nmu\t" + "eta " * 400 + "\n")
    prepared = prepare(changed(run, data={"validation": Corpus(file=str(path)), "drop_copies": True}))
    [held_out] = prepared.validation
    assert [source for source, _ in held_out.pairs] == ["alpha", "alpha", "mu"]
    assert "validation: 3 pairs, 2 with an empty side left out" in [record.getMessage() for record in caplog.records]
    path.write_text("\tbeta\n")
    with pytest.raises(NmtError, match=r"every pair has an empty side: data\.validation needs some text"):
        prepare(changed(run, data={"validation": Corpus(file=str(path))}))


# --------------------------------------------------------------------------- nothing half-made


def entries(run: Config) -> list[str]:
    return sorted(path.name.split("-")[0] for path in (Path(run.run_dir) / "data").iterdir())


def test_failed_build_leaves_nothing(run: Config, caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise NmtError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(token_store._Writer, "append", fail)
        with pytest.raises(NmtError, match="the disk is full"):
            prepare(run)
    assert entries(run) == [".nmt", "overlap", "text", "tokens", "vocabulary"]
    assert [path.suffix for path in (Path(run.run_dir) / "data").glob("tokens-*")] == [".unfinished"]
    prepared = prepare(run)
    assert said(caplog)[2:] == ["vocabulary reused", "cleaned text reused", "token store reused", "token store kept"]
    assert not list((Path(run.run_dir) / "data").glob("*.unfinished"))
    assert len(prepared.train) == 300


def test_a_changed_byte_in_any_prepared_file_is_found(run: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file in turn, of tokens, vocabulary and cleaned text; one that is missing is named too."""
    monkeypatch.setattr(checksums, "_BLOCK", 64)  # so that files have several
    store, tokens, seen = Path(run.run_dir) / "data", prepare(run).folder, list[int]()
    for kind in ("tokens", "vocabulary", "text"):
        files = [path for path in store.glob(f"{kind}-*/*") if not path.name.startswith(".")]
        for path in files:
            content = path.read_bytes()
            digits = [i for i, byte in enumerate(content) if byte in b"0123"]
            place = digits[-1] if path.suffix == ".json" else len(content) // 2  # which leaves it JSON
            path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
            with pytest.raises(NmtError, match=rf"^{path.parent}.*(damaged|missing).*delete the folder [^\n]*$"):
                prepare(run)
            path.unlink()
            if path.name != checksums.FILE:
                with pytest.raises(NmtError, match=rf"^{path.parent}.*{path.name}.*delete the folder [^\n]*$"):
                    prepare(run)
            path.write_bytes(content)
        seen.append(len(files))
        for folder in store.glob(f"{kind}-*"):  # so that the next kind is read
            folder.rename(store / f"was-{folder.name}")
    assert seen == [9, 3, 8]
    (store / f"was-{tokens.name}").rename(tokens)
    ids = np.fromfile(tokens / "target.ids", "<u2")
    ids[0] ^= 1
    ids.tofile(tokens / "target.ids")
    prepare(run, verify=False)  # as the other ranks of a machine do


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", r"checksums\.json: damaged \(it names no files\)"), ("{", r"checksums\.json: damaged \(Expecting"),
        ('{"gone": 1}', "gone: missing"), ('{"file": 1}', r"file: damaged \(its checksum"), ('{"file": 0}', None),
    ],
)  # fmt: skip
def test_checksums_that_do_not_fit(tmp_path: Path, content: str, said: str | None) -> None:
    (tmp_path / checksums.FILE).write_text(content)
    (tmp_path / "inner").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(NmtError, match=f"^{tmp_path}/{said}.*: delete the folder") if said else nullcontext():
        checksums.check(tmp_path)


def test_a_store_that_cannot_be_written_is_used(
    run: Config, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a new validation set too; but what is missing cannot be made there."""
    first, store = prepare(run), Path(run.run_dir) / "data"
    listed = sorted((path, path.stat().st_mtime_ns) for path in [store, *store.rglob("*")])
    real_open, real_access = os.open, os.access

    def writes(path: Any) -> bool:
        return store in (Path(path), *Path(path).parents)

    def read_only_open(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT) and writes(path):
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return real_open(path, flags, *more, **named)

    def read_only_mkdir(path: Any, *more: Any, **named: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(os, "open", read_only_open)
    monkeypatch.setattr(os, "mkdir", read_only_mkdir)
    monkeypatch.setattr(os, "access", lambda path, mode: not writes(path) and real_access(path, mode))
    caplog.clear()
    assert contents(prepare(run)) == contents(first)
    assert f"data: {store} is not writable (Read-only file system): the data in it is used" in caplog.text
    other = write_text(tmp_path / "text", "other", 20, seed=9)
    assert len(prepare(changed(run, data={"validation": other})).validation[0].pairs) == 20
    with pytest.raises(NmtError, match=r"cannot be written: Read-only file system: choose another data.store_dir$"):
        prepare(changed(run, data={"drop_duplicates": True}))
    assert sorted((path, path.stat().st_mtime_ns) for path in [store, *store.rglob("*")]) == listed
    monkeypatch.setattr(os, "access", real_access)  # a writable store whose lock cannot be had is not used without it
    with pytest.raises(NmtError, match=r"data: cannot be written: Read-only file system: choose another run_dir$"):
        prepare(run)


def test_a_corpus_that_changes_while_it_is_read_is_not_kept_under_another_ones_name(
    run: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is shorter while it is read, and then as before: nothing of that may be found again."""
    path, real = Path(str(run.data.train[0].source)), training_text.read_pairs
    one = changed(run, data={"train": (Corpus(source=str(path), target=str(path)),)})
    whole = path.read_bytes()

    def cut_once(*arguments: Any) -> Iterator[tuple[str, str]]:
        path.write_bytes(b"".join(whole.splitlines(keepends=True)[:20]))
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(training_text, "read_pairs", cut_once)
        with pytest.raises(NmtError, match="has changed while it was read: run the command again"):
            prepare(one)
    path.write_bytes(whole)
    assert len(prepare(one).train) == 150


def test_text_of_a_misaligned_corpus_is_not_complete(run: Config) -> None:
    with Path(str(run.data.train[1].target)).open("a") as file:
        file.write("one too many\n")
    with pytest.raises(NmtError, match=r"has 150 lines and .* has 151"):
        prepare(run)
    assert entries(run) == [".nmt", "text"] and list((Path(run.run_dir) / "data").glob("text-*.unfinished"))


def test_a_weighted_corpus_of_which_nothing_is_left_is_refused(run: Config, tmp_path: Path) -> None:
    (tmp_path / "odd.en").write_text("\n" * 5, encoding="utf-8")
    odd = Corpus(source=str(tmp_path / "odd.en"), target=str(tmp_path / "odd.en"), weight=1.0)
    train = (dataclasses.replace(run.data.train[0], weight=9.0), odd)
    for _ in ("built", "found again"):
        with pytest.raises(
            NmtError,
            match=r"^data.train\[1\], .*: none of the 5 pairs can be used .*: 5 empty on a side; it cannot have",
        ):
            prepare(changed(run, data={"train": train}))


def test_what_is_missing_is_found_before_the_long_work(run: Config) -> None:
    with pytest.raises(NmtError, match=r"vocabulary\.target_model: nowhere\.model: cannot be read"):
        prepare(changed(run, vocabulary={**SEPARATE, "target_model": "nowhere.model"}))
    with pytest.raises(NmtError, match=r"data\.validation: 2 files are missing in .*: nowhere\.en, nowhere\.de"):
        prepare(changed(run, data={"validation": Corpus(source="nowhere.en", target="nowhere.de")}))
    assert not Path(run.run_dir).exists()


# --------------------------------------------------------------------------- tags and the mix


def tagged(corpus: Path, *more: str) -> tuple[str, ...]:
    """Overrides: the training text once as it is and once with a tag."""
    files = f"source: {corpus}/train.en, target: {corpus}/train.de"
    return (f"data.train=[{{{files}}}, {{{files}, tag: <bt>}}]", *more)


def test_a_tag_is_before_each_source_and_nothing_else_changes(make_config: MakeConfig, corpus: Path) -> None:
    found = prepare(make_config(*tagged(corpus)))
    tag = found.vocabulary.source.tag("<bt>")
    assert tag is not None and found.vocabulary.source.tag("<other>") is None
    plain, with_tag = (found.train.pairs(np.arange(300) + first) for first in (0, 300))
    assert [ids.tolist() for ids in with_tag[0]] == [[tag, *ids.tolist()] for ids in plain[0]]
    assert [ids.tolist() for ids in with_tag[1]] == [ids.tolist() for ids in plain[1]]
    first, second = (dataclasses.replace(one, kept_duplicates=0) for one in found.summary.counts)
    assert first == second  # tags do not count as text
    assert not any(tag in ids for ids in found.vocabulary.source.encode(["<bt>", "a <bt> b", "▁<bt>"]))
    ids = plain[1][0].tolist()
    assert found.vocabulary.target.decode([[tag, *ids]]) == found.vocabulary.target.decode([ids])


def test_varied_text_is_stored_in_versions_and_found_again(run: Config, caplog: Any) -> None:
    augment = schema.AugmentConfig(uppercase=0.5, remove_end_punctuation=0.5)
    run = changed(run, vocabulary={"size": 400})
    plain = prepare(run)
    said(caplog)
    varying = changed(run, data={"augment": augment}, vocabulary={"bpe_dropout_samples": 2})
    varied = prepare(varying)
    assert said(caplog) == LEARNED and len(varied.train) == 2 * len(plain.train)
    count, same = len(plain.train), list[int]()
    capitals, other = ([sum(map(str.isupper, one.vocabulary.source.every_piece()))] for one in (varied, plain))
    assert capitals > other  # the vocabulary is learned from varied text
    texts = [plain.vocabulary.source.decode([ids.tolist() for ids in plain.train.pairs(np.arange(count))[0]])]
    for version in (0, 1):
        source, _ = varied.train.pairs(2 * np.arange(count) + version)
        texts.append(varied.vocabulary.source.decode([ids.tolist() for ids in source]))
        same.append(sum(one == other for one, other in zip(texts[0], texts[-1], strict=True)))
        assert [text.lower().rstrip(".") for text in texts[-1]] == [text.lower().rstrip(".") for text in texts[0]]
    assert texts[1] != texts[2] and all(count * 0.1 < one < count * 0.6 for one in same)
    assert prepare(varying).data_key == varied.data_key != plain.data_key and said(caplog)[-1] == "token store reused"


def test_the_lengths_of_the_sources_are_known(run: Config, tmp_path: Path) -> None:
    """As they are trained on: joined lines count, of which none is over data.max_length."""
    sentences = write_text(tmp_path / "text", "sentences", 150, seed=4, more=".")
    run = changed(run, data={"train": (sentences,), "max_length": 120}, vocabulary={"size": 280})
    plain = prepare(run)
    lengths = plain.train.source.lengths - 1
    assert plain.source_text == SourceText(int(np.quantile(lengths, 0.999, method="inverted_cdf")), 0, {"en": ()})
    augmented = changed(run, data={"augment": schema.AugmentConfig(joined=0.8)}, vocabulary={"bpe_dropout_samples": 3})
    joined = prepare(augmented)
    assert len(joined.train) == 3 * len(plain.train)
    assert max(joined.train.source.lengths) <= 121
    assert plain.source_text.longest < joined.source_text.several <= joined.source_text.longest <= 120


def test_a_vocabulary_without_the_tag_is_refused(make_config: MakeConfig, corpus: Path, tmp_path: Path) -> None:
    model = tmp_path / "own.model"
    model.write_bytes(prepare(make_config()).vocabulary.source.proto)
    with pytest.raises(
        NmtError, match=r"data.train\[1\].tag: <bt>: vocabulary.source_model has no such control symbol"
    ):
        prepare(make_config(*tagged(corpus, f"vocabulary.source_model={model}")))


def test_the_vocabulary_is_learned_from_the_mix() -> None:
    def sizes(*weights: float | None, temperature: float | None = None, most: int = 1000) -> list[int]:
        train = tuple(schema.Corpus(file=f"{i}.tsv", weight=weight) for i, weight in enumerate(weights))
        data = schema.DataConfig("en", "de", train, temperature=temperature)
        return sample_sizes(data, [9000, 1000, 100][: len(train)], most)

    assert sizes(None, None) == [900, 100]
    assert sizes(1, 1, 2) == [250, 250, 100]  # the third has no more
    assert sizes(1, 1, most=20_000) == [9000, 1000]
    assert sizes(None, None, temperature=1e9) == [500, 500]
