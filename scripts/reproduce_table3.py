#!/usr/bin/env python3
"""Reproduce Table 3 of *Attention Is All You Need*: count the parameters of its rows, or train and score them.

See docs/reproducing.md.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import grid
import typer
from grid import Run
from training_runs import Launch

from nmt.cli import terminal
from nmt.config import writer
from nmt.config.schema import Config
from nmt.files import text
from nmt.files.outputs import check_new_folder
from nmt.files.table import table as format_table
from nmt.files.text import to_path

ROWS = grid.GRIDS / "table3.yaml"
PAPERS_CONFIG = Path(__file__).parents[1] / "configs" / "wmt14-en-de-base.yaml"
ABOUT_37000 = range(30_000, 45_001)  # vocabulary sizes that the paper may mean by "about 37000"
HEAD = ["row", "N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop", "ε_ls", "positions", "steps"]


def row_settings(of: Config) -> list[str]:
    """A row's settings in the order of HEAD, from N on."""
    model, training = of.model, of.training
    positions = model.positions if model.positions in ("learned", "rotary") else "sinusoids"
    return [
        *map(str, (model.layers, model.d_model, model.feed_forward, model.heads)),
        *map(str, model.head_widths),
        *(f"{share:g}" for share in (model.dropout, training.label_smoothing)),
        *(positions, f"{training.max_steps:,}"),
    ]


def as_in_the_paper(runs: Sequence[Run]) -> list[list[str]]:
    """The name and the settings of each row; after the first row, only settings that differ from it."""
    first = row_settings(runs[0].config)
    rows = [[runs[0].row.row, *first]]
    for run in runs[1:]:
        own = row_settings(run.config)
        rows.append([run.row.row, *(mine if mine != its else "" for mine, its in zip(own, first, strict=True))])
    return rows


# ------------------------------------------------------------------------ --count


def parameters(of: Config, vocabulary: int) -> int:
    """The number of parameters of the model with a vocabulary of this size. No memory is allocated for them."""
    import torch

    from nmt.models.transformer.model import Transformer

    with torch.device("meta"):
        model = Transformer(of.model, vocabulary, vocabulary, padding=0)
    return model.parameter_counts()["total"]


def vocabularies(of: Config, millions: float) -> tuple[int, int]:
    """The smallest and largest vocabulary with which the model has this many parameters, rounded to millions."""
    size = of.vocabulary.size
    ours = parameters(of, size)
    each = parameters(of, size + 1) - ours
    least, most = (size + (1e6 * (millions + half) - ours) / each for half in (-0.5, 0.5))
    return math.ceil(least), math.floor(most)


def count(table: grid.Grid, runs: Sequence[Run]) -> str:
    """The table of parameters with the paper's numbers, and explanations of the differences."""
    listed = table.rows[0].paper  # a row without a number has the parameters of the first
    size = runs[0].config.vocabulary.size
    rows, ranges, beyond = [], {}, []
    for run, values in zip(runs, as_in_the_paper(runs), strict=True):
        ours = parameters(run.config, size)
        papers = run.row.paper.parameters if run.row.paper else None
        shown = papers or (listed.parameters if listed else None)
        if shown is None:
            rows.append([*values, f"{ours / 1e6:.2f}", "", "", ""])
            continue
        difference = ours / 1e6 / shown - 1
        rows.append([*values, f"{ours / 1e6:.2f}", f"({shown:g})", f"{difference:+.1%}", ""])
        if papers is None:
            continue
        least, most = ranges[run.row.row] = vocabularies(run.config, papers)
        rows[-1][-3:] = [f"{papers:g}", f"{difference:+.1%}", f"{least:,}-{most:,}"]
        if abs(difference) > 0.05:
            beyond.append(f"{run.row.row} differs by {difference:+.1%}: {explanation(run, papers, least, most)}")
    head = [*HEAD, "millions", "paper", "differ", "subwords"]
    notes = [
        f'Counted with {size:,} shared subwords; the paper says "about 37000" and gives whole millions. In brackets:',
        "the base model's, for rows without one. `subwords`: vocabularies with which the count rounds to the paper's.",
        *agreement(ranges),
        *beyond,
        *learned(runs),
    ]
    return "\n".join([format_table([head, *rows], rule=True), "", *notes])


def explanation(run: Run, millions: float, least: int, most: int) -> str:
    """How a difference follows from the size of the vocabulary, if the paper may mean that size."""
    if most < ABOUT_37000[0] or least > ABOUT_37000[-1]:
        return f'not explained: {least:,} to {most:,} subwords are not "about 37000".'
    width, more = run.config.model.d_model, (least + most) / 2 - run.config.vocabulary.size
    return (
        f"{abs(more):,.0f} {'more' if more > 0 else 'fewer'} subwords of {width} parameters "
        f"are {abs(more) * width / (millions * 1e6):.1%} of {millions:g} million, and rounding is up to "
        f"{0.5 / millions:.1%}."
    )


def not_compared(runs: Sequence[Run], changed: Sequence[str]) -> str:
    """The table of parameters for models that differ from the paper's."""
    rows = [
        [*values, f"{parameters(run.config, run.config.vocabulary.size) / 1e6:.2f}"]
        for run, values in zip(runs, as_in_the_paper(runs), strict=True)
    ]
    notes = [
        f"Counted with {runs[0].config.vocabulary.size:,} subwords. Not compared with the paper: these models differ",
        f"from the paper's in {', '.join(changed)}.",
        *learned(runs),
    ]
    return "\n".join([format_table([[*HEAD, "millions"], *rows], rule=True), "", *notes])


