"""Runs that start from a model: the same weights, or those that fit; where they are from; and what is forgotten."""

import dataclasses
import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import export_models
from helpers.bergamot_engine import BergamotFolder
from helpers.commands import run
from helpers.equivalence import random_pairs
from helpers.export_models import LINES, make_model
from helpers.model_files import make_checkpoint, tokenizer
from helpers.runs import config_text, rows_of, rows_without_clock
from helpers.train_steps import before_step

from nmt.checkpoints import averaging, model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.commands.train import train, training_data, with_initial_model
from nmt.config import reader, schema, writer
from nmt.config.schema import Config
from nmt.config.special_subwords import TERM_TAGS
from nmt.data.subwords import sentencepiece_model
from nmt.data.subwords.sentencepiece_model import Subword, SubwordKind
from nmt.data.subwords.vocabulary import BOS, EOS, Tokenizer, Vocabulary
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.translator import Translator
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError
from nmt.files.text import file_digest
from nmt.interop.argos.export import ArgosExporter
from nmt.interop.bergamot.export import BergamotExporter
from nmt.interop.ctranslate2.export import CTranslate2Exporter
from nmt.interop.marian.export import MarianExporter
from nmt.pages.report.page import to_data
from nmt.pages.report.run import gather
from nmt.training import start_from, state
from nmt.training.precision import with_chosen_precision
from nmt.training.trainer import Trainer

MakeConfig = Callable[..., Config]
SECONDS = 180
pytestmark = pytest.mark.usefixtures("time_limit")
SHORT = ("training.max_steps=4", "training.validate_every=2", "training.checkpoint_every=2", "training.warmup_steps=2",
         "training.log_every=2")  # fmt: skip
QUIET = "training.validation_bleu=false"
BERGAMOT = ("model.d_model=64", "model.feed_forward=128", "model.positions=concatenated", "model.decoder_start=zero",
            "model.norm_epsilon=1e-6")  # fmt: skip


