"""Statistics of text, against numbers counted by hand; the same however the text came in chunks."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt.config import schema
from nmt.data.cleaning import statistics
from nmt.data.cleaning.rules.examples import DropExamples
from nmt.data.cleaning.statistics import CorpusStatistics, StatisticsCounter
from nmt.data.sources.corpus import Pair
from nmt.data.subwords import vocabulary
from nmt.data.subwords.encoding import encode_pairs
from nmt.data.subwords.vocabulary import Vocabulary

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
                counter.add_examples(DropExamples(), part, [])
            found.merge(CorpusStatistics.from_json(json.loads(json.dumps(counter.result().to_json()))))
        statistics.write(tmp_path, [found], subwords, {"notes": [["a note"]]})
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
