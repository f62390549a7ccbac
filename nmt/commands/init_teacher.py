"""Writes the file of an endpoint with comments to start from. It is made from the declarations, so it always agrees
with them."""

import logging
import shlex
from importlib import resources
from pathlib import Path

from nmt.commands.init import check_new, write_new
from nmt.config import reader
from nmt.config.declaration import Setting, settings
from nmt.config.template import setting_line
from nmt.errors import NmtError
from nmt.teachers.endpoint import SUFFIXES, Endpoint

log = logging.getLogger("nmt")

_PROMPTS = "teacher_prompts.yaml"  # the default one, and those of translation models, from their cards and templates
_HEAD = """\
# A large language model that translates in place of a model file. To see the first requests and a forecast, run:
#   nmt translate {name} INPUT --dry-run
# Settings that are commented out show their default, or an example if there is none. To change one, delete its #.

# --- Set these first.
"""
_CHOICE = "# --- The request: delete the # of one `prompt` or `messages`, and of the lines that belong to it."
_EXAMPLES: dict[str, object] = {  # for settings without a default
    "endpoint": "http://127.0.0.1:8000/v1",
    "model": "google/gemma-3-12b-it",
    "key": "${TEACHER_KEY}",
    "examples": "examples.tsv",
    "parameters": {"max_tokens": 512},
    "price": {"input": 0.10, "output": 0.40},
    "limit": {"tokens": 20_000_000},
}


def init_teacher(path: Path, source_language: str | None, target_language: str | None) -> None:
    """Write the file of an endpoint, and log what to do next. Languages that are None are those of the documentation.

    Raises NmtError if the file exists already or cannot be written, or for an unknown language.
    """
    check_new(path, "choose another name")
    if path.suffix not in SUFFIXES:
        raise NmtError(f"{path}: only a name in {' or '.join(SUFFIXES)} is read as an endpoint: choose such a name")
    languages = {"source_language": source_language or "en", "target_language": target_language or "de"}
    text = _text(shlex.quote(str(path)), _EXAMPLES | languages)
    reader.parse(Endpoint, text, "init")  # raises NmtError for an unknown language
    write_new(path, text)
    log.info(
        "next: set endpoint and model in %s, then run: nmt translate %s INPUT --dry-run", path, shlex.quote(str(path))
    )


def _text(name: str, given: dict[str, object]) -> str:
    """The text of the file `name`: what must be set, then prompts, then all other settings."""
    required, requests, rest = list[str](), list[str](), list[str]()
    for key, own in settings(Endpoint).items():
        if key in ("prompt", "messages"):
            requests.append(f"# {key}: {_meaning(own)}")
        elif own.required:
            required.append(setting_line(key, given[key], own.meaning))
        else:
            rest.append(setting_line(f"# {key}", given.get(key, own.default), _meaning(own)))
    prompts = resources.files("nmt.commands").joinpath(_PROMPTS).read_text(encoding="utf-8")
    parts = [_HEAD.format(name=name), *required, "", _CHOICE, *requests, "", prompts, "# --- The rest.\n", *rest]
    return "\n".join(parts) + "\n"


def _meaning(own: Setting) -> str:
    """The meaning of a setting, and those of the settings in it; of a section only its own."""
    nested = [] if own.is_section else [entry for kind in own.declarations for entry in settings(kind).items()]
    return "; ".join([own.meaning, *(f"`{key}`: {inner.meaning}" for key, inner in nested)])
