"""The automaton against looking at every end of the sequence."""

from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.decoding.search.automaton import Automaton

symbols = st.lists(st.integers(0, 2), max_size=6)


@settings(max_examples=40, deadline=None)
@given(patterns=st.lists(symbols.filter(bool), max_size=5), sequence=st.lists(st.integers(0, 3), max_size=20))
def test_a_node_is_the_longest_end_that_begins_a_pattern(patterns: list[list[int]], sequence: list[int]) -> None:
    automaton = Automaton(patterns)
    prefixes = {0: tuple[int, ...]()}
    for pattern, path in zip(patterns, automaton.paths, strict=True):
        assert len(path) == len(pattern) + 1
        prefixes |= {node: tuple(pattern[:length]) for length, node in enumerate(path)}
    assert len(set(prefixes.values())) == len(prefixes) == len(automaton.next)
    node = 0
    for count, symbol in enumerate(sequence, start=1):
        node = automaton.next[node].get(symbol, 0)
        ends = (tuple(sequence[start:count]) for start in range(count + 1))
        assert prefixes[node] == next(end for end in ends if end in prefixes.values())
    complete = {0}
    for node, suffix in automaton.suffixes:
        assert suffix in complete, "a suffix comes after its node"
        complete.add(node)
        own = prefixes[node]
        ends = (own[start:] for start in range(1, len(own) + 1))
        assert prefixes[suffix] == next(end for end in ends if end in prefixes.values())
