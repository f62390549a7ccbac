"""The file of a Bergamot model has the bytes that its engine reads, and means the model but for rounding.

scripts/test_page.sh compares the engine itself with what is computed here.
"""

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from helpers.bergamot_engine import BergamotFolder, integers, matrix, numbers, stored
from helpers.equivalence import random_lines, random_pairs
from helpers.export_models import LINES, engine_of, make_model, make_settings, random_shortlist, written
from numpy.typing import NDArray

from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.commands.export import export
from nmt.config.schema import DecodingConfig
from nmt.data.subwords.vocabulary import BOS, EOS, PAD, UNK, Tokenizer
from nmt.decoding.engine_protocol import SearchInput
from nmt.decoding.search.options import SearchOptions
from nmt.errors import NmtError
from nmt.interop.bergamot import binary
from nmt.interop.bergamot import export as bergamot
from nmt.interop.bergamot.export import BergamotExporter
from nmt.interop.weights import NEVER_CHOSEN
from nmt.models.transformer.positions import sinusoids

FITTING = (
    "model.d_model=64", "model.feed_forward=128", "model.positions=concatenated", "model.decoder_start=zero",
    "model.norm_epsilon=1e-6",
)  # fmt: skip
VARIANTS = [
    (*FITTING, "model.encoder_layers=2", "model.decoder_layers=3"),
    (
        *FITTING, "model.activation=quick_gelu", "model.output_bias=true", "model.tie=target",
        "vocabulary.shared=false", "model.decoder_layers=1",
    ),
    (*FITTING, "model.activation=swish", "model.bias=false", "model.heads=4"),
]  # fmt: skip
MODEL = "model.ende.intgemm.alphas.bin"


def assert_sums_fit(weights: NDArray[Any]) -> None:
    """Two products of neighbouring inputs, of 0 to 254, and weights [O, I] are added in 16 bits. One step more, and
    they would not fit: no precision is given away."""
    pairs = weights.reshape(len(weights), -1, 2)
    sums = [np.maximum(sign * pairs, 0).sum(axis=2).max() for sign in (1, -1)]
    assert max(sums) * 254 <= 32767
    assert np.abs(weights).max() == 127 or max(sums) >= 126


def greedy_outputs(made: Checkpoint) -> tuple[list[list[int]], list[list[int]]]:
    """The subwords of the lines, and of what the model translates them to."""
    sources = [ids for ids in made.vocabulary.source.encode(LINES) if ids]
    inputs = [SearchInput(ids, made.config.decoding.longest_output(len(ids))) for ids in sources]
    options = SearchOptions(DecodingConfig(beam_size=1))
    return sources, [best.tokens for [best] in engine_of(made).search(inputs, options, 1000)]


def aligning_layer_and_head(made: Checkpoint) -> tuple[int, int]:
    """Those with the most attention on the positions that all heads together attend to most."""
    model: Any = made.build()
    attention = 0
    for source, output in zip(*greedy_outputs(made), strict=True):
        ids, read = torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *output]])
        weights = torch.cat(model.attention_weights(ids, read).cross).detach()  # [L, H, T, S]
        attention += weights[:, :, range(len(output) + 1), weights.mean(dim=(0, 1)).argmax(dim=1)].sum(dim=2)
    return divmod(int(torch.as_tensor(attention).argmax()), made.config.model.heads)  # type: ignore[union-attr]


def exchanged(made: Checkpoint, rows: NDArray[Any], head: int) -> NDArray[Any]:
    """The rows of all heads, where those of the first head and another one change places."""
    heads = np.split(rows, made.config.model.heads)  # type: ignore[union-attr]
    heads[0], heads[head] = heads[head], heads[0]
    return np.concatenate(heads)


@pytest.fixture(scope="module", params=VARIANTS, ids=lambda variant: variant[-1])
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkpoint, Path]:
    made, folder = make_model(*request.param), tmp_path_factory.mktemp("bergamot")
    return made, written(BergamotExporter(), folder, made)


