"""Every setting of a run, declared once: its type, default, range and meaning.

`configs/README.md` is printed from this file. Strict reading is in `nmt.config.reader`.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal

from nmt.config import reader
from nmt.config.reader import required, section, setting
from nmt.errors import NmtError

_WIDEST, _DEEPEST = 1_000_000, 1000  # of a model: no machine holds more, and building it must not be tried
# In subwords. Up to here every length penalty with an allowed α is a number in float32, and every score as well.
LONGEST_OUTPUT = 1_000_000


@dataclass(frozen=True)
class Corpus:
    """An entry of `data.train`, or `data.validation`: two text files (`source` and `target`), one table
    (`file`), or a Hugging Face dataset (`hub`).

        {source: train.en, target: train.de}
        {file: train.tsv.gz, source_column: "2", target_column: "3"}
        {hub: wmt/wmt14, name: de-en}

    Columns are named by dotted paths, so `translation.en` finds `{translation: {en: …}}`; those of a .tsv file
    are numbered from 1."""

    source: str | None = setting(None, "text file of source sentences, one a line; plain or .gz", path=True)
    target: str | None = setting(None, "text file of target sentences, aligned with `source`; plain or .gz", path=True)
    file: str | None = setting(
        None, "table with both sides: .tsv, .jsonl or .parquet (.tsv and .jsonl also .gz)", path=True
    )
    hub: str | None = setting(
        None, "dataset name on the Hugging Face hub, or a local folder in the hub's formats", path=True
    )
    name: str | None = setting(None, "with `hub`: the dataset's configuration, such as `de-en`")
    split: str | None = setting(None, "with `hub`: the split; `train` for training corpora, `validation` otherwise")
    revision: str | None = setting(None, "with `hub`: branch, tag or commit")
    streaming: bool = setting(
        False, "with `hub`: read over the network rather than download first; preparation reads it three times"
    )
    source_column: str | None = setting(
        None, "column of the source text; null: `translation.en`, `en` (the language) or `source`; in .tsv `1`"
    )
    target_column: str | None = setting(
        None, "column of the target text; null: `translation.de`, `de` (the language) or `target`; in .tsv `2`"
    )

    @property
    def label(self) -> str:
        """The corpus in a few words, for reports and messages."""
        if self.hub:
            return "/".join(part for part in (self.hub, self.name, self.split) if part)
        return self.file or f"{self.source} + {self.target}"

    def conflicts(self, key: str) -> Iterator[str]:
        """What is contradictory or missing in this corpus; `key` is where it stands in the config."""
        given = {"source + target": self.source or self.target, "file": self.file, "hub": self.hub}
        kinds = [kind for kind, value in given.items() if value]
        if len(kinds) != 1:
            found = " and ".join(kinds) or "none of them"
            yield f"{key}: give exactly one of source + target, file, or hub; here: {found}"
        elif kinds == ["source + target"]:
            for mine, other in (("source", "target"), ("target", "source")):
                if getattr(self, mine) is None:
                    yield f"{key}.{other} is given without {key}.{mine}: both sides are needed"
            for column in ("source_column", "target_column"):
                if getattr(self, column) is not None:
                    yield f"{key}.{column} does not go with {key}.source: plain text has no columns"
        if not self.hub:
            for name in ("name", "split", "revision", "streaming"):
                if getattr(self, name):
                    yield f"{key}.{name} needs {key}.hub: files have no such thing"


@dataclass(frozen=True)
class DataConfig:
    source_language: str = required("code of the language translated from, such as `en`")
    target_language: str = required("code of the language translated into, such as `de`")
    train: tuple[Corpus, ...] = required("the corpora trained on, one after the other; read as one")
    validation: Corpus | None = setting(None, "the held-out corpus that chooses checkpoints; null: none")
    store_dir: str | None = setting(
        None, "where prepared data is kept, to share it between runs; null: `RUN/data`", path=True
    )
    max_length: int = setting(
        256,
        "drop training pairs with more subwords than this on either side",
        at_least=1,
        at_most=LONGEST_OUTPUT // 10,
    )
    max_length_ratio: float | None = setting(
        9.0, "drop training pairs whose sides differ by more than this factor in subwords; null: keep", at_least=1
    )
    drop_duplicates: bool = setting(False, "drop training pairs seen before (both sides equal)")
    drop_copies: bool = setting(False, "drop training pairs whose source equals their target")
    over_budget: Literal["skip", "error"] = setting(
        "skip", "a pair that alone exceeds a batch's cells: skip it and count it, or stop"
    )
    pool_pairs: int = setting(
        1_000_000, "pairs shuffled and sorted by length together when batches are cut", at_least=1
    )
    workers: int | None = setting(None, "threads that encode text; null: one a core", at_least=1, at_most=1024)
    prefetch: int = setting(8, "batches read ahead of the training thread", at_least=1, at_most=1000)


@dataclass(frozen=True)
class VocabularyConfig:
    size: int = setting(
        8000, "subwords, with the four special ones; of each side if not shared", at_least=8, at_most=10_000_000
    )
    shared: bool = setting(True, "one vocabulary for both languages")
    character_coverage: float = setting(
        1.0,
        "share of the characters seen that become subwords; 0.9995 for Chinese or Japanese",
        at_least=0.98,
        at_most=1,
    )
    byte_fallback: bool = setting(True, "spell characters outside the vocabulary as bytes, so that none is unknown")
    normalization: Literal["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"] = setting(
        "nmt_nfkc", "SentencePiece's rule for the text before it is cut; `_cf` folds case"
    )
    sample_sentences: int = setting(
        1_000_000, "sentences of each side, drawn evenly from the training data, to learn from", at_least=1
    )
    source_model: str | None = setting(None, "use this SentencePiece model instead of learning one", path=True)
    target_model: str | None = setting(
        None, "the same for the target side; with a shared vocabulary give one only", path=True
    )
    bpe_dropout: float = setting(
        0.0, "BPE-dropout: probability with which each merge is left out in training text", at_least=0, below=1
    )
    bpe_dropout_samples: int = setting(
        10,
        "with it: different segmentations of the training text that are stored; each epoch takes the next",
        at_least=1,
        at_most=1000,
    )

    @property
    def segmentations(self) -> int:
        """How often the training text is stored, each time cut into subwords in another way."""
        return self.bpe_dropout_samples if self.bpe_dropout else 1


@dataclass(frozen=True)
class ModelConfig:
    architecture: Literal["transformer"] = setting("transformer", "kind of model: so far only the Transformer")
    d_model: int = setting(512, "width of the residual stream", at_least=1, at_most=_WIDEST)
    feed_forward: int = setting(2048, "inner width of the feed-forward layers", at_least=1, at_most=_WIDEST)
    layers: int = setting(6, "encoder layers, and decoder layers", at_least=1, at_most=_DEEPEST)
    encoder_layers: int | None = setting(None, "encoder layers; null: `layers`", at_least=1, at_most=_DEEPEST)
    decoder_layers: int | None = setting(None, "decoder layers; null: `layers`", at_least=1, at_most=_DEEPEST)
    heads: int = setting(8, "attention heads", at_least=1, at_most=_WIDEST)
    key_size: int | None = setting(
        None, "width of a head's queries and keys, d_k; null: d_model / heads", at_least=1, at_most=_WIDEST
    )
    value_size: int | None = setting(
        None, "width of a head's values, d_v; null: d_model / heads", at_least=1, at_most=_WIDEST
    )
    dropout: float = setting(0.1, "dropout on sub-layer outputs and on embeddings + positions", at_least=0, below=1)
    attention_dropout: float = setting(0.0, "dropout on attention weights", at_least=0, below=1)
    activation_dropout: float = setting(0.0, "dropout inside the feed-forward layers", at_least=0, below=1)
    activation: Literal["relu", "gelu", "swish"] = setting("relu", "the feed-forward layers' non-linearity")
    norm: Literal["post", "pre"] = setting("post", "layer norm after each residual sum (the paper) or before")
    positions: Literal["interleaved", "concatenated", "learned"] = setting(
        "interleaved", "sinusoids as in the paper, as in Tensor2Tensor (sines, then cosines), or learned"
    )
    max_positions: int = setting(1024, "longest sequence that learned positions cover", at_least=1, at_most=10_000_000)
    tie: Literal["all", "target", "none"] = setting(
        "all", "one matrix for both embeddings and the output layer, for target and output, or three"
    )
    bias: bool = setting(True, "biases in the attention and feed-forward projections")

    @property
    def longest_position(self) -> int | None:
        """The most positions that a sequence may have, BOS or EOS counted; None: no limit."""
        return self.max_positions if self.positions == "learned" else None


@dataclass(frozen=True)
class TrainingConfig:
    batch_tokens: int = setting(
        25_000, "one optimizer step: cells, sentences × the longest side among them, so padding counts", at_least=1
    )
    micro_batch_tokens: int | Literal["auto"] | None = setting(
        None,
        "most cells that one device holds at once; gradients accumulate over the rest; null: all; "
        "auto: as many as its memory holds, tried at the start",
        at_least=1,
    )
    activation_checkpointing: bool = setting(
        False, "keep each layer's input alone and compute the rest again in the backward pass: less memory, slower"
    )
    sharded: bool = setting(
        False, "several ranks share out weights, gradients and moments (FSDP2): for models too large for one device"
    )
    max_steps: int = setting(100_000, "optimizer steps", at_least=1)
    max_epochs: int | None = setting(None, "stop after this many passes over the data, if earlier", at_least=1)
    max_seconds: float | None = setting(
        None, "save and stop with status 0 after so long, counted from the start of the command; it resumes", above=0
    )
    schedule: Literal["paper", "inverse_sqrt", "cosine", "linear", "constant"] = setting(
        "paper", "learning rate after the warmup; `paper`: equation 3, whose peak follows from d_model"
    )
    learning_rate: float | None = setting(None, "peak; needed by every schedule but `paper`", above=0)
    final_learning_rate: float = setting(0.0, "where cosine and linear end, at max_steps", at_least=0)
    warmup_steps: int = setting(4000, "steps in which the learning rate rises from 0", at_least=0)
    adam_betas: tuple[float, float] = setting((0.9, 0.98), "Adam's decay rates", at_least=0, below=1)
    adam_epsilon: float = setting(1e-9, "Adam's epsilon", above=0)
    weight_decay: float = setting(0.0, "decoupled weight decay (AdamW) on matrices", at_least=0)
    clip_norm: float | None = setting(None, "clip the gradient to this norm; null: do not", above=0)
    label_smoothing: float = setting(0.1, "probability mass spread over the vocabulary", at_least=0, below=1)
    ema_decay: float | None = setting(
        None,
        "keep a moving average of the weights too, in `RUN/ema.safetensors`; such as 0.999, less in the first steps",
        above=0,
        below=1,
    )
    precision: Literal["float32", "tf32", "bfloat16", "float16"] = setting(
        "float32", "of the forward and backward pass; weights and optimizer stay in float32"
    )
    compile: bool = setting(False, "make kernels of the layers with torch.compile; without a compiler, go on without")
    validate_every: int = setting(1000, "steps between validations", at_least=1)
    validation_bleu: bool = setting(True, "translate the validation set as well and score BLEU and chrF")
    validation_sentences: int | None = setting(None, "translate only the first so many; null: all", at_least=1)
    validation_samples: int = setting(
        5, "first so many of them, whose translation is logged and kept in `samples.jsonl` each time", at_least=0
    )
    checkpoint_every: int = setting(1000, "steps between checkpoints", at_least=1)
    keep_last: int = setting(10, "newest checkpoints kept", at_least=1)
    keep_best: int = setting(5, "checkpoints kept that validated best", at_least=0)
    best_metric: Literal["validation_loss", "bleu", "chrf"] = setting(
        "validation_loss", "what `best.safetensors`, keep_best and patience go by"
    )
    patience: int | None = setting(None, "stop after so many validations without a new best; null: never", at_least=1)
    log_every: int = setting(100, "steps between lines in metrics.jsonl", at_least=1)
    tensorboard: bool = setting(False, "write `RUN/tensorboard` too (pip install tensorboard)")


@dataclass(frozen=True)
class DecodingConfig:
    method: Literal["beam", "sample"] = setting(
        "beam", "`beam`: the best that a search finds; `sample`: drawn from the model's distribution"
    )
    beam_size: int = setting(4, "hypotheses kept a sentence; 1 is greedy", at_least=1, at_most=1000)
    length_penalty: float = setting(0.6, "α of the length penalty, by which log P is divided", at_least=0, at_most=5)
    normalization: Literal["gnmt", "average", "none"] = setting(
        "gnmt", "the length penalty: ((5+|Y|)/6)^α, or |Y|^α (with α 1, log P per subword), or 1"
    )
    coverage_penalty: float = setting(
        0.0,
        "β of the GNMT coverage penalty, which ranks outputs lower that leave parts of the source out",
        at_least=0,
        at_most=1000,
    )
    max_extra_tokens: int = setting(
        50, "longest output: max_length_ratio times the source's subwords plus this", at_least=0, at_most=10_000
    )
    max_length_ratio: float = setting(
        1.0, "longest output: this times the source's subwords, plus max_extra_tokens", at_least=0, at_most=100
    )
    max_length: int | None = setting(None, "longest output in subwords, if that is less", at_least=1)
    min_length: int = setting(0, "shortest output in subwords, but never more than the longest", at_least=0)
    min_length_ratio: float = setting(
        0.0, "shortest output: this times the source's subwords, if that is more", at_least=0
    )
    no_repeat_ngram: int | None = setting(
        None,
        "no sequence of this many subwords twice in an output; where a long source is translated in parts, in each",
        at_least=1,
    )
    banned: tuple[str, ...] = setting(
        (), "words or phrases that no output holds, whatever their case; of a source in parts, no part of the output"
    )
    temperature: float = setting(1.0, "sampling: below 1 the likely come more often, above 1 less", at_least=0.001)
    top_k: int | None = setting(None, "sampling: from the so many likeliest subwords alone", at_least=1)
    top_p: float | None = setting(
        None, "sampling: from the fewest subwords that together have this probability", above=0
    )
    seed: int = setting(1, "of sampling; a line's samples follow from it and the line's text", at_least=0)
    consensus: Literal["none", "chrf", "bleu"] = setting(
        "none", "minimum Bayes risk: of the candidates, the one likest to all the others by chrF or BLEU"
    )
    candidates: int = setting(
        32, "what consensus chooses among: this many samples, or of a beam its beam_size best", at_least=1, at_most=1000
    )
    precision: Literal["model", "float32", "bfloat16", "int8"] = setting(
        "model",
        "`model`: float32, or on CUDA bfloat16 if it was trained so; bfloat16 and int8 (CPU alone) translate large "
        "models faster, and not quite the same",
    )
    batch_tokens: int = setting(16_000, "cells searched at once: sentences × beam × source subwords", at_least=1)
    max_source_tokens: int | None = setting(
        None, "longest source, in subwords, that is translated as it is; null: `data.max_length`", at_least=1
    )
    long_input: Literal["split", "cut", "skip", "error"] = setting(
        "split",
        "a longer source: translate it in parts (sentences, clauses, …) and rejoin them, translate its beginning, give "
        "an empty line, or stop; counted and said",
    )

    def longest_output(self, source: int) -> int:
        """The most subwords of an output for a source of `source` subwords, EOS not counted in either."""
        longest = int(source * self.max_length_ratio) + self.max_extra_tokens
        return longest if self.max_length is None else min(longest, self.max_length)

    def conflicts(self, where: str) -> Iterator[str]:
        """The settings that do not go together; `where` is put before each key."""
        if self.max_length is not None and self.min_length > self.max_length:
            yield (
                f"{where}min_length: {self.min_length} is above {where}max_length: {self.max_length}: "
                "raise one or lower the other"
            )
        if self.min_length_ratio > self.max_length_ratio:
            yield (
                f"{where}min_length_ratio: {self.min_length_ratio:g} is above {where}max_length_ratio: "
                f"{self.max_length_ratio:g}: raise one or lower the other"
            )
        if self.method == "beam":
            for key in ("top_k", "top_p"):
                if getattr(self, key) is not None:
                    yield f"{where}{key} is for sampling: set {where}method: sample, or delete it"
        elif self.coverage_penalty:
            yield f"{where}coverage_penalty is for beam search: set {where}method: beam, or delete it"
        if self.top_p is not None and self.top_p > 1:
            yield f"{where}top_p: {self.top_p:g} is above 1, the whole probability"
        for i, word in enumerate(self.banned):
            if not any(unicodedata.category(letter)[0] in "LN" for letter in word):
                yield f"{where}banned[{i}]: {word!r} has no letter or digit, so it is no word: delete it"


@dataclass(frozen=True, kw_only=True)
class Config:
    run_dir: str = required("folder of the run: everything it writes is under it", path=True)
    seed: int = setting(1, "of initialisation, dropout, shuffling and sampling", at_least=0)
    data: DataConfig = section(DataConfig, "What is trained and validated on.")
    vocabulary: VocabularyConfig = section(VocabularyConfig, "The subwords, learned from the training side only.")
    model: ModelConfig = section(ModelConfig, "The Transformer; the defaults are the paper's base model.")
    training: TrainingConfig = section(TrainingConfig, "Batches, optimizer, schedule, validation, checkpoints.")
    decoding: DecodingConfig = section(DecodingConfig, "Search, in validation and in `nmt translate`.")

    @property
    def longest_source(self) -> int:
        """The longest source that is translated as it is: of training where `decoding` names no other."""
        return self.decoding.max_source_tokens or self.data.max_length

    @property
    def search(self) -> DecodingConfig:
        """`decoding` with the longest source as a number."""
        return replace(self.decoding, max_source_tokens=self.longest_source)

    def conflicts(self) -> list[str]:
        """The combinations of settings that cannot work, each naming the keys that collide."""
        return [
            *self._impossible_data(),
            *self._impossible_model(),
            *self._impossible_training(),
            *self.decoding.conflicts("decoding."),
            *self._impossible_search(),
        ]

    def _impossible_search(self) -> Iterator[str]:
        decoding, vocabulary = self.decoding, self.vocabulary
        learned = vocabulary.source_model is None and vocabulary.target_model is None
        if learned and decoding.beam_size > vocabulary.size:
            yield (
                f"decoding.beam_size: {decoding.beam_size} is above vocabulary.size: {vocabulary.size}: "
                "lower decoding.beam_size"
            )
        longest = decoding.longest_output(self.longest_source)
        if longest > LONGEST_OUTPUT:
            yield (
                f"decoding.max_length_ratio: {decoding.max_length_ratio:g} allows outputs of {longest:,} subwords for "
                f"sources of {self.longest_source:,}: lower it or decoding.max_source_tokens, or set "
                f"decoding.max_length to at most {LONGEST_OUTPUT:,}"
            )

    def _impossible_data(self) -> Iterator[str]:
        data, vocabulary = self.data, self.vocabulary
        if not data.train:
            yield "data.train is empty: name at least one corpus"
        for i, corpus in enumerate(data.train):
            yield from corpus.conflicts(f"data.train[{i}]")
        if data.validation:
            yield from data.validation.conflicts("data.validation")
        if vocabulary.shared and vocabulary.target_model and vocabulary.target_model != vocabulary.source_model:
            yield (
                "vocabulary.target_model does not go with vocabulary.shared: true: "
                "give vocabulary.source_model alone, or set shared: false"
            )

    def _impossible_model(self) -> Iterator[str]:
        model = self.model
        if model.d_model % model.heads and (model.key_size is None or model.value_size is None):
            yield (
                f"model.d_model: {model.d_model} is not a multiple of model.heads: {model.heads}: "
                "change one, or give model.key_size and model.value_size"
            )
        if model.d_model % 2 and model.positions != "learned":
            yield (
                f"model.d_model: {model.d_model} is odd, and model.positions: {model.positions} pairs sines "
                "with cosines: make it even"
            )
        if model.tie == "all" and not self.vocabulary.shared:
            yield "model.tie: all needs vocabulary.shared: true: set tie: target, or share the vocabulary"
        if model.positions == "learned" and model.max_positions < self.data.max_length + 1:
            yield (
                f"model.max_positions: {model.max_positions} is below data.max_length: {self.data.max_length} + 1 "
                "(the end of sentence): raise one or lower the other"
            )

    def _impossible_training(self) -> Iterator[str]:
        training = self.training
        micro = training.micro_batch_tokens
        if isinstance(micro, int) and micro > training.batch_tokens:
            yield (
                f"training.micro_batch_tokens: {micro} is above training.batch_tokens: {training.batch_tokens}: "
                "a micro-batch is a part of a batch"
            )
        for key, clashes in {
            "ema_decay": training.ema_decay is not None,
            "micro_batch_tokens": micro == "auto",
            "precision": training.precision == "float16",
        }.items():
            if training.sharded and clashes:
                given = getattr(training, key)
                yield f"training.sharded does not go with training.{key}: {given}: it needs whole weights: drop one"
        if training.schedule == "paper" and training.learning_rate is not None:
            yield (
                "training.learning_rate does not go with training.schedule: paper, whose peak follows from "
                "model.d_model and training.warmup_steps: choose inverse_sqrt to set the peak"
            )
        if training.schedule != "paper" and training.learning_rate is None:
            yield f"training.schedule: {training.schedule} needs training.learning_rate: give the peak, such as 0.0005"
        if training.learning_rate is not None and training.final_learning_rate > training.learning_rate:
            yield (
                f"training.final_learning_rate: {training.final_learning_rate:g} is above training.learning_rate: "
                f"{training.learning_rate:g}: the rate falls from the peak to it"
            )
        if training.schedule in ("paper", "inverse_sqrt") and training.warmup_steps == 0:
            yield f"training.warmup_steps: 0 does not go with training.schedule: {training.schedule}: give at least 1"
        if training.schedule in ("cosine", "linear") and training.warmup_steps >= training.max_steps:
            yield (
                f"training.warmup_steps: {training.warmup_steps} is not below training.max_steps: "
                f"{training.max_steps}: training.schedule: {training.schedule} would have no steps to decay in"
            )
        if training.schedule not in ("cosine", "linear") and training.final_learning_rate:
            yield (
                f"training.final_learning_rate does nothing with training.schedule: {training.schedule}: "
                "delete it, or choose cosine or linear"
            )
        if training.best_metric != "validation_loss" and not training.validation_bleu:
            yield (
                f"training.best_metric: {training.best_metric} needs training.validation_bleu: true: "
                "it comes from translating the validation set"
            )
        if training.patience is not None and self.data.validation is None:
            yield "training.patience needs data.validation: without it nothing tells when to stop"


def load(path: Path, overrides: Sequence[str] = ()) -> Config:
    """The config in a YAML file, `section.key=value` overrides laid over it.

    Raises NmtError with every problem: unknown settings, wrong types, conflicts combinations.
    """
    return reader.load(Config, path, overrides)


_LONGEST = 2**17  # characters of a config: a thousand corpora; reading as much takes seconds


def parse(text: str, what: str) -> Config:
    """The config in a text, such as the one inside a model file; `what` names it in messages.

    Raises NmtError as `load` does, and for a text that is longer than any config, as only a damaged file has it.
    """
    if len(text) > _LONGEST:
        raise NmtError(f"{what}: {len(text):,} characters, more than {_LONGEST:,}: no settings are as long")
    return reader.parse(Config, text, what)


def overridden(of: Config, overrides: Sequence[str]) -> Config:
    """A config with `decoding.key=value` laid over it. Raises NmtError for other settings, and wrong values."""
    for override in overrides:
        if not override.startswith("decoding."):
            raise NmtError(_not_of_decoding(override))
    return reader.parse(Config, reader.to_yaml(of), "the model's settings", overrides) if overrides else of


def meant_for_decoding(argument: str) -> str | None:
    """`decoding.key=value` for an argument that says key=value with a key of that section alone; None for others."""
    key, equals, _ = argument.partition("=")
    known = [field.name for field in fields(DecodingConfig)]
    return f"decoding.{argument}" if equals and key in known else None


def _not_of_decoding(argument: str) -> str:
    """What is wrong with an argument that changes no decoding setting."""
    if meant := meant_for_decoding(argument):
        return f"{argument}: names no section; did you mean {meant}?"
    if "=" not in argument:
        return (
            f"{argument}: unexpected; settings are written as decoding.key=value, and a file to write as --output FILE"
        )
    return f"{argument}: only decoding settings can be changed for a trained model: decoding.key=value"
