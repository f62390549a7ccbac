"""Weights that training does not change: training.freeze."""

import re
from collections.abc import Sequence

from torch import nn

from nmt.config.schema import ModelConfig
from nmt.config.suggestions import did_you_mean
from nmt.data.subwords.vocabulary import PAD
from nmt.errors import NmtError
from nmt.models import build
from nmt.models.translation_model import TranslationModel


def freeze(model: TranslationModel, names: Sequence[str]) -> None:
    """Freeze the parts of a model with these names (see `frozen`): their weights get no gradient and no update."""
    for parameter in frozen(model, names):
        parameter.requires_grad_(False)


def frozen(model: TranslationModel, names: Sequence[str]) -> list[nn.Parameter]:
    """The weights of the parts with these names: `embeddings`, `encoder`, `decoder`, `output`, or a module, such as
    `encoder.0` or `decoder.5.cross_attention`.

    A matrix that two parts share is frozen with either of them. Raises NmtError for an unknown name, or if the names
    cover the whole model.
    """
    chosen, unknown = dict[nn.Parameter, None](), list[str]()
    for name in names:
        weights = [weight for path, weight in _paths(model) if _belongs(model, path, name)]
        if not weights:
            unknown.append(name)
        chosen |= dict.fromkeys(weights)
    if unknown:
        shown = ", ".join(name[:100] for name in unknown)
        raise NmtError(f"training.freeze: {shown}: the model has no part of this name{_meant(model, unknown[0])}")
    if len(chosen) == len(list(model.parameters())):
        raise NmtError(
            f"training.freeze: {', '.join(names)} is the whole model: leave out a part that is to be trained"
        )
    return list(chosen)


def check_names(model: ModelConfig, names: Sequence[str]) -> None:
    """Raises NmtError as `frozen` does. It needs no weights, because the names do not depend on the vocabulary."""
    frozen(build.build_on_meta(model, 1, 1, PAD), names)


def count_trained(model: nn.Module) -> int:
    """The number of parameters that are not frozen."""
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)


def summary(model: TranslationModel, names: Sequence[str]) -> str:
    """One line: how many parameters are trained, and which weights are frozen only because they are tied to others."""
    weights, tied = set(frozen(model, names)), list[str]()
    for path, weight in _paths(model):
        named = any(_belongs(model, path, name) for name in names)
        if weight in weights and not named:
            tied.append(path)
    also = f"; {', '.join(tied)} too, as model.tie makes them the same matrix" if tied else ""
    total = sum(weight.numel() for weight in model.parameters())
    frozen_parts = f"{', '.join(names)} frozen{also}"
    return f"training.freeze: {count_trained(model):,} of {total:,} parameters are trained: {frozen_parts}"


def _paths(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Every weight with its name; a tied weight once for each of its names."""
    return list(model.named_parameters(remove_duplicate=False))


def _belongs(model: TranslationModel, path: str, name: str) -> bool:
    return model.part_of(path) == name or path == name or path.startswith(f"{name}.")


def _meant(model: TranslationModel, name: str) -> str:
    """The end of the message about an unknown name: a suggestion, and the names of all parts and layers."""
    paths = [path for path, _ in _paths(model)]
    names = [model.part_of(path) for path in paths]
    for path in paths:
        words = path.split(".")[:-1]
        names += [".".join(words[:depth]) for depth in range(1, len(words) + 1)]
    names = list(dict.fromkeys(names))
    meant = did_you_mean(name, names)
    hint = f"; {meant}" if meant else ""
    shown = [part for part in names if "." not in part or re.fullmatch(r"\w+\.\d+", part)]
    innermost = max(names, key=lambda part: part.count("."))
    return f"{hint} (parts: {', '.join(shown)}; or a part of a layer, such as {innermost})"
