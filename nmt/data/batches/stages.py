"""Stages of training: the mix of corpora in each stage, and when the stage ends.

A stage begins where the previous one ended: at the end of a pool, in the middle of each corpus's pass. So no pair is
used twice before its whole corpus was used once, also across stages. The order of pairs follows from the seed and from
the times at which the stages began. A saved state holds the time at which its own stage began.
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
    """A stage of training. Without `steps` and `until_drawn` it never ends."""

    mix: Mix  # as if training began with this stage
    steps: int | None = None  # the stage ends after this number of steps
    until_drawn: tuple[int, int] | None = None  # (corpus, pairs): it ends when so many pairs of the corpus are drawn

    def begin(self, time: int, before: Sequence[int]) -> Mix:
        """The mix of the stage if it begins at `time`. before: pairs drawn from each corpus until then [corpora]."""
        mix = replace(self.mix, start=time, before=tuple(before))
        if self.until_drawn is None:
            return mix
        corpus, pairs = self.until_drawn
        return replace(mix, end=mix.reaches(corpus, mix.before[corpus] + pairs))


def stages_of(data: schema.DataConfig, sizes: Sequence[int]) -> tuple[StagedMix, ...]:
    """The stages of data.stages; without data.stages, one stage that never ends. sizes: the pairs of each training
    corpus, which must satisfy `check_shares`."""
    if not data.stages:
        return (StagedMix(_mix(data, sizes, [corpus.weight for corpus in data.train], data.temperature)),)
    return tuple(_stage(data, sizes, stage) for stage in data.stages)


def check_shares(data: schema.DataConfig, counts: Sequence[CorpusCounts]) -> None:
    """Raises NmtError if a corpus should have a share of the mix and no pair of it is kept. counts: of each training
    corpus."""
    for i, (corpus, count) in enumerate(zip(data.train, counts, strict=True)):
        in_stages = any(
            weights(data, stage)[i] or stage.temperature or corpus.label in (stage.passes or {})
            for stage in data.stages
        )
        if not count.kept and (corpus.weight or data.temperature or in_stages):
            advice = "; it cannot have a share of the mix: correct its text or the rules, or remove it from data.train"
            raise nothing_left(count, f"data.train[{i}], {corpus.label}", advice)


def shares(data: schema.DataConfig, sizes: Sequence[int]) -> list[Fraction]:
    """The share of each training corpus in the mix. With stages it is the unweighted mean over the stages, because it
    may not be known in advance how long each lasts."""
    mixes = [stage.mix for stage in stages_of(data, sizes)]
    by_corpus = zip(*(mix.shares for mix in mixes), strict=True)
    return [sum(corpus_shares, Fraction()) / len(mixes) for corpus_shares in by_corpus]


def _stage(data: schema.DataConfig, sizes: Sequence[int], stage: schema.Stage) -> StagedMix:
    until_drawn = None
    if stage.passes:
        [(name, passes)] = stage.passes.items()
        i = [corpus.label for corpus in data.train].index(name)
        until_drawn = i, ceil(Fraction(str(passes)) * sizes[i])
    mix = _mix(data, sizes, weights(data, stage), stage.temperature)
    return StagedMix(mix, stage.steps, until_drawn)


def mix_of(stage: schema.Stage) -> str:
    """A description of the mix that the settings give the stage."""
    if stage.weights is not None:
        total = sum(stage.weights.values())
        return ", ".join(f"{name} {weight / total:.1%}" for name, weight in stage.weights.items() if weight)
    return "by size" if stage.temperature is None else f"temperature {stage.temperature:g}"


def end_of(stage: schema.Stage) -> str:
    """A description of when the stage ends."""
    if stage.steps is not None:
        return f"for {stage.steps:,} step{'s' * (stage.steps > 1)}"
    if stage.passes:
        [(name, passes)] = stage.passes.items()
        return f"for {passes:g} pass{'es' * (passes != 1)} over {name}"
    return "to the end"


def weights(data: schema.DataConfig, stage: schema.Stage) -> list[float | None]:
    """The weight of each training corpus in a stage; None for each if the stage has no weights."""
    by_label: Mapping[str, float] | None = stage.weights
    return [None if by_label is None else by_label.get(corpus.label, 0.0) for corpus in data.train]


def _mix(
    data: schema.DataConfig, sizes: Sequence[int], weights: Sequence[float | None], temperature: float | None
) -> Mix:
    """With several language pairs, the temperature applies to the language pairs. The corpora of a language pair share
    its weight by size (Arivazhagan et al. 2019, section 4.2)."""
    weighted = any(weights)
    if temperature is not None and data.language_pairs.several:
        pairs, together = list(map(data.pair_of, data.train)), Counter[LanguagePair]()
        for pair, size in zip(pairs, sizes, strict=True):
            together[pair] += size
        mixed = Mix.from_weights(list(together.values()), temperature=temperature)
        share = dict(zip(together, mixed.shares, strict=True))
        shares = (share[pair] * Fraction(size, together[pair]) for pair, size in zip(pairs, sizes, strict=True))
        return Mix(tuple(sizes), tuple(shares), (0,) * len(sizes))
    return Mix.from_weights(sizes, [weight or 0 for weight in weights] if weighted else None, temperature)


def problems(data: schema.DataConfig, max_steps: int) -> Iterator[str]:
    """Yield a message for each corpus that no stage uses, and for the first stage that training does not reach."""
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