def test_weights_are_within_half_a_step(exported: tuple[Checkpoint, Path]) -> None:
    made, folder = exported
    items = stored(folder / MODEL)
    aligning, head = aligning_layer_and_head(made)
    weights = {name: weight.numpy() for name, weight in made.weights.items()}
    expected: dict[str, NDArray[Any]] = {}  # as they are stored
    tied = made.config.model.tie == "all"  # type: ignore[union-attr]
    for name in ["source", "target"] if not tied else ["target"]:
        table = weights[f"{name}_embedding.weight"]
        rows = np.pad(table, ((0, -len(table) % 8), (0, 0)))
        expected["Wemb" if tied else {"source": "encoder_Wemb", "target": "decoder_Wemb"}[name]] = rows
    vectors: dict[str, NDArray[Any]] = {}
    for side in ("encoder", "decoder"):
        for layer in {name.split(".")[1] for name in weights if name.startswith(f"{side}.")}:
            ours, theirs = f"{side}.{layer}", f"{side}_l{int(layer) + 1}"
            names = {"self_attention": "self"} | ({"cross_attention": "context"} if side == "decoder" else {})
            for attention, short in names.items():
                parts = np.split(weights[f"{ours}.{attention}.projection.weight"], 3)
                parts.append(weights[f"{ours}.{attention}.output.weight"])
                zeros = np.zeros(3 * 64)
                biases = np.split(weights.get(f"{ours}.{attention}.projection.bias", zeros), 3)
                biases.append(weights.get(f"{ours}.{attention}.output.bias", zeros[:64]))
                if short == "context" and int(layer) == aligning:
                    parts = [*(exchanged(made, part, head) for part in parts[:3]), exchanged(made, parts[3].T, head).T]
                    biases = [*(exchanged(made, bias, head) for bias in biases[:3]), biases[3]]
                for letter, part, bias in zip("qkvo", parts, biases, strict=True):
                    expected[f"{theirs}_{short}_W{letter}"], vectors[f"{theirs}_{short}_b{letter}"] = part, bias
                vectors[f"{theirs}_{short}_Wo_ln_scale"] = weights[f"{ours}.{attention}_residual.norm.weight"]
                vectors[f"{theirs}_{short}_Wo_ln_bias"] = weights[f"{ours}.{attention}_residual.norm.bias"]
            for number, part, size in (("1", "inner", 128), ("2", "outer", 64)):
                expected[f"{theirs}_ffn_W{number}"] = weights[f"{ours}.feed_forward.{part}.weight"]
                bias = weights.get(f"{ours}.feed_forward.{part}.bias", np.zeros(size))
                vectors[f"{theirs}_ffn_b{number}"] = bias
            vectors[f"{theirs}_ffn_ffn_ln_scale"] = weights[f"{ours}.feed_forward_residual.norm.weight"]
            vectors[f"{theirs}_ffn_ffn_ln_bias"] = weights[f"{ours}.feed_forward_residual.norm.bias"]
    for name, weight in expected.items():
        values, multiplier = integers(items[name])
        # A matrix is stored by columns, in which our weights are: but its shape is that of Marian.
        assert items[name].shape == (weight.shape if "Wemb" in name else weight.shape[::-1])
        rows = values.reshape(weight.shape)
        used = slice(None)
        if name in ("Wemb", "decoder_Wemb"):  # the row of padding, which is not used, has the largest number
            assert rows[PAD].tolist() == [127] + [0] * 63
            used = slice(PAD + 1, None)
        assert np.abs(rows / multiplier - weight)[used].max() <= 0.5001 / multiplier
        if name != "encoder_Wemb":
            assert_sums_fit(rows[used].astype(int))
    for name, vector in vectors.items():
        assert items[name].shape == (1, len(vector))
        assert np.array_equal(numbers(items[name])[0], vector.astype(np.float32))
    outputs = ["Wemb" if tied else "decoder_Wemb", "none"]
    multiplied = {name for name in expected if "Wemb" not in name} | set(outputs)
    alphas = {f"{name}_QuantMultA" for name in multiplied}
    assert items.keys() == {*expected, *vectors, *alphas, "decoder_ff_logit_out_b", "special:model.yml"}
    assert all(items[name].shape == (1,) and numbers(items[name])[0] > 0 for name in alphas)


