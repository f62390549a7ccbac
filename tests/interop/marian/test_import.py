"""MarianMT models of the hub and models of Marian itself are the same models here, and stay it on the way out."""

import dataclasses
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from helpers.equivalence import TransformersModel, difference, random_lines
from helpers.marian_numpy import MarianNumpy
from helpers.other_models import marian_folder, marian_npz, text
from safetensors.torch import load_file, save_file

import nmt
from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.commands.export import export
from nmt.commands.imports import import_model
from nmt.commands.init import InitRequest, init
from nmt.commands.train import train
from nmt.config import schema
from nmt.data.subwords.vocabulary import BOS
from nmt.errors import NmtError
from nmt.interop import source
from nmt.interop.imported import Imported
from nmt.interop.marian import from_npz, from_transformers
from nmt.interop.marian.from_npz import MarianFiles, MarianNpzImporter
from nmt.interop.marian.from_transformers import MarianImporter
from nmt.interop.sample_text import LINES
from nmt.interop.source import SourceSettings
from nmt.interop.weights import NEVER_CHOSEN

HUB: dict[str, dict[str, Any]] = {
    "one matrix": {},
    "two vocabularies": {"separate": True, "activation_function": "relu"},
    "no tied matrices": {"separate": True, "activation_function": "gelu", "tie_word_embeddings": False},
    "several targets": {"codes": ("de", "por_BR", "cmn"), "activation_function": "quick_gelu"},
    "byte-pair encoding": {"kind": "bpe", "encoder_layers": 1, "decoder_layers": 1},
}
NPZ: dict[str, dict[str, Any]] = {
    "one matrix": {},
    "no tied matrices": {"tied-embeddings-all": False, "output-omit-bias": True, "transformer-ffn-activation": "relu"},
    "output tied": {"tied-embeddings-all": False, "tied-embeddings": True, "transformer-ffn-activation": "gelu"},
    "own vocabularies": {"spm": True, "enc-depth": 1, "dec-depth": 1},
    "a newer gelu": {"transformer-ffn-activation": "gelu", "version": "v1.12.42 b7be0e9", "enc-depth": 1},
}


HUB_IMPORTER, NPZ_IMPORTER = MarianImporter(), MarianNpzImporter()
SAMPLE = [*text(5, 6), *LINES[::6]]


def in_transformers(folder: Path) -> TransformersModel:
    from transformers import MarianMTModel

    config = SourceSettings("", json.loads((folder / "config.json").read_text()))
    about = json.loads((folder / "tokenizer_config.json").read_text())
    sides = from_transformers._sides(folder, config, shared=not about.get("separate_vocabs"))
    model = MarianMTModel.from_pretrained(folder, local_files_only=True)
    return TransformersModel(model, *(side.original_ids for side in sides.rows))


@pytest.mark.parametrize("changes", HUB.values(), ids=HUB)
def test_models_of_the_hub_are_the_same_models(changes: dict[str, Any], tmp_path: Path) -> None:
    folder = marian_folder(tmp_path, **changes)
    read = HUB_IMPORTER.read(folder, "name", ())
    made, theirs = read.checkpoint({}), in_transformers(folder)
    assert difference(made, theirs, SAMPLE) < 1e-4
    assert_cut_alike(made, folder, theirs.source_ids, [*LINES, *random_lines(made.vocabulary.source)])
    codes = changes.get("codes", ("de",))
    assert [pair.target for pair in read.config.data.language_pairs.pairs] == list(codes)
    assert read.config.decoding.beam_size == 3 and read.config.decoding.normalization == "average"


def assert_cut_alike(made: Checkpoint, folder: Path, source_ids: Sequence[int], lines: Sequence[str]) -> None:
    """Text becomes the ids that transformers' tokenizer gives, with the token of the target before it."""
    from transformers import MarianTokenizer

    tokenizer, known = MarianTokenizer.from_pretrained(folder, local_files_only=True), made.config.data.language_pairs
    tags = made.vocabulary.source.tags(known.tags(known.pairs[0]))
    code = f">>{known.pairs[0].target}<< " if tags else ""
    theirs = tokenizer([code + line for line in made.vocabulary.source.prepared(list(lines))])["input_ids"]
    for ids, its in zip(made.vocabulary.source.encode(list(lines)), theirs, strict=True):
        assert [source_ids[i] for i in (*tags, *ids)] == its[:-1]


