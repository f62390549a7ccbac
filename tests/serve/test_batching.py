"""The queue: what waits together is translated together, and everyone gets their own."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.model_files import shared_vocabulary
from helpers.services import CALIBRATION, LINES, Gated, until
from pydantic_core import to_json

from nmt.decoding.translator import Translation
from nmt.errors import NmtError
from nmt.serve.batching import AnswerTooLarge, BatchingQueue, BatchOptions, QueueFull, answer_bytes
from nmt.serve.jobs import OwnJob

pytestmark = pytest.mark.usefixtures("time_limit")


@pytest.fixture
def translator() -> Gated:
    return Gated()


@pytest.fixture
def queue(translator: Gated) -> Iterator[BatchingQueue]:
    queue = BatchingQueue(translator, max_waiting=20)
    yield queue
    translator.gate.set()
    queue.close()


def texts(n_best: list[list[Translation]]) -> list[list[str]]:
    return [[translation.text for translation in best] for best in n_best]


def hold(translator: Gated, queue: BatchingQueue) -> None:
    """Keep the translator busy with one line, so that what comes now waits."""
    translator.gate.clear()
    translator.inside.clear()
    queue.submit(["one"])
    assert translator.inside.wait(30)
    translator.calls.clear()


def test_what_waits_goes_in_together(translator: Gated, queue: BatchingQueue) -> None:
    hold(translator, queue)
    requests = [LINES[:2], LINES[2:3], LINES[3:9]]
    answers = [queue.submit(lines) for lines in requests]
    assert queue.waiting == 9
    translator.gate.set()
    for lines, answer in zip(requests, answers, strict=True):
        assert texts(answer.result(30)) == texts([translator.alone(line) for line in lines])
    assert translator.calls == [(LINES[:9], 1)]
    until(lambda: queue.totals.batches == 2)
    assert (queue.totals.lines, queue.waiting) == (10, 0)
    assert queue.totals.subwords == sum(map(len, translator.vocabulary.source.encode(["one", *LINES[:9]])))


def test_a_line_in_capitals_is_measured_as_the_model_reads_it() -> None:
    small = "Seven nine ten eleven six eight."
    lengths = [len(ids) for ids in shared_vocabulary().source.encode([small, small.upper()])]
    translator = Gated(max_source_tokens=lengths[0], long_input="error")
    queue = BatchingQueue(translator, max_waiting=20)
    assert lengths[0] < lengths[1]
    assert texts(queue.submit([small.upper()]).result(30)) == texts([translator.alone(small.upper())])
    until(lambda: queue.totals.subwords == lengths[0])
    queue.close()


def test_different_options_are_called_for_apart(translator: Gated, queue: BatchingQueue) -> None:
    hold(translator, queue)
    plain, fast, more = BatchOptions(), BatchOptions(token_scores=False), BatchOptions(n_best=3)
    requests = {"one": plain, "two": more, "six": plain, "ten": more, "four": fast}
    answers = [queue.submit([line], options) for line, options in requests.items()]
    translator.gate.set()
    assert [len(answer.result(30)[0]) for answer in answers] == [1, 3, 1, 3, 1]
    assert translator.calls == [(["one", "six"], 1), (["two", "ten"], 3), (["four"], 1)]


def test_a_batch_is_what_one_search_holds() -> None:
    translator = Gated(batch_tokens=60)  # 20 subwords in a beam of 3
    lengths = [len(ids) for ids in translator.vocabulary.source.encode(LINES)]
    assert max(lengths) <= 20 < sum(lengths)
    queue = BatchingQueue(translator, 20)
    hold(translator, queue)
    answers = [queue.submit([line]) for line in LINES]
    long = queue.submit(LINES)  # more than one search holds: goes alone
    translator.gate.set()
    for line, answer in zip(LINES, answers, strict=True):
        assert texts(answer.result(30)) == texts([translator.alone(line)])
    assert len(long.result(30)) == len(LINES)
    queue.close()
    *batches, last = [lines for lines, _ in translator.calls]
    assert last == LINES
    assert 1 < len(batches) < len(LINES)
    sizes = [sum(lengths[LINES.index(line)] for line in batch) for batch in batches]
    assert max(sizes) <= 20


def test_few_lines_with_many_subwords_fill_it_too() -> None:
    """When to come again follows from the speed so far."""
    translator = Gated(max_source_tokens=20)
    queue = BatchingQueue(translator, max_waiting=4)
    hold(translator, queue)
    long = "one two " * 60  # translated in parts
    subwords = len(translator.vocabulary.source.encode([long])[0])
    assert 200 < subwords < queue.max_subwords == 400
    answers = [queue.submit([long])]
    assert queue.waiting_subwords == subwords
    queue.totals.subwords, queue.totals.seconds = subwords, 7.5
    with pytest.raises(QueueFull, match="try again in 8 s"):
        queue.submit([long])
    assert not queue.full
    answers.append(queue.submit(["one"]))
    translator.gate.set()
    assert [len(answer.result(30)) for answer in answers] == [1, 1]
    assert len(queue.submit([long * 2]).result(30)) == 1  # more than may wait: it would not get more room later
    queue.close()


@pytest.mark.parametrize("alignment", [False, True])
def test_no_answer_is_larger_than_it_was_said_to_become(alignment: bool) -> None:
    """Of a model that never ends a sentence before it must."""
    translator = Gated(max_source_tokens=20, min_length_ratio=1.0, min_length=26, max_length_ratio=1.0)
    translator.calibration = CALIBRATION
    queue, options = BatchingQueue(translator, 20), BatchOptions(3, alignment)
    for lines in (["one"], LINES, ["one two, three. " * 10]):
        content = to_json(OwnJob(lines, options).answer(queue.submit(lines, options).result(30)))
        most = answer_bytes(translator, queue._lengths(lines, options), options)
        assert most / 20 < len(content) <= most
        assert queue.submit(lines, options, most)
        with pytest.raises(AnswerTooLarge):
            queue.submit(lines, options, most - 1)
    queue.close()


def test_only_whose_line_fails_hears_of_it(translator: Gated, queue: BatchingQueue) -> None:
    hold(translator, queue)
    first, bad, last = (queue.submit([line]) for line in ("two", "fails", "six"))
    translator.gate.set()
    assert texts([*first.result(30), *last.result(30)]) == texts([translator.alone("two"), translator.alone("six")])
    with pytest.raises(ValueError, match="a line that fails"):
        bad.result(30)
    assert len(queue.submit(["ten"]).result(30)) == 1, "the thread has ended"


def test_no_line_is_cut() -> None:
    translator = Gated(max_source_tokens=8, long_input="cut")
    queue = BatchingQueue(translator, 20)
    with pytest.raises(NmtError, match=r"^line 2 has 120 subwords, more than 8: shorten or split it$"):
        queue.submit(["one", "one " * 40])
    with pytest.raises(NmtError, match=r"^n_best: 4 is more than the beam size, 3$"):
        queue.submit(["one"], BatchOptions(n_best=4))
    queue.close()
    assert translator.calls == []


def test_closing_waits_for_what_waits(translator: Gated) -> None:
    queue = BatchingQueue(translator, 20)
    hold(translator, queue)
    answers = [queue.submit([line], BatchOptions(1 + i % 3)) for i, line in enumerate(LINES)]
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(queue.close)
        until(lambda: queue._closed)
        with pytest.raises(RuntimeError, match="closed"):
            queue.submit(["one"])
        translator.gate.set()
        closing.result(30)
    assert all(answer.done() for answer in answers)
    assert not queue.alive
