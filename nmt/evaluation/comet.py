"""COMET (Rei et al., 2020): scores by a neural model trained on human judgements; needs the package unbabel-comet."""

import math
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from nmt import device as devices
from nmt.errors import NmtError
from nmt.evaluation.aligned_texts import AlignedText
from nmt.evaluation.scores import Score
from nmt.files.packages import install_command


def check_installed() -> None:
    """Raises NmtError if unbabel-comet is not installed (the package named comet on PyPI is another one)."""
    try:
        from comet import download_model, load_from_checkpoint  # noqa: F401
    except ImportError as error:
        raise NmtError(
            f"--comet needs the package unbabel-comet ({error}): in an environment of its own, because it needs older "
            f"packages than the other extras: {install_command('comet')}"
        ) from None


def score(
    name: str, source: AlignedText, systems: Sequence[AlignedText], reference: AlignedText, device: str
) -> list[Score]:
    """A score for each system by a COMET model: its name on the Hugging Face hub, or a checkpoint file. Most models
    give about 0 to 1; higher is better. A model that needs no reference does not get one.

    Call `check_installed` before. Raises NmtError if the model cannot be downloaded.
    """
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
    gpus = [where.index or 0] if where.type == "cuda" else []  # numbers of GPUs; COMET uses the CPU if there are none
    scores = []
    for system in systems:
        sides = {**texts, "mt": system}
        rows = zip(*(text.lines for text in sides.values()), strict=True)
        samples = [dict(zip(sides, row, strict=True)) for row in rows]
        predicted = model.predict(samples, batch_size=16, gpus=len(gpus), devices=gpus or None)
        value = float(predicted.system_score)
        if not math.isfinite(value):
            raise NmtError(f"--comet {name}: scores {system.name} {value}: try --device cpu, or another model")
        scores.append(Score(system.name, "COMET", value, None, None, signature))
    return scores


def _version() -> str:
    try:
        return metadata.version("unbabel-comet")
    except metadata.PackageNotFoundError:  # for example when it runs from its source
        return "unknown"
