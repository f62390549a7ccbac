"""The results of checks: rows in a file of JSON lines, which are written at once, and a table at the end."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu.sizes import SMALL_VOCABULARY, VOCABULARY
from nmt.files.table import table as format_table

SLOW = 0.8  # of the expected speed; below it the verdict is "slow"


@dataclass(frozen=True)
class Run:
    """The context of a check. small: tiny models and few steps, to rehearse the script without a GPU."""

    check: str
    results: Path  # JSON lines
    out: Path  # for longer outputs
    store: Path
    device: str
    small: bool
    text: Path | None = None  # a folder with a corpus

    @property
    def vocabulary(self) -> int:
        """The subwords of a model."""
        return SMALL_VOCABULARY if self.small else VOCABULARY

    def row(
        self,
        what: str,
        measured: float | str,
        expected: float | None = None,
        *,
        at_most: float | None = None,
        unit: str = "",
        ok: bool | None = None,
        note: str = "",
    ) -> None:
        """Write a row. expected: a prediction or a target, where more is better; at_most: a target where less is
        better; ok: whether the check has passed; None: a number is compared with the expected one."""
        ratio = None if expected is None or isinstance(measured, str) else measured / expected
        if at_most is not None and not isinstance(measured, str):
            expected, ratio = at_most, at_most / measured
        verdict = "" if ratio is None else "ok" if ratio >= SLOW else "slow"
        if ok is not None:
            verdict = "ok" if ok else "FAILED"
        append(
            self.results,
            check=self.check, what=what, expected=expected, measured=measured, unit=unit, ratio=ratio,
            verdict=verdict, note=note,
        )  # fmt: skip

    def measured(self, what: str) -> float | None:
        """The measurement of an earlier check of this run; None if there is none."""
        measured = [row["measured"] for row in rows_of(self.results) if row["what"] == what]
        return measured[-1] if measured else None


def append(results: Path, **row: Any) -> None:
    with results.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def rows_of(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text(encoding="utf-8").split("\n") if line]


def table(rows: list[dict[str, Any]]) -> str:
    heads = ["verdict", "check", "what", "expected", "measured", "ratio", "unit", "note"]
    cells = [[_shown(row.get(head)) for head in heads] for row in rows]
    return format_table([heads, *cells], left=(0, 1, 2, 6, 7))


def _shown(x: Any) -> str:
    if x is None:
        return ""
    if isinstance(x, float):
        return f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.4g}"
    return f"{x:,}" if isinstance(x, int) and not isinstance(x, bool) else str(x)
