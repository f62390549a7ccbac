"""An automaton that finds patterns; with it, the required phrases that an output has and the tokens it still needs."""

import codecs
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from nmt.decoding.search.scripts import continues_word, in_one_word

Phrase = Sequence[int]
Group = Sequence[Phrase]
_BYTE = re.compile("[\udc80-\udcff]")  # of a character, as `surrogateescape` reads it
_MOST_BEGUN = 3  # bytes of a character that is not complete


class Automaton:
    """Finds patterns in a sequence of symbols that is read one symbol at a time (Aho and Corasick 1975).

    A node stands for the longest end of the sequence that begins a pattern; node 0: no end does.

    next: for each node, the nodes that symbols lead to; every other symbol leads to node 0.
    paths: for each pattern, the nodes from node 0 to its end.
    suffixes: pairs of a node and the node of its longest proper suffix; that of a suffix comes before its own.
    """

    def __init__(self, patterns: Iterable[Sequence[int]]):
        self.next: list[dict[int, int]] = [{}]
        self.paths = [self._add(pattern) for pattern in patterns]
        self.suffixes = [(child, 0) for child in self.next[0].values()]
        for node, suffix in self.suffixes:  # breadth first: the suffix is shorter, so it is complete by now
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
    """How far an output is: the automaton's node after its last token; the groups that are met (a bit each), without
    the phrases that end with the last complete character; the groups of these; and the last letters, at their end the
    bytes of a character that is not complete."""

    node: int = 0
    met: int = 0
    ending: int = 0
    letters: str = ""


class Phrases:
    """Groups of phrases. An output meets a group when it contains one of the group's phrases, or its text contains that
    of a phrase as complete words, whatever subwords it is written with: in a quotation, or in Chinese, other subwords.

    Phrases may overlap, contain each other or begin with the same tokens. `continuing` are the tokens that continue a
    word: a phrase followed by one of them does not count, because its last word is part of a longer word.
    """

    def __init__(self, groups: Sequence[Group], continuing: Collection[int] = (), spellings: Sequence[str] = ()):
        """spellings: what each token writes, a byte of a character as Python's `surrogateescape` reads it; none: texts
        are not looked at. Raises ValueError for an empty group, an empty phrase, or a phrase that begins inside a
        word."""
        if not all(group and all(group) for group in groups):
            raise ValueError("a group has at least one phrase, and a phrase at least one token")
        if any(phrase[0] in continuing for group in groups for phrase in group):
            raise ValueError("a phrase begins with a word")
        self.all_groups, self.continuing = (1 << len(groups)) - 1, continuing
        phrases = [(phrase, number) for number, group in enumerate(groups) for phrase in group]
        self._spellings = spellings
        written = ((_joined("".join(spellings[token] for token in one)).strip(), n) for one, n in phrases if spellings)
        self._texts = {(text, 1 << number) for text, number in written if text and not _begun(text)}
        # With the letter before a text, and the bytes of the one after it.
        self._letters = max((len(text) for text, _ in self._texts), default=0) + 1 + _MOST_BEGUN
        automaton = Automaton(phrase for phrase, _ in phrases)
        self.next = automaton.next
        self._ends = [0] * len(self.next)  # for each node: the groups (bits) with a phrase that ends there
        # For each node: the fewest tokens that complete a phrase of each group, when the next token begins a word
        # (has every group, as any phrase can begin) and when it continues one.
        self._left: list[tuple[dict[int, int], dict[int, int]]] = [({}, {}) for _ in self.next]
        for (phrase, number), path in zip(phrases, automaton.paths, strict=True):
            self._ends[path[-1]] |= 1 << number
            for place, (node, token) in enumerate(zip(path, phrase, strict=False)):
                _keep_least(self._left[node][token in continuing], {number: len(phrase) - place})
        for node, suffix in automaton.suffixes:
            self._ends[node] |= self._ends[suffix]
            for left, of_suffix in zip(self._left[node], self._left[suffix], strict=True):
                _keep_least(left, of_suffix)

    def after(self, state: PhraseState, token: int) -> PhraseState:
        """The state after one more token."""
        node = self.next[state.node].get(token, 0)
        if not self._texts:
            met = state.met if token in self.continuing else state.met | self._ends[state.node]
            return PhraseState(node, met, self._ends[node])
        before, text = state.letters, _joined(state.letters + self._spellings[token])
        if _begun(text):  # whether a word goes on is not known before the character is complete
            return PhraseState(node, state.met, state.ending | self._ends[node], text[-self._letters :])
        if _begun(before):
            before = before[: -_begun(before)]
            met = state.met if continues_word(text[len(before) :]) else state.met | state.ending
        else:
            met = state.met if token in self.continuing else state.met | self._ends[state.node]
        for term, group in self._texts:
            if not met & group and _contains(text, term, max(0, len(before) - len(term))):
                met |= group
        ending = (group for term, group in self._texts if text.endswith(term) and not in_one_word(text, -len(term)))
        return PhraseState(node, met, sum(set(ending), 0) | self._ends[node], text[-self._letters :])

    def unmet(self, state: PhraseState) -> int:
        """The number of groups that are not met if the output ends here."""
        return (self.all_groups & ~state.met & ~state.ending).bit_count()

    def is_closing(self, state: PhraseState) -> bool:
        """Whether a group is met here unless the next token continues the word."""
        return bool(state.ending & ~state.met)

    def needed(self, state: PhraseState) -> int:
        """A number of tokens that is enough to meet all groups: one phrase after the other, a begun phrase first.

        Phrases that overlap may need fewer. Where it is not 0, some token of `next` lowers it.
        """
        unmet = self.all_groups & ~state.met
        beginning, continuing = self._left[state.node]
        with_word = self._sum(unmet & ~state.ending, beginning)
        return min(with_word, self._sum(unmet, continuing)) if continuing else with_word

    def _sum(self, unmet: int, left: dict[int, int]) -> int:
        """The tokens that meet these groups, when one group's phrase needs only as many more as `left` says."""
        shortest = {number: length for number, length in self._left[0][0].items() if unmet >> number & 1}
        saved = (length - left[number] for number, length in shortest.items() if number in left)
        return sum(shortest.values()) - max(saved, default=0)


def _joined(text: str) -> str:
    """The text with characters in place of their bytes, as far as they are complete."""
    if not _BYTE.search(text):
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def _begun(text: str) -> int:
    """The number of bytes at the end of a text that begin a character."""
    if not _BYTE.match(text[-1:]):
        return 0
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(text[-_MOST_BEGUN:].encode("utf-8", "surrogateescape"))
    return len(decoder.getstate()[0])


def _keep_least(left: dict[int, int], others: dict[int, int]) -> None:
    for number, length in others.items():
        left[number] = min(length, left.get(number, length))


def _contains(text: str, term: str, first: int) -> bool:
    """Whether a text contains a term as complete words, from the place `first` on, but not at its end, where a word may
    go on."""
    start = text.find(term, first)
    while 0 <= start < len(text) - len(term):
        if not in_one_word(text, start) and not in_one_word(text, start + len(term)):
            return True
        start = text.find(term, start + 1)
    return False
