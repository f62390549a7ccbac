"""The speed of search on a GPU, and where its time goes: in text, in the encoder, in steps, or in the host's own work.

The model is a random base model. EOS has the embedding 0, so that its score is below the best ones, and outputs end at
their limit: they have as many subwords as their source.
"""

import gc
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from gpu import host_time, store
from gpu.report import Run
from gpu.sizes import MODELS, TINY
from nmt import device as devices
from nmt.config.schema import DecodingConfig
from nmt.data.subwords.vocabulary import EOS, PAD, Vocabulary
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.engine_protocol import SearchInput
from nmt.decoding.search import logits_processors
from nmt.decoding.search.decoder_model import Hypothesis, SearchOptions
from nmt.decoding.search.logits_processors import MinLength
from nmt.decoding.translator import Translator
from nmt.models import build

_TARGET, _LINES, _SECONDS = 300_000, 100_000, 15  # subwords per second with beam 4; the most lines, and time for them
_SOURCE = 25  # subwords of a source, when steps are measured


class TimedEngine(PyTorchEngine):
    """Measures the seconds of all searches, and counts the subwords of their best outputs, EOS included."""

    seconds, subwords = 0.0, 0

    def search(
        self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int
    ) -> list[list[Hypothesis]]:
        start = time.perf_counter()
        results = super().search(sources, options, batch_tokens)
        self.seconds += time.perf_counter() - start
        self.subwords += sum(len(hypotheses[0].tokens) + 1 for hypotheses in results)
        return results


class EndAt(MinLength):
    """Makes an output end when it has its sentence's lowest number of tokens, as a trained model does: the program does
    not know when."""

    def apply(self, scores: Tensor, length: int, sentences: slice) -> None:
        super().apply(scores, length, sentences)
        scores[:, :, self.eos].masked_fill_((self.lengths[sentences] <= length)[:, None], 1e4)


def host(run: Run) -> None:
    """The speed of the host: an empty loop in Python, the start of a kernel, a full garbage collection."""
    turns, where = 2_000_000, devices.choose(run.device)
    start = time.perf_counter()
    for _ in range(turns):
        pass
    run.row("an empty loop in Python", 1e9 * (time.perf_counter() - start) / turns, unit="ns a turn")
    x, calls = torch.zeros(64, 64, device=where), 20 if run.small else 1000
    with torch.inference_mode():
        for _ in range(10):
            x + x
        _wait(run)
        start = time.perf_counter()
        deque((x + x for _ in range(calls)), 0)
        run.row("to start an addition", 1e6 * (time.perf_counter() - start) / calls, unit="µs")
        _wait(run)
    start = time.perf_counter()
    gc.collect()
    milli, objects = 1e3 * (time.perf_counter() - start), len(gc.get_objects())
    run.row("a full garbage collection", milli, unit="ms", note=f"{objects:,} objects")


def lines(run: Run) -> None:
    """Subwords per second of a Translator, from text to text, for lines of about 25 subwords; and where the time
    goes."""
    host(run)
    tokenizer = store.subwords(run.store, small=run.small)
    engine, vocabulary = _engine(run, len(tokenizer)), Vocabulary(tokenizer, tokenizer)
    few, many = (5, 10) if run.small else (5_000, _LINES)
    text = store.random_lines(many, small=run.small)
    for beam in (4, 1):
        decoding = DecodingConfig(beam_size=beam, max_extra_tokens=0)
        translator, name = Translator(engine, vocabulary, decoding), f"beam {beam}" if beam > 1 else "greedy"
        translator.translate(text[:few])  # the first search of a process takes longer
        seconds, _ = _translated(translator, engine, text[:few])
        count = min(many if beam > 1 else 2 * few, int(few / seconds * _SECONDS))
        for number in (few, max(few, count)):
            seconds, in_search = _translated(translator, engine, text[:number])
            length = f"{engine.subwords / number:.1f} subwords a line"
            note = f"{number:,} lines, {length}; {1 - in_search / seconds:.1%} of the time is for text"
            expected = _TARGET if beam > 1 and number > few and not run.small else None
            speed = engine.subwords / seconds
            run.row(f"{name}, {number:,} lines", speed, expected, unit="target subwords/s", note=note)
        share = _encoder_share(run, translator, engine, text[:few])
        run.row(f"{name}: the encoder", share, unit="of the time", note=f"{few:,} lines")
        _host_functions(run, name, partial(translator.translate, text[:few]))
        _ending_early(run, name, translator, engine, text[:few])