@pytest.mark.parametrize("changes", NPZ.values(), ids=NPZ)
def test_models_of_marian_are_the_same_models(changes: dict[str, Any], tmp_path: Path) -> None:
    path = marian_npz(tmp_path, **changes)
    made, files = NPZ_IMPORTER.read(path, "name", ("en", "de")).checkpoint({}), MarianFiles.read(path)
    one = made.config.model.tie == "all"  # type: ignore[union-attr]
    sides = from_npz._sides(path, files, yaml.safe_load((tmp_path / "decoder.yml").read_text()), shared=one)
    assert difference(made, MarianNumpy(files, *(side.original_ids for side in sides.rows)), SAMPLE) < 1e-4


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Imported]:
    folder = marian_folder(tmp_path_factory.mktemp("hub"))
    return folder, HUB_IMPORTER.read(folder, "name", ())


def without_bias(read: Imported) -> Imported:
    model = dataclasses.replace(read.config.model, output_bias=False)  # type: ignore[type-var]
    weights = {name: weight for name, weight in read.weights.items() if name != "output.bias"}
    return dataclasses.replace(read, config=dataclasses.replace(read.config, model=model), weights=weights)


def with_model(**changes: Any) -> Callable[[Imported], Imported]:
    def change(read: Imported) -> Imported:
        model = dataclasses.replace(read.config.model, **changes)  # type: ignore[type-var]
        return dataclasses.replace(read, config=dataclasses.replace(read.config, model=model))

    return change


def untied(read: Imported) -> Imported:
    """The output layer has a matrix of its own, of which one row is another one."""
    matrix = read.weights["target_embedding.weight"].clone()
    matrix[20] = matrix[21]
    weights = {**read.weights, "output.weight": matrix, "source_embedding.weight": matrix}
    return with_model(tie="none")(dataclasses.replace(read, weights=weights))


@pytest.mark.parametrize(
    "fault",
    [
        with_model(norm_epsilon=1e-2),
        with_model(position_offset=1),
        with_model(positions="concatenated"),
        with_model(decoder_start="eos"),
        with_model(activation="gelu"),
        without_bias,
        untied,
    ],
    ids=["epsilon", "offset", "positions", "start", "activation", "bias", "tying"],
)
def test_another_model_would_be_noticed(fault: Callable[[Imported], Imported], hub: tuple[Path, Imported]) -> None:
    folder, read = hub
    assert difference(fault(read).checkpoint({}), in_transformers(folder), SAMPLE) > 1e-3


def test_translations_are_compared_with_those_of_transformers(hub: tuple[Path, Imported], tmp_path: Path) -> None:
    """Of 16 bits too, and whatever the search in the files is."""
    folder = tmp_path / "copy"
    shutil.copytree(hub[0], folder)
    halves = {name: weight.half() for name, weight in load_file(folder / "model.safetensors").items()}
    save_file(halves, folder / "model.safetensors", {"format": "pt"})
    with_json("config.json", dtype="float16")(folder)
    with_json("generation_config.json", repetition_penalty=1.3, no_repeat_ngram_size=2)(folder)
    found = import_model(str(folder), tmp_path / "model.safetensors")
    assert found is not None and len(found.nmt_lines) > 20
    begins = [its.startswith(our.strip()) for our, its in zip(found.nmt_lines, found.program_lines, strict=True)]
    assert sum(begins) >= 0.9 * len(begins), str(found)  # of random weights some end at our longest length


