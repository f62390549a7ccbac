"""Conflicts between settings. Each message names the keys involved and what to change."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from nmt.config import cleaning_section, data_section, model_section, sections
from nmt.config.data_section import LONGEST_OUTPUT
from nmt.config.language_codes import normal
from nmt.config.language_pairs import LanguagePair
from nmt.config.metrics import METRICS
from nmt.config.suggestions import did_you_mean
from nmt.files.compression import plain_ending

# Not the names of SentencePiece's own subwords: <pad>, <unk>, <s>, </s>, and bytes such as <0x0A>.
_TAG = r"<(?!(pad|unk|s|0x[0-9A-Fa-f]{2})>)[A-Za-z0-9][A-Za-z0-9_-]{0,39}>"


def in_data(data: data_section.DataConfig) -> Iterator[str]:
    if not data.train:
        yield "data.train is empty: name at least one corpus"
    for i, corpus in enumerate(data.train):
        yield from in_corpus(corpus, f"data.train[{i}]")
        if corpus.sacrebleu:
            yield f"data.train[{i}].sacrebleu is a test set, not for training: name it in data.validation"
    weighted = [corpus.weight is not None for corpus in data.train]
    if any(weighted) and not all(weighted):
        yield f"data.train[{weighted.index(False)}] has no weight, but others have: give every corpus one, or none"
    if any(weighted) and data.temperature is not None:
        yield "data.temperature does not go with data.train[0].weight: give weights, or the temperature"
    yield from in_stages(data)
    yield from in_validation(data)
    yield from in_languages(data)
    yield from in_scores(data)
    yield from in_augment(data.augment)


def in_validation(data: data_section.DataConfig) -> Iterator[str]:
    single, names = isinstance(data.validation, data_section.Corpus), data.held_out_names
    trained = data.language_pairs
    for i, (corpus, name) in enumerate(zip(data.held_out, names, strict=True)):
        key = "data.validation" if single else f"data.validation[{i}]"
        yield from in_corpus(corpus, key)
        if corpus.weight is not None:
            yield f"{key}.weight has no effect, as validation does not mix corpora: delete it"
        if corpus.tag is not None:
            yield f"{key}.tag has no effect, as translation adds no tag: delete it"
        if corpus.scores is not None:
            yield f"{key}.scores has no effect, as validation text is not cleaned: delete it"
        if names.index(name) < i:
            yield f"{key} and data.validation[{names.index(name)}] are both called {name}: give each another name"
        pair = data.pair_of(corpus)
        if data.train and (pair.target not in trained.targets or pair.source not in trained.sources):
            exchanged = LanguagePair(pair.target, pair.source) in trained.pairs
            remedy = "change its languages"
            if exchanged:
                setting = f"{key}.reversed={str(not corpus.reversed).lower()}"
                remedy = f"give the files of both in the same order, or set {setting}"
            pairs = ", ".join(map(str, trained.pairs))
            yield f"{key} is from {pair.source} into {pair.target}, and data.train has {pairs}: {remedy}"


def in_languages(data: data_section.DataConfig) -> Iterator[str]:
    """A language must have one spelling. With several language pairs, each language needs a valid token."""
    pairs = data.language_pairs
    by_normal: dict[str, str] = {}
    for code in (*pairs.sources, *pairs.targets):
        if by_normal.setdefault(normal(code), code) != code:
            yield f"languages {by_normal[normal(code)]} and {code} differ only in spelling: use one of them"
    if not pairs.has_tags:
        return
    own = {corpus.tag for corpus in data.train}
    made = {"both": ("<2{}>", "<{}>"), "sides": ("<{}>",)}.get(pairs.tagged, ("<2{}>",))
    for code in dict.fromkeys([*pairs.sources, *pairs.targets]):
        for tag in (form.format(code) for form in made):
            if not re.fullmatch(_TAG, tag):
                yield f"language {code!r} cannot be written as a token, {tag}: use a code such as en or pt-BR"
            elif tag in own:
                yield f"data.train: {tag} is the token of a language: give that corpus another tag"


def in_scores(data: data_section.DataConfig) -> Iterator[str]:
    clean = data.clean or cleaning_section.CleaningConfig()
    bounds = clean.scores or {}
    names = list(dict.fromkeys(chain.from_iterable(corpus.named_scores for corpus in data.train)))
    unused = clean.score is None and "score" not in bounds and not clean.same_source and not clean.same_target
    scored = [i for i, corpus in enumerate(data.train) if isinstance(corpus.scores, str)]
    if scored and unused:
        yield f"data.train[{scored[0]}].scores is only for data.clean.score: set it, such as -5, or delete the scores"
    if clean.score is not None and "score" not in names:
        yield "data.clean.score needs scores of pairs: give data.train[0].scores, a file written by nmt score"
    for name, bound in bounds.items():
        if name not in names:
            meant = _meant(name, names) if names else f": give data.train[0].scores: {{{name}: FILE}}"
            yield f"data.clean.scores.{name}: no corpus in data.train has this score{meant}"
        if bound.min is not None and bound.max is not None and bound.min > bound.max:
            yield f"data.clean.scores.{name}: min {bound.min:g} is above max {bound.max:g}: no pair would be kept"
    for i, name in ((i, name) for i, corpus in enumerate(data.train) for name in corpus.named_scores):
        if not re.fullmatch(r"\w[\w-]*", name):
            yield f"data.train[{i}].scores: {name!r}: a name can only have letters, digits, - and _: choose another"
    for name in cleaning_section.RULE_NAMES:
        if getattr(clean, name) not in (getattr(clean.applied, name), getattr(cleaning_section.CleaningConfig, name)):
            yield f"data.clean.{name} has no effect, as data.clean.rules leaves it out: list it there, or delete it"


def in_corpus(corpus: data_section.Corpus, key: str) -> Iterator[str]:
    """key: the path of the corpus in the settings."""
    locations = {
        "source + target": corpus.source or corpus.target,
        "file": corpus.file,
        "hub": corpus.hub,
        "opus": corpus.opus,
        "sacrebleu": corpus.sacrebleu,
    }
    kinds = [kind for kind, value in locations.items() if value]
    if len(kinds) != 1:
        yield f"{key}: give exactly one of {', '.join(locations)}; found {' and '.join(kinds) or 'none of them'}"
    elif kinds == ["source + target"]:
        for side, other in (("source", "target"), ("target", "source")):
            if getattr(corpus, side) is None:
                yield f"{key}.{other} is given without {key}.{side}: both sides are needed"
        for column in ("source_column", "target_column"):
            if getattr(corpus, column) is not None:
                yield f"{key}.{column} does not go with {key}.source: plain text has no columns"
    ending = plain_ending(Path(corpus.file)) if corpus.file else ""
    if corpus.invalid != "error" and (corpus.hub or corpus.sacrebleu or ending in (".tmx", ".parquet")):
        yield f"{key}.invalid is only for files of lines, .tsv, .csv, .jsonl and OPUS: delete it"
    columns = [name for name, place in corpus.named_scores.items() if isinstance(place, cleaning_section.ScoreColumn)]
    if columns and (kinds not in (["file"], ["hub"]) or ending == ".tmx"):
        yield f"{key}.scores.{columns[0]}: this corpus has no columns: give a file with a line for each pair"
    if (name := corpus.own_name) is not None and name != name.strip():
        yield f"{key}.name: {name!r}: begins or ends with a space: delete it"
    if corpus.tag is not None and not re.fullmatch(_TAG, corpus.tag):
        yield f"{key}.tag: {corpus.tag!r}: must be a name in angle brackets that is not taken, such as <bt>"
    for kind, names in {"hub": ("split", "revision", "streaming"), "opus": ("version",)}.items():
        for name in names:
            if getattr(corpus, name) and not getattr(corpus, kind):
                yield f"{key}.{name} is only for {key}.{kind}: delete it"


def in_stages(data: data_section.DataConfig) -> Iterator[str]:
    if not data.stages:
        return
    names = [corpus.label for corpus in data.train]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"data.train: several corpora are named {name}: data.stages needs different names"
    for i, corpus in enumerate(data.train):
        if corpus.weight is not None:
            yield f"data.train[{i}].weight does not go with data.stages: give the weights in the stages"
    if data.temperature is not None:
        yield "data.temperature does not go with data.stages: give the temperature in the stages"
    for i, stage in enumerate(data.stages):
        key, last = f"data.stages[{i}]", i == len(data.stages) - 1
        for setting, by_name in {"weights": stage.weights, "passes": stage.passes}.items():
            for name in by_name or {}:
                if name not in names:
                    yield f"{key}.{setting}.{name}: no corpus in data.train has this name{_meant(name, names)}"
        if stage.weights is not None and not any(stage.weights.values()):
            yield f"{key}.weights: no corpus has a weight above 0: give at least one"
        if stage.weights is not None and stage.temperature is not None:
            yield f"{key} has weights and a temperature: give one of them"
        for name in stage.passes or {}:
            if stage.weights is not None and not stage.weights.get(name):
                yield f"{key}.passes.{name} is never reached, as {name} has no weight in this stage: give it one"
        if stage.passes is not None and len(stage.passes) != 1:
            yield f"{key}.passes: a stage ends after passes over one corpus, not {len(stage.passes)}: name one"
        yield from in_end(stage, key, last=last)


def in_end(stage: data_section.Stage, key: str, *, last: bool) -> Iterator[str]:
    """Every stage except the last needs exactly one setting that ends it."""
    ends = [name for name in ("steps", "passes") if getattr(stage, name) is not None]
    if last and ends:
        yield f"{key}.{ends[0]}: the last stage lasts until the end of training: delete it, or add another stage"
    elif len(ends) > 1:
        yield f"{key} has {' and '.join(ends)}: give one of them"
    elif not last and not ends:
        yield f"{key} never ends, so the next stage cannot begin: give it steps or passes"


def _meant(name: str, names: Sequence[str]) -> str:
    """A hint for an unknown name. names: the known names."""
    return f"; {did_you_mean(name, names) or 'names: ' + ', '.join(names)}"


def in_augment(augment: data_section.AugmentConfig) -> Iterator[str]:
    cases = {"uppercase": augment.uppercase, "titlecase": augment.titlecase, "lowercase": augment.lowercase}
    for key, value in {**cases, "remove_end_punctuation": augment.remove_end_punctuation}.items():
        if isinstance(value, data_section.Variation) and not value.rate:
            yield f"data.augment.{key} has sides but no rate: give {{rate: 0.05, sides: {value.sides}}}, or delete it"
    rates = [value.rate if isinstance(value, data_section.Variation) else value for value in cases.values()]
    if sum(rates) > 1 + 1e-9:
        yield (
            f"data.augment: {', '.join(cases)} add up to {sum(rates):g}, but a pair gets at most one of them: lower "
            "them until their sum is at most 1"
        )


def in_vocabulary(vocabulary: sections.VocabularyConfig, training: sections.TrainingConfig) -> Iterator[str]:
    if vocabulary.relearn and training.start_from is None:
        yield "vocabulary.relearn is only for training.start_from: delete it: other runs always learn a vocabulary"
    if vocabulary.shared and vocabulary.target_model not in (None, vocabulary.source_model):
        yield "vocabulary.target_model needs vocabulary.shared=false: set that, or give only vocabulary.source_model"


def in_model(
    model: model_section.ModelConfig, data: data_section.DataConfig, vocabulary: sections.VocabularyConfig
) -> Iterator[str]:
    match model:
        case model_section.TransformerConfig():
            yield from in_transformer(model)
        case model_section.RecurrentConfig():
            yield from in_recurrent(model)
        case _:
            return
    if model.tie == "all" and not vocabulary.shared:
        yield "model.tie=all needs vocabulary.shared=true: set model.tie=target, or share the vocabulary"
    longest = model.longest_position
    tags = max(map(len, data.tags_of(data.train, 0) + data.tags_of(data.train, 1)), default=0)
    if longest is not None and longest < data.max_length + 1 + tags:
        more = f" + {tags} (tokens before the text)" if tags else ""
        yield (
            f"{model.max_positions=} is below {data.max_length=} + 1 (end of sentence){more}: raise one or lower the "
            "other"
        )


def in_transformer(model: model_section.TransformerConfig) -> Iterator[str]:
    if model.d_model % model.heads and (model.key_size is None or model.value_size is None):
        yield f"{model.d_model=} is not a multiple of {model.heads=}: change one, or give model.key_size and value_size"
    if model.d_model % 2 and model.positions in ("interleaved", "concatenated"):
        yield f"{model.d_model=} is odd, and {model.positions=!s} needs pairs of sine and cosine: make it even"
    if model.position_offset and model.positions not in ("interleaved", "concatenated"):
        yield f"{model.position_offset=} has no effect with {model.positions=!s}: delete it"
    if model.rotates and model.head_widths[0] % 2:
        key_size = f"{model.key_size=}" if model.key_size else f"{model.d_model=} / {model.heads=}"
        yield f"{key_size} is odd, and {model.positions=!s} rotates pairs of numbers: make it even"


def in_recurrent(model: model_section.RecurrentConfig) -> Iterator[str]:
    if model.tie != "none" and model.embedding_size != model.hidden_size:
        yield (
            f"{model.tie=!s} needs {model.embedding_size=} equal to {model.hidden_size=}: change one, or set "
            "model.tie=none"
        )
    if model.encoder_size is None and model.hidden_size % model.directions:
        yield f"{model.hidden_size=} is odd, and two directions share it: make it even, or give model.encoder_size"
    elif model.attention == "dot" and model.source_width != model.hidden_size:
        yield (
            f"{model.attention=!s} needs source states as wide as {model.hidden_size=}, and they have "
            f"{model.source_width}: change model.encoder_size, or set model.attention=general"
        )
    for key, default in {"attention_span": "global", "attention_choice": "soft"}.items():
        if model.attention == "none" and getattr(model, key) != default:
            yield f"{model.attention=!s} does not go with model.{key}={getattr(model, key)}: set model.{key}={default}"
    if model.attention_span == "global" and model.attention_window != model_section.RecurrentConfig.attention_window:
        local = "" if model.attention in ("none", "latent") else ", or choose a local span: local-m or local-p"
        yield f"{model.attention_window=} has no effect with {model.attention_span=!s}: delete it{local}"
    if model.attention == "latent" and model.attention_span != "global":
        yield f"{model.attention=!s} does not go with {model.attention_span=!s}: set model.attention_span=global"


def in_recurrent_training(training: sections.TrainingConfig) -> Iterator[str]:
    """Settings of training that do not apply to a recurrent model."""
    reasons = {
        "compile": "torch.compile unrolls the loop over the positions of each new length",
        "packed": "its batches are padded",
        "activation_checkpointing": "a recurrent model keeps the states of all positions",
    }
    for key, reason in reasons.items():
        if getattr(training, key):
            yield f"training.{key}=true does not go with model.architecture=recurrent ({reason}): remove it"


def in_training(
    training: sections.TrainingConfig, data: data_section.DataConfig, model: model_section.ModelConfig
) -> Iterator[str]:
    if isinstance(model, model_section.RecurrentConfig):
        yield from in_recurrent_training(training)
    yield from in_consistency(training, model)
    micro = training.micro_batch_tokens
    if isinstance(micro, int) and micro > training.batch_tokens:
        yield f"{training.micro_batch_tokens=} is above {training.batch_tokens=}: a micro-batch is a part of a batch"
    not_with_sharding = {
        "ema_decay": training.ema_decay is not None,
        "micro_batch_tokens": micro == "auto",
        "precision": training.precision == "float16",
        "optimizer": training.optimizer == "muon",  # which needs whole matrices
    }
    for key, is_set in not_with_sharding.items():
        if training.sharded and is_set:
            yield f"training.sharded does not go with training.{key}={getattr(training, key)}: remove one of them"
    if METRICS[training.best_metric].needs_translations and not training.validation_bleu:
        yield f"{training.best_metric=!s} needs training.validation_bleu=true, which translates the validation set"
    if training.best_set is not None and not data.held_out:
        yield "training.best_set needs data.validation: it names one of its sets"
    elif training.best_set is not None and training.best_set not in data.held_out_names:
        meant = _meant(training.best_set, data.held_out_names)
        yield f"training.best_set: {training.best_set[:100]}: no set of data.validation has this name{meant}"
    if training.patience is not None and not data.held_out:
        yield "training.patience needs data.validation: it counts validations without a new best"
    yield from in_schedule(training)


def in_consistency(training: sections.TrainingConfig, model: model_section.ModelConfig) -> Iterator[str]:
    if training.consistency == "none" and training.consistency_weight is not None:
        yield f"{training.consistency_weight=:g} needs training.consistency=rdrop or simcut: set one, or delete it"
    hard = isinstance(model, model_section.RecurrentConfig) and model.attention_choice == "hard"
    if hard and training.passes > 1:
        yield (
            f"training.consistency={training.consistency} does not go with model.attention_choice=hard, which reads "
            "other positions in each pass: remove one of them"
        )
    if training.token_cutoff and not training.cutoff:
        yield (
            f"{training.token_cutoff=:g} has no effect with training.consistency=simcut and "
            "training.consistency_weight=0, as there is no second pass: delete it, or set training.consistency=none"
        )
    dropouts = [getattr(model, name, 0) for name in ("dropout", "attention_dropout", "activation_dropout")]
    if training.passes > 1 and not training.cutoff and not any(dropouts):
        yield (
            f"training.consistency={training.consistency} needs model.dropout or training.token_cutoff above 0: "
            "otherwise both passes are the same"
        )


def in_schedule(training: sections.TrainingConfig) -> Iterator[str]:
    schedule, peak = training.schedule, training.learning_rate
    if schedule == "paper" and peak is not None:
        yield (
            "training.learning_rate does not go with training.schedule=paper, whose peak follows from "
            "the model's width and training.warmup_steps: choose inverse_sqrt to set the peak"
        )
    if schedule != "paper" and peak is None:
        yield f"{training.schedule=!s} needs training.learning_rate: give the peak, such as 0.0005"
    if peak is not None and training.final_learning_rate > peak:
        yield f"{training.final_learning_rate=:g} is above {training.learning_rate=:g}, the peak from which it falls"
    if schedule in ("paper", "inverse_sqrt") and training.warmup_steps == 0:
        yield f"training.warmup_steps=0 does not go with {training.schedule=!s}: give at least 1"
    falling = ("cosine", "linear", "warmup_stable_decay")
    if schedule in falling and training.warmup_steps >= training.max_steps:
        yield (
            f"{training.warmup_steps=} is not below {training.max_steps=}: {training.schedule=!s} could not decay: "
            f"set training.warmup_steps={min(sections.fitting_warmup(training.max_steps), training.max_steps - 1)}"
        )
    if schedule not in falling and training.final_learning_rate:
        yield f"training.final_learning_rate has no effect with {training.schedule=!s}: choose {', '.join(falling)}"


def in_decoding(
    decoding: sections.DecodingConfig, longest_source: int, vocabulary: sections.VocabularyConfig
) -> Iterator[str]:
    """longest_source: the subwords of the longest source that is translated without splitting."""
    if decoding.max_length is not None and decoding.min_length > decoding.max_length:
        yield f"{decoding.min_length=} is above {decoding.max_length=}: raise one or lower the other"
    if decoding.min_length_ratio > decoding.max_length_ratio:
        yield f"{decoding.min_length_ratio=:g} is above {decoding.max_length_ratio=:g}: raise one or lower the other"
    if decoding.method == "beam":
        for key in ("top_k", "top_p"):
            if getattr(decoding, key) is not None:
                yield f"decoding.{key} is for sampling: set decoding.method=sample, or decoding.{key}=null"
        if decoding.temperature != 1:
            yield f"{decoding.temperature=:g} is for sampling: set decoding.method=sample, or decoding.temperature=1"
    elif decoding.coverage_penalty:
        yield "decoding.coverage_penalty is for beam search: set decoding.method=beam, or decoding.coverage_penalty=0"
    for i, word in enumerate(decoding.banned):
        if not any(unicodedata.category(letter)[0] in "LN" for letter in word):
            yield f"decoding.banned[{i}]: {word!r} has no letter or digit, so it is not a word: delete it"
    for i, pattern in enumerate(decoding.keep):
        if pattern != "verbatim" and (hint := did_you_mean(pattern, ["verbatim"], cutoff=0.8)):
            yield f"decoding.keep[{i}]: {pattern!r}: {hint}"
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            yield f"decoding.keep[{i}]: {pattern!r} is not a regular expression: {error}"
            continue
        if any(not match[0] for match in compiled.finditer("A word, 2 more. ")):
            yield f"decoding.keep[{i}]: {pattern!r} matches an empty text: change it to match at least one character"
        if compiled.groups or compiled.flags != re.UNICODE:  # the patterns are joined to one
            yield f"decoding.keep[{i}]: {pattern!r}: write (?:…) for a group, and (?i:…) for a flag"
    learned = vocabulary.source_model is None and vocabulary.target_model is None
    if learned and decoding.beam_size > vocabulary.size:
        yield f"{decoding.beam_size=} is above {vocabulary.size=}: lower decoding.beam_size"
    longest = decoding.longest_output(longest_source)
    if longest > LONGEST_OUTPUT:
        yield (
            f"{decoding.max_length_ratio=:g} allows outputs of {longest:,} subwords for sources of {longest_source:,}: "
            f"lower it or decoding.max_source_tokens, or set decoding.max_length to at most {LONGEST_OUTPUT:,}"
        )
