"""What a model's files say of the search is a setting here, changes nothing, or is named."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from nmt.config.schema import DecodingConfig
from nmt.errors import NmtError
from nmt.interop.search_settings import GENERATION, Tokens, from_marian, from_transformers
from nmt.interop.source import SourceSettings

DEFAULT = DecodingConfig(normalization="average", length_penalty=1.0)
PLAIN = Tokens(end=0, never=(9, 1, -1))
TAGGED = Tokens(end=2, never=(1, 3, 0), targets=(40, 41), before=2)

CARRIED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"num_beams": 6, "length_penalty": 2}, {"beam_size": 6, "length_penalty": 2.0}),
    ({"no_repeat_ngram_size": 3}, {"no_repeat_ngram": 3}),
    ({"no_repeat_ngram_size": 0, "repetition_penalty": 1.0, "num_beam_groups": 1, "early_stopping": False}, {}),
    ({"min_length": 5}, {"min_length": 4}),
    ({"min_length": 5, "min_new_tokens": 2}, {"min_length": 2}),
    ({"max_length": 64}, {"max_length": 62}),
    ({"max_length": 64, "max_new_tokens": 32}, {"max_length": 31}),
    ({"max_length": 512}, {}),
    ({"do_sample": True}, {"method": "sample", "top_k": 50}),
    ({"do_sample": True, "num_beams": 1, "top_k": 0, "top_p": 0.9, "temperature": 0.7},
     {"method": "sample", "beam_size": 1, "top_p": 0.9, "temperature": 0.7}),
    ({"do_sample": False, "temperature": 0.7, "top_k": 5, "typical_p": 0.2}, {}),  # without effect
    ({"bad_words_ids": [[9], [1]], "suppress_tokens": [9], "forced_eos_token_id": 0, "eos_token_id": [0]}, {}),
    ({"use_cache": False, "transformers_version": "4.22.0", "pad_token_id": 9, "diversity_penalty": None}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("given", "changes"), CARRIED)
def test_what_nmt_has_too_is_a_setting(given: dict[str, Any], changes: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / GENERATION).write_text(json.dumps(given))
    found = from_transformers(tmp_path, SourceSettings("config.json", {}), PLAIN)
    assert found.decoding == dataclasses.replace(DEFAULT, **changes) and found.notes == ()


LACKING: list[dict[str, Any]] = [
    {"num_beam_groups": 3}, {"repetition_penalty": 1.3}, {"diversity_penalty": 0.5}, {"penalty_alpha": 0.6},
    {"exponential_decay_length_penalty": [5, 1.1]}, {"suppress_tokens": [5]}, {"begin_suppress_tokens": [5]},
    {"bad_words_ids": [[9], [7]]}, {"bad_words_ids": [[9, 1]]}, {"forced_bos_token_id": 7}, {"eos_token_id": [0, 5]},
    {"forced_eos_token_id": 5}, {"num_return_sequences": 3}, {"early_stopping": "never"}, {"stop_strings": ["x"]},
    {"force_words_ids": [[5]]}, {"constraints": [1]}, {"encoder_no_repeat_ngram_size": 2}, {"guidance_scale": 2.0},
    {"length_penalty": -1.0}, {"num_beams": "4"}, {"num_beams": True}, {"num_beams": 0}, {"max_length": 1},
    {"a_later_setting": 1}, {"max_time": 2.0}, {"watermarking_config": {"bias": 2}},
]  # fmt: skip


@pytest.mark.parametrize("given", LACKING, ids=str)
def test_what_nmt_lacks_is_named(given: dict[str, Any], tmp_path: Path) -> None:
    [(key, _)] = given.items()
    (tmp_path / GENERATION).write_text(json.dumps({"num_beams": 3, **given}))
    found = from_transformers(tmp_path, SourceSettings("config.json", {}), PLAIN)
    [note] = found.notes
    assert note.startswith(f"not imported: {key}: ") and note.endswith("translations can differ") and "\n" not in note
    assert found.decoding == dataclasses.replace(DEFAULT, beam_size=4 if key == "num_beams" else 3)


def test_all_that_is_lacking_is_in_one_note(tmp_path: Path) -> None:
    """Drawing within a beam too, and what goes with it."""
    given = {"num_beams": 3, "do_sample": True, "top_k": 5, "typical_p": 0.5, "repetition_penalty": 1.3}
    (tmp_path / GENERATION).write_text(json.dumps(given))
    found = from_transformers(tmp_path, SourceSettings("config.json", {}), PLAIN)
    [note] = found.notes
    assert "do_sample: True, repetition_penalty: 1.3, top_k: 5, typical_p: 0.5: nmt" in note
    assert found.decoding == dataclasses.replace(DEFAULT, beam_size=3)


def test_older_models_have_it_in_config_json(tmp_path: Path) -> None:
    config = {"num_beams": 5, "repetition_penalty": 1.3, "max_length": 20, "d_model": 32, "decoder_start_token_id": 7}
    found = from_transformers(tmp_path, SourceSettings("config.json", config), PLAIN)
    assert found.decoding == dataclasses.replace(DEFAULT, beam_size=5) and "repetition_penalty" in found.notes[0]
    (tmp_path / GENERATION).write_text('{"num_beams": 2, "repetition_penalty": 1, "decoder_start_token_id": 7}')
    found = from_transformers(tmp_path, SourceSettings("config.json", config), PLAIN)
    assert found.decoding.beam_size == 2 and not found.notes
    (tmp_path / GENERATION).write_text('{"decoder_start_token_id": 8}')
    with pytest.raises(NmtError, match=r"generation_config\.json: decoder_start_token_id: 8: .* 7 in config\.json$"):
        from_transformers(tmp_path, SourceSettings("config.json", config), PLAIN)


def test_the_token_of_the_target_is_no_part_of_lengths(tmp_path: Path) -> None:
    given = {"forced_bos_token_id": 41, "min_length": 5, "max_length": 64}
    (tmp_path / GENERATION).write_text(json.dumps(given))
    found = from_transformers(tmp_path, SourceSettings("config.json", {}), TAGGED)
    assert found.decoding == dataclasses.replace(DEFAULT, min_length=3, max_length=61) and not found.notes


@pytest.mark.parametrize(("given", "changes", "lacking"), [
    ({"beam-size": 12, "normalize": 0.6, "word-penalty": 0, "allow-unk": False},
     {"beam_size": 12, "length_penalty": 0.6}, ""),
    ({"normalize": -1, "word-penalty": 0.2, "allow-unk": True, "mini-batch": 8}, {"length_penalty": 0.0},
     "allow-unk: True, word-penalty: 0.2, normalize: -1"),
])  # fmt: skip
def test_the_search_of_marian(given: dict[str, Any], changes: dict[str, Any], lacking: str) -> None:
    found = from_marian(given)
    assert found.decoding == dataclasses.replace(DEFAULT, **changes)
    assert [note.removeprefix("not imported: ").split(": nmt")[0] for note in found.notes] == [lacking] * bool(lacking)
