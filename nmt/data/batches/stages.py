"""Stages of training: a mix of the corpora for each, and when it ends.

A stage begins where the one before ended: at the end of a pool, with every pair that a corpus has not given in its
present pass. So no pair is seen twice before its whole corpus was seen once, also across stages. Which pair comes when
follows from the seed and from the times at which the stages began; a saved state holds that of its own stage.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from nmt.config import schema
from nmt.config.language_pairs import LanguagePair
from nmt.data.batches.mixing import Mix
from nmt.data.cleaning.summary import CorpusCounts, nothing_left


@dataclass(frozen=True)
class StagedMix:
    """A stage: its mix, as if training began with it, and its end: after this number of steps; or when a corpus has
    given pairs in it (`given`: the number of the corpus, how many pairs); or, without the two, never."""

    mix: Mix
    steps: int | None = None
    given: tuple[int, int] | None = None

    def begin(self, time: int, before: Sequence[int]) -> Mix:
        """The mix of the stage if it begins at this time, when the corpora have given `before` [corpora] pairs."""
        mix = replace(self.mix, start=time, before=tuple(before))
        if self.given is None:
            return mix
        corpus, pairs = self.given
        return replace(mix, end=mix.reaches(corpus, mix.before[corpus] + pairs))


def stages_of(data: schema.DataConfig, sizes: Sequence[int]) -> tuple[StagedMix, ...]:
    """Those of data.stages, for training corpora with these numbers of pairs, which suit them (`check_shares`); without
    data.stages one that never ends."""
    if not data.stages:
        return (StagedMix(_mix(data, sizes, [corpus.weight for corpus in data.train], data.temperature)),)
    return tuple(_stage(data, sizes, stage) for stage in data.stages)


def check_shares(data: schema.DataConfig, counts: Sequence[CorpusCounts]) -> None:
    """Raises NmtError for a corpus that should have a share of the mix, and of which no pair is kept. counts: of each
    training corpus."""
    for i, (corpus, count) in enumerate(zip(data.train, counts, strict=True)):
        in_stages = any(
            weights(data, stage)[i] or stage.temperature or corpus.label in (stage.passes or {})
            for stage in data.stages
        )
        if not count.kept and (corpus.weight or data.temperature or in_stages):
            advice = "; so it can have no share of the mix: correct its text or the rules, or remove it from data.train"
            raise nothing_left(count, f"data.train[{i}], {corpus.label}", advice)


def shares(data: schema.DataConfig, sizes: Sequence[int]) -> list[Fraction]:
    """Of each training corpus in the mix; with stages their mean, in which each stage counts the same: how long one
    lasts may not be known before."""
    mixes = [stage.mix for stage in stages_of(data, sizes)]
    return [sum(of_corpus, Fraction()) / len(mixes) for of_corpus in zip(*(mix.shares for mix in mixes), strict=True)]


def _stage(data: schema.DataConfig, sizes: Sequence[int], stage: schema.Stage) -> StagedMix:
    given = None
    if stage.passes:
        [(name, passes)] = stage.passes.items()
        corpus = [one.label for one in data.train].index(name)
        given = corpus, ceil(Fraction(str(passes)) * sizes[corpus])
    mix = _mix(data, sizes, weights(data, stage), stage.temperature)
    return StagedMix(mix, stage.steps, given)


def mix_of(stage: schema.Stage) -> str:
    """The mix of the stage, as the settings give it, in words."""
    if stage.weights is not None:
        total = sum(stage.weights.values())
        return ", ".join(f"{name} {weight / total:.1%}" for name, weight in stage.weights.items() if weight)
    return "by size" if stage.temperature is None else f"temperature {stage.temperature:g}"


def end_of(stage: schema.Stage) -> str:
    """When the stage ends, in words."""
    if stage.steps is not None:
        return f"for {stage.steps:,} step{'s' * (stage.steps > 1)}"
    if stage.passes:
        [(name, passes)] = stage.passes.items()
        return f"for {passes:g} pass{'es' * (passes != 1)} over {name}"
    return "to the end"


def weights(data: schema.DataConfig, stage: schema.Stage) -> list[float | None]:
    """Of each training corpus in a stage; None for all if the stage has no weights."""
    given: Mapping[str, float] | None = stage.weights
    return [None if given is None else given.get(corpus.label, 0.0) for corpus in data.train]


def _mix(
    data: schema.DataConfig, sizes: Sequence[int], weights: Sequence[float | None], temperature: float | None
) -> Mix:
    """With several pairs of languages the temperature is that of the pairs, and the corpora of one pair share its
    weight by size (Arivazhagan et al. 2019, section 4.2)."""
    weighted = any(weights)
    if temperature is not None and data.language_pairs.several:
        pairs, together = list(map(data.pair_of, data.train)), Counter[LanguagePair]()
        for pair, size in zip(pairs, sizes, strict=True):
            together[pair] += size
        mixed = Mix.of(list(together.values()), temperature=temperature)
        share = dict(zip(together, mixed.shares, strict=True))
        shares = (share[pair] * Fraction(size, together[pair]) for pair, size in zip(pairs, sizes, strict=True))
        return Mix(tuple(sizes), tuple(shares), (0,) * len(sizes))
    return Mix.of(sizes, [weight or 0 for weight in weights] if weighted else None, temperature)


def problems(data: schema.DataConfig, max_steps: int) -> Iterator[str]:
    """Corpora that no stage uses, and stages that training does not reach."""
    for i, corpus in enumerate(data.train):
        if data.stages and not any(stage.weights is None or weights(data, stage)[i] for stage in data.stages):
            yield (
                f"data.train[{i}]: {corpus.label} is never trained on, as no stage gives it a weight: name it in "
                "data.stages, or remove it"
            )
    step = 0
    for i, stage in enumerate(data.stages[:-1]):
        step += stage.steps or 0
        if step >= max_steps:
            yield (
                f"data.stages[{i + 1}] never begins: the stages before it have {step:,} steps, and training.max_steps "
                f"is {max_steps:,}"
            )
            return
