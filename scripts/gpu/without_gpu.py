"""What can be checked without a GPU: every precision on the CPU, a step and a search on a pretended GPU, and Triton's
kernels by its interpreter and compiler."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from gpu.report import Run

ROOT = Path(__file__).parents[2]
_LEAVING = 9  # the step of helpers.search_steps in which sentences leave
_MOST_KERNELS_OF_SEARCH = 199
_MOST_KERNELS = 800  # of a step: each takes the program some microseconds to start
_ROUNDING = {"float32": 1e-4, "bfloat16": 0.3, "float16": 0.03}  # nats, of log P of a short output


def precisions(run: Run) -> None:
    """Tiny models on the CPU in each precision, packed and padded: train, validate by search, resume; then average,
    translate alone and as an ensemble, and score, in whatever autocast the caller has."""
    import torch

    import nmt
    from gpu import training
    from nmt.checkpoints import averaging, model_file

    lines, folder = ["Three dogs sleep .", "It is ten to twelve ."], run.out / "runs" / run.check
    for precision in ("float32", "bfloat16", "float16"):  # tf32 is float32 on a CPU
        for shape in ("packed", "padded"):
            training.runs(run, precision, shape, "eager")
            checkpoints, averaged = model_file.checkpoints(folder)[-2:], run.out / "averaged.safetensors"
            model_file.save(averaged, averaging.average(checkpoints))
            kind = getattr(torch, precision)
            with torch.autocast("cpu", kind, enabled=kind != torch.float32):
                for others in ([], checkpoints):
                    translator = nmt.load(averaged, "cpu", ensemble=others, overrides=["decoding.max_extra_tokens=5"])
                    texts = translator.translate(lines)
                    with torch.autocast("cpu", enabled=False):
                        same = texts == translator.translate(lines)
                    scored = translator.score(lines, ["Drei Hunde schlafen .", "x"])
                    assert all(one is not None and one.score < 0 for one in scored)
            shutil.rmtree(folder)
            run.row(f"translates and scores, {precision}, {shape}", len(texts), ok=same)


def autocast(run: Run) -> None:
    """The model under autocast, which training in float16 uses: step by step it gives the scores that it gives for all
    positions at once. A cache of another type than its keys ends such a search."""
    import torch

    from gpu.training import TINY
    from nmt.data.vocabulary import BOS, EOS, PAD, UNK
    from nmt.decoding.search.interface import Options
    from nmt.decoding.search.search import search
    from nmt.models import build

    torch.manual_seed(1)
    model, source = build.build(TINY, 50, 50, PAD).eval(), torch.randint(4, 50, (3, 16))
    for name, limit in _ROUNDING.items():
        dtype, worst = getattr(torch, name), 0.0
        with torch.no_grad(), torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            for beam_size in (1, 3):
                options = Options(bos=BOS, eos=EOS, never=(PAD, UNK, BOS), beam_size=beam_size)
                for row, (found,) in zip(source, search(model, source, torch.full((3,), 7), options), strict=True):
                    before, after = torch.tensor([[BOS, *found.tokens]]), torch.tensor([*found.tokens, EOS])
                    log_p = model.scores(model(row[None], before)).float().log_softmax(dim=-1)
                    total = float(log_p[0, torch.arange(len(after)), after].sum())
                    worst = max(worst, abs(total - found.log_probability))
        run.row(f"search and forward pass differ, {name}", worst, unit="nats", ok=worst < limit, note=f"limit {limit}")


def step(run: Run, size: str) -> None:
    """A training step on a pretended GPU: no error, no wait, few kernels."""
    from gpu import fake_step  # before anything else that imports torch: it changes what PyTorch believes
    from gpu.sizes import MODELS

    count = fake_step.counted_step(MODELS[size], "bfloat16", packed=True)
    kernels = sum(count.kernels.values())
    run.row(f"waits of a {size} step", str(dict(count.waits) or "none"), ok=not count.waits)
    run.row(f"kernels of a {size} step", kernels, ok=kernels <= _MOST_KERNELS, note=f"at most {_MOST_KERNELS}")
    if size == "base":
        for precision, packed in (("float32", True), ("bfloat16", False), ("tf32", False)):
            count = fake_step.counted_step(MODELS[size], precision, packed=packed, clip_norm=1.0)
            what = f"waits of a step in {precision}, {'packed' if packed else 'padded'}, gradients clipped"
            run.row(what, str(dict(count.waits) or "none"), ok=not count.waits)
        cudnn = fake_step.torch.backends.cuda.cudnn_sdp_enabled()  # it would plan for each new shape
        run.row("cuDNN's attention", "on" if cudnn else "off", ok=not cudnn)


def search(run: Run) -> None:
    """The steps of a search on a pretended GPU: none waits, also not that in which sentences leave, and each has few
    operations, which take longer to start than to compute. Attention is one for each of its twelve, without copies of
    its input."""
    for beam_size in ("1", "4"):
        command = [sys.executable, "-m", "helpers.search_steps", beam_size, "64", "32"]
        done = subprocess.run(command, cwd=ROOT / "tests", capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        rows = json.loads(done.stdout)
        waits = [row["waits"] for row in rows if row["waits"]]
        run.row(f"waits of {len(rows)} steps, beam {beam_size}", str(waits or "none"), ok=not waits)
        leaving = rows.pop(_LEAVING)["kernels"].get("index_select", 0)
        run.row(f"what is gathered as sentences leave, beam {beam_size}", leaving, ok=leaving > 20)
        kernels = max(sum(row["kernels"].values()) for row in rows[1:])
        note = f"at most {_MOST_KERNELS_OF_SEARCH}"
        run.row(f"kernels of a step, beam {beam_size}", kernels, ok=kernels <= _MOST_KERNELS_OF_SEARCH, note=note)
        attention = {row["kernels"].get("attention", 0) for row in rows[1:]}
        what = f"kernels of attention in a step, beam {beam_size}"
        run.row(what, str(sorted(attention)), ok=attention == {12}, note="one for each attention")


def triton(run: Run) -> None:
    """The tests of Triton's kernels: their numbers by its interpreter, and compiled for an H200."""
    from gpu import training

    for path in ("training/test_triton_loss.py", "models/transformer/test_packed_attention.py"):
        training.tests(run, path)
