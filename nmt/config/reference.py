"""The meaning of every setting as text for a terminal. It is generated from the declarations."""

import inspect
import re
import shlex
import textwrap
import typing
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from nmt.config.declaration import Result, Setting, settings
from nmt.config.schema import Config
from nmt.config.suggestions import did_you_mean
from nmt.config.writer import in_one_line
from nmt.errors import NmtError

ABOUT = """\
`nmt init my.yaml` writes a file to start from. The shortest file names a folder, two languages and a corpus.
Everything else has a default, and the defaults are the base model of the paper:

```yaml
run_dir: runs/mine
data:
  source_language: en
  target_language: de
  train:
    - {source: train.en, target: train.de}
```

**On the command line**, `section.key=value` replaces a setting of the file. The value is YAML; quote it if it has
spaces or characters that are special in the shell. If a setting is given several times, the last one counts:

```sh
nmt train my.yaml model.layers=4 training.learning_rate=1e-3 data.validation=null \\
  'data.train=[{source: a.en, target: a.de}, {source: b.en, target: b.de}]'
```

**Nothing is guessed.** An unknown setting, a wrong type, a number out of range, and a setting that is missing or
given twice are errors. They are reported all at once, each with its line, before anything else is done. Settings that
conflict are errors too. They are reported once each setting is valid by itself.

```
my.yaml: 2 problems
  line 21: training.warmup: unknown setting; did you mean training.warmup_steps?
  override model.layers: expected whole number, at least 1, at most 1,000; found 0
```

**YAML** is version 1.2: `no` is the text "no", a language code, and 1e-9 is a number. 25_000 is another way to write
25000. An empty value is `null`; each setting that may be null says what null means. Anchors, aliases and tags are not
allowed.

**Relative paths** start from the folder in which the command runs. `~` stands for your home folder; variables such as
`$HOME` are not replaced.

**Padded tokens** measure the size of a batch: the number of sentences times the length of the longest one, in
subwords. Padding counts, because it takes memory and time like any other token. Packed batches (`training.packed`) have
no padding: their size is the number of source or of target tokens, whichever is larger.

**Affects** says what else changes with the setting: the cleaned `text`; the `vocabulary` learned from it; the `tokens`
that are stored; the `order` of the training pairs; the `model` and what is saved with it; the validation's `score`.
Text, vocabulary and tokens are prepared again if a setting changes that affects them or an earlier result. In a saved
run, only settings that affect nothing or the score, and the paths of files, can be changed.

`RUN/config.yaml` holds all settings of a run, defaults included, and can be used as a settings file.
"""


class _Entry(NamedTuple):
    path: str
    condition: str  # the choice on which it depends, such as `architecture: recurrent`; usually empty
    facts: str  # type, default and affected results; empty for a section
    meaning: str

    def text(self, width: int) -> str:
        title = f"{self.path} ({self.condition})" if self.condition else self.path
        return "\n".join([title, *(_indented(text, width) for text in (self.facts, self.meaning) if text)]) + "\n"


def text(key: str | None, width: int) -> str:
    """The syntax of a config file and all settings; with a key, the settings of a section, or one setting. key: a
    dotted path, or only the name of a setting. width: of a line, in characters.

    Raises NmtError if the key does not exist."""
    entries = list(_entries(Config))
    if key is None:
        return "\n".join([_about(width), *(entry.text(width) for entry in entries)]).rstrip("\n")
    matches = [entry for entry in entries if re.match(rf"{re.escape(key)}($|[.[])", entry.path)]
    matches = matches or [entry for entry in entries if entry.path.rpartition(".")[2] == key]
    if not matches:
        names = chain.from_iterable((entry.path, entry.path.rpartition(".")[2]) for entry in entries)
        remedy = did_you_mean(key, names) or "nmt settings prints all"
        raise NmtError(f"{shlex.quote(key)}: no such setting: {remedy}")
    return "\n".join(entry.text(width) for entry in matches).rstrip("\n")


def _entries(
    declaration: typing.Any, prefix: str = "", condition: str = "", without: str | None = None
) -> Iterator[_Entry]:
    """Yield every setting except `without`, in the order declared. Sections come after the other settings."""
    own = {name: setting for name, setting in settings(declaration).items() if name != without}
    for name, setting in sorted(own.items(), key=lambda item: item[1].is_section):
        path = f"{prefix}{name}"
        if setting.choice:
            yield from _variants(setting, setting.choice, path)
        elif setting.is_section:
            yield _Entry(path, condition, "", _plain(setting.meaning))
            yield from _entries(setting.type, f"{path}.")
        else:
            # Validation sets have the same settings as training corpora, which are described once.
            inner = () if name == "validation" else setting.declarations
            meaning = [
                setting.meaning,
                *(inspect.cleandoc(inner_declaration.__doc__ or "") for inner_declaration in inner),
            ]
            yield _Entry(path, condition, _facts(setting), _plain("\n\n".join(meaning)))
            for inner_declaration in inner:
                yield from _entries(inner_declaration, f"{path}[]." if setting.is_list else f"{path}.")


def _variants(section: Setting, choice: str, path: str) -> Iterator[_Entry]:
    """Yield the entries of a section with several declarations. The setting `choice` selects the declaration."""
    yield _Entry(path, "", "", _plain(section.meaning))
    choosers = [settings(variant)[choice] for variant in section.variants]
    expected = " | ".join(chooser.expected for chooser in choosers)
    yield _Entry(f"{path}.{choice}", "", _facts(choosers[0], expected), _plain(choosers[0].meaning))
    for variant, chooser in zip(section.variants, choosers, strict=True):
        condition = f"{choice}: {chooser.default}"
        yield _Entry(path, condition, "", _plain(inspect.cleandoc(variant.__doc__ or "")))
        yield from _entries(variant, f"{path}.", condition, without=choice)


def _facts(setting: Setting, expected: str | None = None) -> str:
    default = "required" if setting.required else f"default: {in_one_line(setting.default)}"
    affects = [result for result in typing.get_args(Result) if result in setting.affects]
    affected = [f"affects: {', '.join(affects)}"] if affects else []
    return "; ".join([expected or setting.expected, default, *affected])


def _about(width: int) -> str:
    """The introduction without Markdown."""
    blocks = [
        textwrap.indent("\n".join(block.split("\n")[1:-1]), "  ")
        if block.startswith("```")
        else _filled(block.replace("**", ""), width)
        for block in ABOUT.rstrip("\n").split("\n\n")
    ]
    return "\n\n".join(blocks) + "\n"


def _plain(markdown: str) -> str:
    """The text without links, which do not work in a terminal."""
    return re.sub(r"\[([^]]*)\]\(#[^)]*\)", r"\1", re.sub(r"\s*\[[^]]*\]\([^#)][^)]*\)\.?", "", markdown))


def _indented(paragraphs: str, width: int) -> str:
    """Wrap paragraphs to a width. Examples, which are already indented, are not changed."""
    blocks = (
        block if block.startswith("    ") else _filled(block, width - 4) for block in re.split(r"\n\n+", paragraphs)
    )
    return textwrap.indent("\n\n".join(blocks), "    ")


def _filled(paragraph: str, width: int) -> str:
    words = " ".join(paragraph.split())
    return textwrap.fill(words, max(width, 20), break_long_words=False, break_on_hyphens=False)
