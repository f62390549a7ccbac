"""COMET through a module with the faces of unbabel-comet 2.2: what it is given, and what is made of its answer."""

import sys
import types

import pytest

from nmt.errors import NmtError
from nmt.evaluation import comet
from nmt.evaluation.aligned_texts import AlignedText

SOURCE = AlignedText("in", ["one two", "three"])
REFERENCE = AlignedText("ref", ["eins zwei", "drei"])
SYSTEMS = [AlignedText("good", ["eins zwei", "drei"]), AlignedText("bad", ["eins", "vier"])]


class Prediction(dict[str, object]):
    """As comet.models.utils.Prediction: keys that are attributes too."""

    def __getattr__(self, name: str) -> object:
        return self[name]


class Model:
    """A metric: the share of lines that are the reference, or longer than the source without one."""

    def __init__(self, references: bool) -> None:
        self.references = references
        self.asked: list[tuple[list[dict[str, str]], int, list[int] | None]] = []

    def requires_references(self) -> bool:
        return self.references

    def predict(
        self, samples: list[dict[str, str]], batch_size: int = 16, gpus: int = 1, devices: list[int] | None = None
    ) -> Prediction:
        self.asked.append((samples, gpus, devices))
        scores = [float(one["mt"] == one.get("ref", "eins zwei")) for one in samples]
        return Prediction(scores=scores, system_score=sum(scores) / len(scores))


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], Model, Model]:
    """What load_from_checkpoint is called with; the models that `with` and `without` references stand for."""
    paths: list[str] = []
    models = {"with": Model(True), "without": Model(False)}

    def download_model(model: str, saving_directory: str | None = None, local_files_only: bool = False) -> str:
        if model not in models:
            raise KeyError(f"Model '{model}' not supported by COMET.")
        return f"/cache/{model}/checkpoints/model.ckpt"

    def load_from_checkpoint(checkpoint_path: str, reload_hparams: bool = False, strict: bool = False) -> Model:
        paths.append(checkpoint_path)
        return models["without" if "without" in checkpoint_path else "with"]

    module = types.ModuleType("comet")
    module.__dict__.update(download_model=download_model, load_from_checkpoint=load_from_checkpoint)
    monkeypatch.setitem(sys.modules, "comet", module)
    return paths, models["with"], models["without"]


def test_scores_of_systems(loaded: tuple[list[str], Model, Model]) -> None:
    paths, model, _ = loaded
    good, bad = comet.score("with", SOURCE, SYSTEMS, REFERENCE, "cpu")
    assert [(one.system, one.name, one.value) for one in (good, bad)] == [("good", "COMET", 1.0), ("bad", "COMET", 0.0)]
    assert good.signature == "model:with|refs:yes|unbabel-comet:unknown" and good.interval is good.difference is None
    assert paths == ["/cache/with/checkpoints/model.ckpt"]
    samples, gpus, devices = model.asked[1]
    assert (gpus, devices) == (0, None)
    assert samples == [
        {"src": "one two", "mt": "eins", "ref": "eins zwei"},
        {"src": "three", "mt": "vier", "ref": "drei"},
    ]


def test_a_model_without_references_is_not_shown_them(loaded: tuple[list[str], Model, Model]) -> None:
    found = comet.score("without", SOURCE, SYSTEMS, REFERENCE, "cpu")
    assert found[0].value == 0.5 and "refs:no" in found[0].signature
    assert all(one.keys() == {"src", "mt"} for samples, _, _ in loaded[2].asked for one in samples)


def test_a_model_that_is_not_there(loaded: tuple[list[str], Model, Model]) -> None:
    with pytest.raises(NmtError, match=r"^--comet nowhere: cannot be downloaded .*not supported"):
        comet.score("nowhere", SOURCE, SYSTEMS, REFERENCE, "cpu")


@pytest.mark.parametrize("module", [None, types.ModuleType("comet")], ids=["missing", "another"])
def test_the_package_is_missing(monkeypatch: pytest.MonkeyPatch, module: types.ModuleType | None) -> None:
    monkeypatch.setitem(sys.modules, "comet", module)
    with pytest.raises(NmtError, match=r"^--comet needs the package unbabel-comet .*: in an environment of its own"):
        comet.check_installed()
