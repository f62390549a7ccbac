"""A pretended CUDA device for a CPU build of PyTorch: shapes, types, devices, kernels and waits, but no numbers.

Import this before torch, in a process of its own, such as helpers.gpu_steps starts: it changes what PyTorch believes of
its machine. It needs g++.
Tensors on the device are PyTorch's fake tensors; those on the host are real.
"""

import collections
import contextlib
import ctypes
import importlib.util
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

# A device guard and hooks that do nothing.
_GUARD = """
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/FakeGuardImpl.h>
using CudaGuard = c10::impl::FakeGuardImpl<c10::DeviceType::CUDA>;
static c10::impl::DeviceGuardImplRegistrar guard(c10::DeviceType::CUDA, new CudaGuard());
struct FakeHooks : at::CUDAHooksInterface {
  explicit FakeHooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  at::DeviceIndex deviceCount() const override { return 1; }
  at::DeviceIndex getCurrentDevice() const override { return 0; }
  at::DeviceIndex current_device() const override { return 0; }
  int getNumGPUs() const override { return 1; }
  bool hasPrimaryContext(at::DeviceIndex) const override { return true; }
};
using at::CUDAHooksRegistry;
using at::RegistererCUDAHooksRegistry;
namespace at { C10_REGISTER_TYPED_CLASS(CUDAHooksRegistry, "CUDAHooks", ::FakeHooks) }
"""


def _load() -> None:
    """Build the guard, and load it into the process beside PyTorch's own libraries."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.origin is not None
    torch_folder = Path(spec.origin).parent
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder) / "guard.cpp", Path(folder) / "guard.so"
        source.write_text(_GUARD)
        include = [f"-I{torch_folder}/include", f"-I{torch_folder}/include/torch/csrc/api/include"]
        libraries = [f"-L{torch_folder}/lib", "-lc10", "-ltorch_cpu"]
        command = ["g++", "-std=c++20", "-shared", "-fPIC", "-O0", *include, source, "-o", built, *libraries]
        subprocess.run(command, check=True)
        for library in (torch_folder / "lib/libc10.so", torch_folder / "lib/libtorch_cpu.so", built):
            ctypes.CDLL(os.fspath(library), mode=ctypes.RTLD_GLOBAL)


_load()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

if torch.version.cuda is not None:
    raise SystemExit("the pretended GPU needs a CPU build of PyTorch")
torch.cuda.is_available = lambda: True
torch.cuda.is_bf16_supported = lambda *_, **__: True  # type: ignore[assignment]
torch.cuda.amp.common.amp_definitely_not_available = lambda: False  # type: ignore[attr-defined]
# In inference mode, operations that consist of others reach a dispatch mode as one.
torch.inference_mode = lambda mode=True: torch.no_grad() if mode else contextlib.nullcontext()  # type: ignore
torch._C._ensureCUDADeviceGuardSet()
DEVICE = torch.device("cuda:0")

# Operations without a kernel of their own.
_FREE = set(
    "view _unsafe_view transpose t expand slice select split split_with_sizes unsqueeze squeeze detach permute alias "  # noqa: SIM905
    "as_strided unfold empty_like empty new_empty empty_strided _reshape_alias unbind lift_fresh narrow".split()
)


def mode() -> FakeTensorMode:
    return FakeTensorMode(allow_non_fake_inputs=True)


def tensor(fake: FakeTensorMode, shape: tuple[int, ...], dtype: torch.dtype = torch.int64) -> FakeTensor:
    return FakeTensor(fake, torch.empty(shape, dtype=dtype, device="meta"), DEVICE)


def to_fake(model: nn.Module, fake: FakeTensorMode) -> nn.Module:
    """A model made under `torch.device("meta")`, on the pretended device; tied weights stay tied."""
    moved: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, old in list(module._parameters.items()):
            if old is not None:
                new = nn.Parameter(FakeTensor(fake, old.detach().to("meta"), DEVICE))
                module._parameters[name] = moved.setdefault(id(old), new)
        for name, buffer in list(module._buffers.items()):
            if buffer is not None:
                module._buffers[name] = FakeTensor(fake, buffer.to("meta"), DEVICE)
    return model


class Count(TorchDispatchMode):
    """Counts kernels and what makes the program wait. A value that the program reads from the device is 0, false, or
    true for `torch.equal`."""

    def __init__(self, fake: FakeTensorMode, *, training: bool = False) -> None:
        """training: attention is only one kernel if it is an operator of its own."""
        super().__init__()
        self.fake = fake
        self.kernels, self.waits = collections.Counter[str](), collections.Counter[str]()
        self._attention = contextlib.nullcontext() if training else _CountAttention(self)

    def __enter__(self) -> "Count":
        self._attention.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._attention.__exit__(*error)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name, given = function.overloadpacket.__name__, [x for x in tree_leaves((args, kwargs)) if _is_tensor(x)]
        on_device = any(isinstance(x, FakeTensor) and x.device == DEVICE for x in given)
        target = torch.device(kwargs["device"]).type if kwargs.get("device") is not None else None
        if name in ("pin_memory", "_pin_memory", "is_pinned"):
            return not on_device if name == "is_pinned" else args[0]
        if not on_device and target != "cuda":  # all of it on the host
            with unset_fake_temporarily():
                return function(*args, **kwargs)
        if name == "_to_copy" and (target == "cpu" or not on_device) and not kwargs.get("non_blocking"):
            self.waits[f"copy to {target}"] += 1
        if name == "_to_copy" and not on_device:
            return tensor(self.fake, args[0].shape, kwargs.get("dtype") or args[0].dtype)
        if name in ("_local_scalar_dense", "is_nonzero", "equal"):
            self.waits[name] += 1
            return name == "equal" or (0.0 if args[0].is_floating_point() else 0)
        if name in ("nonzero", "masked_select") or (name in ("index", "index_put_") and _by_mask(args[1])):
            self.waits[f"{name} by a mask"] += 1
        if name not in _FREE and function.namespace != "prim":
            self.kernels[name] += 1
        if name == "mm" and "out_dtype" in str(function._schema):  # PyTorch cannot fake it
            left, right, dtype = args
            return (left @ right).to(dtype)
        return function(*args, **kwargs)

    def clear(self) -> None:
        self.kernels.clear()
        self.waits.clear()


class _CountAttention(TorchFunctionMode):
    """Attention is one kernel, as on a GPU: without a backend PyTorch would take it apart. `torch.tensor` waits until
    its numbers are on the device."""

    def __init__(self, count: Count):
        super().__init__()
        self.count = count

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is torch.tensor and torch.device(kwargs.get("device") or "cpu").type == "cuda":
            self.count.waits["torch.tensor on the device"] += 1
            made = torch.tensor(*args, **{**kwargs, "device": "cpu"})
            return tensor(self.count.fake, made.shape, made.dtype)
        if function is not F.scaled_dot_product_attention or not args[0].is_cuda:
            return function(*args, **kwargs)
        query, _, value, *others = args
        sentences, heads, queries, _ = query.shape
        out = query.new_empty(sentences, queries, heads, value.shape[3]).transpose(1, 2)
        masks = [x for x in (*others, *kwargs.values()) if _is_tensor(x)]
        assert all(mask.shape[-1] % 16 == 0 for mask in masks), "a GPU would copy a mask of this width"
        assert all(mask.dtype in (torch.bool, query.dtype) for mask in masks)
        self.count.kernels["attention"] += 1
        return out


def _is_tensor(x: object) -> bool:
    return isinstance(x, Tensor)


def _by_mask(indices: Any) -> bool:
    return any(x is not None and x.dtype == torch.bool for x in indices)