def test_what_transformers_cannot_search_is_not_compared(
    hub: tuple[Path, Imported], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(hub[0], folder)
    search = {"num_beam_groups": 3, "repetition_penalty": 1.3, "suppress_tokens": [5], "constraints": [1]}
    with_json("generation_config.json", **search)(folder)
    assert import_model(str(folder), tmp_path / "model.safetensors") is None
    note, warning = caplog.messages[-2:]
    assert all(key in note for key in search) and warning.startswith(
        "translations are not compared with those of transformers: "
    )
    assert (tmp_path / "model.safetensors").exists()


def test_subwords_that_the_model_lacks_are_unknown_to_it_and_never_written(hub: tuple[Path, Imported]) -> None:
    folder, read = hub
    given = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    pieces, bias = read.vocabulary.source.every_piece(), read.weights["output.bias"]
    lacking = [i for i, piece in enumerate(pieces) if piece not in given]
    assert any(pieces[i].endswith("Fenster") for i in lacking) and BOS in lacking
    assert bool((bias[lacking] == NEVER_CHOSEN).all()) and int((bias == NEVER_CHOSEN).sum()) == len(lacking)


def test_a_run_from_an_imported_model_is_resumed_bit_for_bit(tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    import_model(str(marian_folder(tmp_path / "hub")), tmp_path / "start.safetensors")
    for side, seed in (("en", 6), ("de", 7)):
        for name in ("train", "validation"):
            (tmp_path / f"{name}.{side}").write_text("".join(f"{line}\n" for line in text(seed)), encoding="utf-8")
    corpora = {name: [(tmp_path / f"{name}.en", tmp_path / f"{name}.de")] for name in ("train", "validation")}
    init(InitRequest(tmp_path / "c.yaml", **corpora, start_from=tmp_path / "start.safetensors"))
    models = {}
    for name, steps in (("once", [12]), ("resumed", [5, 12])):
        for most in steps:
            few = [f"training.{key}=12" for key in ("validate_every", "checkpoint_every")]
            few += ["training.batch_tokens=200", "training.validation_bleu=false", "data.validation_in_training=warn"]
            settings = schema.load(
                tmp_path / "c.yaml", [*few, f"training.max_steps={most}", f"run_dir={tmp_path / name}"]
            )
            train(settings, "cpu")
        models[name] = model_file.load(model_file.checkpoint_path(tmp_path / name, 12))
    started = model_file.load(tmp_path / "start.safetensors")
    for name, weight in models["once"].weights.items():
        assert torch.equal(weight, models["resumed"].weights[name]), name
        assert not torch.equal(weight, started.weights[name]), name
    assert models["once"].vocabulary.protos == started.vocabulary.protos


def test_with_another_vocabulary_known_subwords_keep_row_and_bias(tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    read = HUB_IMPORTER.read(marian_folder(tmp_path / "hub"), "name", ())
    model_file.save(tmp_path / "start.safetensors", read.checkpoint({}))
    files = [tmp_path / name for name in ("train.en", "train.de", "validation.en", "validation.de")]
    for path in files:
        path.write_text("".join(f"{line}\n" for line in text(6)), encoding="utf-8")
    train_set, validation_set = (files[0], files[1]), (files[2], files[3])
    init(
        InitRequest(tmp_path / "c.yaml", None, None, [train_set], [validation_set], (), tmp_path / "start.safetensors")
    )
    few = ["training.max_steps=1", "training.batch_tokens=200", "training.validation_bleu=false"]
    few += ["data.validation_in_training=warn", "vocabulary.relearn=true", "vocabulary.size=320"]
    train(schema.load(tmp_path / "c.yaml", [*few, f"run_dir={tmp_path / 'run'}"]), "cpu")
    begun = model_file.load(model_file.checkpoint_path(tmp_path / "run", 0))
    old, new = (each.vocabulary.target.every_piece() for each in (read, begun))
    both = [piece for piece in new if piece in old]
    assert len(both) > 30 and len(new) == 320
    for name in ("target_embedding.weight", "output.bias"):
        rows = begun.weights[name][[new.index(piece) for piece in both]]
        assert torch.equal(rows, read.weights[name][[old.index(piece) for piece in both]]), name


@pytest.mark.parametrize(("codes", "wanted"), [(("de", "fr"), ("en", "fr")), (("fra",), ())])
def test_one_language_of_a_model_with_tokens_gets_its_token(
    codes: tuple[str, ...], wanted: tuple[str, ...], tmp_path: Path
) -> None:
    read = HUB_IMPORTER.read(marian_folder(tmp_path, codes=codes), "name", wanted)
    assert difference(read.checkpoint({}), in_transformers(tmp_path), SAMPLE) < 1e-4
    [pair] = read.config.data.language_pairs.pairs
    assert read.config.data.language_pairs.tags(pair) == (f"<2{codes[-1]}>",)
    model_file.save(tmp_path / "model.safetensors.nmt", read.checkpoint({}))
    export(tmp_path / "model.safetensors.nmt", "marian", tmp_path / "out", lines=SAMPLE)
    again = HUB_IMPORTER.read(tmp_path / "out", "name", ())
    assert difference(again.checkpoint({}), in_transformers(tmp_path / "out"), SAMPLE) < 1e-4


def test_import_and_export_keep_the_model(tmp_path: Path) -> None:
    """Imported, exported for transformers and imported again it is the same model; the folder's provenance is kept."""
    (tmp_path / "hub").mkdir()
    folder = marian_folder(tmp_path / "hub", codes=("de", "fr"))
    (folder / "README.md").write_text("---\nlanguage: en\nlicense: cc-by-4.0\n---\nA model.\n")
    first, again = tmp_path / "first.safetensors", tmp_path / "again.safetensors"
    assert import_model(str(folder), first) is not None
    provenance = model_file.load_provenance(first)
    assert provenance["license"] == "cc-by-4.0" and provenance["imported_from"] == folder.name

    export(first, "marian", tmp_path / "out")
    shutil.copy(folder / "README.md", tmp_path / "out")
    assert import_model(str(tmp_path / "out"), again) is not None
    lines = text(5, 20)
    for language in ("de", "fr"):
        one, other = (nmt.load(file).translate(lines, to=language) for file in (first, again))
        assert one == other
    scores = [nmt.load(file).score(lines, lines[::-1], to="de") for file in (first, again)]
    for mine, its in zip(*scores, strict=True):
        assert mine is not None and its is not None
        assert mine.token_scores == pytest.approx(its.token_scores, abs=1e-4)


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").unlink()

    class Code:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (folder / "executed",)

    torch.save({"model.shared.weight": Code()}, folder / "pytorch_model.bin")


def with_json(name: str, **changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changes}), encoding="utf-8")

    return change


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def cut(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-100])


