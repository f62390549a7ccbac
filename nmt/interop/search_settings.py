"""The search that a model of another program was meant for, as settings of nmt; and what nmt does not have of it.

Source: transformers/generation/configuration_utils.py and logits_process.py; marian, src/common/config_parser.cpp.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nmt.config.schema import DecodingConfig
from nmt.interop import source
from nmt.interop.source import SourceSettings

GENERATION = "generation_config.json"

# Both programs divide log P by a power of the length.
_DEFAULT = DecodingConfig(normalization="average", length_penalty=1.0)
# Settings of transformers that nmt does not have, with the values that change nothing, beside null.
_LACKING: Mapping[str, tuple[object, ...]] = {
    "begin_suppress_tokens": ([],),
    "constraints": ([],),
    "diversity_penalty": (0,),
    "early_stopping": (True, False),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1,),
    "epsilon_cutoff": (0,),
    "eta_cutoff": (0,),
    "exponential_decay_length_penalty": (),
    "force_words_ids": ([],),
    "guidance_scale": (1,),
    "min_p": (0,),
    "num_beam_groups": (1,),
    "num_return_sequences": (1,),
    "penalty_alpha": (0,),
    "repetition_penalty": (1,),
    "sequence_bias": ([], {}),
    "stop_strings": ([],),
    "suppress_tokens": ([],),
    "top_h": (),
    "typical_p": (1,),
}
_CARRIED = {
    "bad_words_ids", "do_sample", "forced_bos_token_id", "forced_eos_token_id", "length_penalty", "min_length",
    "no_repeat_ngram_size", "num_beams", "temperature", "top_k", "top_p",
}  # fmt: skip
_OF_SAMPLING = {"temperature", "top_k", "top_p", "top_h", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff"}
_TOP_K = 50  # transformers' default
# What does not change which translation is found. All else in the file is named, such as settings of later versions.
_NO_MATTER = {
    "_commit_hash", "_from_model_config", "assistant_confidence_threshold", "assistant_early_exit",
    "assistant_ensemble_weight", "assistant_lookbehind", "bos_token_id", "cache_config", "cache_implementation",
    "compile_config", "continuous_batching_config", "decoder_start_token_id", "disable_compile", "is_assistant",
    "low_memory", "max_cache_len", "max_matching_ngram_size", "num_assistant_tokens", "num_assistant_tokens_schedule",
    "output_attentions", "output_hidden_states", "output_logits", "output_scores", "pad_token_id",
    "prefill_chunk_size", "prompt_lookup_num_tokens", "remove_invalid_values", "renormalize_logits",
    "return_dict_in_generate", "speculation_type", "target_lookbehind", "token_healing", "transformers_version",
    "use_cache", "use_mtp",
}  # fmt: skip
# Limits of outputs that are at least so long only save memory (200 in M2M-100, 512 in OPUS-MT): ours follows from the
# source.
_NO_LIMIT = 200
# Of Marian's decoder.yml, in the same way. Its other settings are of files, memory and speed.
_LACKING_OF_MARIAN: Mapping[str, tuple[object, ...]] = {
    "allow-special": (False,),
    "allow-unk": (False,),
    "force-decode": (False,),
    "output-sampling": (False, []),
    "word-penalty": (0,),
}


@dataclass(frozen=True)
class SearchSettings:
    """notes: what the user must know, a sentence each."""

    decoding: DecodingConfig
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Tokens:
    """Ids in a model of transformers. end: EOS; never: what no output of nmt has; targets: the tokens of languages that
    an output may begin with. before: tokens of an output before its text, with the one that the decoder starts from."""

    end: int
    never: Collection[int]
    targets: Collection[int] = ()
    before: int = 1


def of_transformers(folder: Path, config: SourceSettings, tokens: Tokens) -> SearchSettings:
    """Those in a folder. config: its config.json, where older models have some. Raises NmtError where both name another
    start of the decoder."""
    own, start = source.read_mapping(folder / GENERATION, optional=True), "decoder_start_token_id"
    if own.get(start) is not None:
        reason = f"it is {source.shown(config.values.get(start))} in config.json"
        SourceSettings(str(folder / GENERATION), own).check(reason, {start: config.values.get(start)})
    given = {key: value for key, value in config.values.items() if key in _CARRIED or key in _LACKING} | own
    given = {key: value for key, value in given.items() if value is not None and key not in _NO_MATTER}
    if given.get("do_sample") is not True:
        given = {key: value for key, value in given.items() if key not in _OF_SAMPLING}
    draws = given.get("do_sample") is True and given.get("num_beams", 1) == 1
    changes: dict[str, Any] = {"method": "sample", "top_k": _TOP_K} if draws else {}
    lacking = list[str]()
    for key, value in sorted(given.items()):  # max_new_tokens after max_length, which it replaces
        of_key = _settings_of(key, value, tokens, draws=draws)
        if of_key is None:
            lacking.append(f"{key}: {source.shown(value)}")
        changes |= of_key or {}
    return SearchSettings(replace(_DEFAULT, **changes), _notes(lacking))


def _settings_of(key: str, value: Any, tokens: Tokens, *, draws: bool) -> dict[str, Any] | None:
    """The settings of nmt that are equal to one of transformers; None if there are none."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    whole = number and isinstance(value, int)
    if value in _LACKING.get(key, ()):
        return {}
    match key:
        case "num_beams" if whole and 1 <= value <= 1000:
            return {"beam_size": value}
        case "length_penalty" if number and 0 <= value <= 5:
            return {"length_penalty": float(value)}
        case "no_repeat_ngram_size" if whole and value >= 0:
            return {"no_repeat_ngram": value or None}
        case "min_length" | "min_new_tokens" if whole:
            return {"min_length": max(0, value - tokens.before + (key == "min_new_tokens"))}
        case "max_length" | "max_new_tokens" if whole:
            longest = value - tokens.before - (key == "max_length")  # without EOS
            return {"max_length": None if value >= _NO_LIMIT else longest} if longest >= 1 else None
        case "do_sample" if draws or value is False:
            return {}
        case "temperature" if draws and number and value >= 0.001:
            return {"temperature": float(value)}
        case "top_k" if draws and whole and value >= 0:
            return {"top_k": value or None}
        case "top_p" if draws and number and 0 < value <= 1:
            return {"top_p": None if value == 1 else float(value)}
        case "bad_words_ids" if isinstance(value, list):
            return {} if all(word in [[i] for i in tokens.never] for word in value) else None
        case "suppress_tokens" | "begin_suppress_tokens" if isinstance(value, list):
            return {} if all(i in tokens.never for i in value) else None
        case "forced_bos_token_id" if value in tokens.targets:
            return {}  # which nmt writes for the language that is asked for
        case "eos_token_id" | "forced_eos_token_id" if value in (tokens.end, [tokens.end]):
            return {}
        case _:
            return None


def of_marian(search: Mapping[str, Any]) -> SearchSettings:
    """Those of a decoder.yml; without a normalization by length, as Marian has it, where none is named."""
    changes: dict[str, Any] = {"length_penalty": 0.0}
    lacking = [key for key, idle in _LACKING_OF_MARIAN.items() if search.get(key, idle[0]) not in idle]
    for key, name, least, most in (("beam-size", "beam_size", 1, 1000), ("normalize", "length_penalty", 0, 5)):
        value = search.get(key)
        if isinstance(value, int | float) and least <= value <= most:
            changes[name] = type(getattr(_DEFAULT, name))(value)
        elif value is not None:
            lacking.append(key)
    shown = [f"{key}: {source.shown(search[key])}" for key in lacking]
    return SearchSettings(replace(_DEFAULT, **changes), _notes(shown))


def _notes(lacking: Sequence[str]) -> tuple[str, ...]:
    if not lacking:
        return ()
    return (f"not imported: {', '.join(lacking)}: nmt has no such search, so its translations can differ",)
