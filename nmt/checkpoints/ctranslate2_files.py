"""The files of a CTranslate2 model, from the weights of a model file. Loads neither PyTorch nor CTranslate2, and numpy
only where weights are changed, not where they are copied: loading it takes longer than converting a small model.

CTranslate2 supports every setting of our Transformer: positions are rotary there too, or are written as a table, so
that any layout is exact, and keys and values of different widths are padded with zeros. The bytes are those that
CTranslate2's own converter writes.
Source: ctranslate2.specs (model_spec, transformer_spec, attention_spec), and src/models/model.cc for the format.

Shapes: H heads, D d_model, dk and dv the key and value widths of a head, W = max(dk, dv), V subwords, T positions.
"""

import json
import math
import struct
from array import array
from collections.abc import Iterator, Mapping
from itertools import accumulate, chain, pairwise

from nmt.config.schema import Config, TransformerConfig
from nmt.data.vocabulary import BOS, EOS, PAD, UNK, Tokenizer, Vocabulary
from nmt.errors import NmtError
from nmt.files.tensors import Array

QUANTIZATIONS = ("float32", "float16", "bfloat16", "int8", "int8_float32", "int8_float16", "int8_bfloat16")

_VERSION, _REVISION = 6, 7  # of the binary format, and of the names of a Transformer's variables
_TYPES = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4, "bfloat16": 5}
_FORMATS = {"float32": "<f", "int8": "<b", "int16": "<h", "int32": "<i"}  # of the module struct
_ACTIVATIONS = {"relu": 0, "swish": 2, "gelu": 3}  # ours is the exact x · Φ(x); 1 and 4 are approximations
_NORM_EPSILON = 1e-5  # of torch.nn.LayerNorm
# Half of int8's range: x86 processors without VNNI add two products of a weight and an input, which may be 255, in
# 16 bits, where larger sums are cut off. CTranslate2's own converter uses 127.
_INT8_LARGEST = 63
_NEVER = (PAD, UNK, BOS)  # what no search chooses
_PARTS = 17  # of each of these, see `model_files`; 48 more subwords keep the rows of scores aligned in memory
# Of `_shift`. Numbers that nearly cancel leave only their rounding: their sum must be at least this share of their
# sizes, so that scores are off by 1e-4 at most. And a row keeps its own numbers only if what is added is not too large.
_LEAST_SHARE, _LARGEST_SHIFT = 1e-3, 1e4
_LARGEST_COPY = 1 << 24  # bytes: a larger matrix takes longer to copy than a bias takes to add


def model_files(
    config: Config,
    vocabulary: Vocabulary,
    weights: Mapping[str, Array],
    positions: int,
    quantization: str = "float32",
    *,
    divided: bool = False,
) -> dict[str, bytes]:
    """The content of each file by its name: for a folder, or for the argument `files` of ctranslate2.Translator.

    weights: those of a model file, in float32; positions: the length of a table of sinusoids. Raises NmtError where
    weights and settings do not belong together.

    divided: for searching as nmt does. No output contains padding, BOS or the unknown subword, but they keep their
    share of the probabilities. CTranslate2 can only forbid a subword before the softmax, which gives its share to the
    others. So each of the three is written as 17 subwords with a 17th of its probability: the sum stays the same, and
    each one is too improbable to be chosen.
    """
    if config.model.architecture != "transformer":
        raise NmtError(f"model.architecture: {config.model.architecture}: only a transformer can be converted")
    variables = _variables(config.model, vocabulary, weights, positions)
    source, target = (_names(vocabulary, side) for side in (vocabulary.source, vocabulary.target))
    if divided:
        parts = [f"<part {i}>" for i in range(_PARTS * len(_NEVER) - len(_NEVER))]  # no subword has a space
        shared = variables["encoder/embeddings_0/weight"] is variables["decoder/embeddings/weight"]
        source, target = source + parts if shared else source, target + parts
        variables |= _divided(variables, _shift(config.model, variables))
    vocabularies = {"shared": target} if source == target else {"source": source, "target": target}
    special = dict(zip(("unk_token", "bos_token", "eos_token"), target[UNK:], strict=False))
    settings = {
        **special,
        "decoder_start_token": special["bos_token"],
        "add_source_bos": False,
        "add_source_eos": True,
        "layer_norm_epsilon": _NORM_EPSILON,
        "multi_query_attention": False,
    }
    return {
        "model.bin": _binary(variables, quantization),
        "config.json": f"{json.dumps(settings, indent=2, sort_keys=True)}\n".encode(),
        # With an indent, which the converter writes, json takes twenty times as long.
        **{
            f"{name}_vocabulary.json": json.dumps(each, indent=None if divided else 2).encode()
            for name, each in vocabularies.items()
        },
    }


