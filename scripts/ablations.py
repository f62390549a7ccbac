#!/usr/bin/env python3
"""Measure the effect of each part of a recipe: train with one setting changed, or search with a trained run.

See docs/reproducing.md.
"""

import hashlib
import itertools
import logging
import math
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import benchmark
import grid
import scoring
import typer
from training_runs import Launch, Stopped, check_halving, halved

from nmt.checkpoints import averaging, model_file
from nmt.cli import terminal
from nmt.commands import average as selection
from nmt.config import schema
from nmt.errors import NmtError
from nmt.files import text
from nmt.files.outputs import check_new_folder
from nmt.files.table import table as format_table
from nmt.files.text import to_path

log = logging.getLogger("nmt")

app = terminal.application("Measure the effect of each part of a recipe.")

# Arguments of `train` and `speed`.
Recipe = Annotated[Path, typer.Argument(parser=to_path, metavar="CONFIG", help="The config of the recipe.")]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="SECTION.KEY=VALUE", help="Settings that override those of every row.")
]
Rows = Annotated[str | None, typer.Option(metavar="recipe,pre-norm,…", help="Only these rows.")]
GridFile = Annotated[Path, typer.Option("--grid", parser=to_path, help="File with the rows.")]


# ------------------------------------------------------------------------ train


@app.command(short_help="Train the recipe with one setting changed at a time.")
@terminal.reporting()
def train(
    recipe: Recipe,
    overrides: Overrides = None,
    rows: Rows = None,
    grid_: GridFile = grid.GRIDS / "ablations.yaml",
    seeds: grid.Seeds = None,
    output: grid.Output = Path("runs/ablations"),
    average: grid.Average = 1,
    test: grid.Test = None,
    device: grid.Device = "auto",
    nproc_per_node: grid.Ranks = None,
    jobs: grid.Jobs = 1,
    halve: Annotated[
        str | None,
        typer.Option(
            metavar="STEP,…", help="At each of these steps, stop the worse half of the rows, but never the first row."
        ),
    ] = None,
) -> None:
    """Train each row and score it on the validation set, and on --test.

    The same command again skips rows that are finished and continues those that were interrupted. With --halve the rows
    are compared by their best validation BLEU until each of the steps; the first row is never stopped.

    Example: scripts/ablations.py train configs/multi30k.yaml --average 3 --seeds 1,2,3
    """
    table = grid.load(grid_)
    runs = grid.runs(table, table.chosen(rows), recipe, overrides or (), output, seeds, scale=1)
    check_new_folder(output)
    launch, left, stopped = Launch(device, nproc_per_node, jobs), runs, dict[str, Stopped]()
    speeds = speeds_for_comparison(output, runs, launch)
    if halve is not None:
        steps = [int(step) for step in numbers(halve, "--halve", int, least=1)]
        check_halving(runs, steps)
        grid.check(runs, average, test)
        left, stopped = halved(runs, steps, launch)
    found = grid.train_and_score(left, output, launch, average, test)
    if found:
        text.result(trained(found, speeds, timed=jobs == 1))
    if stopped:
        rows_stopped = [[row, f"{one.step:,}", f"{one.bleu:.2f}"] for row, one in stopped.items()]
        table_of_stopped = format_table([["stopped early", "step", "BLEU until then"], *rows_stopped], rule=True)
        text.result(f"\n{table_of_stopped}")
    grid.check_complete(runs, {*found, *stopped})


def trained(
    found: dict[str, list[grid.Scores]], speeds: Mapping[str, float] | None = None, *, timed: bool = True
) -> str:
    """A table with the scores of each row and the differences to the first row; and one of their speeds, if these were
    measured or the rows were timed, which they were not beside others."""
    first = next(iter(found.values()))
    tested = "test" in first[0]
    head = ["row", "millions", "PPL", "BLEU", "", "chrF", *(["test BLEU", ""] if tested else [])]
    rows = []
    for row, results in found.items():

        def scores(part: str, metric: str, results: list[grid.Scores] = results) -> list[str]:
            values, base = ([one[part][metric] for one in some] for some in (results, first))
            difference = "" if results is first else f"{sum(values) / len(values) - sum(base) / len(base):+.2f}"
            return [grid.mean_and_range(values), difference]

        rows.append(
            [
                row,
                f"{results[0]['parameters'] / 1e6:.2f}",
                scores("validation", "perplexity")[0],
                *scores("validation", "bleu"),
                scores("validation", "chrf")[0],
                *(scores("test", "bleu") if tested else []),
            ]
        )
    note = (
        "PPL is per subword of the row's vocabulary: do not compare it between rows with different vocabularies.\n"
        f"BLEU on the validation set{', and on the test set' if tested else ''}, with the difference to "
        f"{next(iter(found))}: {first[0]['validation']['bleu_signature']}"
    )
    of_speed = in_equal_time(found, speeds) if speeds or timed else ""
    return "\n\n".join(filter(None, [format_table([head, *rows], rule=True), note, of_speed]))


