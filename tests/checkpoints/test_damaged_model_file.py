"""Model files that are damaged or made to do harm: one line of error, and no work beyond the file's own size."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.model_files import make_checkpoint
from helpers.runs import config_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt.checkpoints import model_file
from nmt.config import schema
from nmt.errors import NmtError
from nmt.files import tensors as tensor_file
from nmt.models import build
from nmt.models.translation_model import TranslationModel

SECONDS = 30  # of a test: settings that were believed would take hours
pytestmark = pytest.mark.usefixtures("time_limit")
READ: list[Callable[[Path], object]] = [model_file.load, model_file.load_header]
ANY_FILE = settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "model.safetensors"
    parsed = schema.parse(config_text(Path("corpus"), Path("run")), "test config")
    model_file.save(path, make_checkpoint(parsed, step=12, validation_loss=3.25, best_metric="validation_loss"))
    return path


def write(path: Path, whole: Path, tensors: Mapping[str, Tensor | None] | None = None, **metadata: str | None) -> Path:
    """The whole file with other contents, and a checksum that is right; None: left out."""
    old_tensors, old_metadata = tensor_file.read(whole)
    changed = {name: tensor for name, tensor in {**old_tensors, **(tensors or {})}.items() if tensor is not None}
    described = {key: value for key, value in {**old_metadata, **metadata}.items() if value is not None}
    tensor_file.write(path, changed, described)
    return path


def refused(path: Path) -> str:
    """What loading it says, in one line, or one for each of the settings that are wrong."""
    with pytest.raises(NmtError) as error:
        model_file.load(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value) or re.search(r"settings inside: \d+ problems\n", str(error.value))
    return str(error.value)


def with_setting(whole: Path, name: str, value: object) -> str:
    text = tensor_file.read_metadata(whole)["config"]
    changed, count = re.subn(rf"^  {name}: .*$", f"  {name}: {value}", text, flags=re.MULTILINE)
    assert count == 1
    return changed


SIZES = ["d_model", "feed_forward", "layers", "encoder_layers", "decoder_layers", "heads", "key_size", "value_size"]


@pytest.mark.parametrize(("name", "value"), [("d_model", 3), *((name, 10**8) for name in SIZES)])
def test_no_settings_make_a_model_larger_than_the_file(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    """The model that the file is compared with has no memory for its weights, and no other is built."""
    build_any, devices = build.build, set()

    def build_on_meta_only(*arguments: Any) -> TranslationModel:
        devices.add(torch.get_default_device().type)
        assert devices == {"meta"}, "a model with memory for its weights"
        model = build_any(*arguments)
        devices.update(weight.device.type for weight in (*model.parameters(), *model.buffers()))
        return model

    path = write(tmp_path / "model.safetensors", whole, config=with_setting(whole, name, value))
    monkeypatch.setattr(build, "build", build_on_meta_only)
    message = refused(path)
    assert "settings" in message or "model.d_model" in message
    assert devices <= {"meta"}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"format": None}, "not an nmt model"),
        ({"version": "999"}, "version 999; this nmt reads version 1"),
        ({"config": None}, "has no settings"),
        ({"config": "decoding: {beam_width: 3}"}, "settings inside"),
        ({"provenance": '{"a":' * 100_000}, "damaged: its provenance"),
    ],
)
def test_metadata_that_are_missing_or_malformed(
    whole: Path, tmp_path: Path, metadata: dict[str, str | None], message: str
) -> None:
    assert message in refused(write(tmp_path / "model.safetensors", whole, **metadata)).split("\n")[0]


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("vocabulary.source", torch.zeros(9, dtype=torch.uint8), "vocabulary: not a SentencePiece model"),
        ("vocabulary.source", None, "has no vocabulary"),
        ("vocabulary.more", torch.zeros(9, dtype=torch.uint8), "has an unknown tensor vocabulary.more"),
        ("extra", torch.zeros(9), "has an unknown tensor extra"),
        ("model.target_embedding.weight", torch.zeros(300, 33), "its settings and vocabulary need [300, 32]"),
        ("model.target_embedding.weight", None, "lacks weight target_embedding.weight"),
    ],
)
def test_tensors_that_are_not_those_of_the_settings(
    whole: Path, tmp_path: Path, name: str, tensor: Tensor | None, message: str
) -> None:
    assert message in refused(write(tmp_path / "model.safetensors", whole, {name: tensor}))


# ------------------------------------------------------------------------ whatever it is


def try_all(path: Path) -> None:
    """Read and build it: it is loaded, or there is one message."""
    for read in READ:
        try:
            found = read(path)
        except NmtError as error:
            assert str(error).startswith(str(path))
        else:
            if isinstance(found, model_file.Checkpoint):
                found.build()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NUMBERS = st.integers(-1, 40) | st.integers(0, 10**20)
TENSORS = st.sampled_from([torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool])


@given(data=st.data())
@ANY_FILE
def test_any_contents_with_the_right_checksum(whole: Path, tmp_path: Path, data: st.DataObject) -> None:
    tensors, metadata = tensor_file.read(whole)
    for name in data.draw(st.lists(st.sampled_from(list(tensors)), max_size=2, unique=True)):
        old = tensors.pop(name)
        match data.draw(st.sampled_from(["drop", "rename", "type", "shape", "nan", "bytes"])):
            case "rename":
                tensors[data.draw(st.sampled_from([f"{name}.x", "x", "model.", "vocabulary.target"]))] = old
            case "type":
                tensors[name] = old.to(data.draw(TENSORS))
            case "shape":
                tensors[name] = torch.zeros(data.draw(st.lists(st.integers(0, 40), max_size=3)), dtype=old.dtype)
            case "nan":
                tensors[name] = torch.full_like(old, float("nan")) if old.is_floating_point() else old
            case "bytes":
                flat = old.flatten()
                flat.view(torch.uint8)[data.draw(st.integers(0, flat.nbytes - 1))] ^= data.draw(st.integers(1, 255))
                tensors[name] = flat.reshape(old.shape)
    for name in data.draw(st.lists(st.sampled_from(SIZES), max_size=2, unique=True)):
        metadata["config"] = re.sub(rf"(?m)^  {name}: .*$", f"  {name}: {data.draw(NUMBERS)}", metadata["config"])
    if data.draw(st.booleans()):
        metadata[data.draw(st.sampled_from(list(metadata)))] = json.dumps(data.draw(JSON))
    path = tmp_path / "any.safetensors"
    tensor_file.write(path, tensors, metadata)
    try_all(path)


OFFSETS, TARGETS = torch.ones(301, dtype=torch.int32), torch.full((1,), 299, dtype=torch.int32)
OFFSETS[0] = 0


@pytest.mark.parametrize(
    ("offsets", "targets", "message"),
    [
        (OFFSETS, None, "not a complete shortlist"),
        (None, TARGETS, "not a complete shortlist"),
        (OFFSETS.long(), TARGETS, "not a complete shortlist"),
        (OFFSETS, TARGETS.float(), "not a complete shortlist"),
        (OFFSETS, TARGETS[None], "not a complete shortlist"),
        (OFFSETS, TARGETS + 1, "its shortlist does not belong to its vocabulary"),
        (OFFSETS[1:], TARGETS, "its shortlist does not belong to its vocabulary"),
    ],
)
def test_a_damaged_shortlist(
    whole: Path, tmp_path: Path, offsets: Tensor | None, targets: Tensor | None, message: str
) -> None:
    good = write(tmp_path / "good", whole, {"shortlist.offsets": OFFSETS, "shortlist.targets": TARGETS})
    assert model_file.load(good).shortlist is not None
    bad = write(tmp_path / "bad", whole, {"shortlist.offsets": offsets, "shortlist.targets": targets})
    assert message in refused(bad)