def test_what_is_never_written_cannot_be_chosen(exported: tuple[Checkpoint, Path]) -> None:
    """Padding, the unknown subword, BOS, and rows that no subword has."""
    made, folder = exported
    size, bias = len(made.vocabulary.target), numbers(stored(folder / MODEL)["decoder_ff_logit_out_b"])[0]
    never = [PAD, UNK, BOS, *range(size, len(bias))]
    assert len(bias) % 8 == 0 and len(bias) - size < 8
    assert (bias[never] == NEVER_CHOSEN).all()
    own = made.weights.get("output.bias", torch.zeros(size)).numpy()
    assert np.array_equal(np.delete(bias, never), np.delete(own, [PAD, UNK, BOS]))


def test_the_settings_are_the_models(exported: tuple[Checkpoint, Path]) -> None:
    made, folder = exported
    model, items = made.config.model, stored(folder / MODEL)
    assert items["special:model.yml"].kind == "int8"
    text = items["special:model.yml"].content.rstrip(b"\0")
    assert items["special:model.yml"].shape == (len(text) + 1,)  # with a NUL
    settings = yaml.safe_load(text)
    assert settings["dim-vocabs"][1] == items["decoder_ff_logit_out_b"].shape[1]
    sizes = [settings[key] for key in ("dim-emb", "transformer-dim-ffn", "transformer-heads")]
    assert sizes == [64, 128, model.heads]  # type: ignore[union-attr]
    tied = model.tie == "all"  # type: ignore[union-attr]
    assert [settings[f"tied-embeddings{which}"] for which in ("", "-src", "-all")] == [not tied, False, tied]
    assert settings["transformer-guided-alignment-layer"] == str(aligning_layer_and_head(made)[0] + 1)
    for side, short in (("encoder", "enc"), ("decoder", "dec")):
        layers = {name.split("_")[1] for name in items if name.startswith(f"{side}_l")}
        assert settings[f"{short}-depth"] == len(layers)
    decoding = yaml.safe_load((folder / "config.intgemm8bitalpha.yml").read_text())
    assert decoding["models"] == [MODEL] and decoding["gemm-precision"] == "int8shiftAlphaAll"
    tokenizers = [Tokenizer((folder / name).read_bytes()) for name in decoding["vocabs"]]
    assert [len(each) for each in tokenizers] == [len(made.vocabulary.source), len(made.vocabulary.target)]
    assert {path.name for path in folder.iterdir()} == {
        MODEL, "config.intgemm8bitalpha.yml", "model_info.json", "README.md", *decoding["vocabs"]
    }  # fmt: skip
    info = json.loads((folder / "model_info.json").read_text())
    assert (info["src"], info["trg"], info["srcTags"], info["trgTag"]) == ("English", "German", {"en": "English"}, "de")


def test_the_file_computes_as_the_model_but_for_rounding(exported: tuple[Checkpoint, Path]) -> None:
    """These random weights are large: log P of trained models differ less."""
    made, folder = exported
    lines = [*LINES, *random_lines(made.vocabulary.source)]
    pairs, engines = random_pairs(made, lines), (engine_of(made), BergamotFolder(folder, made))
    ours, theirs = (np.concatenate(engine.score(pairs, 1000)) for engine in engines)
    assert np.abs(ours - theirs).max() < 2


def test_an_integer_product_rounds_as_the_engine(exported: tuple[Checkpoint, Path]) -> None:
    made, folder = exported
    items = stored(folder / MODEL)
    values, of_matrix = integers(items["decoder_l1_ffn_W1"])
    of_input = float(numbers(items["decoder_l1_ffn_W1_QuantMultA"])[0])
    x = np.linspace(-1.3, 1.3, 64, dtype=np.float32) * 127 / of_input  # some are cut off
    rounded = np.rint(np.clip(x * np.float32(of_input), -127, 127)).astype(int)
    sums = values.reshape(128, 64).astype(int) @ rounded
    bias = numbers(items["decoder_l1_ffn_b1"])[0]
    model: Any = BergamotFolder(folder, made).models[0]
    found = model.decoder[0].feed_forward.inner(torch.from_numpy(x)[None, None])
    assert found[0, 0].numpy() == pytest.approx(sums / (of_input * of_matrix) + bias, rel=1e-5, abs=1e-5)


