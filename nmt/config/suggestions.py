"""What a name that there is not may stand for."""

import difflib
from collections.abc import Collection, Iterable, Iterator

_MOST_SETTINGS = 3


def did_you_mean(name: str, known: Iterable[str], most: int = 1, cutoff: float = 0.6) -> str:
    """`did you mean X or Y?`, with at most so many known names that are most like this one, upper case or lower; empty
    where none is like it. cutoff: as difflib's."""
    by_lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=most, cutoff=cutoff)
    return f"did you mean {' or '.join(by_lower[each] for each in close)}?" if close else ""


def settings_like(name: str, beside: Iterable[str], everywhere: Iterable[str]) -> list[str]:
    """The dotted paths that may be meant: of `--lr` and of `learning-rate` training.learning_rate. Of those that are
    like it in the same way, `beside`, the settings of its own section, come before those everywhere. Empty where
    nothing or too much is like the name."""
    plain = name.strip("-").lower().replace("-", "_")
    groups = [_by_name(beside), _by_name(everywhere)]
    groups[1].update({path: [path] for paths in [*groups[1].values()] for path in paths})
    for names_of_groups in zip(*(_alike(plain, group) for group in groups), strict=True):
        for names, by_name in zip(names_of_groups, groups, strict=True):
            paths = [path for known in names for path in by_name[known]]
            if paths:
                return paths if len(paths) <= _MOST_SETTINGS else []
    return []


def _by_name(paths: Iterable[str]) -> dict[str, list[str]]:
    by_name: dict[str, list[str]] = {}
    for path in paths:
        by_name.setdefault(path.rpartition(".")[2], []).append(path)
    return by_name


def _alike(name: str, known: Collection[str]) -> Iterator[list[str]]:
    """The known names that are like this one, in one way after the other."""
    words = {each: each.split("_") for each in known}
    yield [each for each in known if each == name]
    yield [each for each in known if len(words[each]) > 1 and "".join(word[0] for word in words[each]) == name]
    yield difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    yield [each for each in known if name in words[each]]
    yield [each for each in known if "_" in name and name.split("_")[0] == words[each][0]]
