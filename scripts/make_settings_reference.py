"""Write configs/README.md, the reference of every setting, from the declarations in nmt/config/sections.py.

    python scripts/make_settings_reference.py [--check]

With --check nothing is written: the exit status is 1 if the file is not current.
"""

import argparse
import dataclasses
import inspect
import re
import sys
import typing
from collections.abc import Iterator
from pathlib import Path

from nmt.config.declaration import Result, Setting, settings
from nmt.config.schema import Config
from nmt.config.writer import in_one_line

PAGE = Path(__file__).parents[1] / "configs" / "README.md"

INTRODUCTION = """\
# Settings

A run is described by one YAML file. `nmt train` and `nmt prepare` read it, and every model file carries a copy.

| file | what it trains |
| --- | --- |
| [demo.yaml](demo.yaml) | English to German on a generated corpus, in minutes on two CPU cores |
| [demo-recurrent.yaml](demo-recurrent.yaml) | the same by LSTMs with attention, the Transformer's predecessor |
| [multi30k.yaml](multi30k.yaml) | English to German on 29,000 image captions, in less than an hour on two CPU cores |
| [multi30k-both.yaml](multi30k-both.yaml) | the same captions in both directions, by one model |
| [multi30k-tokenized.yaml](multi30k-tokenized.yaml) | the same corpus, lower-cased and tokenized, as papers score it |
| [multi30k-recurrent.yaml](multi30k-recurrent.yaml) | the same captions by LSTMs with attention |
| [wmt14-en-de-base.yaml](wmt14-en-de-base.yaml) | the base model of *Attention Is All You Need*, English to German |
| [wmt14-en-de-big.yaml](wmt14-en-de-big.yaml) | the big model |
| [wmt14-en-fr-big.yaml](wmt14-en-fr-big.yaml) | the big model, English to French |

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
nmt train configs/demo.yaml model.layers=4 training.learning_rate=1e-3 \\
  'data.train=[{source: a.en, target: a.de}, {source: b.en, target: b.de}]' data.validation=null
```

**Nothing is guessed.** An unknown setting, a wrong type, a number out of range, and a setting that is missing or
given twice are errors. They are reported all at once, each with its line, before anything else is done. Settings that
do not go together are errors too; they are reported when each one is valid by itself.

```
demo.yaml: 2 problems
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

This page is written by `scripts/make_settings_reference.py` from `nmt/config/sections.py`.

## Top level

"""


HEAD = "| setting | type | default | meaning | affects |\n| --- | --- | --- | --- | --- |\n"


def page() -> str:
    """The whole of configs/README.md."""
    return INTRODUCTION + reference(Config)


def reference(declaration: type, without: str | None = None, path: str = "") -> str:
    """Tables of every setting but `without`: key, type, default, meaning, what it affects. Sections and other
    declarations follow with a heading. path: that of the section, with a dot."""
    rows, inner = [], {}
    for name, setting in settings(declaration).items():
        if setting.is_section:
            about, key = f"## {path}{name}\n\n{setting.meaning}\n", f"{path}{name}."
            tables = variants(setting) if setting.choice else [reference(setting.type, path=key)]
            inner[name] = "\n".join([about, *tables])
            continue
        if name == without:
            continue
        kind = _escaped(setting.expected)
        for nested in filter(dataclasses.is_dataclass, typing.get_args(setting.type)):
            title = typing.cast(type, nested).__name__
            about = inspect.cleandoc(nested.__doc__ or "")
            inner[title] = f"### {title}\n\n{about}\n\n{reference(typing.cast(type, nested))}"
            kind = re.sub("mappings?", f"[{title}](#{title.lower()})", kind)
        default = "**required**" if setting.required else f"`{in_one_line(setting.default)}`"
        rows.append(row(name, kind, default, setting))
    return "\n".join(["".join([HEAD, *rows])] * bool(rows) + list(inner.values()))


def variants(section: Setting) -> Iterator[str]:
    """For a section of several declarations: the setting that chooses one, then a table of each."""
    assert section.choice is not None
    choosers = [settings(declaration)[section.choice] for declaration in section.variants]
    kinds, first = _escaped(" | ".join(chooser.expected for chooser in choosers)), choosers[0]
    yield HEAD + row(section.choice, kinds, f"`{in_one_line(first.default)}`", first)
    for declaration, chooser in zip(section.variants, choosers, strict=True):
        about = inspect.cleandoc(declaration.__doc__ or "")
        table = reference(declaration, without=section.choice)
        yield f"### {section.choice}: {chooser.default}\n\n{about}\n\n{table}"


def row(name: str, kind: str, default: str, setting: Setting) -> str:
    """A line of a table."""
    affects = ", ".join(result for result in typing.get_args(Result) if result in setting.affects) or "–"
    return f"| `{name}` | {kind} | {default} | {_escaped(setting.meaning)} | {affects} |\n"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    parser = argparse.ArgumentParser(description="Write configs/README.md, the reference of every setting.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if it is not current")
    if parser.parse_args().check:
        if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page():
            return 0
        print(f"{PAGE} is not current: run python {Path(__file__).name}", file=sys.stderr)
        return 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
