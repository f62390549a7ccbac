"""COMET (Rei et al., 2020): scores by a neural model trained on human judgements, from the command `comet-score`.

Its package, unbabel-comet, needs older versions of NumPy and transformers than nmt. So it is installed in its own
environment.
"""

import json
import logging
import math
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from nmt import device as devices
from nmt.errors import NmtError
from nmt.evaluation.aligned_texts import AlignedText
from nmt.evaluation.scores import MetricScore

log = logging.getLogger("nmt")


def split_command(command: str) -> list[str]:
    """The words of a command, with the path of its program. Raises NmtError if the program does not exist."""
    try:
        program, *arguments = shlex.split(command)
    except ValueError:  # no word, or an unclosed quotation mark
        program, arguments = "", []
    path = shutil.which(os.path.expanduser(program)) if program else None  # noqa: PTH111 (Path would drop `./`)
    if path is None:
        raise NmtError(
            f"--comet: there is no program {program or command}: install COMET in its own environment (python3 "
            "-m venv comet && comet/bin/pip install unbabel-comet) and give --comet-command comet/bin/comet-score"
        )
    return [path, *arguments]


def score(
    model: str,
    command: Sequence[str],
    source: AlignedText,
    systems: Sequence[AlignedText],
    reference: AlignedText,
    device: str,
) -> list[MetricScore]:
    """The score of each system by a COMET model. model: its name on the Hugging Face hub, or a checkpoint file. Most
    models give scores of about 0 to 1; higher is better. command: from `split_command`. Raises NmtError if it fails."""
    with TemporaryDirectory(prefix="nmt-") as name:
        folder = Path(name)
        paths = [_write(folder / f"{i}.txt", text) for i, text in enumerate((source, reference, *systems))]
        results, torch_device = folder / "scores.json", devices.choose(device)
        options = {"--sources": paths[0], "--references": paths[1], "--model": model, "--to_json": results}
        options["--gpus"] = "0" if torch_device.type == "cpu" else "1"
        words = [*command, *map(str, chain(*options.items()))]
        words += ["--quiet", "--only_system", "--translations", *map(str, paths[2:])]
        log.info("COMET: %s", shlex.join(words))
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", env=_environment(torch_device))
        if done.returncode:
            printed = [line.strip() for line in f"{done.stdout}\n{done.stderr}".split("\n") if line.strip()]
            status = f"{shlex.join(command)} ended with status {done.returncode}"
            raise NmtError(f"--comet {model}: {status}: {printed[-1] if printed else 'it printed nothing'}")
        values = _read(results, model, command, [len(system.lines) for system in systems])
    return [
        MetricScore(system.name, "COMET", value, None, None, f"model:{model}", compared=system.form.compared)
        for system, value in zip(systems, values, strict=True)
    ]


def _environment(device: torch.device) -> dict[str, str]:
    """The environment of the program, which uses the first visible GPU. Frees the GPU memory that nmt no longer
    uses."""
    environment = dict(os.environ)
    if device.type == "cuda":
        torch.cuda.empty_cache()
        visible = environment.get("CUDA_VISIBLE_DEVICES", "").split(",")
        environment["CUDA_VISIBLE_DEVICES"] = visible[device.index] if visible[0] else str(device.index)
    return environment


def _write(path: Path, text: AlignedText) -> Path:
    """Write a text without carriage returns, at which COMET would end a line."""
    path.write_text("".join(line.replace("\r", " ") + "\n" for line in text.lines), encoding="utf-8")
    return path


def _read(path: Path, model: str, command: Sequence[str], counts: Sequence[int]) -> list[float]:
    """The mean score of each system. counts: the number of lines of each. comet-score writes an object with a list of
    lines for each translation, in order; the score of a line is its `COMET`."""
    try:
        systems = list(json.loads(path.read_text(encoding="utf-8")).values())
        scores = [[float(line["COMET"]) for line in lines] for lines in systems]
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise NmtError(
            f"--comet-command {shlex.join(command)}: its JSON cannot be read ({error!r}): give comet-score of "
            "unbabel-comet 2.2 or later"
        ) from None
    if list(map(len, scores)) != list(counts):
        raise NmtError(
            f"--comet-command {shlex.join(command)}: it scored {sum(map(len, scores)):,} lines of {sum(counts):,}"
        )
    values = [math.fsum(lines) / len(lines) for lines in scores]
    if not all(map(math.isfinite, values)):
        raise NmtError(f"--comet {model}: some scores are not numbers: try --device cpu, or another model")
    return values
