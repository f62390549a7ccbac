"""Writes configs/README.md, the reference of all settings, from the declarations in nmt/config/sections.py.

    python scripts/make_settings_reference.py [--check]

With --check nothing is written; the exit status is 1 if the file is outdated.
"""

import argparse
import inspect
import re
import sys
import textwrap
import typing
from collections.abc import Iterator
from pathlib import Path

from nmt.config.declaration import Result, Setting, settings
from nmt.config.reference import ABOUT
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
| [student.yaml](student.yaml) | a small model, on [the translations of a large one](../docs/distillation.md) |
| [wmt14-en-de-base.yaml](wmt14-en-de-base.yaml) | the base model of *Attention Is All You Need*, English to German |
| [wmt14-en-de-big.yaml](wmt14-en-de-big.yaml) | the big model |
| [wmt14-en-fr-big.yaml](wmt14-en-fr-big.yaml) | the big model, English to French |

"""

WRITTEN = "This page is written by `scripts/make_settings_reference.py` from `nmt/config/sections.py`.\n"
HEAD = "| setting | type | default | meaning | affects |\n| --- | --- | --- | --- | --- |\n"


def page() -> str:
    """The content of configs/README.md."""
    tables = f"## Top level\n\n{reference(Config)}"
    return "\n".join([INTRODUCTION + contents(tables), ABOUT, WRITTEN, tables])


def contents(text: str) -> str:
    """A paragraph that links to the sections of a text."""
    titles = re.findall("^## (.*)$", text, re.MULTILINE)
    links = (f"[{title}](#{title.lower().replace('.', '').replace(' ', '-')})" for title in titles)
    return textwrap.fill(f"Sections: {' · '.join(links)}", 120) + "\n"


def reference(declaration: type, without: str | None = None, path: str = "") -> str:
    """A table of all settings except `without`: key, type, default, meaning, and what they affect. Sections and other
    declarations follow, each with a heading. path: of the section, with a dot at its end."""
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
        for nested in setting.declarations:
            title = nested.__name__
            about = inspect.cleandoc(nested.__doc__ or "")
            inner[title] = f"### {title}\n\n{about}\n\n{reference(nested)}"
            kind = re.sub("mappings?(?! of)", f"[{title}](#{title.lower()})", kind)
        default = "**required**" if setting.required else f"`{in_one_line(setting.default)}`"
        rows.append(row(name, kind, default, setting))
    tables = list(inner.values())
    if rows:
        tables.insert(0, "".join([HEAD, *rows]))
    return "\n".join(tables)


def variants(section: Setting) -> Iterator[str]:
    """For a section with several declarations: the setting that chooses one, then a table of each declaration."""
    assert section.choice is not None
    choosers = [settings(declaration)[section.choice] for declaration in section.variants]
    kinds, first = _escaped(" | ".join(chooser.expected for chooser in choosers)), choosers[0]
    yield HEAD + row(section.choice, kinds, f"`{in_one_line(first.default)}`", first)
    for declaration, chooser in zip(section.variants, choosers, strict=True):
        about = inspect.cleandoc(declaration.__doc__ or "")
        table = reference(declaration, without=section.choice)
        yield f"### {section.choice}: {chooser.default}\n\n{about}\n\n{table}"


def row(name: str, kind: str, default: str, setting: Setting) -> str:
    """A row of a table."""
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