def test_inputs_are_scaled_by_their_largest_values(exported: tuple[Checkpoint, Path]) -> None:
    """The input of the first layer is known: embeddings and positions."""
    made, folder = exported
    items = stored(folder / MODEL)
    sources, outputs = greedy_outputs(made)
    target = made.weights["target_embedding.weight"]
    source = made.weights.get("source_embedding.weight", target)

    def largest(ids: list[int], table: torch.Tensor, start: list[torch.Tensor]) -> list[float]:
        """Of each position."""
        vectors = torch.stack([*start, *table[ids]]) * 8 + sinusoids(len(start) + len(ids), 64, "concatenated")
        return vectors.abs().amax(dim=1).tolist()

    in_encoder = max(max(largest([*ids, EOS], source, [])) for ids in sources)
    assert numbers(items["encoder_l1_self_Wq_QuantMultA"])[0] == pytest.approx(127 / in_encoder, rel=1e-5)
    by_sentence = [largest(ids, target, [torch.zeros(64)]) for ids in outputs]
    positions = range(max(map(len, by_sentence)))
    maxima = [max(one[i] for one in by_sentence if i < len(one)) for i in positions]
    bound = np.mean(maxima) + 1.1 * np.std(maxima)
    for letter in "qkv":
        name = f"decoder_l1_self_W{letter}_QuantMultA"
        assert numbers(items[name])[0] == pytest.approx(127 / bound, rel=1e-5)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("model.norm=pre", "model.norm: pre: Bergamot needs post"),
        ("model.positions=interleaved", "model.positions: interleaved: Bergamot needs concatenated"),
        ("model.position_offset=2", "model.position_offset: 2: Bergamot needs 0"),
        ("model.decoder_start=bos", "model.decoder_start: bos: Bergamot needs zero"),
        ("model.norm_epsilon=1e-5", "model.norm_epsilon: 1e-05: Bergamot needs 1e-06"),
        ("model.activation=gelu", "model.activation: gelu: Bergamot needs relu or swish or quick_gelu"),
        ("model.tie=none", "model.tie: none: Bergamot needs all or target"),
        ("model.d_model=96", "model.d_model: 96: Bergamot needs a multiple of 64"),
        ("model.feed_forward=100", "model.feed_forward: 100: Bergamot needs a multiple of 64"),
        ("model.value_size=40", "model.value_size: 40"),
    ],
)
def test_what_the_engine_cannot_compute_is_refused(setting: str, words: str) -> None:
    with pytest.raises(NmtError, match=words) as error:
        bergamot.check(make_settings(*FITTING, setting))
    assert "\n" not in str(error.value)


def test_the_folder_is_no_model_for_nmt(exported: tuple[Checkpoint, Path]) -> None:
    with pytest.raises(NmtError, match="a folder for Bergamot, not for nmt: give the model file"):
        model_file.locate(exported[1])


def test_all_settings_that_differ_are_named() -> None:
    with pytest.raises(NmtError) as error:
        bergamot.check(
            make_settings(*FITTING, "model.positions=interleaved", "model.decoder_start=bos", "model.d_model=96")
        )
    for part in (
        "model.positions: interleaved",
        "model.decoder_start: bos",
        "model.d_model: 96",
        "nmt init --for bergamot",
    ):
        assert part in str(error.value)


def test_a_model_of_several_pairs_is_refused() -> None:
    pairs = "data.train=[{source: a, target: b, languages: [en, de]}, {source: a, target: b, languages: [en, fr]}]"
    with pytest.raises(NmtError, match="languages en-de, en-fr: Bergamot has no language tokens"):
        bergamot.check(make_settings(*FITTING, pairs))


