"""Statistics of text, against numbers counted by hand; the same however the text came in chunks."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt.config import schema
from nmt.data.cleaning import statistics
from nmt.data.cleaning.rules.examples import DropExamples
from nmt.data.cleaning.statistics import CorpusStatistics, SideStatistics, StatisticsCounter
from nmt.data.cleaning.summary import SideChanges
from nmt.data.sources.corpus import Pair
from nmt.data.subwords import vocabulary
from nmt.data.subwords.encoding import encode_pairs
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.errors import NmtError

# Each letter is a subword of its own, and so is the space before a word.
LETTERS = "abcdefghij"
TEXT = [" ".join(LETTERS)] * 3
SETTINGS = {"character_coverage": 1.0, "normalization": "nmt_nfkc"}
LETTERWISE = vocabulary.learn(TEXT, schema.VocabularyConfig(size=4 + 256 + 11, byte_fallback=True, **SETTINGS))
BOTH = Vocabulary(LETTERWISE, LETTERWISE)


@pytest.fixture
def count(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """A function from pairs to what is stored of them."""

    def counted(pairs: list[Pair], subwords: Vocabulary = BOTH, chunk: int = 1000, shard: int = 2) -> dict[str, Any]:
        """chunk: pairs of a chunk; shard: chunks of a shard."""
        found = CorpusStatistics()
        for first in range(0, len(pairs), shard * chunk):
            counter = StatisticsCounter(subwords)
            for start in range(first, min(len(pairs), first + shard * chunk), chunk):
                part = pairs[start : start + chunk]
                counter.add(part, encode_pairs(part, subwords))
                counter.add_examples(DropExamples(), part)
            found.merge(CorpusStatistics.from_json(json.loads(json.dumps(counter.result().to_json()))))
        statistics.write(tmp_path, [found], [["a note"]], subwords)
        content: dict[str, Any] = json.loads((tmp_path / statistics.FILE).read_text())
        return content

    return counted


def test_numbers_counted_by_hand(count: Callable[..., dict[str, Any]]) -> None:
    # "ab" is ▁ a b: 3 subwords. "☃" is no letter of the vocabulary: ▁ and its 3 bytes.
    pairs = [("ab", "abcdef"), ("ab", "ab"), ("abc", "☃"), ("a b", "b")]
    assert [len(ids) for ids in LETTERWISE.encode(["ab", "abcdef", "☃", "a b", "b"])] == [3, 7, 4, 4, 2]
    found = count(pairs)
    (mine,) = found["corpora"]
    assert mine["lengths"] == [[[3, 2], [4, 2]], [[2, 1], [3, 1], [4, 1], [7, 1]]]
    # 7/3 is 2^1.22, the step 10 of eighths; 1 is 0; 2/4 is -8.
    assert mine["ratios"] == [[-8, 1], [0, 2], [10, 1]]
    assert (mine["unknown"], mine["bytes"]) == ([0, 0], [0, 3])
    assert mine["sample"] == [list(pair) for pair in pairs]
    source, target = found["characters"]
    assert (source["characters"], source["distinct"], source["missing"]) == (2 + 2 + 3 + 3, 4, 0)
    assert (target["characters"], target["missing"], target["missing_distinct"]) == (6 + 2 + 1 + 1, 1, 1)
    assert target["most_frequent_missing"] == [["☃", 1]]
    (shared,) = found["vocabularies"]
    assert (shared["size"], shared["subwords"]) == (271, 11)
    times = {"▁": 9, "a": 6, "b": 7, "c": 2, "d": 1, "e": 1, "f": 1}
    assert dict(shared["rarest"]) == times and shared["unused"] == 4
    assert shared["unused_examples"] == ["g", "h", "i", "j"] and shared["enough"] == 0


def test_unknown_subwords_without_bytes_and_two_vocabularies(count: Callable[..., dict[str, Any]]) -> None:
    plain = vocabulary.learn(TEXT, schema.VocabularyConfig(size=4 + 11, byte_fallback=False, **SETTINGS))
    found = count([("a☃b", "a")] * 120, Vocabulary(plain, LETTERWISE))
    assert (found["corpora"][0]["unknown"], found["corpora"][0]["bytes"]) == ([120, 0], [0, 0])
    source, target = found["vocabularies"]
    assert (source["size"], target["size"]) == (15, 271)
    assert [dict(one["rarest"]) for one in (source, target)] == [{"▁": 120, "a": 120, "b": 120}, {"▁": 120, "a": 120}]
    assert (source["enough"], target["enough"]) == (3, 2)
    assert found["characters"][0]["most_frequent_missing"] == [["☃", 120]]


def test_what_the_vocabulary_changes_is_counted(count: Callable[..., dict[str, Any]]) -> None:
    """Text in NFC with single spaces is as it was. Of the source only invisible characters are counted."""
    plain = vocabulary.learn(TEXT, schema.VocabularyConfig(size=4 + 11, byte_fallback=False))
    lines = ["a  b ", "a\u0301", "a\u00adb\u00ad c", "a\x0bb\x83", "a☃b☃", "\u200da☃"]
    (source, target) = count([(line, line) for line in lines] * 2, Vocabulary(plain, plain), chunk=5)["changes"]
    invisible = [["\xad", 4], ["\x0b", 2], ["\x83", 2]]
    assert (target["lines"], target["removed"], target["removed_characters"]) == (12, 8, invisible)
    assert (target["not_written"], target["lost_characters"]) == (6, [["☃", 6], ["á", 2], ["\u200d", 2]])
    assert (source["removed"], source["removed_characters"]) == (10, [*invisible, ["\u200d", 2]])
    assert (source["not_written"], source["lost_characters"]) == (0, [])


def test_a_joiner_that_is_lost_between_letters_is_not_written(count: Callable[..., dict[str, Any]]) -> None:
    """As with a vocabulary that was learned from another text; between Latin letters it means nothing."""
    other = vocabulary.learn(TEXT, schema.VocabularyConfig(size=4 + 256 + 11))
    lines = ["می\u200cروم", "a\u200cb"]
    (_, target) = count([(line, line) for line in lines], Vocabulary(other, other), chunk=5)["changes"]
    assert (target["not_written"], target["lost_characters"]) == (1, [["\u200c", 1]])
    assert (target["removed"], target["removed_characters"]) == (1, [["\u200c", 1]])


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.text(LETTERS + " ☃1\xad\x0b", min_size=1), st.text(LETTERS, min_size=1)), max_size=40),
    st.data(),
)
def test_the_same_in_chunks_and_shards_of_any_size(
    count: Callable[..., dict[str, Any]], pairs: list[Pair], data: st.DataObject
) -> None:
    pairs = [pair for pair in pairs if pair[0].strip()]
    chunk, shard = data.draw(st.integers(1, 50)), data.draw(st.integers(1, 5))
    whole, in_parts = count(pairs), count(pairs, chunk=chunk, shard=shard)
    whole["corpora"][0].pop("commonest")  # what is not repeated within a part is not counted
    in_parts["corpora"][0].pop("commonest")
    assert in_parts == whole


def test_the_commonest_sentence_of_each_side(count: Callable[..., dict[str, Any]]) -> None:
    """Sentences with the same beginning are different ones."""
    long = "b" * 600
    pairs = [(str(i), f"{long}{'ac'[i < 2]}") for i in range(202)] + [("7", "j")] * 2
    for chunk, shard in ((1000, 1), (50, 2)):
        found = count(pairs, chunk=chunk, shard=shard)["corpora"][0]["commonest"]
        assert found == [["7", 3 if chunk == 1000 else 2], ["b" * 500 + "…", 200]]
    assert count([("a", long), ("b", long)])["corpora"][0]["commonest"] == [None, ["b" * 500 + "…", 2]]


def parts_merged(parts: list[list[str]]) -> SideStatistics:
    whole = SideStatistics()
    for part in parts:
        side = SideStatistics(sentences=Counter(part), weights=Counter(part))
        side.leave_out_rare()
        whole.merge(SideStatistics.from_json(json.loads(json.dumps(side.to_json()))))
        assert len(whole.weights) == len(whole.sentences) <= statistics.COMMONEST  # so memory is bounded
    return whole


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.sampled_from(LETTERS), max_size=40), max_size=12))
def test_counts_of_sentences_are_too_low_by_no_more_than_is_said(
    monkeypatch: pytest.MonkeyPatch, parts: list[list[str]]
) -> None:
    monkeypatch.setattr(statistics, "COMMONEST", 3)
    whole, right = parts_merged(parts), Counter(text for part in parts for text in part)
    for text, count in right.items():
        assert 0 <= count - whole.weights[text] <= right.total() / 4
        assert whole.weights[text] <= whole.sentences[text] <= count


def test_a_sentence_that_comes_late_is_counted() -> None:
    """Also where earlier parts had as many other sentences as are counted."""
    early = [[f"{part} {i % 150}" for i in range(1000)] for part in range(20)]
    late = [["late"] * 115 + [f"{part} {i % 500}" for i in range(885)] for part in range(20, 40)]
    assert parts_merged(early + late).commonest() == ("late", 20 * 115)


def test_what_is_stored_is_read(count: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    written = count([("</script>", "\x00")])
    read = statistics.read(tmp_path)
    assert tuple(map(SideChanges.of, written.pop("changes"))) == read.pop("changes")
    assert tuple(map(tuple, written.pop("notes"))) == read.pop("notes") == (("a note",),)
    assert written == read
    (tmp_path / statistics.FILE).write_text("{")
    with pytest.raises(NmtError, match=r"damaged .*: delete the folder to build it again"):
        statistics.read(tmp_path)
