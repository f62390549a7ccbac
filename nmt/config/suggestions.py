"""Which settings a name that is not theirs may stand for, such as that of another program's option."""

import difflib

from nmt.config.declaration import all_settings
from nmt.config.schema import Config

_MOST = 3


def settings_like(name: str, section: str = "") -> list[str]:
    """The dotted paths of the settings that may be meant, best first, of a section or of all: of `--lr` and of
    `learning-rate` training.learning_rate. Empty where nothing or too much is like the name."""
    plain = name.strip("-").lower().replace("-", "_")
    by_name: dict[str, list[str]] = {}
    for path in all_settings(Config):
        if path.startswith(section and f"{section}."):
            by_name.setdefault(path.rpartition(".")[2], []).append(path)
            if path == plain:
                return [path]
    words = {known: known.split("_") for known in by_name}
    found = [known for known in by_name if known == plain]
    found = found or [known for known in by_name if len(words[known]) > 1 and _initials(words[known]) == plain]
    found = found or difflib.get_close_matches(plain, by_name, n=1, cutoff=0.8)
    found = found or [known for known in by_name if plain in words[known]]
    found = found or [known for known in by_name if "_" in plain and plain.split("_")[0] == words[known][0]]
    paths = [path for known in found for path in by_name[known]]
    return paths if len(paths) <= _MOST else []


def _initials(words: list[str]) -> str:
    return "".join(word[0] for word in words)