def _names(vocabulary: Vocabulary, side: Tokenizer) -> list[str]:
    """The subwords of a side; the special ones have the same names in both."""
    return vocabulary.target.pieces([PAD, UNK, BOS, EOS]) + side.every_piece()[EOS + 1 :]


def _divided(variables: Mapping[str, Array], shift: "array[float] | None") -> dict[str, Array]:
    """The matrices with rows for the parts of what is never chosen: [V, D] → [V + 3·16, D]. Equal ones stay one.

    shift: as `_shift` gives it; None: the projection has a bias instead, which CTranslate2 adds in a pass of its own
    over all scores: 2% of the time of a small model.
    """
    output, embeddings = variables["decoder/projection/weight"], variables["decoder/embeddings/weight"]
    rows = [_rows(output, number, number + 1) for number in _NEVER]
    names = "encoder/embeddings_0/weight", "decoder/embeddings/weight"
    # Those of the embeddings are never read, but there must be as many as of the projection.
    longer = _joined(embeddings, *rows * (_PARTS - 1))
    found = {name: longer for name in names if variables[name] is embeddings}
    if shift is not None:
        lower = [_sum(row, shift) for row in rows]
        others = _rows(output, len(_NEVER), output.shape[0])  # what is never chosen has the first ids
        return found | {"decoder/projection/weight": _joined(*lower, others, *lower * (_PARTS - 1))}
    projection = longer if output is embeddings else _joined(output, *rows * (_PARTS - 1))
    share, parts = -math.log(_PARTS), {*_NEVER, *range(output.shape[0], projection.shape[0])}
    bias = array("f", [share if number in parts else 0.0 for number in range(projection.shape[0])])
    added = Array("float32", (len(bias),), bias.tobytes())
    return found | {"decoder/projection/weight": projection, "decoder/projection/bias": added}


def _shift(config: TransformerConfig, variables: Mapping[str, Array]) -> "array[float] | None":
    """What to add to a row of the projection so that its score is always lower by log 17: [D]. None if there is none
    that is precise and cheap.

    The projection's input is γ ⊙ x + β, from a layer norm, where the numbers of x have the sum 0. So its product with
    1 / γ is Σ β / γ, whatever x is.
    """
    layers = config.decoder_layers or config.layers
    norm = "decoder/layer_norm" if config.norm == "pre" else f"decoder/layer_{layers - 1}/ffn/layer_norm"
    gamma, beta = _numbers(variables[f"{norm}/gamma"]), _numbers(variables[f"{norm}/beta"])
    output = variables["decoder/projection/weight"]
    copied = output is variables["decoder/embeddings/weight"]  # as it is no longer the same matrix
    if not all(gamma) or (copied and output.size > _LARGEST_COPY):
        return None
    ratios = [b / g for g, b in zip(gamma, beta, strict=True)]
    total, sizes = sum(ratios), len(ratios) + sum(map(abs, ratios))  # the numbers of x have the mean square 1
    if not abs(total) >= _LEAST_SHARE * sizes:  # or not a number
        return None
    factors = [-math.log(_PARTS) / (total * g) for g in gamma]
    return array("f", factors) if max(map(abs, factors)) < _LARGEST_SHIFT else None


def _numbers(of: Array) -> "array[float]":
    """The numbers of a float32 array."""
    found = array("f")
    found.frombytes(of.content)
    return found


def _sum(row: Array, shift: "array[float]") -> Array:
    """A row with what is added to it: [1, D]."""
    numbers = array("f", map(float.__add__, _numbers(row), shift))
    return Array(row.dtype, row.shape, numbers.tobytes())


def _rows(of: Array, start: int, end: int) -> Array:
    """Some rows: [N, …] → [end - start, …]."""
    size = of.size // of.shape[0]
    return Array(of.dtype, (end - start, *of.shape[1:]), memoryview(of.content)[start * size : end * size])


def _joined(*parts: Array) -> Array:
    """The rows of all parts: [N, …], [M, …], … → [N + M + …, …]."""
    rows = sum(part.shape[0] for part in parts)
    return Array(parts[0].dtype, (rows, *parts[0].shape[1:]), b"".join(part.content for part in parts))


def _scalar(value: float, dtype: str) -> Array:
    return Array(dtype, (), struct.pack(_FORMATS[dtype], value))


