"""Converts the search settings in a model of another program to settings of nmt, and names those that nmt lacks.

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
# Settings of transformers that nmt does not have, with their values that change nothing. null changes nothing either.
_UNSUPPORTED: Mapping[str, tuple[object, ...]] = {
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
_IMPORTED = {
    "bad_words_ids", "do_sample", "forced_bos_token_id", "forced_eos_token_id", "length_penalty", "min_length",
    "no_repeat_ngram_size", "num_beams", "temperature", "top_k", "top_p",
}  # fmt: skip
_FOR_SAMPLING = {"temperature", "top_k", "top_p", "top_h", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff"}
_TOP_K = 50  # transformers' default
# Settings that do not change the translation. The notes name all others in the file, such as settings of later
# versions.
_IGNORED = {
    "_commit_hash", "_from_model_config", "assistant_confidence_threshold", "assistant_early_exit",
    "assistant_ensemble_weight", "assistant_lookbehind", "bos_token_id", "cache_config", "cache_implementation",
    "compile_config", "continuous_batching_config", "decoder_start_token_id", "disable_compile", "is_assistant",
    "low_memory", "max_cache_len", "max_matching_ngram_size", "num_assistant_tokens", "num_assistant_tokens_schedule",
    "output_attentions", "output_hidden_states", "output_logits", "output_scores", "pad_token_id",
    "prefill_chunk_size", "prompt_lookup_num_tokens", "remove_invalid_values", "renormalize_logits",
    "return_dict_in_generate", "speculation_type", "target_lookbehind", "token_healing", "transformers_version",
    "use_cache", "use_mtp",
}  # fmt: skip
# Output limits from here on only save memory (200 in M2M-100, 512 in OPUS-MT). nmt's limit depends on the source.
_HIGH_LIMIT = 200
# The same for Marian's decoder.yml. Its other settings concern files, memory and speed.
_UNSUPPORTED_IN_MARIAN: Mapping[str, tuple[object, ...]] = {
    "allow-special": (False,),
    "allow-unk": (False,),
    "force-decode": (False,),
    "output-sampling": (False, []),
    "word-penalty": (0,),
}


@dataclass(frozen=True)
class SearchSettings:
    """notes: sentences for the user."""

    decoding: DecodingConfig
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Tokens:
    """Ids in a model of transformers.

    end: EOS; never: tokens that nmt never writes; targets: tokens of languages that an output may begin with; before:
    the number of tokens before the text of an output, the decoder's start token included.
    """

    end: int
    never: Collection[int]
    targets: Collection[int] = ()
    before: int = 1


def from_transformers(folder: Path, config: SourceSettings, tokens: Tokens) -> SearchSettings:
    """The search settings in a folder. config: its config.json, in which older models have some of them. Raises
    NmtError if the two files name different start tokens of the decoder."""
    file_settings, start = source.read_mapping(folder / GENERATION, optional=True), "decoder_start_token_id"
    if file_settings.get(start) is not None:
        reason = f"it is {source.shown(config.values.get(start))} in config.json"
        SourceSettings(str(folder / GENERATION), file_settings).check(reason, {start: config.values.get(start)})
    generation = {key: value for key, value in config.values.items() if key in _IMPORTED or key in _UNSUPPORTED}
    generation |= file_settings
    generation = {key: value for key, value in generation.items() if value is not None and key not in _IGNORED}
    if generation.get("do_sample") is not True:
        generation = {key: value for key, value in generation.items() if key not in _FOR_SAMPLING}
    samples = generation.get("do_sample") is True and generation.get("num_beams", 1) == 1
    changes: dict[str, Any] = {"method": "sample", "top_k": _TOP_K} if samples else {}
    unsupported = list[str]()
    for key, value in sorted(generation.items()):  # max_new_tokens after max_length, which it replaces
        setting = _from_setting(key, value, tokens, samples=samples)
        if setting is None:
            unsupported.append(f"{key}: {source.shown(value)}")
        changes |= setting or {}
    return SearchSettings(replace(_DEFAULT, **changes), _notes(unsupported))


def _from_setting(key: str, value: Any, tokens: Tokens, *, samples: bool) -> dict[str, Any] | None:
    """The settings of nmt that are equal to a setting of transformers; None if there are none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_whole_number = is_number and isinstance(value, int)
    if value in _UNSUPPORTED.get(key, ()):
        return {}
    match key:
        case "num_beams" if is_whole_number and 1 <= value <= 1000:
            return {"beam_size": value}
        case "length_penalty" if is_number and 0 <= value <= 5:
            return {"length_penalty": float(value)}
        case "no_repeat_ngram_size" if is_whole_number and value >= 0:
            return {"no_repeat_ngram": value or None}
        case "min_length" | "min_new_tokens" if is_whole_number:
            return {"min_length": max(0, value - tokens.before + (key == "min_new_tokens"))}
        case "max_length" | "max_new_tokens" if is_whole_number:
            longest = value - tokens.before - (key == "max_length")  # without EOS
            return {"max_length": None if value >= _HIGH_LIMIT else longest} if longest >= 1 else None
        case "do_sample" if samples or value is False:
            return {}
        case "temperature" if samples and is_number and value >= 0.001:
            return {"temperature": float(value)}
        case "top_k" if samples and is_whole_number and value >= 0:
            return {"top_k": value or None}
        case "top_p" if samples and is_number and 0 < value <= 1:
            return {"top_p": None if value == 1 else float(value)}
        case "bad_words_ids" if isinstance(value, list):
            forbidden = [[i] for i in tokens.never]
            return {} if all(word in forbidden for word in value) else None
        case "suppress_tokens" | "begin_suppress_tokens" if isinstance(value, list):
            return {} if all(i in tokens.never for i in value) else None
        case "forced_bos_token_id" if value in tokens.targets:
            return {}  # nmt writes the token of the requested language
        case "eos_token_id" | "forced_eos_token_id" if value in (tokens.end, [tokens.end]):
            return {}
        case _:
            return None


def from_marian(search: Mapping[str, Any]) -> SearchSettings:
    """The search settings in a decoder.yml. Without `normalize`, there is no length normalization, as in Marian."""
    changes: dict[str, Any] = {"length_penalty": 0.0}
    unsupported = [key for key, idle in _UNSUPPORTED_IN_MARIAN.items() if search.get(key, idle[0]) not in idle]
    for key, name, least, most in (("beam-size", "beam_size", 1, 1000), ("normalize", "length_penalty", 0, 5)):
        value = search.get(key)
        if isinstance(value, int | float) and least <= value <= most:
            changes[name] = type(getattr(_DEFAULT, name))(value)
        elif value is not None:
            unsupported.append(key)
    descriptions = [f"{key}: {source.shown(search[key])}" for key in unsupported]
    return SearchSettings(replace(_DEFAULT, **changes), _notes(descriptions))


def _notes(unsupported: Sequence[str]) -> tuple[str, ...]:
    if not unsupported:
        return ()
    return (f"not imported: {', '.join(unsupported)}: nmt has no such settings, so translations can differ",)
