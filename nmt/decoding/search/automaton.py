"""An automaton that finds patterns."""

from collections.abc import Iterable, Sequence


class Automaton:
    """Finds patterns in a sequence of symbols that is read one symbol at a time (Aho and Corasick 1975).

    A node stands for the longest suffix of the sequence that is a prefix of a pattern; node 0: the empty one.

    next: for each node, the next node by symbol; every other symbol leads to node 0.
    paths: for each pattern, the nodes from node 0 to its end.
    suffixes: pairs of a node and the node of its longest proper suffix. The pair of a suffix comes before its own.
    """

    def __init__(self, patterns: Iterable[Sequence[int]]):
        self.next: list[dict[int, int]] = [{}]
        self.paths = [self._add(pattern) for pattern in patterns]
        self.suffixes = [(child, 0) for child in self.next[0].values()]
        for node, suffix in self.suffixes:  # breadth first: the shorter suffix is complete already
            children = self.next[node]
            self.suffixes += [(child, self.next[suffix].get(symbol, 0)) for symbol, child in children.items()]
            self.next[node] = self.next[suffix] | children

    def _add(self, pattern: Sequence[int]) -> list[int]:
        path = [0]
        for symbol in pattern:
            children = self.next[path[-1]]
            if symbol not in children:
                children[symbol] = len(self.next)
                self.next.append({})
            path.append(children[symbol])
        return path
