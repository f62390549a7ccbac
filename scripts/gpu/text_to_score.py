"""From parallel text to a BLEU score: `nmt train` and `nmt evaluate`, timed as a new user types them."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from gpu import store
from gpu.report import Run

_ROOT = Path(__file__).parents[2]
_MOST = 60  # seconds from text to a model
# The time before a line of the log belongs to a part. These are the beginnings of the lines, and their parts.
_PARTS = {
    "validation": "start of Python and PyTorch",
    "cleaned text": "reading and cleaning",
    "vocabulary": "vocabulary",
    "token store": "encoding",
    "corpus|model|training: about": "summary, overlaps and model",
    r"step [\d,]+ +validation|$": "validation",  # an empty line precedes a sample translation
    "step|state": "training",
    "": "other",
}
_FIRST_STEPS = "compiling and first steps"
_SMALL = [
    "vocabulary.size=600", "model.d_model=16", "model.feed_forward=16", "model.layers=1", "model.heads=2",
    "training.max_steps=2", "training.warmup_steps=1", "training.validate_every=2", "training.checkpoint_every=2",
    "training.log_every=1", "training.batch_tokens=200", "decoding.max_length=5",
]  # fmt: skip


def train(run: Run) -> None:
    """Seconds of each part of `nmt train configs/multi30k.yaml`, and the BLEU of its model."""
    folder = run.text or store.demo(run.store, 2_000 if run.small else 29_000)
    files = {part: _pair(folder, part) for part in ("train", "val", "test")}
    corpora = {part: f"{{source: {source}, target: {target}}}" for part, (source, target) in files.items()}
    model = run.out / "runs" / "text-to-score"
    overrides = [f"data.train=[{corpora['train']}]", f"data.validation={corpora['val']}", f"run_dir={model}"]
    overrides += _SMALL if run.small else []
    seconds, began = _nmt("train", _ROOT / "configs/multi30k.yaml", *overrides, "--device", run.device)
    (run.out / "train.log").write_bytes((model / "train.log").read_bytes())
    for part, part_seconds in parts_of((model / "train.log").read_text(encoding="utf-8"), began).items():
        run.row(f"train: {part}", part_seconds, unit="s")
    text = "the demo's corpus" if run.text is None else folder.name
    run.row("train: in all", seconds, at_most=None if run.small else _MOST, unit="s", note=text)
    with (model / "metrics.jsonl").open(encoding="utf-8") as lines:
        rows = list(map(json.loads, lines))
    speeds = [row["target_tokens_per_second"] for row in rows if "target_tokens_per_second" in row]
    run.row("train: the fastest steps", max(speeds), unit="target tokens/s")
    source, reference = files["test"]
    scores = run.out / "scores.json"
    evaluation = ["evaluate", model, "--source", source, "--reference", reference, "--format", "json"]
    seconds, _ = _nmt(*evaluation, "--device", run.device, output=scores)
    run.row("evaluate", seconds, unit="s")
    [bleu] = [row["value"] for row in json.loads(scores.read_text(encoding="utf-8")) if row["name"] == "BLEU"]
    run.row("BLEU", bleu, ok=None if run.small else bleu > 20, note=f"of {source.name}")


def _pair(folder: Path, part: str) -> tuple[Path, Path]:
    """The English and the German file of a part, such as `val.en` or `validation.en`."""
    source, target = (sorted(folder.glob(f"{part}*.{language}")) for language in ("en", "de"))
    if not source or not target:
        raise SystemExit(f"--text {folder}: no {part}.en and {part}.de in it")
    return source[0], target[0]


def _nmt(*arguments: object, output: Path | None = None) -> tuple[float, float]:
    """Run a command of nmt without settings or caches of this program. Returns its seconds, and when it began."""
    with tempfile.TemporaryDirectory() as empty, (output or Path(os.devnull)).open("wb") as file:
        caches = {"TORCHINDUCTOR_CACHE_DIR": f"{empty}/inductor", "TRITON_CACHE_DIR": f"{empty}/triton"}
        left_out = {"OMP_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS"}
        environment = {name: value for name, value in os.environ.items() if name not in left_out} | caches
        start, began = time.perf_counter(), time.time()
        command = [sys.executable, "-m", "nmt", *map(str, arguments)]
        subprocess.run(command, env=environment, stdout=file, check=True)
        return time.perf_counter() - start, began


def parts_of(log: str, began: float) -> dict[str, float]:
    """The seconds of each part, from the times in the log of a command that began at this time."""
    parts: dict[str, float] = {}
    last, stepped = began, False
    for clock, message in re.findall(r"^(\d{4}-\d\d-\d\d [\d:,]+) [A-Z]+ (.*)$", log, re.MULTILINE):
        now = datetime.strptime(clock, "%Y-%m-%d %H:%M:%S,%f").timestamp()
        part = next(part for start, part in _PARTS.items() if re.match(start, message))
        if part == "training" and not stepped:
            part, stepped = _FIRST_STEPS, True
        parts[part] = parts.get(part, 0.0) + now - last
        last = now
    return parts