def test_the_inputs_are_those_of_the_validation_text(tmp_path: Path) -> None:
    """Or of the lines that are given."""
    made = make_model(*VARIANTS[0])
    path, source = tmp_path / "model.safetensors", tmp_path / "valid.en"

    def of(validation: str) -> Path:
        model_file.save(path, Checkpoint(make_settings(*VARIANTS[0], validation), made.vocabulary, made.weights, {}))
        return path

    given = of(f"data.validation={{source: {source}, target: {source}}}")
    with pytest.raises(NmtError, match=r"data.validation: .*valid.en.*: give --sample FILE"):
        export(given, "bergamot", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    source.write_text("\n".join(line for line in LINES if line) + "\n", encoding="utf-8")
    assert export(given, "bergamot", tmp_path / "out") is None  # the engine is not called
    export(given, "bergamot", tmp_path / "again", lines=LINES)
    first, second = ((tmp_path / name / MODEL).read_bytes() for name in ("out", "again"))
    assert first == second
    with pytest.raises(NmtError, match="--sample: none of its 1 lines has 1 to 40 subwords"):
        export(given, "bergamot", tmp_path / "long", lines=["one " * 500])
    with pytest.raises(NmtError, match=r"data\.validation: has no text in en-de: give --sample FILE"):
        export(of("data.validation=null"), "bergamot", tmp_path / "none")


def test_the_shortlist_has_the_bytes_that_the_engine_reads(tmp_path: Path) -> None:
    """As browsermt/marian-dev, BinaryShortlistGenerator::load."""
    plain = make_model(*VARIANTS[1])
    made = replace(plain, shortlist=random_shortlist(plain.vocabulary, 6))
    assert made.shortlist is not None
    content = (written(BergamotExporter(), tmp_path, made) / "lex.ende.s2t.bin").read_bytes()
    magic, checksum, first, _, offset_count, target_count = struct.unpack("<6Q", content[:48])
    assert (magic, first, offset_count) == (0xF11A48D5013417F5, 0, len(made.vocabulary.source) + 1)
    assert len(content) == 48 + 8 * offset_count + 4 * target_count
    offsets = np.frombuffer(content[48 : 48 + 8 * offset_count], "<u8")
    targets = np.frombuffer(content[48 + 8 * offset_count :], "<u4")
    assert offsets[-1] == target_count
    for source in range(len(made.vocabulary.source)):
        assert targets[offsets[source] : offsets[source + 1]].tolist() == made.shortlist.row(source).tolist()
    seed = np.uint64(0)
    with np.errstate(over="ignore"):
        for number in np.frombuffer(content[16 : len(content) // 8 * 8], "<u8"):
            seed ^= number + np.uint64(0x9E3779B9) + (seed << np.uint64(6)) + (seed >> np.uint64(2))
    assert checksum == int(seed)
    settings = yaml.safe_load((tmp_path / "config.intgemm8bitalpha.yml").read_text())
    assert settings["shortlist"] == ["lex.ende.s2t.bin", False]
    assert "shortlist: await file('lex.ende.s2t.bin')" in (tmp_path / "README.md").read_text()


def test_names_of_any_length_keep_the_alignment(tmp_path: Path) -> None:
    """And the multiplier for zeros is a number."""
    items = [
        binary.quantised("W", np.arange(-6, 6, dtype=np.float32).reshape(3, 4), np.float32(7)),
        binary.quantised("Wemb", np.ones((2, 3), dtype=np.float32), binary.multiplier_of(2)),
        binary.BergamotTensor("b" * 300, np.ones((1, 5), dtype=np.float32)),
    ]
    binary.write(tmp_path / "a.bin", items)
    read = stored(tmp_path / "a.bin")
    assert list(read) == [item.name for item in items]
    for item in items[:2]:
        values, multiplier = matrix(read, item.name)
        assert np.array_equal(values, item.values) and multiplier == item.multiplier
    assert np.isfinite(binary.multiplier_of(0))