HOSTILE: dict[str, tuple[Callable[[Path], None], str]] = {
    "sizes that no machine has": (
        with_json("config.json", d_model=2**40),
        "model.d_model: expected whole number, .* at most 1,000,000",
    ),
    "layers without end": (with_json("config.json", encoder_layers=900), "has no weight model.encoder.layers.2"),
    "a number as text": (with_json("config.json", d_model="32"), "d_model: 32: a whole number is expected"),
    "a vocabulary without end": (with_json("config.json", vocab_size=10**30), "and the settings say"),
    "positions without end": (with_json("config.json", max_position_embeddings=10**12), "max_position_embeddings"),
    "another model": (with_json("config.json", model_type="t5"), "model_type: t5: nmt imports marian"),
    "no scale": (with_json("config.json", scale_embedding=False), "scale_embedding: False: cannot be imported"),
    "an activation": (with_json("config.json", activation_function="mish"), "activation_function: mish"),
    "ids twice": (with_json("vocab.json", **{"<unk>": 0}), "its ids are not 0 to"),
    "code in weights": (pickled, "it has code, which is not executed"),
    "weights cut off": (cut("model.safetensors"), "cannot be read"),
    "vocabulary cut off": (cut("source.spm"), "not a SentencePiece model"),
    "no weights": (without("model.safetensors"), "has neither model.safetensors nor pytorch_model.bin"),
    "no subwords": (without("target.spm"), "target.spm: missing"),
    "a start that is no subword": (with_json("config.json", decoder_start_token_id=10**9), "decoder_start_token_id"),
}


