"""COMET: scores by a neural model that was taught human judgements (Rei et al., 2020), by the package unbabel-comet."""

import math
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from nmt import device as devices
from nmt.errors import NmtError
from nmt.evaluation.aligned_texts import Lines
from nmt.evaluation.scores import Score


def check_installed() -> None:
    """Raises NmtError where the package is not there (another one on PyPI is called comet)."""
    try:
        from comet import download_model, load_from_checkpoint  # noqa: F401
    except ImportError as error:
        raise NmtError(
            f"--comet needs the package unbabel-comet ({error}): pip install 'nmt[comet]', in an environment of its "
            "own, as it asks for older packages than the other extras"
        ) from None


def score(name: str, source: Lines, systems: Sequence[Lines], reference: Lines, device: str) -> list[Score]:
    """A score for each system by a COMET model: its name on the Hugging Face hub, or a checkpoint file.

    Most models give about 0 to 1, more is better. A model that needs no reference is not shown one. `device` is
    as in nmt.device. Raises NmtError where the package is not installed or the model cannot be had.
    """
    check_installed()
    import comet

    path = name
    if not Path(name).is_file():
        try:
            path = comet.download_model(name)
        except (KeyError, OSError) as error:
            raise NmtError(
                f"--comet {name}: cannot be downloaded ({error}): check the name, or give a .ckpt file that is here"
            ) from None
    model = comet.load_from_checkpoint(path)
    texts = {"src": source} | ({"ref": reference} if model.requires_references() else {})
    signature = f"model:{name}|refs:{'yes' if 'ref' in texts else 'no'}|unbabel-comet:{_version()}"
    where = devices.choose(device)
    gpus = [where.index or 0] if where.type == "cuda" else []  # its numbers; without one, COMET works on the CPU
    found = []
    for system in systems:
        sides = {**texts, "mt": system}
        rows = zip(*(text.lines for text in sides.values()), strict=True)
        samples = [dict(zip(sides, row, strict=True)) for row in rows]
        predicted = model.predict(samples, batch_size=16, gpus=len(gpus), devices=gpus or None)
        value = float(predicted.system_score)
        if not math.isfinite(value):
            raise NmtError(f"--comet {name}: scores {system.name} {value}: try --device cpu, or another model")
        found.append(Score(system.name, "COMET", value, None, None, signature))
    return found


def _version() -> str:
    try:
        return metadata.version("unbabel-comet")
    except metadata.PackageNotFoundError:  # such as one that runs from its source
        return "unknown"
