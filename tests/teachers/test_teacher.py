"""Lines translated with an endpoint: what is asked for, how often, and what becomes of answers that are none."""

import random
from collections import Counter
from pathlib import Path

import pytest
from helpers import endpoints
from helpers.chat_server import Asked, Said, backwards, serving

from nmt.errors import NmtError
from nmt.teachers.opened_endpoint import OpenedEndpoint
from nmt.teachers.teacher import Chunk, Teacher

LINES = [f"the house number {number} is very old" for number in range(60)]
REFUSAL = "I'm sorry, but I can't help with that."


def teacher(folder: Path, address: str, more: str = "", *overrides: str) -> Teacher:
    return OpenedEndpoint.open(endpoints.write(folder, address, more)).teacher(overrides)


def test_lines_keep_their_order_and_no_more_requests_are_open_than_wanted(tmp_path: Path) -> None:
    """Equal lines are asked for once, and empty ones never."""
    lines = [line for line in LINES for _ in range(2)]
    lines[10:10] = ["", "  ", "\t"]
    chance = random.Random(1)
    with serving(lambda asked: Said(backwards(asked.line), chance.random() / 20, at_once=5)) as server:
        teaching = teacher(tmp_path, server.address, "requests: 5")
        assert teaching.translate(lines) == [backwards(line) if line.strip() else "" for line in lines]
        assert server.most_at_once == 5
    assert server.answered == Counter(LINES) and teaching.counts.requests == len(LINES)
    assert (teaching.counts.lines, teaching.counts.empty) == (123, 3)


def test_a_wrong_answer_is_asked_for_again_with_another_seed(tmp_path: Path) -> None:
    def behave(asked: Asked) -> Said:
        if "number 7 " in asked.line:
            return Said(REFUSAL)
        if "number 8 " in asked.line:
            return Said("reddal si eht", reason="length")
        return Said(
            f"Sure! Here is the translation:\n\n{backwards(asked.line)}" if asked.before else asked.line + "\n\nx"
        )

    for rejected in ("empty", "keep"):
        with serving(behave) as server:
            teaching = teacher(tmp_path, server.address, f"rejected: {rejected}")
            expected = list(map(backwards, LINES))
            expected[7:9] = [REFUSAL, "reddal si eht"] if rejected == "keep" else ["", ""]
            assert teaching.translate(LINES) == expected
        assert teaching.counts.rejected == {"refusal": 1, "cut off": 1}
        assert {line: len([asked for asked in server.asked if asked.line == line]) for line in LINES[6:10]} == dict(
            zip(LINES[6:10], (2, 3, 3, 2), strict=True)
        )
        sevens = [
            (asked.body["seed"], asked.body["temperature"]) for asked in server.asked if "number 7 " in asked.line
        ]
        assert sevens == [(1, 0), (2, 0.3), (3, 0.3)]


@pytest.mark.parametrize("most", [1, 100])
def test_samples_and_their_consensus(tmp_path: Path, most: int) -> None:
    """From one request, or from as many as the service needs; refused ones are replaced."""

    def behave(asked: Asked) -> Said:
        refused = asked.before == 0 and most == 1
        return Said(REFUSAL if refused else f"{backwards(asked.line)} {'abc'[asked.before % 3] * 3}", most=most)

    with serving(behave) as server:
        teaching = teacher(tmp_path, server.address, "temperature: 0.7\nparameters: {top_p: 0.9, seed: null}")
        [samples] = teaching.candidates(LINES[:1], 4)
    assert len(samples) == 4 and server.asked[0].body["n"] == 4 and server.asked[0].body["top_p"] == 0.9
    assert "seed" not in server.asked[0].body
    assert teaching.counts.requests == (5 if most == 1 else 1)
    texts = ["a b c d e f", "a b c d e x", "q r s t u v"]
    with serving(lambda asked: Said(texts[asked.before % 3], most=1)) as server:
        settings = ("decoding.consensus=chrf", "decoding.candidates=3")
        teaching = teacher(tmp_path, server.address, "temperature: 0.7", *settings)
        [[best]] = teaching.candidates(["one two three"])
        [ranked] = teaching.candidates(["one two three"], 2)
    assert best in texts[:2] and set(ranked) == set(texts[:2])


def test_parameters_and_several_samples_of_temperature_0(tmp_path: Path) -> None:
    teaching = teacher(tmp_path, "http://127.0.0.1:1/v1")
    with pytest.raises(NmtError, match=r"temperature: 0: all samples would be equal: set it"):
        teaching.candidates(LINES, 2)
    with pytest.raises(NmtError, match=r"decoding\.beam_size: an endpoint has only decoding\.consensus"):
        teacher(tmp_path, "http://127.0.0.1:1/v1", "", "decoding.beam_size=4")


def test_the_limit_stops_before_it_is_exceeded(tmp_path: Path) -> None:
    """With many requests at once too: each counts before its answer is there."""
    for limit in ("limit: {tokens: 1000}", "limit: {cost: 0.001}\nprice: {input: 1, output: 1}"):
        with serving(lambda asked: Said(backwards(asked.line), at_once=10)) as server:
            teaching = teacher(tmp_path, server.address, f"requests: 10\n{limit}")
            with pytest.raises(NmtError, match=r"^limit: reached: \d+ tokens .* were used: raise it"):
                teaching.translate(LINES)
        assert 800 < sum(teaching.usage.tokens) < 1060
        assert len(server.asked) == sum(server.answered.values()) < 30


def test_each_call_has_its_own_connections(tmp_path: Path) -> None:
    with serving() as server:
        teaching = teacher(tmp_path, server.address)
        for line in LINES[:3]:
            assert teaching.translate([line]) == [backwards(line)]
        assert teaching.translate([]) == []
    assert teaching.counts.requests == 3


def test_the_limit_ends_a_job_whose_open_lines_are_all_asked_for(tmp_path: Path) -> None:
    """The limit is reached when a line is asked for again, and no further chunk can be opened."""
    with serving(lambda asked: Said(REFUSAL if asked.line == LINES[0] else backwards(asked.line))) as server:
        teaching = teacher(tmp_path, server.address, "requests: 1\nlimit: {tokens: 200}")
        with pytest.raises(NmtError, match="limit: reached"):
            teaching.translate_chunks([Chunk([line]) for line in LINES[:3]])
