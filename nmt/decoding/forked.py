"""Models in a process that was forked after they were opened, as multiprocessing and a web server that preloads do.

Such a process has the memory of the one that it was forked from, but of its threads only the one that forked. Whatever
waits for one of the others waits for ever. So here
- what makes threads of Python take turns is new;
- PyTorch computes with one thread: GNU's OpenMP would wait for the threads that the process before had started;
- CTranslate2, whose own threads search, opens the model again, and what it was before is never destroyed;
- a model on a GPU cannot be used: no driver can go on in another process.
Source: https://github.com/pytorch/pytorch/issues/17199 for GNU's OpenMP.
"""

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator
from typing import Protocol
from weakref import WeakSet

from nmt.errors import NmtError


class Opened(Protocol):
    """An opened model."""

    def after_fork(self) -> None:
        """Called in a process that was just forked, for each model that was opened before."""


_opened: WeakSet[Opened] = WeakSet()
_any_opened = False  # also one that is not there any more
_is_forked = False  # from a process in which a model had been opened
_turn = threading.Lock()


def note_opened(model: Opened) -> None:
    """To be called for each model that is opened in this process."""
    global _any_opened
    _any_opened = True
    _opened.add(model)


@contextlib.contextmanager
def in_turn() -> Iterator[None]:
    """One at a time in a process."""
    with _turn:
        yield


def limit_pytorch() -> None:
    """To be called in each thread before PyTorch computes."""
    if _is_forked:
        import torch

        if torch.get_num_threads() > 1:
            torch.set_num_threads(1)


def keep_for_ever(thing: object) -> None:
    """Never destroy this, also not at the end of the process."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def on_a_gpu(device: object) -> NmtError:
    """The error for a model on a GPU that was opened before this process was forked."""
    return NmtError(
        f"this process was forked after a model was opened on {device}, which cannot be used here: open the model in "
        'each process that translates, and start them with multiprocessing.get_context("spawn")'
    )


def _after_fork() -> None:
    global _is_forked, _turn
    _turn = threading.Lock()
    _is_forked = _is_forked or _any_opened
    for model in list(_opened):
        model.after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork)
