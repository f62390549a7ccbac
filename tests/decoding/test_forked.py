"""A process that was forked after a model was opened translates as the one before, at the same time as its siblings."""

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterator
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import pytest
import torch
from helpers.export_models import LINES, make_model
from helpers.translators import MODEL

import nmt
from nmt.checkpoints import model_file
from nmt.data.subwords.vocabulary import BOS, EOS, PAD, UNK
from nmt.decoding import forked
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.engine_protocol import SearchInput
from nmt.decoding.search.options import Options
from nmt.decoding.translator import Translator
from nmt.errors import NmtError
from nmt.interop.ctranslate2 import export as ctranslate2
from nmt.interop.ctranslate2.engine import CTranslate2Engine
from nmt.interop.ctranslate2.folder import CTranslate2Folder

SECONDS = 30  # after which a process hangs
SOURCES = [SearchInput([10, 11, 12], 6)]
OPTIONS = Options(bos=BOS, eos=EOS, never=(PAD, UNK, BOS))

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


@pytest.fixture
def threads_of_openmp() -> Iterator[None]:
    """PyTorch has two, which it has used, so that a process that is forked would wait for them."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    large_sum()
    yield
    torch.set_num_threads(before)


def large_sum() -> float:
    return float(torch.ones(1 << 20).exp().sum())


def opened(engine: str, folder: Path) -> Translator:
    if engine == "folder":
        if not (folder / "model.bin").exists():
            ctranslate2.write(folder, make_model())
        return nmt.load(folder, "cpu")
    model_file.save(folder / "model.safetensors", make_model())
    return nmt.load(folder / "model.safetensors", "cpu", overrides=[f"decoding.engine={engine}"])


def in_forked(*work: Callable[[], object]) -> list[object]:
    """What each gives in a process of its own, all at the same time; "hangs" for one that does not end."""
    context = multiprocessing.get_context("fork")

    def run(one: Callable[[], object], result: "SimpleQueue[object]") -> None:
        try:
            result.put(one())
        except NmtError as error:
            result.put(str(error))

    each = [(one, context.SimpleQueue()) for one in work]
    processes = [context.Process(target=run, args=pair) for pair in each]
    with forked.in_turn():  # another thread may translate when a process is forked
        for process in processes:
            process.start()
    found = list[object]()
    for process, (_, result) in zip(processes, each, strict=True):
        process.join(SECONDS)
        process.kill()
        found.append("hangs" if result.empty() else result.get())
    return found


@pytest.mark.usefixtures("threads_of_openmp")
@pytest.mark.parametrize(("engine", "after"), [("torch", True), ("ctranslate2", True), ("folder", True)])
def test_forked_processes_translate(engine: str, after: bool, tmp_path: Path) -> None:
    translator = opened(engine, tmp_path)
    expected = opened(engine, tmp_path).translate(LINES)
    if after:
        assert translator.translate(LINES) == expected

    def translate() -> object:
        found = translator.translate(LINES), [one.text for [one] in translator.hypotheses(LINES)]
        if engine == "torch":
            large_sum()  # what else the process computes
        return found

    assert in_forked(translate, translate) == [(expected, expected)] * 2
    assert translator.translate(LINES) == expected


@pytest.mark.thorough
@pytest.mark.usefixtures("threads_of_openmp")
def test_a_forked_process_opens_a_model(tmp_path: Path) -> None:
    """With PyTorch, which another translator has used before."""
    expected = opened("torch", tmp_path).translate(LINES)
    gc.collect()

    def load() -> object:
        translator = nmt.load(tmp_path / "model.safetensors", "cpu", overrides=["decoding.engine=torch"])
        return translator.translate(LINES), large_sum() > 0

    assert in_forked(load) == [(expected, True)]


@pytest.mark.parametrize("engine", ["ctranslate2", "folder"])
def test_what_was_begun_before_does_not_go_on(engine: str, tmp_path: Path) -> None:
    of_model = opened(engine, tmp_path).engine
    assert isinstance(of_model, CTranslate2Engine | CTranslate2Folder)
    batches = of_model.model.batches(SOURCES, [0], OPTIONS, 1000)
    begun = of_model.model.search(SOURCES, batches, OPTIONS)

    def other_first() -> object:
        of_model.search(SOURCES, OPTIONS, 1000)
        return list(begun)

    message = "what was begun before this process was forked cannot go on here: translate anew"
    assert in_forked(lambda: list(begun), other_first) == [message] * 2
    assert len(list(begun)) == 1


def test_a_folder_that_has_changed_is_told(tmp_path: Path) -> None:
    translator = opened("folder", tmp_path)
    os.utime(tmp_path / "model.bin", (1, 1))
    assert in_forked(lambda: translator.translate(LINES)) == [
        f"{tmp_path}: has changed since it was opened: open it again"
    ]


def test_a_model_on_a_gpu_is_refused(tmp_path: Path) -> None:
    """A model on another device stands for it."""
    elsewhere = PyTorchEngine([MODEL], torch.device("meta"))
    elsewhere.after_fork()
    folder = opened("folder", tmp_path).engine
    assert isinstance(folder, CTranslate2Folder)
    folder.model._kind = "cuda"
    folder.model.after_fork()
    for engine in (elsewhere, folder):
        with pytest.raises(NmtError, match=r"forked after a model was opened on .*get_context\(\"spawn\"\)$"):
            engine.search(SOURCES, OPTIONS, 1000)
        with pytest.raises(NmtError, match="forked after"):
            engine.score([([10], [11])], 1000)