def steps(run: Run) -> None:
    """The time of a search step, without encoder and results, for several numbers of hypotheses; with the kernels that
    it starts, and how often the host waits for the GPU."""
    engine = _engine(run, len(store.subwords(run.store, small=run.small)))
    ways = {"beam 4": {"beam_size": 4}, "greedy": {"beam_size": 1}, "sampling": {"method": "sample"}}
    for name, settings in ways.items():
        options = SearchOptions(decoding=DecodingConfig(**settings), scores=False)  # type: ignore[arg-type]
        hypotheses = (8,) if run.small else (2_048,) if name == "sampling" else (64, 2_048, 8_192)
        for number in hypotheses:
            _step(run, f"{name}, {number:,} hypotheses", engine, options, number // options.width)
        what = f"{name}, {hypotheses[-1]:,} hypotheses, with a logits processor"
        _step(run, what, engine, options, hypotheses[-1] // options.width, shortest=1)


def _engine(run: Run, subwords: int) -> TimedEngine:
    """An engine with a random model."""
    where = devices.choose(run.device)
    torch.manual_seed(1)
    model = build.build(TINY if run.small else MODELS["base"], subwords, subwords, PAD)
    with torch.no_grad():
        model.output.weight[EOS] = 0  # type: ignore[union-attr,operator]
    model.to(where).eval()
    model.prepare_for_search(torch.float32 if run.small else torch.bfloat16)
    return TimedEngine([model], where)


def _translated(translator: Translator, engine: TimedEngine, text: list[str]) -> tuple[float, float]:
    """Seconds of translating this text, and those of them for searching."""
    engine.seconds, engine.subwords = 0.0, 0
    start = time.perf_counter()
    translator.translate(text)
    return time.perf_counter() - start, engine.seconds


def _encoder_share(run: Run, translator: Translator, engine: TimedEngine, text: list[str]) -> float:
    """The encoder's share of the time, when the host waits for the GPU before and after it."""
    [model], seconds = engine.models, 0.0
    encode = model.encode

    def timed(source: Tensor) -> Any:
        nonlocal seconds
        _wait(run)
        start = time.perf_counter()
        memory = encode(source)
        _wait(run)
        seconds += time.perf_counter() - start
        return memory

    model.encode = timed  # type: ignore[method-assign]
    try:
        total, _ = _translated(translator, engine, text)
    finally:
        del model.encode  # the method of the class is back
    return seconds / total


def _host_functions(run: Run, name: str, function: Callable[[], object]) -> None:
    """The functions in which the host spends its time, as rows, and all of them in a file; and the share of garbage
    collection."""
    sampled = host_time.sample(function)
    (run.out / f"host-{name.replace(' ', '-')}.txt").write_text(sampled.table(), encoding="utf-8")
    for where, share in sampled.own(8):
        run.row(f"{name}: host in {where}", share, unit="of the time")
    note = f"{sampled.full_collections} full ones"
    run.row(f"{name}: garbage collection", sampled.collecting, unit="of the time", note=note)


def _ending_early(run: Run, name: str, translator: Translator, engine: TimedEngine, text: list[str]) -> None:
    """The speed if outputs end at 0.8 of their source's length, and the program does not know it."""
    built = logits_processors.build
    translator.decoding = DecodingConfig(beam_size=translator.decoding.beam_size, min_length_ratio=0.8)
    logits_processors.build = lambda options, shortest, prefixes, device: [  # the engine calls it for each batch
        EndAt(torch.tensor(shortest, device=device), options.eos)
    ]
    try:
        translator.translate(text[: len(text) // 5])
        seconds, _ = _translated(translator, engine, text)
    finally:
        logits_processors.build = built
    note = f"{len(text):,} lines, {engine.subwords / len(text):.1f} subwords a line"
    what = f"{name}, outputs end early, by a logits processor"
    run.row(what, engine.subwords / seconds, unit="target subwords/s", note=note)


def _step(
    run: Run, name: str, engine: TimedEngine, options: SearchOptions, sentences: int, *, shortest: int = 0
) -> None:
    """Write rows about a step of a batch, from searches with two lengths of outputs. shortest: with 1, the search has a
    logits processor, which excludes empty outputs."""
    random = torch.randint(EOS + 1, engine.models[0].target_vocabulary, (sentences, _SOURCE)).tolist()
    tokens = sentences * options.width * (_SOURCE + 1)  # all in one batch

    def search(longest: int) -> None:
        sources = [SearchInput(ids, longest, shortest, seed=i) for i, ids in enumerate(random)]
        engine.search(sources, options, tokens)

    def seconds(longest: int) -> float:
        search(longest)
        taken = []
        for _ in range(1 if run.small else 2):
            start = time.perf_counter()
            search(longest)
            taken.append(time.perf_counter() - start)
        return min(taken)

    most, least = (3, 2) if run.small else (40, 20)  # the difference is the time of steps alone
    count = most - least
    milli = 1e3 * (seconds(most) - seconds(least)) / count
    long, short = (_profiled(run, partial(search, longest)) for longest in (most, least))
    kernels, launches, waits, busy = ((a - b) / count for a, b in zip(long, short, strict=True))
    note = f"GPU busy {busy:.2f} ms; {kernels:.0f} kernels and copies, {launches:.0f} starts, {waits:.1f} waits"
    run.row(f"a step: {name}", milli, unit="ms", note=note)


def _profiled(run: Run, function: Callable[[], object]) -> tuple[int, int, int, float]:
    """The number of kernels and copies on the GPU, of calls that start kernels or graphs, of calls that wait for the
    GPU, and the milliseconds of kernels and copies."""
    kinds = [ProfilerActivity.CPU] if run.small else [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=kinds) as profiled:
        function()
        _wait(run)
    kernels = launches = waits = 0
    milli = 0.0
    for event in profiled.key_averages():
        if event.device_type == DeviceType.CUDA:
            kernels, milli = kernels + event.count, milli + event.self_device_time_total / 1e3
        elif event.key.startswith("cu"):
            launches += event.count * ("Launch" in event.key)
            waits += event.count * ("Synchronize" in event.key)
    return kernels, launches, waits, milli


def _wait(run: Run) -> None:
    if not run.small:
        torch.cuda.synchronize()
