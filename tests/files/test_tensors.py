"""Tensor files: what is read is what was written, or a message; what is written is whole, or the old file."""

import os
import resource
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from nmt.errors import NmtError
from nmt.files import tensors as tensor_file

DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
]  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A small whole file."""
    path = tmp_path / "a.safetensors"
    tensors = {"weight": torch.randn(3, 4), "bytes": torch.arange(5, dtype=torch.uint8), "step": torch.tensor(7.0)}
    tensor_file.write(path, tensors, {"config": "d_model: 512", "who": "Jörg"})
    return path


@st.composite
def any_tensor(draw: st.DrawFn) -> Tensor:
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    dtype = draw(st.sampled_from(DTYPES))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    bits = torch.randint(0, 2, shape, generator=generator)
    return bits.bool() if dtype == torch.bool else (bits * 77).to(dtype)


@given(
    tensors=st.dictionaries(st.text("abc.é_1", min_size=1, max_size=8), any_tensor(), max_size=5),
    metadata=st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), st.text(st.characters(codec="utf-8"))),
)
@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_round_trip(tmp_path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    metadata.pop("crc32", None)  # the one name that is taken
    path = tmp_path / "any.safetensors"
    tensor_file.write(path, tensors, metadata)
    read, read_metadata = tensor_file.read(path)
    assert read_metadata == metadata
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype
        assert read[name].shape == tensor.shape
        assert torch.equal(read[name], tensor)


# ------------------------------------------------------------------------ damage


def test_a_file_cut_short_anywhere_is_an_error(file: Path) -> None:
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        with pytest.raises(NmtError, match="cut short or damaged"):
            tensor_file.read(file)
    file.write_bytes(whole)
    tensor_file.read(file)


def test_any_flipped_bit_is_an_error(file: Path) -> None:
    """In the tensors, their names, shapes and types, and in the metadata; or a byte appended."""
    whole = file.read_bytes()
    flipped = (whole[:i] + bytes([whole[i] ^ 1 << i % 8]) + whole[i + 1 :] for i in range(len(whole)))
    for damaged in (whole + b"\0", *flipped):
        file.write_bytes(damaged)
        with pytest.raises(NmtError, match="damaged"):
            tensor_file.read(file)


@pytest.mark.parametrize(("before", "after"), [(b"[3,4]", b"[4,3]"), (b'"F32","shape":[3', b'"I32","shape":[3')])
def test_tensors_that_are_said_to_be_others_are_an_error(file: Path, before: bytes, after: bytes) -> None:
    """The same bytes in the same order, of another shape, type or name."""
    whole = file.read_bytes()
    assert whole.count(before) == 1
    file.write_bytes(whole.replace(before, after))
    with pytest.raises(NmtError, match="checksum"):
        tensor_file.read(file)


TWO = '"a":{"dtype":"F32","shape":[1],"data_offsets":[%s]},"b":{"dtype":"F32","shape":[1],"data_offsets":[%s]}'
EMPTY = '{"a":{"dtype":"F32","shape":%s,"data_offsets":[0,0]}}'


@pytest.mark.parametrize(
    ("header", "size"),
    [
        (f"{{{TWO % ('0,4', '0,4')}}}", 4),
        (f"{{{TWO % ('0,4', '8,12')}}}", 12),
        (f"{{{TWO % ('0,4', '4,8')}}}", 7),
        ('{"a":{"dtype":"X9","shape":[1],"data_offsets":[0,4]}}', 4),
        ('{"a":{"dtype":"F32","shape":[1]}}', 4),
        (EMPTY % f"[0,{2**63}]", 0),
        ("[]", 0),
        ("[" * 100_000, 0),
        ("9" * 5000, 0),
    ],
)
def test_headers_that_say_what_cannot_be(tmp_path: Path, header: str, size: int) -> None:
    encoded = header.encode("latin-1")
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + bytes(size))
    with pytest.raises(NmtError, match=r"a\.safetensors: ") as error:
        tensor_file.read(path)
    assert "\n" not in str(error.value)


def test_a_length_that_no_file_has_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    for length in (9, 2**40, 2**64 - 1):
        path.write_bytes(length.to_bytes(8, "little") + b"{}      ")
        with pytest.raises(NmtError, match="not a model file"):
            tensor_file.read(path)


def test_what_is_no_plain_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(NmtError, match="a device or a pipe, not a file"):
            tensor_file.read(path)


def test_foreign_files_are_errors_that_name_them(tmp_path: Path) -> None:
    path = tmp_path / "foreign.safetensors"
    path.write_bytes(b"run_dir: runs/demo\n" * 30)
    with pytest.raises(NmtError, match=r"foreign\.safetensors: .*damaged"):
        tensor_file.read(path)


@pytest.mark.parametrize("metadata", [{}, {"crc32": "00000000"}])
def test_files_without_our_checksum_are_refused(tmp_path: Path, metadata: dict[str, str]) -> None:
    path = tmp_path / "foreign.safetensors"
    save_file({"weight": torch.ones(3)}, path, metadata)
    with pytest.raises(NmtError, match=r"foreign\.safetensors: .*damaged"):
        tensor_file.read(path)


def test_a_missing_file_and_a_folder_are_said_to_be_that(tmp_path: Path) -> None:
    for read in (tensor_file.read, tensor_file.read_metadata):
        with pytest.raises(NmtError, match=r"missing\.safetensors: no such file"):
            read(tmp_path / "missing.safetensors")
        with pytest.raises(NmtError, match="a folder, not a file"):
            read(tmp_path)
        (tmp_path / "plain").write_text("text")
        with pytest.raises(NmtError, match="no such file"):
            read(tmp_path / "plain" / "x.safetensors")
        with pytest.raises(NmtError):
            read(tmp_path / ("long" * 100))


# ------------------------------------------------------------------------ interrupted writes


def assert_only(file: Path, contents: bytes) -> None:
    """The folder holds the file as it was and nothing else."""
    assert file.read_bytes() == contents
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_disk_that_is_full_in_the_middle_of_the_file(file: Path) -> None:
    """The system itself refuses after 1,000 bytes."""
    old = file.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(NmtError, match="cannot be written"):
            tensor_file.write(file, {"weight": torch.zeros(100_000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert_only(file, old)