def in_equal_time(found: dict[str, list[grid.Scores]], speeds: Mapping[str, float] | None = None) -> str:
    """A table with the speed of each row, and with its last validation in the time that the fastest row trained.

    speeds: of the rows, in target tokens per second, measured in turn; without them each row has its own of its
    training. Validation is not counted as training. Rows that were scored before speeds were recorded are left out;
    empty if none is left.
    """
    timed = {
        row: results
        for row, results in found.items()
        if all("seconds" in one and "subwords_per_second" in one["validation"] and one["curve"] for one in results)
    }
    if not timed:
        return ""

    def speed(row: str, one: grid.Scores) -> float:
        return float(speeds[row] if speeds else one["target_tokens"] / one["seconds"])

    least = min(one["target_tokens"] / speed(row, one) for row, results in timed.items() for one in results)
    rows = []
    for row, results in timed.items():
        validated = []
        for one in results:  # each within the time, which is the fastest row's own but for rounding
            steps = one["step"] * least * speed(row, one) / one["target_tokens"] * (1 + 1e-9)
            validated.append([each for each in one["curve"] if each["step"] <= steps])
        last = [of_run[-1] for of_run in validated] if all(validated) else []
        rows.append(
            [
                row,
                f"{sum(speed(row, one) for one in results) / len(results):,.0f}",
                f"{sum(one['validation']['subwords_per_second'] for one in results) / len(results):,.0f}",
                ", ".join(f"{one['step']:,}" for one in last),
                grid.mean_and_range([one["validation_loss"] for one in last]) if last else "",
                grid.mean_and_range([one["bleu"] for one in last]) if last and "bleu" in last[0] else "",
            ]
        )
    head = ["row", "tokens/s, training", "tokens/s, search", "step", "loss", "BLEU"]
    note = (
        f"Steps, loss and BLEU: the last validation within {least:,.0f} seconds of training, the time of the fastest "
        f"row. Tokens are target subwords. Training speeds: {'measured in turn' if speeds else 'of the training'}."
    )
    return f"{format_table([head, *rows], rule=True)}\n\n{note}"


# ------------------------------------------------------------------------ speed


SPEEDS = "speeds.jsonl"
_UNTIMED = 10  # first steps of a run


@app.command(short_help="Measure the training speed of each row, in turn.")
@terminal.reporting()
def speed(
    recipe: Recipe,
    overrides: Overrides = None,
    rows: Rows = None,
    grid_: GridFile = grid.GRIDS / "ablations.yaml",
    output: grid.Output = Path("runs/ablations"),
    rounds: Annotated[int, typer.Option(min=1, help="Measure each row this many times.")] = 3,
    steps: Annotated[int, typer.Option(min=1, help="Steps that are timed; a multiple of 10.")] = 30,
    device: grid.Device = "auto",
    nproc_per_node: grid.Ranks = None,
) -> None:
    """Train each row for some steps, one row after the other, in several rounds, so that a change in the machine's
    speed affects all rows. Let nothing else run. `train` with the same --output then compares the rows in equal time by
    these speeds, instead of by the time that each took.

    The same command again measures only what is missing. On another machine use another --output, or delete its
    speeds.jsonl.

    Example: scripts/ablations.py speed configs/multi30k.yaml
    """
    if steps % _UNTIMED:
        raise NmtError(f"--steps {steps}: give a multiple of {_UNTIMED}, the number of steps before them")
    table, launch = grid.load(grid_), Launch(device, nproc_per_node)
    runs = grid.runs(table, table.chosen(rows), recipe, overrides or (), output, None, scale=1)
    check_new_folder(output)
    results = grid.Results(output / SPEEDS)
    for number, run in itertools.product(range(1, rounds + 1), runs):
        key = speed_key(run, launch) | {"steps": steps, "round": number}
        if results.find(key) is None:
            try:
                measured = benchmark.run_nmt(run.file, run.overrides, launch, steps, _UNTIMED)
            except NmtError as error:
                raise NmtError(f"row {run.row.row}: {error}") from None
            results.add(key | {"target_tokens_per_second": round(measured.speed, 1)})
            log.info("%s, round %d: %s target tokens/s", run.row.row, number, f"{measured.speed:,.0f}")
    speeds = measured_speeds(output, runs, launch)
    medians = {row: statistics.median(of_row) for row, of_row in speeds.items()}
    first = next(iter(medians.values()))
    lines = [
        [row, f"{median:,.0f}", f"{median / first:.2f}", f"{min(speeds[row]):,.0f} to {max(speeds[row]):,.0f}"]
        for row, median in medians.items()
    ]
    text.result(format_table([["row", "tokens/s", "ratio", "rounds"], *lines], rule=True))


