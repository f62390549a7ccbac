"""Which of the required phrases an output has said, and how far it is in the others: an automaton over tokens."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

Phrase = Sequence[int]
Group = Sequence[Phrase]


@dataclass(frozen=True)
class Said:
    """What of the phrases an output has said: the node that its last tokens lead to, and the groups met (bits)
    before the last token."""

    node: int = 0
    met: int = 0


class Phrases:
    """Groups of phrases, of each of which one is to be said: the automaton of Aho and Corasick (1975).

    A node stands for the longest end of an output that begins a phrase. So phrases may overlap, hold one another
    or begin alike, and whatever way of saying them there is, is seen. `continuing` are tokens that go on with a
    word: before one of these a phrase has not been said, as its last word is another one.
    """

    def __init__(self, groups: Sequence[Group], continuing: Collection[int] = ()):
        """Raises ValueError for an empty group, which nothing meets, an empty phrase, which says nothing, and one
        that begins amid a word."""
        if not all(group and all(group) for group in groups):
            raise ValueError("a group has at least one phrase, and a phrase at least one token")
        if any(phrase[0] in continuing for group in groups for phrase in group):
            raise ValueError("a phrase begins with a word")
        self.everything, self.continuing = (1 << len(groups)) - 1, continuing
        self.next: list[dict[int, int]] = [{}]  # by node: the tokens that lead to another node than 0
        self._ends = [0]  # by node: groups (bits) of the phrases that end there
        # By node and group: the fewest tokens that finish one of its phrases, with a next token that begins a word
        # (any group: one can always begin) and with one that continues it.
        self._left: list[tuple[dict[int, int], dict[int, int]]] = [({}, {})]
        for number, group in enumerate(groups):
            for phrase in group:
                self._add(phrase, number)
        self._link()

    def _add(self, phrase: Phrase, number: int) -> None:
        node = 0
        for place, token in enumerate(phrase):
            lefts, left = self._left[node][token in self.continuing], len(phrase) - place
            lefts[number] = min(left, lefts.get(number, left))
            if token not in self.next[node]:
                self.next[node][token] = len(self.next)
                self.next.append({})
                self._ends.append(0)
                self._left.append(({}, {}))
            node = self.next[node][token]
        self._ends[node] |= 1 << number

    def _link(self) -> None:
        """Give each node what its longest proper end, its fallback, has too."""
        queue = [(child, 0) for child in self.next[0].values()]
        for node, fallback in queue:  # breadth first: a fallback is shorter, so finished before
            queue += [(child, self.next[fallback].get(token, 0)) for token, child in self.next[node].items()]
            self.next[node] = self.next[fallback] | self.next[node]
            self._ends[node] |= self._ends[fallback]
            for own, others in zip(self._left[node], self._left[fallback], strict=True):
                own |= {number: min(left, own.get(number, left)) for number, left in others.items()}

    def after(self, said: Said, token: int) -> Said:
        """What has been said with one more token."""
        met = said.met if token in self.continuing else said.met | self._ends[said.node]
        return Said(self.next[said.node].get(token, 0), met)

    def unmet(self, said: Said) -> int:
        """How many groups are not met, should the output end here."""
        return (self.everything & ~said.met & ~self._ends[said.node]).bit_count()

    def closing(self, said: Said) -> bool:
        """Whether a group is met here unless the next token continues the word."""
        return bool(self._ends[said.node] & ~said.met)

    def needed(self, said: Said) -> int:
        """So many tokens are enough to meet all groups: one phrase after the other, first one that is begun.

        Phrases that overlap may do with fewer. Where it is not 0, some token of `next` makes it less.
        """
        unmet = self.everything & ~said.met
        beginning, continuing = self._left[said.node]
        with_word = self._needed(unmet & ~self._ends[said.node], beginning)
        return min(with_word, self._needed(unmet, continuing)) if continuing else with_word

    def _needed(self, unmet: int, left: dict[int, int]) -> int:
        """For these groups, of which one is finished in as many tokens as are left."""
        shortest = {number: length for number, length in self._left[0][0].items() if unmet >> number & 1}
        saved = (length - left[number] for number, length in shortest.items() if number in left)
        return sum(shortest.values()) - max(saved, default=0)


def holds(tokens: Sequence[int], group: Group, continuing: Collection[int] = ()) -> bool:
    """Whether a phrase of the group is there in one piece, with no token behind it that goes on with a word."""
    return any(
        list(tokens[i : i + len(phrase)]) == list(phrase)
        and (i + len(phrase) == len(tokens) or tokens[i + len(phrase)] not in continuing)
        for phrase in group
        for i in range(len(tokens) - len(phrase) + 1)
    )
