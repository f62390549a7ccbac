"""The messages of a request: the prompt of an endpoint with a line, its prefix and its glossary terms."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.config.language_codes import english_name
from nmt.errors import NmtError
from nmt.files.text import read_lines
from nmt.teachers.endpoint import FIELDS, Endpoint, Message
from nmt.terms.glossary import Glossary

Chat = list[dict[str, Any]]  # messages with `role` and `content`

_FIELD = re.compile("{(" + "|".join(FIELDS) + ")}")


class Prompts:
    """Writes the messages for each line: examples as requests with their answers, then the line."""

    def __init__(self, endpoint: Endpoint, glossary: Glossary | None = None):
        """Raises NmtError if the file of examples cannot be read or has no pairs, and for a glossary if the last of the
        messages is not a text."""
        self._messages = endpoint.messages or (Message("user", endpoint.prompt.rstrip("\n")),)
        source, target = endpoint.pair
        names = {"source": english_name(source), "target": english_name(target)}
        self._languages = names | {"source_code": source, "target_code": target}
        self._glossary = glossary
        if glossary is not None:
            self.check_text("--glossary")
        self._examples: Chat = []
        if endpoint.examples is not None:
            for text, translation in read_examples(Path(endpoint.examples)):
                last = self._filled(self._messages[-1], text)
                self._examples += [last, {"role": "assistant", "content": translation}]

    def check_text(self, option: str) -> None:
        """Raises NmtError if the last message is not a text, to which lines on terms or a prefix can be added."""
        if not isinstance(self._messages[-1].content, str):
            raise NmtError(f"{option}: cannot be added to `messages` whose last content is not a text: leave it out")

    def chat(self, line: str, prefix: str = "") -> Chat:
        """The messages that ask for the translation of a line. prefix: what the translation begins with."""
        first = [self._filled(message, line) for message in self._messages[:-1]]
        last = self._filled(self._messages[-1], line, self._wishes(line, prefix))
        return [*first, *self._examples, last]

    def _wishes(self, line: str, prefix: str) -> str:
        """Lines of the prompt on glossary terms and the prefix."""
        wishes = list[str]()
        entries = self._glossary.entries(line) if self._glossary else {}
        if entries:
            terms = "; ".join(f"{source} = {' or '.join(targets)}" for source, targets in entries.items())
            wishes.append(f"Use these translations of terms: {terms}")
        if prefix:
            wishes.append(f"Begin the translation with: {prefix}")
        return "".join(f"{wish}\n" for wish in wishes)

    def _filled(self, message: Message, text: str, wishes: str = "") -> dict[str, Any]:
        content = _replaced(message.content, {**self._languages, "text": text})
        if wishes and isinstance(content, str):
            content = f"{wishes}\n{content}"
        return {"role": message.role, "content": content}


def read_examples(path: Path) -> list[tuple[str, str]]:
    """The pairs of a file with lines `source TAB translation`. Raises NmtError for a line that is no pair."""
    pairs = list[tuple[str, str]]()
    for line_number, line in enumerate(read_lines(path), start=1):
        sides = [side.strip() for side in line.split("\t")]
        if len(sides) != 2 or not all(sides):
            raise NmtError(f"{path}:{line_number}: {line[:80]!r}: write a source, one tab and its translation")
        pairs.append((sides[0], sides[1]))
    if not pairs:
        raise NmtError(f"{path}: no lines: write examples as source, one tab and translation, or leave `examples` out")
    return pairs


def _replaced(value: Any, fields: Mapping[str, str]) -> Any:
    """The value with its fields replaced in every text in it. A text that is put in is not read again."""
    if isinstance(value, str):
        return _FIELD.sub(lambda field: fields[field[1]], value)
    if isinstance(value, Mapping):
        return {key: _replaced(inner, fields) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [_replaced(inner, fields) for inner in value]
    return value