@pytest.mark.parametrize(("change", "words"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_wrong_in_a_folder_is_said_in_one_line(
    change: Callable[[Path], None], words: str, hub: tuple[Path, Imported], tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(hub[0], folder)
    change(folder)
    with pytest.raises(NmtError, match=words) as error:
        import_model(str(folder), tmp_path / "model.safetensors")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "model.safetensors").exists() and not (folder / "executed").exists()


def test_a_name_on_the_hub_is_downloaded_with_its_safest_weights(
    hub: tuple[Path, Imported], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    folder, asked = hub[0], list[list[str]]()

    def snapshot_download(name: str, allow_patterns: list[str]) -> str:
        assert name == "someone/a-model"
        asked.append(allow_patterns)
        return str(folder)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    assert source.locate("someone/a-model") == folder
    assert len(asked) == 1 and not any("bin" in pattern for pattern in asked[0])
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: 1 / 0)
    with pytest.raises(NmtError, match="cannot be downloaded from the Hugging Face hub"):
        source.locate("someone/a-model")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(NmtError, match=r"someone/a-model: no such file .* pip install 'nmt-toolkit\[hub\]'$"):
        source.locate("someone/a-model")


def npz_with(**changes: Any) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        arrays = {**np.load(path), **{name.replace("special_", "special:"): array for name, array in changes.items()}}
        np.savez(path, **arrays)

    return change


def settings_with(**changes: Any) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        known = yaml.safe_load(MarianFilesText(path))
        written = yaml.safe_dump({**known, **{key.replace("_", "-"): value for key, value in changes.items()}})
        np.savez(path, **{**np.load(path), "special:model.yml": np.frombuffer(written.encode() + b"\0", np.int8)})

    return change


def MarianFilesText(path: Path) -> str:
    return np.load(path)["special:model.yml"].tobytes().rstrip(b"\0").decode()


def bomb(path: Path) -> None:
    np.savez_compressed(path, zeros=np.zeros(1 << 24, np.float32))


def huge_header(path: Path) -> None:
    """An array whose header says that it has 2^50 numbers."""
    import io
    import zipfile

    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 50,)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("Wemb.npy", header.getvalue() + bytes(64))


HOSTILE_NPZ: dict[str, tuple[Callable[[Path], None], str]] = {
    "objects": (npz_with(Wemb=np.array([{}], dtype=object)), "holds Python objects"),
    "a bomb": (bomb, "is more than 20 times as large when uncompressed"),
    "a header": (huge_header, "does not have the size of its shape"),
    "no zip": (lambda path: path.write_bytes(b"PK\3\4 and nothing") and None, "cannot be read as .npz"),
    "a recurrent model": (settings_with(type="s2s"), "type: s2s: cannot be imported: only a Transformer"),
    "average attention": (settings_with(transformer_decoder_autoreg="average-attention"), "self-attention"),
    "an SSRU": (settings_with(transformer_decoder_autoreg="rnn"), "self-attention"),
    "from right to left": (settings_with(right_left=True), "right-left: True: cannot be imported"),
    "pre-norm": (settings_with(transformer_preprocess="n"), "transformer-preprocess: n: cannot be imported"),
    "learned positions": (settings_with(transformer_train_positions=True), "in nmt positions are sinusoids"),
    "another shape": (npz_with(encoder_l1_self_Wq=np.zeros((3, 3), np.float32)), r"is \[3, 3\], but its settings need"),
    "a weight too many": (npz_with(decoder_l1_aan_W1=np.zeros((2, 2), np.float32)), "does not exist in a model of nmt"),
}


@pytest.mark.parametrize(("change", "words"), HOSTILE_NPZ.values(), ids=HOSTILE_NPZ)
def test_what_is_wrong_in_an_npz_is_said_in_one_line(
    change: Callable[[Path], None], words: str, tmp_path: Path
) -> None:
    path = marian_npz(tmp_path)
    change(path)
    with pytest.raises(NmtError, match=words) as error:
        import_model(str(path), tmp_path / "model.safetensors", ("en", "de"))
    assert "\n" not in str(error.value) and not (tmp_path / "model.safetensors").exists()