def speed_key(run: grid.Run, launch: Launch) -> dict[str, Any]:
    """What the speed of a row depends on, on one machine: settings in short, without those that are the same in all
    runs that are timed, and without search."""
    timed = replace(run, overrides=(*run.overrides, *benchmark.TIMED, f"training.max_steps={_UNTIMED}"))
    settings = {name: value for name, value in timed.settings.items() if name not in ("seed", "decoding")}
    return {"row": run.row.row, "device": launch.device, "ranks": launch.ranks, "settings": settings}


def measured_speeds(output: Path, runs: Sequence[grid.Run], launch: Launch) -> dict[str, list[float]]:
    """The speeds of each row that `speed` has measured, in target tokens per second; rows without any are left out."""
    lines, found = grid.Results(output / SPEEDS).lines, dict[str, list[float]]()
    for run in runs:
        key = speed_key(run, launch)
        if rounds := [line["target_tokens_per_second"] for line in lines if key.items() <= line.items()]:
            found[run.row.row] = rounds
    return found


def speeds_for_comparison(output: Path, runs: Sequence[grid.Run], launch: Launch) -> dict[str, float]:
    """The median of the measured speeds of each row. Empty if a row has none, which is logged if others have one: only
    speeds that were measured in turn can be compared."""
    found = measured_speeds(output, runs, launch)
    missing = list(dict.fromkeys(run.row.row for run in runs if run.row.row not in found))
    if not missing:
        return {row: statistics.median(rounds) for row, rounds in found.items()}
    if (output / SPEEDS).exists():
        log.warning(
            "%s: no speed of %s with these settings: the rows are compared by the time that each took; "
            "scripts/ablations.py speed measures what is missing",
            output / SPEEDS,
            ", ".join(missing),
        )
    return {}


# ------------------------------------------------------------------------ search


_NAMES = {  # the name in nmt.commands.average: the name in the table, and what the run must have
    "last 1": ("last", "a checkpoint"),
    "last 5": ("last 5", "5 checkpoints (training.checkpoint_every, training.keep_last)"),
    "last 10": ("last 10", "10 checkpoints (training.checkpoint_every, training.keep_last)"),
    "best 5": ("best 5", "5 validated checkpoints (training.validate_every, training.keep_best)"),
    "moving average": ("EMA", "a moving average (training.ema_decay)"),
}


@dataclass(frozen=True)
class Weights:
    """Weights of a run: their name in the table, and the files whose average they are."""

    name: str
    files: tuple[Path, ...]

    @cached_property
    def key(self) -> str:
        """A hash of the content of the files."""
        digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in self.files]
        return hashlib.sha256("".join(digests).encode()).hexdigest()[:16]


def weights_of(run: Path) -> list[Weights]:
    """The last checkpoint, the averages of the last 5, the last 10 and the best 5, and the moving average.

    Equal sets of files come once. Logs which are left out because the run does not have the files. Raises NmtError if
    none is left.
    """
    candidates = selection.candidates(run, last=(1, 5, 10), best=(5,))
    found = {tuple(name.split(", ")): paths for name, paths in candidates.items()}
    there = set(itertools.chain(*found))
    for name, needed in (what for candidate, what in _NAMES.items() if candidate not in there):
        log.info("%s: left out: %s does not have %s", name, run, needed)
    return [Weights(", ".join(_NAMES[name][0] for name in names), paths) for names, paths in found.items()]


