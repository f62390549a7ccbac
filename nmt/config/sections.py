"""The sections of a run's settings: each setting declared once, with its type, default, range and meaning.

`configs/README.md` is printed from this file, `data_section.py` and `model_section.py`. `nmt.config.schema` puts the
sections together, `nmt.config.conflicts` checks which values do not go together, `nmt.config.reader` reads them
strictly.
"""

import math
from dataclasses import dataclass
from typing import Literal

from nmt.config.declaration import free_setting, model_setting, score_setting, setting
from nmt.config.metrics import TRANSLATION_METRICS, MetricName

_WARMUP_SHARE, _LONGEST_WARMUP = 5, 4000  # a fifth of the steps, at most the paper's
_ROUNDING = 1e-9  # 100 · 1.15 is a little less than 115 in floating-point numbers


@dataclass(frozen=True)
class VocabularyConfig:
    size: int = setting(
        8000,
        "number of subwords, including special ones; per language if not shared",
        at_least=8,
        at_most=10_000_000,
        affects="vocabulary",
    )
    shared: bool = setting(True, "one vocabulary for both languages", affects="vocabulary")
    character_coverage: float = setting(
        1.0,
        "share of the text's characters to include; 0.9995 for Chinese or Japanese",
        at_least=0.98,
        at_most=1,
        affects="vocabulary",
    )
    byte_fallback: bool = setting(
        True, "encode characters outside the vocabulary as bytes, so that none is unknown", affects="vocabulary"
    )
    normalization: Literal["fold_source", "nfc", "nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"] = setting(
        "fold_source",
        "Unicode normalization; `nfc`: NFC with single spaces, without invisible characters that have no meaning; "
        "`fold_source`: on the source also without compatibility forms, such as full-width letters; others: "
        "SentencePiece's rules, which also change the target; `_cf`: also lower-cased",
        affects="vocabulary",
    )
    sample_sentences: int = setting(
        1_000_000, "number of pairs to learn it from, drawn evenly from each corpus", at_least=1, affects="vocabulary"
    )
    source_model: str | None = setting(
        None, "use this SentencePiece model instead of learning one", path=True, affects="vocabulary", by_content=True
    )
    target_model: str | None = setting(
        None, "the same for the target; if shared, give only one", path=True, affects="vocabulary", by_content=True
    )
    relearn: bool = setting(
        False, "with training.start_from: learn a new vocabulary instead of using the model's", affects="vocabulary"
    )
    bpe_dropout: float = setting(
        0.0, "BPE-dropout: share of merges left out in training text", at_least=0, below=1, affects="tokens"
    )
    bpe_dropout_samples: int = setting(
        10,
        "with bpe_dropout or data.augment: how many versions of the training text are stored; each pass over a corpus "
        "uses the next",
        at_least=1,
        at_most=1000,
        affects="tokens",
    )


