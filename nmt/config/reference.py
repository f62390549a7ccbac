"""What every setting means, as text for a terminal: made from the declarations, so it cannot drift from them."""

import inspect
import re
import shlex
import textwrap
import typing
from collections.abc import Iterator
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
do not go together are errors too; they are reported when each one is valid by itself.

```
my.yaml: 2 problems
  line 21: training.warmup: unknown setting; did you mean training.warmup_steps?
  override model.layers: expected whole number, at least 1, at most 1,000; found 0
```

**YAML** is version 1.2: `no` is the text "no", a language code, and 1e-9 is a number. 25_000 is another way to write
25000. An empty value is `null`; a setting that may be null says what that means. Anchors, aliases and tags are not
allowed.

**Relative paths** start from the folder in which the command runs. `~` stands for your home folder; variables such as
`$HOME` are not replaced.

**Padded tokens** measure the size of a batch: the number of sentences times the length of the longest one, in
subwords. Padding counts, because it takes memory and time like any other token.

**Affects** tells what another value changes: the cleaned `text`; the `vocabulary` learned from it; the `tokens` that
are stored; the `order` in which pairs are trained on; the `model` and what is saved with it; the validation's `score`.
Text, vocabulary and tokens are prepared anew when a setting that affects them, or what comes before, has changed. A
saved run can change only settings that affect nothing or the score, and the place of files.

`RUN/config.yaml` holds all settings of a run, defaults included, and can be used as a settings file.
"""


class _Entry(NamedTuple):
    path: str
    of: str  # the choice on which it depends, such as `architecture: recurrent`; often empty
    facts: str  # type, default, what it affects; empty for a section
    meaning: str

    def text(self, width: int) -> str:
        title = f"{self.path} ({self.of})" if self.of else self.path
        return "\n".join([title, *(_indented(text, width) for text in (self.facts, self.meaning) if text)]) + "\n"


def text(key: str | None, width: int) -> str:
    """How a config file is written, and all settings; or those of a section, or one setting. key: its dotted path, or
    the name of a setting alone. width: of a line, in characters.

    Raises NmtError for a key that there is not."""
    entries = list(_entries(Config))
    if key is None:
        return "\n".join([_about(width), *(entry.text(width) for entry in entries)]).rstrip("\n")
    found = [entry for entry in entries if re.match(rf"{re.escape(key)}($|[.[])", entry.path)]
    found = found or [entry for entry in entries if entry.path.rpartition(".")[2] == key]
    if not found:
        known = [name for entry in entries for name in (entry.path, entry.path.rpartition(".")[2])]
        remedy = did_you_mean(key, known) or "nmt settings prints all"
        raise NmtError(f"{shlex.quote(key)}: no such setting: {remedy}")
    return "\n".join(entry.text(width) for entry in found).rstrip("\n")


def _entries(declaration: typing.Any, path: str = "", of: str = "", without: str | None = None) -> Iterator[_Entry]:
    """Every setting but `without`, in the order declared; sections come after settings that are in none."""
    own = {name: setting for name, setting in settings(declaration).items() if name != without}
    for name, setting in sorted(own.items(), key=lambda item: item[1].is_section):
        place = f"{path}{name}"
        if setting.choice:
            yield from _variants(setting, setting.choice, place)
        elif setting.is_section:
            yield _Entry(place, of, "", _plain(setting.meaning))
            yield from _entries(setting.type, f"{place}.")
        else:
            # Validation sets have what training corpora have: once is enough.
            inner = () if name == "validation" else setting.declarations
            meaning = [setting.meaning, *(inspect.cleandoc(one.__doc__ or "") for one in inner)]
            yield _Entry(place, of, _facts(setting), _plain("\n\n".join(meaning)))
            for one in inner:
                yield from _entries(one, f"{place}[]." if setting.is_list else f"{place}.")


def _variants(section: Setting, choice: str, path: str) -> Iterator[_Entry]:
    """The entries of a section that has several declarations, of which the setting `choice` takes one."""
    yield _Entry(path, "", "", _plain(section.meaning))
    choosers = [settings(variant)[choice] for variant in section.variants]
    expected = " | ".join(chooser.expected for chooser in choosers)
    yield _Entry(f"{path}.{choice}", "", _facts(choosers[0], expected), _plain(choosers[0].meaning))
    for variant, chooser in zip(section.variants, choosers, strict=True):
        of = f"{choice}: {chooser.default}"
        yield _Entry(path, of, "", _plain(inspect.cleandoc(variant.__doc__ or "")))
        yield from _entries(variant, f"{path}.", of, without=choice)


def _facts(setting: Setting, expected: str | None = None) -> str:
    default = "required" if setting.required else f"default: {in_one_line(setting.default)}"
    affects = [result for result in typing.get_args(Result) if result in setting.affects]
    affected = [f"affects: {', '.join(affects)}"] if affects else []
    return "; ".join([expected or setting.expected, default, *affected])


def _about(width: int) -> str:
    """The introduction without Markdown's signs."""
    blocks = [
        textwrap.indent("\n".join(block.split("\n")[1:-1]), "  ")
        if block.startswith("```")
        else _filled(block.replace("**", ""), width)
        for block in ABOUT.rstrip("\n").split("\n\n")
    ]
    return "\n\n".join(blocks) + "\n"


def _plain(markdown: str) -> str:
    """Without links: those to other files lead nowhere here."""
    return re.sub(r"\[([^]]*)\]\(#[^)]*\)", r"\1", re.sub(r"\s*\[[^]]*\]\([^#)][^)]*\)\.?", "", markdown))


def _indented(paragraphs: str, width: int) -> str:
    """Paragraphs in lines of a width; examples, which are indented already, stay as they are."""
    blocks = (
        block if block.startswith("    ") else _filled(block, width - 4) for block in re.split(r"\n\n+", paragraphs)
    )
    return textwrap.indent("\n\n".join(blocks), "    ")


def _filled(paragraph: str, width: int) -> str:
    words = " ".join(paragraph.split())
    return textwrap.fill(words, max(width, 20), break_long_words=False, break_on_hyphens=False)
