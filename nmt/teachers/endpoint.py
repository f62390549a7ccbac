"""The file of an endpoint: a service that translates with a large language model, in place of a model file."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from nmt.config import reader
from nmt.config.data_section import CleaningConfig, text_setting
from nmt.config.declaration import Text, free_setting, required, section
from nmt.config.language_codes import is_known, same_code
from nmt.config.language_pairs import LanguagePair
from nmt.errors import NmtError

_FIELDS = re.compile(r"\{(\w*)\}")
PROMPT = "Translate from {source} to {target}. Answer with the translation only.\n\n{text}"
FIELDS = ("source", "target", "source_code", "target_code", "text")  # that a prompt can contain, in braces
# Settings of `data.clean` that need more than the text of one pair.
_NOT_FOR_ANSWERS = ("near_duplicates", "score", "scores", "same_source", "same_target")
_NOT_PARAMETERS = {
    "model": "has its own setting: leave it out",
    "messages": "has its own setting: leave it out",
    "n": "is the number of samples: give --n-best",
    "stream": "answers are read as a whole: leave it out",
}
SUFFIXES = (".yaml", ".yml")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class Message:
    """An entry of `messages`."""

    role: Literal["system", "user", "assistant"] = required("who speaks", affects="text")
    content: Any = required(
        "text, or other content that the model's template takes; with the fields of `prompt`", affects="text"
    )


@dataclass(frozen=True)
class Price:
    """The price of a million tokens, in any currency."""

    input: float = required("of a million tokens of requests", affects="nothing")
    output: float = required("of a million tokens of answers", affects="nothing")


@dataclass(frozen=True)
class Limit:
    """The most that a command may use. Lines that would exceed it are not sent."""

    tokens: int | None = free_setting(None, "tokens of requests and answers together", at_least=1)
    cost: float | None = free_setting(None, "cost by `price`, in its currency", above=0)


@dataclass(frozen=True, repr=False)  # because it may contain a key
class Endpoint:
    """A service with the chat interface of OpenAI, such as vLLM, SGLang, llama.cpp, Ollama and `transformers serve`."""

    endpoint: str = required("address of the service, such as `http://127.0.0.1:8000/v1`", affects="nothing")
    model: str = required("the name that the service has for the model", affects="text")
    source_language: str = required("language to translate from, such as `en`", affects="text")
    target_language: str = required("language to translate into, such as `sw`", affects="text")
    key: Any = free_setting(None, "key of the service; `${NAME}` is read from the environment")
    prompt: Text = text_setting(
        Text(PROMPT), "the request; `{source}` and `{target}` are the languages in English, `{text}` is the line"
    )
    messages: tuple[Message, ...] = text_setting(
        (), "instead of `prompt`: several messages, or content that is not text"
    )
    examples: str | None = text_setting(
        None, "file of pairs `source TAB translation`, which are put before the text as answered requests", path=True
    )
    requests: int = free_setting(32, "requests at once", at_least=1, at_most=1024)
    temperature: float = text_setting(0.0, "0: the most likely translation; above: samples", at_least=0)
    parameters: Mapping[str, Any] | None = text_setting(None, "other fields of a request, such as `max_tokens: 512`")
    timeout: float = free_setting(120.0, "seconds to wait for an answer before the request is repeated", above=0)
    retries: int = text_setting(2, "how often a request is repeated if the answer is not a translation", at_least=0)
    rejected: Literal["empty", "keep"] = text_setting(
        "empty", "a line without a good answer: an empty line, or the last answer as it is"
    )
    clean: CleaningConfig = section(CleaningConfig, "Rules of `data.clean` for answers; null switches a rule off.")
    price: Price | None = free_setting(None, "price of a million tokens, for the forecast and `limit.cost`")
    limit: Limit | None = free_setting(None, "most tokens, or most cost: the job stops there and can be continued")

    @property
    def pair(self) -> LanguagePair:
        return LanguagePair(self.source_language, self.target_language)

    def conflicts(self) -> list[str]:
        """Messages on values that do not go together."""
        problems = []
        if not _is_address(self.endpoint):
            problems.append(f"endpoint: {self.endpoint}: expected an address such as http://127.0.0.1:8000/v1")
        is_text = isinstance(self.key, str | None)  # it is not declared as text, so that no message shows its value
        if not is_text or (self.key and self.key.startswith("$") and not _VARIABLE.fullmatch(self.key)):
            problems.append("key: expected the name of a variable, such as ${NAME}, or text: put text in quotes")
        for name in ("source_language", "target_language"):
            if not is_known(getattr(self, name)):
                problems.append(f"{name}: {getattr(self, name)}: no language has this code: give one such as en or swh")
        if same_code(*self.pair):
            problems.append(f"target_language: {self.target_language}: is the source language too: give another one")
        if self.limit and self.limit.cost is not None and self.price is None:
            problems.append("limit.cost needs price: {input: …, output: …}")
        if self.messages and self.prompt != PROMPT:
            problems.append("prompt and messages are given: delete one of them")
        for name in _NOT_PARAMETERS.keys() & (self.parameters or {}):
            problems.append(f"parameters.{name}: {_NOT_PARAMETERS[name]}")
        for name in _NOT_FOR_ANSWERS:
            if getattr(self.clean, name) != getattr(CleaningConfig(), name):
                problems.append(f"clean.{name}: needs more than the text of one answer: delete it")
        name = "messages" if self.messages else "prompt"
        contents = [message.content for message in self.messages] or [self.prompt]
        fields = [field for text in _texts(contents) for field in _FIELDS.findall(text)]
        if "text" not in fields:
            problems.append(f"{name}: does not contain {{text}}, which is the line to translate: add it")
        for field in sorted(set(fields) - set(FIELDS)):
            fix = ", ".join(f"{{{allowed}}}" for allowed in FIELDS)
            problems.append(f"{name}: {{{field}}} is not a field: use {fix}")
        return problems


class NotAnswering(NmtError):
    """The service cannot be reached, or answers no request."""


def is_endpoint(path: Path) -> bool:
    """Whether a path is that of an endpoint's file, and not of a model."""
    return path.suffix in SUFFIXES and path.is_file()


def load(path: Path) -> Endpoint:
    """Read the file of an endpoint. Raises NmtError with all problems."""
    return reader.parse(Endpoint, reader.read_text(path), str(path))


def key_of(endpoint: Endpoint, path: Path) -> str | None:
    """The key itself. Raises NmtError if the environment lacks it."""
    if endpoint.key is None:
        return None
    variable = _VARIABLE.fullmatch(endpoint.key)
    key = (os.environ.get(variable[1], "") if variable else endpoint.key).strip()
    if variable and not key:
        raise NmtError(f"{path}: key: the environment has no variable {variable[1]}: export {variable[1]}=…")
    if not (key.isascii() and key.isprintable()):
        raise NmtError(f"{path}: key: has characters that are not ASCII, or a line break: copy the key again")
    return key


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port above 65535
        return False


def _texts(value: Any) -> list[str]:
    """All texts in a value of YAML."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    return [text for item in value for text in _texts(item)] if isinstance(value, list | tuple) else []