def _variables(
    config: TransformerConfig, vocabulary: Vocabulary, weights: Mapping[str, Array], length: int
) -> dict[str, Array]:
    """CTranslate2's variables by name, in the order in which they are written."""
    given, width = _Given(weights), config.d_model
    heads = config.heads, *config.head_widths
    target = given.take("target_embedding.weight", len(vocabulary.target), width)
    source = target if config.tie == "all" else given.take("source_embedding.weight", len(vocabulary.source), width)
    output = given.take("output.weight", len(vocabulary.target), width) if config.tie == "none" else target
    found = {
        "encoder/embeddings_0/weight": source,
        "encoder/embeddings_merge": _scalar(0, "int8"),
        "encoder/multi_query_attention": _scalar(0, "int8"),
        "decoder/embeddings/weight": target,
        "decoder/projection/weight": output,
        "decoder/alibi": _scalar(0, "int8"),
        "decoder/alibi_use_positive_positions": _scalar(0, "int8"),
        "decoder/alignment_heads": _scalar(1, "int16"),
        "decoder/alignment_layer": _scalar(-1, "int16"),
        "decoder/scale_alibi": _scalar(0, "int8"),
        "decoder/start_from_zero_embedding": _scalar(0, "int8"),
    }
    tables: dict[str, Array] = {}  # none of rotary positions
    if config.positions == "learned":
        for name, side in (("encoder", "source"), ("decoder", "target")):
            tables[name] = given.take(f"{side}_positions.weight", config.max_positions, width)
    elif config.positions != "rotary":
        both = sinusoids(length, width, concatenated=config.positions == "concatenated")
        tables = {"encoder": both, "decoder": both}
    found |= {f"{name}/position_encodings/encodings": table for name, table in tables.items()}
    layers = config.encoder_layers or config.layers, config.decoder_layers or config.layers
    for name, count in zip(("encoder", "decoder"), layers, strict=True):
        found |= {
            f"{name}/activation": _scalar(_ACTIVATIONS[config.activation], "int8"),
            f"{name}/num_heads": _scalar(config.heads, "int16"),
            f"{name}/pre_norm": _scalar(config.norm == "pre", "int8"),
            f"{name}/scale_embeddings": _scalar(1, "int8"),
        }
        if config.norm == "pre":
            found |= given.norm(f"{name}/layer_norm", f"{name}_norm", width)
        for number in range(count):
            ours, theirs = f"{name}.{number}", f"{name}/layer_{number}"
            found |= given.attention(f"{theirs}/self_attention", f"{ours}.self_attention", width, heads, config.bias)
            if config.positions == "rotary":
                found |= _rotary(f"{theirs}/self_attention", heads[1])
            if name == "decoder":
                found |= given.attention(f"{theirs}/attention", f"{ours}.cross_attention", width, heads, config.bias)
            inner, outer = f"{ours}.feed_forward.inner", f"{ours}.feed_forward.outer"
            found |= given.linear(f"{theirs}/ffn/linear_0", inner, config.feed_forward, width, config.bias)
            found |= given.linear(f"{theirs}/ffn/linear_1", outer, width, config.feed_forward, config.bias)
            found |= given.norm(f"{theirs}/ffn/layer_norm", f"{ours}.feed_forward_residual.norm", width)
    given.check_all_taken()
    return {name: found[name] for name in sorted(found)}


def _rotary(to: str, key_size: int) -> dict[str, Array]:
    """Rotates the first `key_size` numbers of a head's queries and keys as nmt.models.transformer.attention does."""
    return {
        f"{to}/rotary_base": _scalar(10_000, "float32"),
        f"{to}/rotary_dim": _scalar(key_size, "int32"),
        f"{to}/rotary_interleave": _scalar(0, "int8"),
    }


class _Given:
    """The weights of a model file, each taken once."""

    def __init__(self, weights: Mapping[str, Array]):
        self.left = dict(weights)

    def take(self, name: str, *shape: int) -> Array:
        """Raises NmtError if it is missing, or has another shape."""
        found = self.left.pop(name, None)
        if found is None or found.shape != shape:
            what = "is missing" if found is None else f"is {list(found.shape)}, but its settings need {list(shape)}"
            raise NmtError(f"weight {name} {what}: settings and weights do not belong together")
        return found

    def check_all_taken(self) -> None:
        """Raises NmtError if weights are left."""
        for name in self.left:
            raise NmtError(f"unknown weight {name[:100]}: settings and weights do not belong together")

    def norm(self, to: str, name: str, width: int) -> dict[str, Array]:
        return {f"{to}/gamma": self.take(f"{name}.weight", width), f"{to}/beta": self.take(f"{name}.bias", width)}

    def linear(self, to: str, name: str, outputs: int, inputs: int, bias: bool) -> dict[str, Array]:
        found = {f"{to}/weight": self.take(f"{name}.weight", outputs, inputs)}
        return found | ({f"{to}/bias": self.take(f"{name}.bias", outputs)} if bias else {})

    def attention(self, to: str, name: str, width: int, heads: tuple[int, int, int], bias: bool) -> dict[str, Array]:
        """heads: their number, and the widths of their keys and values. Self-attention has queries, keys and values in
        one matrix; cross-attention has the queries in another one. With heads of two widths, zeros are added to the
        narrower ones: the result does not change."""
        count, key, value = heads
        wide = max(key, value)
        rows = [count * key, count * key, count * value]
        joint = self.linear("", f"{name}.projection", sum(rows), width, bias)
        output = self.linear("", f"{name}.output", width, count * value, bias)
        first, last = ("linear_0", "linear_1") if ".self_" in name else ("linear_1", "linear_2")
        found = {f"{to}/{last}{part}": weight for part, weight in output.items()}
        for part, weight in joint.items():
            if key != value:
                ends = list(accumulate(rows, initial=0))
                weight = _joined(*(_widened(_rows(weight, *of), count, wide) for of in pairwise(ends)))
            if first == "linear_1":
                queries = count * wide
                found[f"{to}/linear_0{part}"] = _rows(weight, 0, queries)
                weight = _rows(weight, queries, weight.shape[0])
            found[f"{to}/{first}{part}"] = weight
        if value < wide:
            found[f"{to}/{last}/weight"] = _widened(output["/weight"], count, wide, columns=True)
        found |= {f"{to}/head_dim": _scalar(wide, "int32"), f"{to}/queries_scale": _scalar(key**-0.5, "float32")}
        return found | self.norm(f"{to}/layer_norm", f"{name}_residual.norm", width)


