"""Exports a model for Bergamot, the translation engine of Firefox and translateLocally, a fork of Marian.

The engine multiplies matrices of 8-bit integers. Weights are quantised here; the engine quantises inputs, with
multipliers that are written beside the weights (`inputs`). All else is float32. Models that the engine cannot represent
are refused.
Source: browsermt/marian-dev, src/models/transformer.h and src/layers/generic.h; browsermt/bergamot-translator;
XapaJIaMnu/translateLocally, README.md and src/inventory/ModelManager.cpp.

Shapes: D d_model, V subwords.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from torch import Tensor, nn

from nmt.checkpoints.model_file import Checkpoint
from nmt.config.language_codes import english_name
from nmt.config.language_pairs import LanguagePair
from nmt.config.schema import Config, TransformerConfig
from nmt.data.subwords.vocabulary import BOS, PAD, UNK, Vocabulary
from nmt.errors import NmtError
from nmt.interop import model_card
from nmt.interop.bergamot import alignment, binary, inputs, layers, shortlist
from nmt.interop.bergamot.binary import LARGEST, BergamotTensor, multiplier_of, quantised
from nmt.interop.exporter import ExportOptions
from nmt.interop.model_card import EngineUsage
from nmt.interop.weights import NEVER_CHOSEN
from nmt.models.transformer.model import Transformer

CONFIG, MODEL_INFO = "config.intgemm8bitalpha.yml", "model_info.json"  # the names that translateLocally looks for
SETTINGS_ITEM = "special:model.yml"
_ACTIVATIONS = {"relu": "relu", "swish": "swish", "quick_gelu": "gelu"}  # Marian's gelu is quick_gelu
_NORM_EPSILON = 1e-6  # Marian's
_WIDTHS, _ROWS = 64, 8  # widths and vocabularies must be multiples of these
# The values of settings of `model` that the engine supports.
_VALUES: Mapping[str, Sequence[object]] = {
    "norm": ["post"],  # with pre, Marian computes keys and values from inputs that are not normalised
    "positions": ["concatenated"],
    "position_offset": [0],
    "decoder_start": ["zero"],
    "norm_epsilon": [_NORM_EPSILON],
    "activation": list(_ACTIVATIONS),
    "tie": ["all", "target"],
}
_FIX = "train a new model with the settings that nmt init --for bergamot writes"
# The largest sum of two neighbours in a column, as integers of the same sign. Processors multiply them with inputs of
# up to 254 (127 is added to inputs), and add both products in 16 bits; larger sums saturate.
_LARGEST_PAIR = 32767 // 254


class BergamotExporter:
    """A folder for Firefox and translateLocally. As nmt.interop.exporter.Exporter."""

    program = "Bergamot"
    quantizations: Sequence[str] = ("int8",)
    suffix: str | None = None
    has_splitter = False
    has_shortlist = True
    model_values: Mapping[str, Collection[object]] = _VALUES

    def load_package(self) -> object:
        return None  # nothing is missing: nmt writes the files itself

    def check(self, config: Config, vocabulary: Vocabulary | None = None) -> None:
        check(config)

    def write(self, destination: Path, loaded: Checkpoint, options: ExportOptions) -> None:
        """As Exporter.write. The inputs of the matrices are measured on the given lines, or on the validation text.
        Raises NmtError if there is neither."""
        names = file_names(loaded)
        lines = inputs.validation_sample(loaded) if options.lines is None else options.lines
        model = loaded.build()
        assert isinstance(model, Transformer)
        model.requires_grad_(False)
        layers.split_attention(model)
        batches = inputs.translated(model, loaded, lines)
        aligning = alignment.put_first(model, batches)
        multipliers = inputs.multipliers(model, batches)
        binary.write(destination / names["model"], list(_items(model, multipliers, aligning)))
        for side, tokenizer in (("srcvocab", loaded.vocabulary.source), ("trgvocab", loaded.vocabulary.target)):
            (destination / names[side]).write_bytes(tokenizer.proto)
        if loaded.shortlist is not None:
            shortlist.write(destination / names["shortlist"], loaded.shortlist)
        (destination / CONFIG).write_text(_decoder_settings(names), encoding="utf-8")
        pair = loaded.config.data.language_pairs.pairs[0]
        (destination / MODEL_INFO).write_text(_model_info(pair), encoding="utf-8")
        model_card.write(destination, loaded, EngineUsage("bergamot", _usage(names), quantization="int8"))

    def translate(self, destination: Path, loaded: Checkpoint, lines: Sequence[str]) -> None:
        """Returns None: the engine runs in browsers and Node.js. See scripts/bergamot_parity.py."""

    def notes(self, loaded: Checkpoint, options: ExportOptions) -> list[str]:
        return [
            "no translations were compared, because Bergamot's engine runs in browsers and Node.js only: "
            "scripts/bergamot_parity.py compares them there"
        ]


def check(config: Config) -> None:
    """Raises NmtError, which names all such settings, if the engine cannot represent the model apart from rounding."""
    model, pairs = config.model, config.data.language_pairs
    assert isinstance(model, TransformerConfig)
    if pairs.has_tags:
        listed = ", ".join(map(str, pairs.pairs))
        raise NmtError(f"data.train: languages {listed}: Bergamot has no language tokens: train a model of one pair")
    width = model.d_model // model.heads
    if model.d_model % model.heads or model.head_widths != (width, width):
        raise NmtError(
            f"model.heads: {model.heads}, model.key_size: {model.key_size}, model.value_size: {model.value_size}: "
            "Bergamot's heads are d_model / heads wide: train with heads that divide d_model, and without key_size and "
            "value_size"
        )
    needed = {
        key: " or ".join(map(str, values)) for key, values in _VALUES.items() if getattr(model, key) not in values
    }
    needed |= {key: f"a multiple of {_WIDTHS}" for key in ("d_model", "feed_forward") if getattr(model, key) % _WIDTHS}
    if needed:
        problems = (f"model.{key}: {getattr(model, key)}: Bergamot needs {values}" for key, values in needed.items())
        raise NmtError(f"{'; '.join(problems)}: {_FIX}")


def file_names(loaded: Checkpoint) -> dict[str, str]:
    """The file names that Firefox uses: the model, the vocabulary of each side, which can be the same file, and the
    shortlist if there is one."""
    pair = "".join(loaded.config.data.language_pairs.pairs[0])
    same = loaded.vocabulary.source.proto == loaded.vocabulary.target.proto
    names = {} if loaded.shortlist is None else {"shortlist": f"lex.{pair}.s2t.bin"}
    return names | {
        "model": f"model.{pair}.intgemm.alphas.bin",
        "srcvocab": f"vocab.{pair}.spm" if same else f"srcvocab.{pair}.spm",
        "trgvocab": f"vocab.{pair}.spm" if same else f"trgvocab.{pair}.spm",
    }


def _items(model: Transformer, multipliers: Mapping[str, float], aligning: int) -> Iterator[BergamotTensor]:
    """The model as Marian stores it. multipliers: for the input of each matrix, by its name; aligning: the index of the
    decoder layer whose first head aligns, from 0."""
    if not model.config.ties_embeddings:
        table = _with_spare_rows(model.source_embedding)
        yield quantised("encoder_Wemb", table, multiplier_of(np.abs(table).max()))
    yield _output_embeddings(model)
    bias = np.zeros(len(model.output_weight), dtype=np.float32)
    if model.output_bias is not None:
        bias += _numbers(model.output_bias)
    bias[[PAD, UNK, BOS]] = NEVER_CHOSEN
    bias = np.pad(bias, (0, -len(bias) % _ROWS), constant_values=NEVER_CHOSEN)
    yield BergamotTensor("decoder_ff_logit_out_b", bias[None])
    for name, bias_name, layer in layers.linear_layers(model):
        matrix = _numbers(layer.weight).T
        yield quantised(name, matrix, _multiplier(matrix))
        zeros = np.zeros(layer.out_features, dtype=np.float32)
        yield BergamotTensor(bias_name, (zeros if layer.bias is None else _numbers(layer.bias))[None])
    for scale, bias_name, norm in layers.norms(model):
        yield BergamotTensor(scale, _numbers(norm.weight)[None])
        yield BergamotTensor(bias_name, _numbers(norm.bias)[None])
    for name, multiplier in multipliers.items():
        yield BergamotTensor(f"{name}_QuantMultA", np.array([multiplier], dtype=np.float32))
    settings = yaml.safe_dump(_model_settings(model, aligning)).encode() + b"\0"
    yield BergamotTensor(SETTINGS_ITEM, np.frombuffer(settings, dtype=np.int8))


def _output_embeddings(model: Transformer) -> BergamotTensor:
    """The embeddings whose transpose is the matrix of the output layer, [V, D].

    The engine computes the multiplier of this matrix itself, from the largest value. The row of padding, which is never
    read, gets a value that leads to the multiplier that is used here.
    """
    table = _with_spare_rows(model.target_embedding)
    table[PAD] = 0
    multiplier = _multiplier(table.T)
    table[PAD, 0] = LARGEST / multiplier
    return quantised(layers.output_names(model)[0], table, multiplier)


def _with_spare_rows(embedding: nn.Embedding) -> NDArray[np.float32]:
    """A copy [V, D] with unused rows of zeros, up to a multiple of _ROWS."""
    table = _numbers(embedding.weight)
    return np.pad(table, ((0, -len(table) % _ROWS), (0, 0)))


def _multiplier(matrix: NDArray[np.float32]) -> np.float32:
    """The largest multiplier of a matrix [I, O] with which sums of products are exact on every processor."""
    pairs = matrix.reshape(len(matrix) // 2, 2, -1)
    sums = [np.maximum(sign * pairs, 0).sum(axis=1).max() for sign in (1, -1)]
    largest_pair = max(sums) * LARGEST / (_LARGEST_PAIR - 1)  # rounding adds up to 1
    return multiplier_of(max(np.abs(matrix).max(), largest_pair))


def _numbers(weight: Tensor) -> NDArray[np.float32]:
    return weight.float().numpy()


def _model_settings(model: Transformer, aligning: int) -> dict[str, Any]:
    """The settings of the model in Marian's terms."""
    config = model.config
    rows = [-(-size // _ROWS) * _ROWS for size in (model.source_embedding.num_embeddings, model.target_vocabulary)]
    return {
        "type": "transformer",
        "dim-vocabs": rows,
        "dim-emb": config.d_model,
        "enc-depth": len(model.encoder),
        "dec-depth": len(model.decoder),
        "tied-embeddings": config.ties_output and not config.ties_embeddings,
        "tied-embeddings-src": False,
        "tied-embeddings-all": config.ties_embeddings,
        "transformer-heads": config.heads,
        "transformer-dim-ffn": config.feed_forward,
        "transformer-ffn-depth": 2,
        "transformer-ffn-activation": _ACTIVATIONS[config.activation],
        "transformer-decoder-autoreg": "self-attention",
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "transformer-postprocess-top": "",
        "transformer-no-projection": False,
        "transformer-train-position-embeddings": False,
        "transformer-tied-layers": [],
        "transformer-guided-alignment-layer": str(aligning + 1),
        "layer-normalization": False,
        "lemma-dim-emb": 0,
        "output-omit-bias": False,
        "right-left": False,
        "skip": False,
        "ulr": False,
    }


def _decoder_settings(names: Mapping[str, str]) -> str:
    """The search settings for translateLocally and the engine's command line. Firefox has its own settings."""
    settings = {
        "relative-paths": True,
        "models": [names["model"]],
        "vocabs": [names["srcvocab"], names["trgvocab"]],
        "beam-size": 1,  # as in Firefox
        "normalize": 1.0,
        "word-penalty": 0,
        "max-length-break": 128,
        "mini-batch-words": 1024,
        "workspace": 128,
        "max-length-factor": 2.0,
        "skip-cost": True,
        "gemm-precision": "int8shiftAlphaAll",
    }
    if "shortlist" in names:
        settings["shortlist"] = [names["shortlist"], False]  # without a test of the checksum
    return yaml.safe_dump(settings, sort_keys=False)


def _model_info(pair: LanguagePair) -> str:
    source, target = (english_name(code) for code in pair)
    kind = "tiny"  # or base: translateLocally's names for the sizes of models
    info = {
        "modelName": f"{source}-{target} {kind}",
        "shortName": f"{pair.source}-{pair.target}-{kind}",
        "type": kind,
        "src": source,
        "trg": target,
        "srcTags": {pair.source: source},
        "trgTag": pair.target,
        "version": 1,
        "API": 1,
    }
    return json.dumps(info, ensure_ascii=False, indent=2) + "\n"


def _usage(names: Mapping[str, str]) -> str:
    shortlist = f"await file('{names['shortlist']}')" if "shortlist" in names else "new ArrayBuffer(0)"
    vocabularies = dict.fromkeys([names["srcvocab"], names["trgvocab"]])
    return f"""
translateLocally imports this folder, packed as a `.tar.gz`: Translator Settings, Languages, Import model. In a web
page, with `npm install @browsermt/bergamot-translator` and the files of this folder:

```js
import {{ TranslatorBacking }} from '@browsermt/bergamot-translator';
class Local extends TranslatorBacking {{ async loadModelRegistery() {{ return []; }} }}
const {{ exports: engine }} = await new Local({{}}).loadWorker();
const file = async (name) => (await fetch(name)).arrayBuffer();
await engine.loadTranslationModel({{ from: 'source', to: 'target' }}, {{
    model: await file('{names["model"]}'),
    vocabs: [{", ".join(f"await file('{name}')" for name in vocabularies)}],
    shortlist: {shortlist},
}});
const texts = [{{ text: 'A sentence.', html: false }}];
const [{{ target }}] = await engine.translate({{ models: [{{ from: 'source', to: 'target' }}], texts }});
console.log(target.text);
```
"""