@pytest.fixture(scope="module")
def first_run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with a moving average of its weights."""
    folder = tmp_path_factory.mktemp("first") / "run"
    torch.set_num_threads(1)
    some = ("training.ema_decay=0.9", *SHORT)
    train(reader.parse(Config, config_text(corpus, folder), "test config", some), "cpu")
    return folder


@pytest.fixture
def trained(first_run: Path, tmp_path: Path) -> Path:
    """A copy of that run, which may be changed."""
    return shutil.copytree(first_run, tmp_path / "first")


def trainer(config: Config) -> Trainer:
    """As `train` makes it."""
    config, start = with_initial_model(config)
    return Trainer(config, training_data(config, start=start), torch.device("cpu"))


def step_0(run: Path) -> Checkpoint:
    return model_file.load(model_file.checkpoint_path(run, 0))


def same_weights(one: Checkpoint, other: Checkpoint) -> bool:
    return all(torch.equal(weight, other.weights[name]) for name, weight in one.weights.items())


def saved(path: Path, checkpoint: Checkpoint) -> Path:
    model_file.save(path, checkpoint)
    return path


# ------------------------------------------------------------------------ the same model


def test_a_run_begins_with_the_loss_the_weights_and_the_vocabulary_of_the_model(
    make_config: MakeConfig, trained: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nmt")
    best = model_file.load(trained / "best.safetensors")
    # Another size, another text and other rules: the vocabulary would be another one.
    others = "vocabulary.size=290", "vocabulary.normalization=nfkc", "data.drop_duplicates=true"
    config = make_config(f"training.start_from={trained}", *others, *SHORT)
    train(config, "cpu")
    run = tmp_path / "run"
    for written in (schema.load(run / "config.yaml"), step_0(run).config):
        assert (written.vocabulary.size, written.vocabulary.normalization) == (300, "fold_source")
    resumed = with_chosen_precision(with_initial_model(config)[0], torch.device("cpu"), Ranks())
    assert resumed == schema.load(run / "config.yaml")  # they do not keep it from being resumed
    first, *rows = [row for row in rows_of(run / "metrics.jsonl") if "validation_loss" in row]
    for score in ("validation_loss", "bleu", "chrf"):
        assert first[score] == best.provenance[score]
        assert [row[f"{score}_since_start"] for row in rows] == [row[score] - first[score] for row in rows]
    assert first["step"] == 0 and not any("since_start" in key for key in first)
    assert same_weights(step_0(run), best) and step_0(run).vocabulary.protos == best.vocabulary.protos
    for said in (
        f"training.start_from: {trained / 'best.safetensors'}, step ",
        "training.start_from: vocabulary.size: 300, as in the model's vocabulary, instead of 290",
        "training.start_from: vocabulary.normalization: fold_source, as in the model's vocabulary, instead of nfkc",
        "vocabulary: 300 subwords of the model in training.start_from",
        "(since the start: validation_loss ",
    ):
        assert said in caplog.text
    described = ("nmt", "run_dir", "step", "best_metric", "validation_loss", "bleu", "chrf")
    origin = {"file": str(trained / "best.safetensors"), "sha256": file_digest(trained / "best.safetensors")}
    origin |= {key: best.provenance[key] for key in described}
    for path in model_file.checkpoints(run):
        assert model_file.load_provenance(path)["start_from"] == origin
    assert averaging.average(model_file.checkpoints(run)).provenance["start_from"] == origin
    started, *_ = rows_of(run / "sessions.jsonl")
    assert started["start_from"] == origin
    data = to_data(gather([run]))
    [cell] = [row["cells"][0] for row in data["summary"] if row["label"] == "started from"]
    assert cell == f"{origin['file']}, step {origin['step']}, SHA-256 {origin['sha256'][:12]}…"
    shown = {row["label"]: row["cells"][0] for table in data["scores"] for row in table["rows"]}
    assert shown["validation loss since the start"] == f"{rows[-1]['validation_loss_since_start']:+.4f}"


# ------------------------------------------------------------------------ resuming


def test_a_resumed_run_needs_the_model_no_more_and_is_bit_exact(
    make_config: MakeConfig, trained: Path, tmp_path: Path
) -> None:
    settings = ("vocabulary.relearn=true", "vocabulary.size=290", "training.freeze=[encoder]")
    model = tmp_path / "model.safetensors"
    (trained / "best.safetensors").rename(model)
    some = (*settings, QUIET, *SHORT, "training.checkpoint_every=3")
    whole, parts = (f"run_dir={tmp_path / name}" for name in ("whole", "parts"))
    train(make_config(whole, f"training.start_from={model}", *some), "cpu")
    killed = trainer(make_config(parts, f"training.start_from={model}", *some))

    def die() -> None:
        raise KeyboardInterrupt

    before_step(killed, 1, die)  # nothing is saved but what was saved before the first step
    with pytest.raises(KeyboardInterrupt):
        killed.run()
    model.unlink()
    stopped = trainer(make_config(parts, f"training.start_from={model}", *some))
    before_step(stopped, 3, lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert stopped.run().agreed and stopped.progress.step == 3
    train(make_config(parts, *(one for one in some if "relearn" not in one)), "cpu")  # removed from the settings too
    one, other = (Path(str(path).partition("=")[2]) for path in (whole, parts))
    tensors = [state._read_newest(run)[0] for run in (one, other)]
    assert tensors[0].keys() == tensors[1].keys()
    assert all(torch.equal(tensor, tensors[1][name]) for name, tensor in tensors[0].items())
    assert rows_without_clock(one) == rows_without_clock(other)
    last = [model_file.load(model_file.checkpoint_path(run, 4)) for run in (one, other)]
    assert same_weights(*last) and last[0].provenance["start_from"] == last[1].provenance["start_from"]


def test_in_a_begun_run_another_model_is_refused(make_config: MakeConfig, trained: Path, tmp_path: Path) -> None:
    some = (QUIET, *SHORT, "training.max_steps=2")
    for name, first, now in [
        ("one", f"training.start_from={trained}", "training.start_from=another"),
        ("two", "training.start_from=null", f"training.start_from={trained}"),
    ]:
        run = f"run_dir={tmp_path / name}"
        train(make_config(run, first, *some), "cpu")
        path, before = first.split("=")
        said = (
            f"({path}: {before} in the saved run, {now.split('=')[1]} now): restore {path}={before}, or set a new run"
        )
        with pytest.raises(NmtError, match=re.escape(said)):
            train(make_config(run, now, *some), "cpu")


# ------------------------------------------------------------------------ another vocabulary


def test_of_another_vocabulary_the_rows_of_shared_subwords_are_kept(
    make_config: MakeConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nmt")
    apart = ("vocabulary.shared=false", "model.tie=none")
    config = make_config(*apart, QUIET, *SHORT, "training.ema_decay=0.9", f"training.start_from={tmp_path / 'model'}")
    both = Vocabulary(tokenizer(290), tokenizer(285))
    found = make_checkpoint(config, seed=3, of=both)
    saved(tmp_path / "model", found)
    (tmp_path / "spm").write_bytes(tokenizer(300).proto)
    given = dataclasses.replace(
        config, vocabulary=dataclasses.replace(config.vocabulary, source_model=str(tmp_path / "spm"))
    )
    ours = trainer(given)  # the source's vocabulary is another one, the target's is the model's
    initial = {name: weight.clone() for name, weight in model_file.weights_of(ours.model).items()}
    assert ours.data.prepared.vocabulary.target.proto == both.target.proto
    start = ours.data.start
    assert start is not None
    start_from.load(start, ours.train_step, ours.data.prepared.vocabulary, ours.ranks)
    old, new = both.source.every_piece(), tokenizer(300).every_piece()
    shared = set(old) & set(new)
    assert ours.train_step.average is not None
    average = model_file.weights_of(ours.train_step.average)
    assert len(shared) < len(new)
    assert f"source_embedding.weight: {len(shared)} of 300 rows kept" in caplog.text
    assert "target_embedding.weight: " not in caplog.text
    for name, weight in model_file.weights_of(ours.model).items():
        assert torch.equal(average[name], weight), name
        if name != "source_embedding.weight":
            assert torch.equal(weight, found.weights[name]), name
            continue
        for row, piece in enumerate(new):
            expected = found.weights[name][old.index(piece)] if piece in shared else initial[name][row]
            assert torch.equal(weight[row], expected), piece


# ------------------------------------------------------------------------ new tags


def tagged(corpus: Path, *tags: str) -> str:
    """The override for a corpus without a tag, and one for each tag."""
    one = f"{{source: {corpus}/train.en, target: {corpus}/train.de"
    return f"data.train=[{one}}}, {', '.join(f'{one}, tag: {tag}}}' for tag in tags)}]"


def text_rows(checkpoint: Checkpoint, name: str, side: str) -> torch.Tensor:
    return checkpoint.weights[name][torch.tensor(getattr(checkpoint.vocabulary, side).are_text())]


@pytest.mark.parametrize("settings", [
    ("model.tie=all", "training.freeze=[embeddings]"),
    ("model.tie=target", "model.output_bias=true"),
    ("model.tie=none", "vocabulary.shared=false"),
    ("model={architecture: recurrent, embedding_size: 32, hidden_size: 32, tie: all}",),
], ids=["all", "target", "none", "recurrent"])  # fmt: skip
def test_new_tags_come_after_all_subwords_and_old_text_is_read_and_written_as_before(
    settings: tuple[str, ...], make_config: MakeConfig, corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nmt")
    config = make_config(f"training.start_from={tmp_path / 'model'}", tagged(corpus, "<term>", "<bt>"), *settings)
    shared, new_tags = config.vocabulary.shared, ["<bt>", "<term>"]
    of = Vocabulary(tokenizer(), tokenizer()) if shared else Vocabulary(tokenizer(290), tokenizer(285))
    before = make_checkpoint(config, seed=3, of=of)
    saved(tmp_path / "model", before)
    ours = trainer(config)
    start, grown = ours.data.start, ours.data.prepared.vocabulary
    assert start is not None
    start_from.load(start, ours.train_step, grown, ours.ranks)
    after = dataclasses.replace(before, vocabulary=grown, weights=model_file.weights_of(ours.model))
    subwords = f"{len(of.source)} subwords of the model in training.start_from, and 2 new at its end: <bt>, <term>"
    assert subwords in caplog.text and grown.shared == shared and (grown.source is grown.target) == shared
    lines = ["one two three", "a <bt> or <term>b", "Zebra & Co."]
    for side, old in (("source", of.source), ("target", of.target)):
        tags = new_tags if shared or side == "source" else []
        new = getattr(grown, side)
        assert new.every_piece() == old.every_piece() + tags
        assert new.tags(tags) == list(range(len(old), len(new)))
        assert new.encode(lines) == old.encode(lines) and new.decode([new.tags(tags)]) == [""]
    for name, side in ours.model.subword_rows().items():
        size = len(getattr(of, side))
        assert torch.equal(after.weights[name][:size], before.weights[name]), name
        rows, text = after.weights[name][size:], text_rows(before, name, side)
        expected = text.mean(0) if text.dim() > 1 else text.median()
        assert len(rows) == 2 * (shared or side == "source") and torch.equal(rows, expected.expand_as(rows)), name
    models = before.build(), after.build()
    for source, target in zip(of.source.encode(lines), of.target.encode(lines)[::-1], strict=True):
        ids = torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target]])
        states = [model.encode(ids[0]).states for model in models]
        assert torch.equal(*states)
        old_p, new_p = (model.logits(model(*ids)).log_softmax(-1).exp() for model in models)
        if not shared:
            assert torch.equal(old_p, new_p)
            continue
        old_size = len(of.target)
        kept, of_tags = new_p[..., :old_size], new_p[..., old_size:]
        average = kept[..., torch.tensor(of.target.are_text())].mean(-1, keepdim=True)
        if "model.output_bias=true" not in settings:  # of the biases it is the median
            assert bool((of_tags <= average).all())
        assert bool((kept <= old_p * (1 + 1e-3)).all()) and bool((kept * (1 + 4 / old_size) >= old_p).all())
    translations = []
    for checkpoint in (before, after):
        engine = PyTorchEngine([checkpoint.build()], torch.device("cpu"))
        translations.append(Translator(engine, checkpoint.vocabulary, config.decoding).translate(lines))
    assert translations[0] == translations[1]


def test_a_run_with_a_new_tag_is_resumed_bit_for_bit_and_continued_with_another_tag(
    make_config: MakeConfig, corpus: Path, trained: Path, tmp_path: Path
) -> None:
    some = (f"training.start_from={trained}", tagged(corpus, "<term>"), QUIET, *SHORT, "training.freeze=[encoder]",
            "training.ema_decay=0.9", "vocabulary.size=290")  # fmt: skip
    whole, parts = (tmp_path / name for name in ("whole", "parts"))
    train(make_config(f"run_dir={whole}", *some), "cpu")
    train(make_config(f"run_dir={parts}", *some, "training.max_steps=2"), "cpu")
    shutil.rmtree(trained)
    train(make_config(f"run_dir={parts}", *some), "cpu")
    tensors = [state._read_newest(run)[0] for run in (whole, parts)]
    assert tensors[0].keys() == tensors[1].keys()
    assert all(torch.equal(tensor, tensors[1][name]) for name, tensor in tensors[0].items())
    averaged = averaging.average(model_file.checkpoints(whole))
    last, first = model_file.load(model_file.checkpoint_path(whole, 4)), step_0(whole)
    assert averaged.vocabulary.protos == last.vocabulary.protos and last.config.vocabulary.size == 300
    trained_rows, untrained = (one.weights["target_embedding.weight"][300:] for one in (last, first))
    assert trained_rows.shape == untrained.shape == (1, 32) and not torch.equal(trained_rows, untrained)
    model = saved(tmp_path / "averaged", averaged)
    more = make_config(f"training.start_from={model}", tagged(corpus, "<bt>", "<term>"), QUIET, *SHORT)
    train(more, "cpu")
    assert step_0(tmp_path / "run").vocabulary.source.every_piece()[299:] == [
        *last.vocabulary.source.every_piece()[299:], "<bt>"
    ]  # fmt: skip
    kept = step_0(tmp_path / "run").weights["target_embedding.weight"][:301]
    assert torch.equal(kept, averaged.weights["target_embedding.weight"])


def test_a_model_learns_terms_later(make_config: MakeConfig, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("one\teins\ntwo\tzwei\n", encoding="utf-8")
    terms = f"data.augment.terms={{share: 1.0, file: {tmp_path}/terms.tsv}}"
    train(make_config(f"training.start_from={trained}", terms, QUIET, *SHORT), "cpu")
    first, last = (model_file.load(model_file.checkpoint_path(tmp_path / "run", step)) for step in (0, 4))
    assert sorted(first.vocabulary.source.tags(TERM_TAGS)) == [300, 301]
    untrained, learned = (one.weights["target_embedding.weight"][300:] for one in (first, last))
    assert learned.shape == (2, 32) and bool((learned != untrained).any(1).all())


@pytest.mark.parametrize("kind", [SubwordKind.NORMAL, SubwordKind.USER_DEFINED])
def test_a_tag_that_is_text_in_the_model_is_refused(
    kind: SubwordKind, make_config: MakeConfig, corpus: Path, tmp_path: Path
) -> None:
    config = make_config(f"training.start_from={tmp_path / 'model'}", tagged(corpus, "<bt>"))
    subwords = sentencepiece_model.subwords(tokenizer().proto)
    of = Tokenizer(sentencepiece_model.with_subwords(tokenizer().proto, [*subwords, Subword("<bt>", -1e6, kind)]))
    saved(tmp_path / "model", make_checkpoint(config, of=Vocabulary(of, of)))
    said = r"data\.train\[1\]\.tag: <bt>: the model .* has it as text, not as a token: choose another name, or"
    with pytest.raises(NmtError, match=said):
        train(config, "cpu")


@pytest.mark.parametrize("settings", [(), BERGAMOT], ids=["marian", "bergamot"])
def test_exports_of_a_model_with_new_tags_translate_as_before(
    settings: tuple[str, ...], make_config: MakeConfig, corpus: Path, tmp_path: Path
) -> None:
    before = make_model(*settings)
    saved(tmp_path / "model", before)
    some = (f"training.start_from={tmp_path / 'model'}", tagged(corpus, "<bt>", "<term>"), *settings, QUIET, *SHORT)
    train(make_config(*some, "training.max_steps=1"), "cpu")
    after = dataclasses.replace(step_0(tmp_path / "run"), config=before.config)
    for exporter in (CTranslate2Exporter(), ArgosExporter(), BergamotExporter() if settings else MarianExporter()):
        found = list[Any]()
        for name, of in (("before", before), ("after", after)):
            exporter.check(of.config, of.vocabulary)
            folder = export_models.written(exporter, tmp_path / f"{exporter.program} {name}", of)
            if isinstance(exporter, BergamotExporter):  # the engine runs in browsers only
                found.append(np.concatenate(BergamotFolder(folder, of).score(random_pairs(before, LINES), 1000)))
            else:
                found.append(exporter.translate(folder, of, LINES))
        if isinstance(exporter, BergamotExporter):  # of 8-bit numbers
            assert np.abs(found[0] - found[1]).max() < 0.1
        else:
            assert found[0] == found[1] and any(found[0]), exporter.program


# ------------------------------------------------------------------------ models that do not fit


def test_a_model_of_other_settings_is_refused_before_data_is_prepared(make_config: MakeConfig, tmp_path: Path) -> None:
    saved(tmp_path / "model", make_checkpoint(make_config()))
    here = (f"training.start_from={tmp_path / 'model'}", f"data.store_dir={tmp_path / 'store'}")
    other = ("model.tie=target", "vocabulary.shared=false", "vocabulary.relearn=true")
    with pytest.raises(NmtError, match=r"\(model\.tie: all there, target here\): set model\.tie=all"):
        train(make_config(*here, *other), "cpu")
    assert not (tmp_path / "store").exists()


def test_prepare_takes_the_vocabulary_of_the_model(make_config: MakeConfig, tmp_path: Path) -> None:
    config = make_config(f"training.start_from={tmp_path / 'model'}", f"data.store_dir={tmp_path / 'store'}")
    saved(tmp_path / "model", make_checkpoint(config))
    (tmp_path / "config.yaml").write_text(writer.to_yaml(config), encoding="utf-8")
    ended = run("prepare", tmp_path / "config.yaml")
    assert ended.returncode == 0 and b"300 subwords of the model in training.start_from" in ended.stderr
    assert not list((tmp_path / "store").glob("vocabulary-*"))


def test_a_language_token_that_the_model_expects_is_missed(
    make_config: MakeConfig, corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = f"{{source: {corpus}/train.en, target: {corpus}/train.de"
    saved(tmp_path / "model", make_checkpoint(make_config(f"data.train=[{one}}}, {one}, reversed: true}}]")))
    model, other = f"training.start_from={tmp_path / 'model'}", ("data.source_language=de", "data.target_language=en")
    with_initial_model(make_config(model, *other))
    assert "this model expects a token such as <2en> before each source" in caplog.text
    with_initial_model(make_config(model))
    assert "this model expects a token such as <2de> before each source" in caplog.text
    assert "was not trained for" not in caplog.text


# ------------------------------------------------------------------------ what is forgotten


def test_each_validation_set_shows_what_it_has_lost_and_one_can_decide(
    make_config: MakeConfig, corpus: Path, trained: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nmt")
    one = f"{{source: {corpus}/validation.en, target: {corpus}/validation.de"
    sets = f"data.validation=[{one}, name: old}}, {one}, name: new}}]"
    lines = (corpus / "validation.de").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "other.de").write_text("".join(lines[1:] + lines[:1]), encoding="utf-8")
    sets = sets.replace(f"{corpus}/validation.de, name: new", f"{tmp_path}/other.de, name: new")
    train(make_config(f"training.start_from={trained}", sets, "training.best_set=old", *SHORT), "cpu")
    first, *rows = [row for row in rows_of(tmp_path / "run" / "metrics.jsonl") if "validation" in row]
    for row in rows:
        changes = []
        for before, after in zip(first["validation"], row["validation"], strict=True):
            assert after["bleu_since_start"] == after["bleu"] - before["bleu"]
            changes.append(after["validation_loss"] - before["validation_loss"])
            assert after["validation_loss_since_start"] == changes[-1]
        assert row["validation_loss_since_start"] == pytest.approx(sum(changes) / 2)
    of_old = {row["step"]: row["validation"][0]["validation_loss"] for row in (first, *rows)}
    of_mean = {row["step"]: row["validation_loss"] for row in (first, *rows)}
    best = model_file.load_provenance(tmp_path / "run" / "best.safetensors")
    assert best["step"] == min(of_old, key=of_old.__getitem__) and best["best_set"] == "old"
    ranked = [int(path.stem.removeprefix("step-")) for path in model_file.best(tmp_path / "run", 9)]
    assert ranked == sorted(of_old, key=of_old.__getitem__)
    assert len({*of_old.values(), *of_mean.values()}) == 2 * len(of_old)
    assert "(best validation_loss of old)" in caplog.text
    assert re.search(
        r"(?m)  new  validation_loss .* \(since the start: validation_loss [+-]\d\.\d{4}, BLEU ", caplog.text
    )
    shown = [row["label"] for table in to_data(gather([tmp_path / "run"]))["scores"] for row in table["rows"]]
    assert {"validation loss since the start, old", "BLEU since the start, new"} <= set(shown)
    renamed = sets.replace("name: new", "name: newest")
    longer = f"training.max_steps={2 * rows[-1]['step']}"
    train(make_config(f"training.start_from={trained}", renamed, "training.best_set=old", *SHORT, longer), "cpu")
    *_, row = [row for row in rows_of(tmp_path / "run" / "metrics.jsonl") if "validation" in row]
    assert [one["name"] for one in row["validation"]] == ["old", "newest"]
    for before, after in zip(first["validation"], row["validation"], strict=True):
        assert after["bleu_since_start"] == after["bleu"] - before["bleu"]
