"""The queue: what waits together is translated together, and everyone gets their own."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from helpers.model_files import shared_vocabulary
from helpers.services import LINES, Gated, until

from nmt.data.cleaning.source_text import SourceText
from nmt.decoding.translator import Translation
from nmt.errors import NmtError
from nmt.serve.batching import AnswerSize, AnswerTooLarge, BatchingQueue, QueueFull
from nmt.serve.requests import LibreTranslateRequest, NmtRequest

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


def texts(found: list[list[Translation]]) -> list[list[str]]:
    return [[translation.text for translation in best] for best in found]


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


def test_different_kinds_are_called_for_apart(translator: Gated, queue: BatchingQueue) -> None:
    hold(translator, queue)
    answers = [queue.submit([line], n_best=n) for line, n in (("one", 1), ("two", 3), ("six", 1), ("ten", 3))]
    translator.gate.set()
    assert [len(answer.result(30)[0]) for answer in answers] == [1, 3, 1, 3]
    assert translator.calls == [(["one", "six"], 1), (["two", "ten"], 3)]


def test_token_scores_are_computed_only_for_answers_that_show_them(
    translator: Gated, queue: BatchingQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(translator, queue)
    asked: list[tuple[list[str], bool]] = []
    plain = translator.hypotheses

    def hypotheses(lines: list[str], n_best: int, *, token_scores: bool, **more: Any) -> list[list[Translation]]:
        asked.append((lines, token_scores))
        return plain(lines, n_best, token_scores=token_scores, **more)

    monkeypatch.setattr(translator, "hypotheses", hypotheses)
    kinds = {"one": NmtRequest, "two": LibreTranslateRequest, "six": NmtRequest}
    answers = [queue.submit([line], token_scores=kind.token_scores) for line, kind in kinds.items()]
    translator.gate.set()
    assert [len(answer.result(30)) for answer in answers] == [1, 1, 1]
    assert asked == [(["one", "six"], True), (["two"], False)]


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


def test_when_to_come_again_follows_from_the_pace(queue: BatchingQueue) -> None:
    queue.totals.lines, queue.totals.subwords, queue.totals.seconds = 30, 600, 10.0
    assert [queue._seconds(lines) for lines in (1, 3, 4, 100)] == [1, 1, 2, 34]
    assert [queue._seconds(*more) for more in ((1, 0), (-5, 60), (3, 601), (90, 60))] == [1, 1, 11, 30]


def test_few_lines_with_many_subwords_fill_it_too() -> None:
    """A line that is translated in parts is as much work as these."""
    translator = Gated(max_source_tokens=20)
    queue = BatchingQueue(translator, max_waiting=4)
    assert queue.max_subwords == 400
    hold(translator, queue)
    long = "one two " * 60
    subwords = len(translator.vocabulary.source.encode([long])[0])
    assert 200 < subwords < 400
    answers = [queue.submit([long])]
    assert queue.waiting_subwords == pytest.approx(subwords, abs=20)
    with pytest.raises(QueueFull):
        queue.submit([long])
    assert not queue.full
    answers.append(queue.submit(["one"]))
    translator.gate.set()
    assert [len(answer.result(30)) for answer in answers] == [1, 1]
    queue.close()


def test_what_an_answer_could_hold_is_bounded() -> None:
    translator = Gated(max_source_tokens=20)
    size = AnswerSize(translator)
    long = "one two, three. " * 10
    queue = BatchingQueue(translator, 20)
    parts = queue._parts([long], 1)
    assert len(parts) >= 5 and max(parts) <= 20
    most = size.upper_bound(parts, 2, True)
    queue.close()
    queue = BatchingQueue(translator, 20, max_answer=most)
    assert len(queue.submit([long], 2, True).result(30)[0]) == 2
    for more in (([long, "one"], 2), ([long], 3)):
        with pytest.raises(AnswerTooLarge, match=r"^the answer could have [0-9.]+ MiB, more than [0-9.]+$"):
            queue.submit(*more, True)
    queue.close()


def test_lines_are_measured_in_the_parts_that_are_translated() -> None:
    translator = Gated()
    queue, line = BatchingQueue(translator, 20), "One two. Three. Four five six."
    assert len(queue._parts([line], 1)) == 1
    translator.source_text = SourceText(longest=200, several=0)
    assert len(queue._parts([line, "one"], 1)) == 4
    translator.alone(line)
    assert (translator.counts.parts, translator.counts.several) == (3, 1)
    queue.close()


@pytest.mark.parametrize("alignment", [False, True])
def test_no_answer_is_larger_than_it_was_said_to_become(alignment: bool) -> None:
    """Of a model that never ends a sentence before it must."""
    translator = Gated(max_source_tokens=20, min_length_ratio=1.0, min_length=26, max_length_ratio=1.0)
    queue = BatchingQueue(translator, 20)
    for lines in (["one"], ["", " "], LINES, ["one two, three. " * 10], ['\U0001f600\x01"' * 30]):
        found = queue.submit(lines, 3, alignment).result(30)
        content = NmtRequest(lines, 3, alignment).answer(found)
        most = queue._size.upper_bound(queue._parts(lines, 3), 3, alignment)
        assert most / 20 < len(content) <= most
    queue.close()


def test_the_longest_subwords_and_numbers_are_reckoned_with() -> None:
    translator = Gated(max_extra_tokens=0, max_length_ratio=1.0)
    longest = max(translator.vocabulary.target.every_piece(), key=lambda piece: len(piece.encode()))
    number, count = -0.00012345678871497512, 200
    one = Translation(
        longest * count, number, number, [longest] * (count + 1), [number] * (count + 1), [longest] * (count + 1),
        [[1 / 3] * (count + 1)] * (count + 1),
    )  # fmt: skip
    content = NmtRequest(["x"], 3, True).answer([[one] * 3])
    most = AnswerSize(translator).upper_bound([count], 3, True)
    assert 0.8 * most < len(content) <= most


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
        queue.submit(["one"], n_best=4)
    queue.close()
    assert translator.calls == []


def test_closing_waits_for_what_waits(translator: Gated) -> None:
    queue = BatchingQueue(translator, 20)
    hold(translator, queue)
    answers = [queue.submit([line], n_best=1 + i % 3) for i, line in enumerate(LINES)]
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(queue.close)
        until(lambda: queue._closed)
        with pytest.raises(RuntimeError, match="closed"):
            queue.submit(["one"])
        translator.gate.set()
        closing.result(30)
    assert all(answer.done() for answer in answers)
    assert not queue.alive
