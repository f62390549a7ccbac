"""A progress bar of lines that are translated."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

from nmt.decoding.translator import Translator


def has_terminal() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def counting_lines(translator: Translator, what: str, total: int | None) -> Iterator[None]:
    """On a terminal, show how many lines the translator has searched, of `total`, lines per second and time left."""
    if not has_terminal():
        yield
        return
    with tqdm(desc=what, total=total, unit=" lines", leave=False, miniters=1) as bar:
        translator.on_lines = bar.update
        try:
            yield
        finally:
            translator.on_lines = None
