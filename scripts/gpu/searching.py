"""Search on a GPU: its speed beside CTranslate2, its memory, and its results beside those of the CPU."""

import gc
import time
from pathlib import Path
from typing import Any

import torch

import nmt
from gpu import store, training
from gpu.report import Run
from nmt.checkpoints import model_file
from nmt.commands.train import train
from nmt.errors import NmtError


def _model(run: Run) -> Path:
    """A model that has learned the demo, in bfloat16, of base size. Trained once."""
    folder = run.out / "runs" / "model-for-search"
    overrides = training.settings(run, "base", "bfloat16", packed=not run.small, compiled=False)
    overrides += [f"run_dir={folder}", "training.max_steps=600", "training.validate_every=600"]
    overrides += ["training.checkpoint_every=600", "training.warmup_steps=100"]
    if run.small:
        overrides += ["training.max_steps=20", "training.precision=float32"]
    train(training.demo_config(overrides), run.device)
    return model_file.checkpoints(folder)[-1]


def _lines(run: Run, count: int) -> list[str]:
    lines = (store.demo(run.store) / "train.en").read_text(encoding="utf-8").split("\n")[:-1]
    return lines[: 20 if run.small else count]


def speed(run: Run) -> None:
    """Target subwords per second, beam 4 and greedy, of the same model in our search and in CTranslate2."""
    path = _model(run)
    lines = _lines(run, 10_000)
    texts = {}
    for precision in ("float32",) if run.small else ("bfloat16", "float16", "float32"):
        for beam in (4, 1):
            overrides = [f"decoding.beam_size={beam}", f"decoding.precision={precision}"]
            translator = nmt.load(path, run.device, overrides=overrides)
            texts[precision, beam] = _measure(run, translator, f"{precision}, beam {beam}", lines)
    _ctranslate2(run, path, lines)
    plain = nmt.load(path, "cpu", overrides=["decoding.beam_size=4"]).translate(lines[:100])
    same = sum(a == b for a, b in zip(plain, texts["float32", 4][:100], strict=True))
    run.row("sentences as on the CPU, float32", same, unit=f"of {len(plain)}", ok=same >= 0.97 * len(plain))


def _measure(run: Run, translator: nmt.decoding.translator.Translator, name: str, lines: list[str]) -> list[str]:
    translator.translate(lines[:500])
    if not run.small:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    texts = translator.translate(lines)
    seconds = time.perf_counter() - start
    subwords = sum(len(ids) + 1 for ids in translator.vocabulary.target.encode(texts))
    run.row(name, subwords / seconds, unit="target subwords/s", note=f"{len(lines)} lines{training._peak(run)}")
    return texts


def _ctranslate2(run: Run, path: Path, lines: list[str]) -> None:
    """The plain loop of CTranslate2 over subwords, at three batch sizes."""
    try:
        import ctranslate2

        from nmt.commands.export import ctranslate2 as exporting

        folder = run.out / "ctranslate2"
        folder.mkdir(exist_ok=True)
        loaded = model_file.load(path)
        exporting.write(folder, loaded, "float32" if run.small else "float16")
        kind = "float32" if run.small else "float16"
        device = "cpu" if run.small else "cuda"
        translator = ctranslate2.Translator(str(folder), device=device, compute_type=kind)
    except (ImportError, NmtError, RuntimeError, ValueError) as error:
        run.row("CTranslate2", "not available", note=str(error)[:150])
        return
    tokenizer = loaded.vocabulary.source
    pieces = [[*tokenizer.pieces(ids), "</s>"] for ids in tokenizer.encode(lines)]
    for beam in (4, 1):
        for tokens in (16_384, 65_536):
            options: dict[str, Any] = {"beam_size": beam, "max_batch_size": tokens, "batch_type": "tokens"}
            translator.translate_batch(pieces[:500], **options)
            start = time.perf_counter()
            found = translator.translate_batch(pieces, **options)
            seconds = time.perf_counter() - start
            subwords = sum(len(one.hypotheses[0]) + 1 for one in found)
            run.row(
                f"CTranslate2 {kind}, beam {beam}, batches of {tokens}", subwords / seconds, unit="target subwords/s"
            )


def memory(run: Run) -> None:
    """decoding.batch_tokens: auto, and a batch that is too large: an error that says what to lower."""
    path = _model(run)
    gc.collect()
    translator = nmt.load(path, run.device, overrides=["decoding.beam_size=4"])
    run.row("decoding.batch_tokens: auto", translator.batch_tokens, unit="tokens")
    if run.small:
        return
    overrides = ["decoding.beam_size=1000", "decoding.batch_tokens=100000000"]
    try:
        nmt.load(path, run.device, overrides=overrides).translate(_lines(run, 10_000) * 10)
        run.row("an enormous batch", "fits", note="nothing was tested")
    except NmtError as error:
        run.row(
            "an enormous batch",
            "an error that can be fixed",
            ok="decoding.batch_tokens" in str(error),
            note=str(error)[:150],
        )
