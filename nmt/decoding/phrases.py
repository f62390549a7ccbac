"""Which of the required phrases an output has said, and how far it is in the others: an automaton over tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

Phrase = Sequence[int]
Group = Sequence[Phrase]


@dataclass(frozen=True)
class Said:
    """What of the phrases an output has said: the node that its last tokens lead to, the groups met (bits)."""

    node: int = 0
    met: int = 0


class Phrases:
    """Groups of phrases, of each of which one is to be said: the automaton of Aho and Corasick (1975).

    A node stands for the longest end of an output that begins a phrase. So phrases may overlap, hold one another
    or begin alike, and whatever way of saying them there is, is seen.
    """

    def __init__(self, groups: Sequence[Group]):
        """Raises ValueError for an empty group, which nothing meets, and an empty phrase, which says nothing."""
        if not all(group and all(group) for group in groups):
            raise ValueError("a group has at least one phrase, and a phrase at least one token")
        self.everything = (1 << len(groups)) - 1
        self.next: list[dict[int, int]] = [{}]  # by node: the tokens that lead to another node than 0
        self._ends = [0]  # by node: groups (bits) of the phrases that end there
        shortest = {number: min(map(len, group)) for number, group in enumerate(groups)}
        self._left = [shortest]  # by node and group: the fewest tokens that finish one of its phrases
        for number, group in enumerate(groups):
            for phrase in group:
                self._add(phrase, number)
        self._link()

    def _add(self, phrase: Phrase, number: int) -> None:
        node = 0
        for left, token in zip(range(len(phrase) - 1, -1, -1), phrase, strict=True):
            if token not in self.next[node]:
                self.next[node][token] = len(self.next)
                self.next.append({})
                self._ends.append(0)
                self._left.append({})
            node = self.next[node][token]
            self._left[node][number] = min(left, self._left[node].get(number, left))
        self._ends[node] |= 1 << number

    def _link(self) -> None:
        """Give each node what its longest proper end, its fallback, has too."""
        queue = [(child, 0) for child in self.next[0].values()]
        for node, fallback in queue:  # breadth first: a fallback is shorter, so finished before
            queue += [(child, self.next[fallback].get(token, 0)) for token, child in self.next[node].items()]
            self.next[node] = self.next[fallback] | self.next[node]
            self._ends[node] |= self._ends[fallback]
            own = self._left[node]
            self._left[node] = {i: min(left, own.get(i, left)) for i, left in self._left[fallback].items()}

    def after(self, said: Said, token: int) -> Said:
        """What has been said with one more token."""
        node = self.next[said.node].get(token, 0)
        return Said(node, said.met | self._ends[node])

    def unmet(self, said: Said) -> int:
        """How many groups are not met yet."""
        return (self.everything & ~said.met).bit_count()

    def needed(self, said: Said) -> int:
        """So many tokens are enough to meet all groups: one phrase after the other, first one that is begun.

        Phrases that overlap may do with fewer. Where it is not 0, some token makes it less.
        """
        left, begun = self._left[said.node], self._left[0]
        unmet = [number for number in begun if not said.met >> number & 1]
        return sum(begun[i] for i in unmet) - max((begun[i] - left[i] for i in unmet), default=0)