def changed_settings(table: grid.Grid, runs: Sequence[Run]) -> list[str]:
    """The settings of `model` in which rows differ from the paper: its numbers do not hold for these rows."""
    papers = {run.row: run for run in grid.runs(table, table.rows, PAPERS_CONFIG, (), Path(), None, 1)}
    found = [name for run in runs for name in writer.differences(papers[run.row].config.model, run.config.model)]
    return list(dict.fromkeys(f"model.{name}" for name in found))


def agreement(ranges: dict[str, tuple[int, int]]) -> list[str]:
    """The vocabulary size of about 37000 that explains the numbers of most rows."""
    bounds = {bound for least, most in ranges.values() for bound in (least, most)}

    def explained(size: int) -> list[str]:
        return [row for row, (least, most) in ranges.items() if least <= size <= most]

    among = sorted(size for size in {*bounds, ABOUT_37000[0], ABOUT_37000[-1]} if size in ABOUT_37000)
    rows = max(map(explained, among), key=len)
    if len(rows) < 2:
        return []
    least, most = max(ranges[row][0] for row in rows), min(ranges[row][1] for row in rows)
    others = [row for row in ranges if row not in rows]
    except_ = f" (but {' and '.join(others)})" if others else ""
    return [f"With {least:,} to {most:,} subwords the count of every row with a number{except_} rounds to the paper's."]


def learned(runs: Sequence[Run]) -> list[str]:
    """The parameters of learned positions, which the paper's number for the row does not include."""
    found = []
    for run in runs:
        model = run.config.model
        if model.positions == "learned":
            fixed = replace(run.config, model=replace(model, positions="interleaved"))
            more = parameters(run.config, 8) - parameters(fixed, 8)
            found.append(
                f"{run.row.row} has {more / 1e6:.2f} million parameters more than with sinusoids: model.max_positions: "
                f"{model.max_positions:,}, for both sides."
            )
    return found


# ------------------------------------------------------------------------ train and score


def scored(runs: Sequence[Run], found: dict[str, list[grid.Scores]]) -> str:
    """The scores of the trained rows next to the paper's."""
    tested = any("test" in one for of_row in found.values() for one in of_row)
    head = [*HEAD, "millions", "PPL", "BLEU", *(["test BLEU"] if tested else []), "paper: PPL", "BLEU"]
    rows = []
    once = list({run.row.row: run for run in runs}.values())
    for run, values in zip(once, as_in_the_paper(once), strict=True):
        results, paper = found[run.row.row], run.row.paper
        rows.append(
            [
                *values,
                f"{results[0]['parameters'] / 1e6:.2f}",
                *(
                    grid.mean_and_range([one["validation"][metric] for one in results])
                    for metric in ("perplexity", "bleu")
                ),
                *([grid.mean_and_range([one["test"]["bleu"] for one in results])] if tested else []),
                *([f"{paper.perplexity:.2f}", f"{paper.bleu:.1f}"] if paper else ["", ""]),
            ]
        )
    signature = found[once[0].row.row][0]["validation"]["bleu_signature"]
    notes = [
        "PPL (per subword of the row's vocabulary) and BLEU are on the validation set, the paper's on newstest2013.",
        f"BLEU: {signature}; the paper's is on tokenized text.",
    ]
    return "\n".join([format_table([head, *rows], rule=True), "", *notes])


@terminal.reporting()
def main(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="SECTION.KEY=VALUE", help="Settings that override those of every row: corpus, steps, …"),
    ] = None,
    count_: Annotated[
        bool, typer.Option("--count", help="Only count parameters and compare them with the paper's; takes seconds.")
    ] = False,
    rows: Annotated[str | None, typer.Option(metavar="base,A1,…", help="Train only these rows.")] = None,
    config: Annotated[
        Path, typer.Option(parser=to_path, help="Config for what the rows do not set: corpus, vocabulary, training.")
    ] = PAPERS_CONFIG,
    scale: Annotated[int, typer.Option(min=1, help="Divide all widths: d_model, d_ff, d_k, d_v.")] = 1,
    seeds: grid.Seeds = None,
    output: grid.Output = Path("runs/table3"),
    average: grid.Average = 1,
    test: grid.Test = None,
    device: grid.Device = "auto",
    nproc_per_node: grid.Ranks = None,
    jobs: grid.Jobs = 1,
) -> None:
    """Reproduce Table 3 of the paper: --count its parameters, or train its rows and score them.

    The same command again skips rows that are finished and continues one that was interrupted.

    Example: scripts/reproduce_table3.py --config configs/demo.yaml --rows base,A1,C1 --scale 8 training.max_steps=300
    """
    table = grid.load(ROWS)
    runs = grid.runs(table, table.chosen(rows), config, overrides or (), output, None if count_ else seeds, scale)
    if count_:
        changed = changed_settings(table, runs)
        text.result(not_compared(runs, changed) if changed else count(table, runs))
        return
    check_new_folder(output)
    found = grid.train_and_score(runs, output, Launch(device, nproc_per_node, jobs), average, test)
    if found:
        text.result(scored([run for run in runs if run.row.row in found], found))
    grid.check_complete(runs, found)


if __name__ == "__main__":
    app = terminal.application()
    app.command()(main)
    sys.exit(app())
