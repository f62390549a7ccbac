"""An automaton that finds patterns, and the required phrases that an output contains or still needs."""

import codecs
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from nmt.decoding.search.scripts import continues_word, in_one_word

Phrase = Sequence[int]
Group = Sequence[Phrase]
_BYTE = re.compile("[\udc80-\udcff]")  # a byte of a character, as `surrogateescape` decodes it
_MOST_INCOMPLETE = 3  # bytes of an incomplete character


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


@dataclass(frozen=True)
class PhraseState:
    """The state of an output. node: the automaton's node after its last token; met: the groups that are met, a bit
    each, without phrases that end at the last complete character; ending: the groups of these phrases, a bit each;
    letters: the last letters, with the bytes of an incomplete character at their end."""

    node: int = 0
    met: int = 0
    ending: int = 0
    letters: str = ""


class Phrases:
    """Groups of phrases. An output meets a group if it contains the tokens of one of its phrases, or if its text
    contains the text of a phrase as complete words: in a quotation, or in Chinese, it may have other subwords.

    Phrases may overlap, contain each other or begin with the same tokens. continuing: the tokens that continue a word.
    A phrase followed by one of them does not count, because its last word is part of a longer word.
    """

    def __init__(self, groups: Sequence[Group], continuing: Collection[int] = (), spellings: Sequence[str] = ()):
        """spellings: the text of each token, a byte of a character as Python's `surrogateescape` decodes it; empty:
        texts are not compared. Raises ValueError for an empty group, an empty phrase, or a phrase that begins inside a
        word."""
        if not all(group and all(group) for group in groups):
            raise ValueError("a group needs at least one phrase, and a phrase at least one token")
        if any(phrase[0] in continuing for group in groups for phrase in group):
            raise ValueError("a phrase must begin at the start of a word")
        self.all_groups, self.continuing = (1 << len(groups)) - 1, continuing
        phrases = list[tuple[Phrase, int]]()  # with the index of their group
        for i, group in enumerate(groups):
            phrases += [(phrase, i) for phrase in group]
        self._spellings = spellings
        self._texts = set[tuple[str, int]]()  # with the bit of their group
        for phrase, i in phrases if spellings else ():
            text = _joined("".join(spellings[token] for token in phrase)).strip()
            if text and not _incomplete_bytes(text):
                self._texts.add((text, 1 << i))
        # With the letter before a text, and the bytes of the letter after it.
        self._letters = max((len(text) for text, _ in self._texts), default=0) + 1 + _MOST_INCOMPLETE
        automaton = Automaton(phrase for phrase, _ in phrases)
        self.next = automaton.next
        self._ends = [0] * len(self.next)  # for each node: the groups (bits) with a phrase that ends there
        # For each node, the lowest number of tokens that complete a phrase of each group: if the next token begins a
        # word (for every group, as any phrase can begin), and if it continues one.
        self._remaining: list[tuple[dict[int, int], dict[int, int]]] = [({}, {}) for _ in self.next]
        for (phrase, i), path in zip(phrases, automaton.paths, strict=True):
            self._ends[path[-1]] |= 1 << i
            for position, (node, token) in enumerate(zip(path, phrase, strict=False)):
                _keep_lowest(self._remaining[node][token in continuing], {i: len(phrase) - position})
        for node, suffix in automaton.suffixes:
            self._ends[node] |= self._ends[suffix]
            for remaining, suffix_remaining in zip(self._remaining[node], self._remaining[suffix], strict=True):
                _keep_lowest(remaining, suffix_remaining)

    def after(self, state: PhraseState, token: int) -> PhraseState:
        """The state after one more token."""
        node = self.next[state.node].get(token, 0)
        if not self._texts:
            met = state.met if token in self.continuing else state.met | self._ends[state.node]
            return PhraseState(node, met, self._ends[node])
        before, text = state.letters, _joined(state.letters + self._spellings[token])
        if _incomplete_bytes(text):  # whether a word continues is not known before the character is complete
            return PhraseState(node, state.met, state.ending | self._ends[node], text[-self._letters :])
        if incomplete := _incomplete_bytes(before):
            before = before[:-incomplete]
            met = state.met if continues_word(text[len(before) :]) else state.met | state.ending
        else:
            met = state.met if token in self.continuing else state.met | self._ends[state.node]
        for term, group in self._texts:
            if not met & group and _contains(text, term, max(0, len(before) - len(term))):
                met |= group
        ending = (group for term, group in self._texts if text.endswith(term) and not in_one_word(text, -len(term)))
        return PhraseState(node, met, sum(set(ending), 0) | self._ends[node], text[-self._letters :])

    def unmet(self, state: PhraseState) -> int:
        """The number of unmet groups if the output ends at this state."""
        return (self.all_groups & ~state.met & ~state.ending).bit_count()

    def is_closing(self, state: PhraseState) -> bool:
        """Whether a further group is met unless the next token continues the word."""
        return bool(state.ending & ~state.met)

    def needed(self, state: PhraseState) -> int:
        """A number of tokens that is enough to meet all groups: one phrase after the other, an incomplete phrase first.

        Phrases that overlap may need fewer. If the number is not 0, some token of `next` lowers it.
        """
        unmet = self.all_groups & ~state.met
        beginning, continuing = self._remaining[state.node]
        with_word = self._sum(unmet & ~state.ending, beginning)
        return min(with_word, self._sum(unmet, continuing)) if continuing else with_word

    def _sum(self, unmet: int, remaining: dict[int, int]) -> int:
        """The number of tokens that meet these groups, if a phrase of one group needs only its `remaining` tokens."""
        shortest = {i: length for i, length in self._remaining[0][0].items() if unmet >> i & 1}
        saved = (length - remaining[i] for i, length in shortest.items() if i in remaining)
        return sum(shortest.values()) - max(saved, default=0)


def _joined(text: str) -> str:
    """The text with the bytes of complete characters decoded."""
    if not _BYTE.search(text):
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def _incomplete_bytes(text: str) -> int:
    """The number of bytes of an incomplete character at the end of a text."""
    if not _BYTE.match(text[-1:]):
        return 0
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(text[-_MOST_INCOMPLETE:].encode("utf-8", "surrogateescape"))
    return len(decoder.getstate()[0])


def _keep_lowest(lengths: dict[int, int], others: dict[int, int]) -> None:
    for i, length in others.items():
        lengths[i] = min(length, lengths.get(i, length))


def _contains(text: str, term: str, first: int) -> bool:
    """Whether a text contains a term as complete words, from index `first` on, except at its end, where a word may
    continue."""
    start = text.find(term, first)
    while 0 <= start < len(text) - len(term):
        if not in_one_word(text, start) and not in_one_word(text, start + len(term)):
            return True
        start = text.find(term, start + 1)
    return False