def fitting_warmup(steps: int) -> int:
    """The suggested warmup_steps for a run of this many steps, if the configured number is too large."""
    return max(1, min(_LONGEST_WARMUP, steps // _WARMUP_SHARE))


@dataclass(frozen=True)
class TrainingConfig:
    start_from: str | None = model_setting(
        None, "pretrained model that the run starts from, such as for fine-tuning: model file or run folder", path=True
    )
    freeze: tuple[str, ...] = free_setting(
        (), "parts that are not trained: `embeddings`, `encoder`, `decoder`, `output`, or layers, such as `encoder.0`"
    )
    batch_tokens: int = setting(
        25_000,
        "tokens of one optimizer step, on the side with more of them; padding counts, unless `packed`",
        at_least=1,
        affects="order",
    )
    micro_batch_tokens: int | Literal["auto"] | None = free_setting(
        None, "gradient accumulation: most tokens on a device at once; null: whole batch; auto: what fits", at_least=1
    )
    activation_checkpointing: bool = free_setting(
        False, "keep only each layer's input; compute the rest again in the backward pass: less memory, slower"
    )
    sharded: bool = free_setting(
        False, "split weights, gradients and optimizer state over devices: FSDP2, for large models"
    )
    gradient_precision: Literal["float32", "bfloat16"] = free_setting(
        "float32", "number format in which several devices sum their gradients; bfloat16: half as many bytes to send"
    )
    max_steps: int = free_setting(100_000, "number of optimizer steps", at_least=1)
    max_epochs: int | None = free_setting(
        None, "stop after this many passes over the data, or at max_steps", at_least=1
    )
    max_seconds: float | None = free_setting(
        None, "save and stop this many seconds after the start of the command; the run can be resumed", above=0
    )
    optimizer: Literal["adam", "muon"] = model_setting(
        "adam", "Adam, as in the paper; or Muon for the matrices in the layers, and Adam for all else"
    )
    schedule: Literal["paper", "inverse_sqrt", "cosine", "linear", "constant", "warmup_stable_decay"] = free_setting(
        "paper",
        "learning rate after the warmup; `paper`: equation 3, its peak from d_model or hidden_size; "
        "`warmup_stable_decay`: constant, then falling in the last fifth of max_steps",
    )
    learning_rate: float | None = free_setting(None, "peak learning rate; every schedule but `paper` needs it", above=0)
    final_learning_rate: float = free_setting(
        0.0, "learning rate at max_steps, with cosine, linear and warmup_stable_decay", at_least=0
    )
    warmup_steps: int = free_setting(4000, "steps in which the learning rate rises from 0", at_least=0)
    adam_betas: tuple[float, float] = free_setting((0.9, 0.98), "Adam's decay rates", at_least=0, below=1)
    adam_epsilon: float = free_setting(1e-9, "Adam's epsilon", above=0)
    weight_decay: float = free_setting(0.0, "decoupled weight decay on matrices, as in AdamW", at_least=0)
    clip_norm: float | None = free_setting(None, "gradient clipping: largest norm of the gradient; null: none", above=0)
    label_smoothing: float = free_setting(0.1, "probability mass spread over the vocabulary", at_least=0, below=1)
    consistency: Literal["none", "rdrop", "simcut"] = free_setting(
        "none",
        "regularization by R-Drop or SimCut: two passes over each batch must have similar predictions; half the speed",
    )
    consistency_weight: float | None = free_setting(
        None, "weight of the difference of the predictions; null: 5 with rdrop, 3 with simcut", at_least=0
    )
    token_cutoff: float | None = free_setting(
        None,
        "share of the tokens that are read without their embedding, with simcut only in the second pass; null: 0.05 "
        "with simcut, 0 otherwise",
        at_least=0,
        below=1,
    )
    ema_decay: float | None = free_setting(
        None, "decay of the exponential moving average of weights, such as 0.999 (`ema.safetensors`)", above=0, below=1
    )
    precision: Literal["auto", "float32", "tf32", "bfloat16", "float16"] = free_setting(
        "auto",
        "number format of the forward and backward pass; weights and optimizer state stay in float32; auto: bfloat16 "
        "on GPUs with hardware for it (NVIDIA: since Ampere), float32 elsewhere; a resumed run keeps its format",
    )
    # A free setting, although the order of the pairs depends on it: to write out what null has been is no change.
    # `Identity` compares the kinds of the batches.
    packed: bool | None = free_setting(
        None,
        "sequence packing: batches of one shape, without padding; null: on CUDA GPUs only (it is slow elsewhere), and "
        "a resumed run keeps its kind; it cannot be changed later",
    )
    compile: bool | None = free_setting(
        None,
        "compile the layers with torch.compile, if there is a compiler; null: on CUDA GPUs, if batches are packed and "
        "large enough",
    )
    threads: Literal["shared"] | None = free_setting(
        None,
        "on a CPU: use fewer threads while other programs run; null: only if this changes no weight; shared: always",
    )
    validate_every: int = free_setting(1000, "steps between validations", at_least=1)
    validation_bleu: bool = free_setting(
        True,
        f"also translate the validation set and compute {' and '.join(m.label for m in TRANSLATION_METRICS.values())}",
    )
    validation_sentences: int | None = score_setting(
        None, "translate only this many, the first ones; null: all", at_least=1
    )
    validation_samples: int = free_setting(5, "validation translations to log and write to `samples.jsonl`", at_least=0)
    checkpoint_every: int = free_setting(1000, "steps between checkpoints", at_least=1)
    keep_last: int = free_setting(10, "number of newest checkpoints to keep", at_least=1)
    keep_best: int = free_setting(5, "number of best checkpoints to keep", at_least=0)
    best_metric: MetricName = model_setting(
        "validation_loss", "the metric for `best.safetensors`, keep_best and patience"
    )
    best_set: str | None = model_setting(
        None, "with several validation sets: the name of the set that best_metric uses; null: the mean of all"
    )
    patience: int | None = free_setting(
        None, "early stopping: stop after this many validations without a new best; null: never", at_least=1
    )
    log_every: int = free_setting(100, "steps between lines in metrics.jsonl", at_least=1)
    tensorboard: bool = free_setting(False, "also write `RUN/tensorboard` (needs the extra `tensorboard`)")

    @property
    def weight_of_consistency(self) -> float:
        """consistency_weight, or its default, from Liang et al. 2021 and Gao et al. 2022."""
        default = {"none": 0.0, "rdrop": 5.0, "simcut": 3.0}[self.consistency]
        return default if self.consistency_weight is None else self.consistency_weight

    @property
    def passes(self) -> int:
        """The number of passes over each batch."""
        return 1 if self.consistency == "none" or not self.weight_of_consistency else 2

    @property
    def cutoff(self) -> tuple[float, ...]:
        """The rate of token cutoff in each pass; empty without token cutoff."""
        simcut = self.consistency == "simcut"
        rate = (0.05 if simcut else 0.0) if self.token_cutoff is None else self.token_cutoff
        rates = ((0.0, rate) if simcut else (rate, rate))[: self.passes]
        return rates if any(rates) else ()


@dataclass(frozen=True)
class DecodingConfig:
    method: Literal["beam", "sample"] = score_setting(
        "beam", "`beam`: beam search; `sample`: draw subwords by probability"
    )
    beam_size: int = score_setting(4, "hypotheses kept per sentence; 1: greedy search", at_least=1, at_most=1000)
    length_penalty: float = score_setting(
        0.6, "α of the length penalty, by which log P is divided", at_least=0, at_most=5
    )
    normalization: Literal["gnmt", "average", "none"] = score_setting(
        "gnmt", "the length penalty: ((5+|Y|)/6)^α, or |Y|^α (with α 1, log P per subword), or 1"
    )
    coverage_penalty: float = score_setting(
        0.0, "β of GNMT's coverage penalty, against leaving out parts of the source", at_least=0, at_most=1000
    )
    max_extra_tokens: int = score_setting(
        50, "longest output: max_length_ratio times the source's subwords plus this", at_least=0, at_most=10_000
    )
    max_length_ratio: float = score_setting(
        1.0, "longest output: this times the source's subwords, plus max_extra_tokens", at_least=0, at_most=100
    )
    max_length: int | None = score_setting(
        None, "longest output in subwords, for any source; null: no limit", at_least=1
    )
    min_length: int = score_setting(0, "shortest output in subwords (never above the longest)", at_least=0)
    min_length_ratio: float = score_setting(
        0.0, "shortest output: this times the source's subwords, if more", at_least=0
    )
    no_repeat_ngram: int | None = score_setting(
        None, "no sequence of this many subwords occurs twice in an output (of a long source: in one part)", at_least=1
    )
    banned: tuple[str, ...] = score_setting(
        (), "words or phrases that no output contains, in upper or lower case (of a long source: no part of the output)"
    )
    temperature: float = score_setting(1.0, "sampling: below 1, likely subwords are drawn more often", at_least=0.001)
    top_k: int | None = score_setting(None, "sampling: draw only from this many most likely subwords", at_least=1)
    top_p: float | None = score_setting(
        None, "sampling: draw only from the most likely subwords with this total probability", above=0, at_most=1
    )
    seed: int = score_setting(
        1, "random seed of sampling; with the line's text it determines the line's samples", at_least=0
    )
    consensus: Literal["none", "chrf", "bleu"] = score_setting(
        "none", "minimum Bayes risk: choose the candidate most similar to all others by chrF or BLEU"
    )
    candidates: int = score_setting(
        32, "consensus: number of samples to choose from; beam search has its beam_size best", at_least=1, at_most=1000
    )
    capitals: Literal["restore", "keep"] = score_setting(
        "restore",
        "lines IN CAPITALS; `restore`: translate the line in lower case, and write the translation in capitals; "
        "`keep`: translate the line as it is",
    )
    keep: tuple[str, ...] = score_setting(
        (),
        "protected text, which is copied to the translation unchanged, as often as in the line: regular expressions, "
        "or `verbatim` for URLs, e-mail addresses, tags and placeholders such as `{name}` and `%s`",
    )
    precision: Literal["model", "float32", "bfloat16", "float16", "int8"] = score_setting(
        "model",
        "number format: `model` is float32, or on CUDA the 16-bit format it was trained in; the others (float16: CUDA "
        "only; int8: CPU only) are faster with large models; translations can differ slightly",
    )
    engine: Literal["auto", "torch", "ctranslate2"] = free_setting(
        "auto",
        "program that computes translations: `ctranslate2`, an optional package, faster on CPUs; `torch`; or `auto`: "
        "CTranslate2 if it is installed and supports the other settings; validation always uses PyTorch",
    )
    shortlist: Literal["auto", "off"] = free_setting(
        "auto",
        "`auto`: if the model has a shortlist (`nmt shortlist`), CTranslate2 computes only subwords that may translate "
        "the source, which is faster; `off`: all subwords. PyTorch always computes all",
    )
    batch_tokens: int | Literal["auto"] = free_setting(
        "auto",
        "padded tokens searched at once: sentences × beam × longest source; auto: 16,000, more for many cores; on "
        "CUDA what fits into half of the free memory, at most 128,000",
        at_least=1,
    )
    max_source_tokens: int | None = score_setting(
        None,
        "longest source in subwords that is translated in one piece; null: `data.max_length`, or with `long_input: "
        "split` the length of nearly all training sources (for several sentences: of most such training sources)",
        at_least=1,
    )
    long_input: Literal["split", "cut", "skip", "error"] = score_setting(
        "split",
        "a longer source: translate it in parts (some sentences, or clauses) and join them; translate its beginning; "
        "write an empty line; or stop with an error. The number of such lines is reported",
    )

    def longest_output(self, source: int, positions: int | None = None) -> int:
        """The maximum number of subwords in an output for a source of `source` subwords. positions: the maximum that a
        model can produce. EOS is not counted."""
        longest = int(source * self.max_length_ratio + _ROUNDING) + self.max_extra_tokens
        return min(limit for limit in (longest, self.max_length, positions) if limit is not None)

    def least_output(self, source: int) -> int:
        """The minimum number of subwords in an output for a source of `source` subwords, by min_length_ratio."""
        return math.ceil(source * self.min_length_ratio - _ROUNDING)
