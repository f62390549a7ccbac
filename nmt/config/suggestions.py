"""Suggestions for names that do not exist."""

import difflib
from collections.abc import Collection, Iterable, Iterator
from itertools import chain

_MOST_SETTINGS = 3


def did_you_mean(name: str, names: Iterable[str], most: int = 1, cutoff: float = 0.6) -> str:
    """`did you mean X or Y?` with at most `most` existing names that are similar to this name; empty if none is. Case
    does not matter. cutoff: as in difflib."""
    by_lower = {existing.lower(): existing for existing in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=most, cutoff=cutoff)
    return f"did you mean {' or '.join(map(by_lower.__getitem__, close))}?" if close else ""


def settings_like(name: str, beside: Iterable[str], everywhere: Iterable[str]) -> list[str]:
    """The dotted paths of the settings that a name may mean: training.learning_rate for `--lr` and `learning-rate`. If
    several are similar in the same way, `beside`, the settings of the same section, are preferred to `everywhere`.
    Empty if no setting is similar, or too many are."""
    plain = name.strip("-").lower().replace("-", "_")
    groups = [_by_name(beside), _by_name(everywhere)]
    for paths in list(groups[1].values()):
        groups[1].update((path, [path]) for path in paths)
    for matches in zip(*(_alike(plain, group) for group in groups), strict=True):
        for names, by_name in zip(matches, groups, strict=True):
            paths = list(chain.from_iterable(by_name[match] for match in names))
            if paths:
                return paths if len(paths) <= _MOST_SETTINGS else []
    return []


def _by_name(paths: Iterable[str]) -> dict[str, list[str]]:
    by_name: dict[str, list[str]] = {}
    for path in paths:
        by_name.setdefault(path.rpartition(".")[2], []).append(path)
    return by_name


def _alike(name: str, names: Collection[str]) -> Iterator[list[str]]:
    """Yield the similar names for each kind of similarity, the closest kind first."""
    words = {other: other.split("_") for other in names}
    yield [other for other in names if other == name]
    yield [other for other in names if len(words[other]) > 1 and "".join(word[0] for word in words[other]) == name]
    yield difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    yield [other for other in names if name in words[other]]
    yield [other for other in names if "_" in name and name.split("_")[0] == words[other][0]]