def _widened(weight: Array, heads: int, width: int, *, columns: bool = False) -> Array:
    """The rows or columns of H heads, [H·d, …] → [H·W, …] or [D, H·d] → [D, H·W], zeros at the end of each head."""
    import numpy as np

    rows = weight.numpy().T if columns else weight.numpy()
    by_head = rows.reshape(heads, len(rows) // heads, *rows.shape[1:])  # [H, d, …]
    missing = [(0, 0), (0, width - by_head.shape[1]), *[(0, 0)] * (by_head.ndim - 2)]
    wider = np.pad(by_head, missing).reshape(heads * width, *rows.shape[1:])
    return Array.of(wider.T if columns else wider)


def sinusoids(length: int, d_model: int, *, concatenated: bool) -> Array:
    """As nmt.models.transformer.positions.sinusoids, float32 [T, D]."""
    pairs = d_model // 2
    exponents = [pair / max(pairs - 1, 1) if concatenated else 2 * pair / d_model for pair in range(pairs)]
    rates = [math.exp(-math.log(10_000.0) * exponent) for exponent in exponents]
    table = array("f")
    for position in range(length):
        angles = [position * rate for rate in rates]
        both = map(math.sin, angles), map(math.cos, angles)
        table.extend(chain(*both) if concatenated else chain.from_iterable(zip(*both, strict=True)))
    return Array("float32", (length, 2 * pairs), table.tobytes())


def _binary(variables: Mapping[str, Array], quantization: str) -> bytes:
    """The content of model.bin: the variables, then the names of those that equal an earlier one."""
    first: dict[int, str] = {}  # by the identity of a variable, which `variables` keeps alive
    written: list[bytes | memoryview] = []
    aliases: list[bytes] = []
    count = 0
    for name, variable in variables.items():
        if first.setdefault(id(variable), name) != name:
            aliases += [_text(name), _text(first[id(variable)])]
            continue
        for suffix, values in _quantized(name, variable, quantization):
            sizes = struct.pack(f"<B{len(values.shape)}I", len(values.shape), *values.shape)
            kind = struct.pack("<BI", _TYPES[values.dtype], values.size)
            written += [_text(name + suffix), sizes, kind, values.content]
            count += 1
    head = [struct.pack("<I", _VERSION), _text("TransformerSpec"), struct.pack("<II", _REVISION, count)]
    return b"".join([*head, *written, struct.pack("<I", len(aliases) // 2), *aliases])


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<H", len(encoded) + 1) + encoded + b"\0"


def _quantized(name: str, variable: Array, quantization: str) -> Iterator[tuple[str, Array]]:
    """What stands for a variable, with what is added to its name. int8 has a scale for each row of a matrix; others
    may become 16-bit floating-point numbers."""
    kind, _, rest = quantization.partition("_")
    if not variable.shape or variable.dtype != "float32" or quantization == "float32":
        yield "", variable
        return
    import numpy as np

    numbers = variable.numpy()
    if name.endswith("/weight") and kind == "int8":
        largest = np.abs(numbers).max(axis=1)
        largest[largest == 0] = _INT8_LARGEST
        scale = np.float32(_INT8_LARGEST) / np.maximum(largest, np.float32(_INT8_LARGEST) / np.finfo(np.float32).max)
        yield "", Array.of(np.rint(numbers * scale[:, None]).astype(np.int8))
        yield "_scale", Array.of(scale)
    elif "float16" in (kind, rest):
        yield "", Array.of(numbers.astype(np.float16))
    elif "bfloat16" in (kind, rest):
        bits = numbers.view(np.uint32)  # rounded to the nearest number, and to the even one of two
        yield "", Array.of(((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16))
    else:
        yield "", variable