def numbers(text: str, option: str, kind: type[int] | type[float], least: int) -> list[int | float]:
    """The numbers in the value of an option. Raises NmtError for other text and for numbers below `least`."""
    found = []
    for part in text.split(","):
        try:
            found.append(kind(part))
        except ValueError:
            found.append(math.nan)
        if not least <= found[-1] < math.inf:
            kinds = "whole numbers" if kind is int else "numbers"
            raise NmtError(f"{option}: {part!r}: give {kinds} of at least {least}, separated by commas")
    return found


@app.command(short_help="Try averages, beam sizes and length penalties with a trained run.")
@terminal.reporting()
def search(
    run: Annotated[Path, typer.Argument(parser=to_path, metavar="RUN", help="The folder of a trained run.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="DECODING.KEY=VALUE", help="Decoding settings of every search.")
    ] = None,
    beams: Annotated[str, typer.Option(help="Beam sizes.")] = "1,2,4,8",
    alphas: Annotated[str, typer.Option(help="α of the length penalty.")] = "0,0.6,1,1.4,2",
    test: grid.Test = None,
    device: grid.Device = "auto",
) -> None:
    """Score the checkpoints of a trained run and their averages, then the best of them with other searches.

    All scores are on the run's validation set. With --test the best search is also scored on that text. Results are
    kept in RUN/search.jsonl and are not computed again.

    Example: scripts/ablations.py search runs/multi30k --beams 1,4 --alphas 0.6,1,2
    """
    sizes, penalties = numbers(beams, "--beams", int, least=1), numbers(alphas, "--alphas", float, least=0)
    among = weights_of(run)
    with tempfile.TemporaryDirectory() as folder:
        of_run = Searches(run, grid.Results(run / "search.jsonl"), overrides or (), device, Path(folder))
        pairs, tested = scoring.validation_pairs(schema.load(run / "config.yaml")), scoring.test_pairs(test)
        averaged = [(weights, of_run.scores(weights, pairs)) for weights in among]
        best, _ = max(averaged, key=lambda one: float(one[1]["bleu"]))
        rows = [[weights.name, f"{found['bleu']:.2f}", f"{found['chrf']:.2f}"] for weights, found in averaged]
        text.result(format_table([["weights", "BLEU", "chrF"], *rows], rule=True))
        searched = {
            (beam, alpha): of_run.scores(best, pairs, beam, alpha if beam > 1 else penalties[0])  # greedy has no α
            for beam, alpha in itertools.product(sizes, penalties)
        }
        rows = [[str(beam), *(f"{searched[beam, alpha]['bleu']:.2f}" for alpha in penalties)] for beam in sizes]
        head = [f"{best.name}: beam", *(f"α {alpha:g}" for alpha in penalties)]
        text.result(f"\n{format_table([head, *rows], rule=True)}")
        beam, alpha = max(searched, key=lambda pair: float(searched[pair]["bleu"]))
        text.result(f"\nbest on the validation set: {best.name}, beam {beam}, α {alpha:g}")
        text.result(f"BLEU: {searched[beam, alpha]['bleu_signature']}")
        if test is not None and tested is not None:
            text.result(f"on {test[0]}: BLEU {of_run.scores(best, tested, beam, alpha)['bleu']:.2f}")


@dataclass(frozen=True)
class Searches:
    """The searches with a run. A result that exists is not computed again. folder: for averaged model files."""

    run: Path
    results: grid.Results
    overrides: Sequence[str]
    device: str
    folder: Path

    def scores(
        self, weights: Weights, pairs: scoring.Pairs, beam: float | None = None, alpha: float | None = None
    ) -> dict[str, Any]:
        """The scores of a search; with the run's own beam size and α if they are not given."""
        chosen = [] if beam is None else [f"decoding.beam_size={beam}", f"decoding.length_penalty={alpha}"]
        key = {
            "files": [path.name for path in weights.files],
            "content": weights.key,
            "decoding": [*self.overrides, *chosen],
            "text": hashlib.sha256(repr(pairs).encode()).hexdigest()[:16],
        }
        done = self.results.find(key)
        if done is None:
            mean = self.folder / f"{weights.key}.safetensors"
            if not mean.exists():
                model_file.save(mean, averaging.average(weights.files))
            done = {"weights": weights.name} | key | scoring.scores(mean, pairs, self.device, key["decoding"])
            self.results.add(done)
            log.info("%s: BLEU %.2f", " ".join([weights.name, *key["decoding"]]), done["bleu"])
        return done


if __name__ == "__main__":
    sys.exit(app())
