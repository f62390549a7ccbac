"""What settings need and is missing here is said before any work; nmt prepare does not ask for what training needs."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.checkpoints import run_folder
from nmt.commands import requirements
from nmt.commands.train import train
from nmt.config.schema import Config
from nmt.data import prepare
from nmt.errors import NmtError
from nmt.evaluation import metrics
from nmt.training import compilation
from nmt.training.trainer import Trainer

MakeConfig = Callable[..., Config]
CPU, GPU = torch.device("cpu"), torch.device("cuda")


def test_what_only_training_needs_stops_training_and_not_preparation(
    make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    config = make_config("training.tensorboard=true", f"data.store_dir={tmp_path}/store")
    with pytest.raises(NmtError, match=r"training\.tensorboard: true needs TensorBoard: pip install"):
        train(config, "cpu")
    with run_folder.locked(Path(config.run_dir)), pytest.raises(NmtError, match="another process is training there"):
        train(config, "cpu")
    assert not (tmp_path / "store").exists()
    requirements.check_data(config)
    prepare.prepare(config)


def test_a_second_process_is_refused_while_the_first_prepares_and_trains(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, refused = make_config("training.max_steps=1", "training.validation_bleu=false"), list[str]()

    def check_locked(during: str) -> None:
        with pytest.raises(NmtError, match="another process is training there"):
            train(config, "cpu")
        refused.append(during)

    for owner, name in ((prepare, "prepare"), (Trainer, "run")):
        work = getattr(owner, name)

        def locked(*args: Any, name: str = name, work: Callable[..., Any] = work, **options: Any) -> Any:
            check_locked(name)
            return work(*args, **options)

        monkeypatch.setattr(owner, name, locked)
    train(config, "cpu")
    assert refused == ["prepare", "run"]


@pytest.mark.parametrize(
    ("ending", "module"), [(".zst", "compression" if sys.version_info >= (3, 14) else "backports"), (".xz", "lzma")]
)
def test_a_corpus_that_no_library_reads_is_named_before_another_is_read(
    make_config: MakeConfig, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    plain = f"{{source: {corpus}/train.en, target: {corpus}/train.de}}"
    more = tmp_path / f"more.tsv{ending}"
    more.write_bytes(b"packed")
    config = make_config(f"data.train=[{plain}, {{file: {more}}}]", f"data.store_dir={tmp_path}/store")
    for check in (lambda: requirements.check_data(config), lambda: train(config, "cpu")):
        with pytest.raises(NmtError, match=rf"more\.tsv{ending}: reading {ending} files needs"):
            check()
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("entry", "library"), [("{hub: no-one/nothing}", "datasets"), ("{file: more.parquet}", "pyarrow")]
)
@pytest.mark.parametrize("key", ["train", "validation"])
def test_a_corpus_that_needs_the_extra_hub_is_named_before_another_is_read(
    make_config: MakeConfig, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str, library: str,
    key: str,
) -> None:  # fmt: skip
    for name in (library, f"{library}.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    plain = f"{{source: {corpus}/train.en, target: {corpus}/train.de}}"
    given = f"data.train=[{plain}, {entry}]" if key == "train" else f"data.validation={entry}"
    config = make_config(given, f"data.store_dir={tmp_path}/store")
    for check in (lambda: requirements.check_data(config), lambda: train(config, "cpu")):
        with pytest.raises(NmtError, match=rf"needs the package {library}: pip install 'nmt-toolkit\[hub\]'$"):
            check()
    assert not (tmp_path / "store").exists()


def test_what_is_replaced_is_said(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A compiler that is missing, and the package with which BLEU finds words."""

    class OnlyCharacters(metrics.BLEU):
        def __init__(self, trg_lang: str = "", tokenize: str | None = None, **others: bool) -> None:
            if trg_lang == "de":
                raise RuntimeError("not installed")
            super().__init__(trg_lang=trg_lang, tokenize=tokenize, **others)

    monkeypatch.setattr(metrics, "BLEU", OnlyCharacters)
    metrics._warn_of_characters.cache_clear()
    from torch._inductor import config, cpp_builder

    cpp_builder.cpp_compiler_search.cache_clear()
    with config.patch({"cpp.cxx": ("no such compiler",)}), caplog.at_level(logging.WARNING, "nmt"):
        requirements.check_training(make_config("training.compile=true"), CPU)
    cpp_builder.cpp_compiler_search.cache_clear()
    compiled, scored = caplog.messages
    assert "training.compile: torch.compile does not work here" in compiled and "no such compiler" in compiled
    assert scored.startswith("BLEU counts characters")


def test_packed_batches_need_triton(make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    for works in (False, True):
        monkeypatch.setattr(compilation, "has_triton", lambda works=works: works)
        requirements.check_training(make_config(), GPU)  # null: padded batches, where packed ones do not work
        if works:
            requirements.check_training(make_config("training.packed=true"), GPU)
        else:
            with pytest.raises(NmtError, match=r"training\.packed: true.*Triton does not work.*: set it to null"):
                requirements.check_training(make_config("training.packed=true"), GPU)


@pytest.mark.parametrize(
    ("overrides", "words", "before"),
    [
        (["training.max_steps=2", "training.warmup_steps=2"], "training.warmup_steps=2, but training ends at", True),
        (["training.schedule=linear", "training.max_steps=10_000", "training.max_epochs=1"], "max_epochs=1)", False),
    ],
)
def test_a_schedule_that_does_not_suit_the_run_is_said(
    make_config: MakeConfig, caplog: pytest.LogCaptureFixture, overrides: list[str], words: str, before: bool
) -> None:
    """Before the data is prepared, unless the number of steps follows from the data."""
    few = ["training.validation_bleu=false", "training.batch_tokens=4096", "training.warmup_steps=1"]
    with caplog.at_level(logging.INFO, "nmt"):
        train(make_config(*few, *overrides), "cpu")
    [place] = [i for i, record in enumerate(caplog.records) if words in record.getMessage()]
    assert caplog.records[place].levelno == logging.WARNING
    assert before == any(message.startswith("validation: ") for message in caplog.messages[place:])
    assert any(message.startswith("step ") for message in caplog.messages[place:]), "before the first step"
