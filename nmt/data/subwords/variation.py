"""Training text as users write it: in capitals, without a full stop, with typos, tags, names and emoji.

`vary` changes a share of the pairs, a different share in each epoch. The change of a pair depends only on the seed, the
epoch and the number that identifies the pair; a joined pair also depends on its neighbours. The order in which pairs
are read, the process and Python's hash seed have no influence. The kinds of variation are those of OpusTrainer
(Bogoychev et al., 2023, OpusCleaner and OpusTrainer, open source toolkits for training Machine Translation and Large
language models). Without word alignments, items are changed only where they occur on both sides.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from nmt.config import schema
from nmt.data.draws import Draws, hashes, uniform
from nmt.data.subwords.copied_items import random_item, replace_items, shared_items
from nmt.data.subwords.letter_case import Case, change_case
from nmt.data.subwords.sentences import join_sentences
from nmt.data.subwords.typos import add_typos

Pair = tuple[str, str]  # source sentence, target sentence

# Full stops, exclamation marks and question marks: Latin, Greek (U+037E), Chinese and Japanese, Arabic, Urdu, Indian,
# Ethiopian, Burmese, Armenian; and the spaces between them.
_END_PUNCTUATION = ".!?…‼⁇⁈⁉\u037e。｡．！？؟۔।॥።፧။։ \t\u00a0\u3000"
_TAGS = ("b", "i", "u", "em", "strong", "span", "code")
_MOST_JOINED = 4  # neighbouring pairs
_NOISE = ("symbols", "emoji", "url", "email", "number")


def vary(
    pairs: Sequence[Pair],
    identifiers: npt.ArrayLike,
    *,
    epoch: int,
    seed: int,
    settings: schema.AugmentConfig,
    languages: tuple[str, str],
) -> list[Pair]:
    """Return the pairs in the same order, some of them varied according to `settings`.

    identifiers: whole numbers [pairs] that identify the pairs, such as their indices in the corpus. languages: the
    codes of the source and the target. No side becomes empty or gets a line break. A pair is not changed if a kind of
    variation does not apply to it, such as case to a script without capital letters. For data.augment.joined the pairs
    must be neighbours in their corpus.
    """
    varied = list(pairs)

    def chosen(kind: str, rate: float) -> Iterator[tuple[int, Pair, Draws]]:
        """Yield the pairs that are drawn for a kind: the index, the current pair, and more random numbers for it."""
        if rate:
            pair_hashes = hashes(seed, epoch, identifiers, kind)
            indices = np.flatnonzero(uniform(pair_hashes) < rate)
            for i, start in zip(indices.tolist(), pair_hashes[indices].tolist(), strict=True):
                yield i, varied[i], Draws(start)

    for i, _, draws in chosen("joined", settings.joined):
        varied[i] = joined_with_neighbours(pairs, i, draws)
    for i, pair, draws in chosen("copied_names", settings.copied_names):
        varied[i] = replace_copied_names(pair, draws)
    punctuation = settings.remove_end_punctuation
    for i, pair, _ in chosen("remove_end_punctuation", rate_of(punctuation)):
        varied[i] = remove_end_punctuation_of_pair(pair, sides_of(punctuation))
    cases: dict[Case, float | schema.Variation] = {
        "uppercase": settings.uppercase, "titlecase": settings.titlecase, "lowercase": settings.lowercase,
    }  # fmt: skip
    for i, pair, draws in chosen("case", sum(map(rate_of, cases.values()))):
        case = draws.weighted(list(cases), list(map(rate_of, cases.values())))  # one for a pair: their rates add up
        varied[i] = change_case_of_pair(pair, case, sides_of(cases[case]), languages)
    for i, (source, target), draws in chosen("typos", settings.typos):
        varied[i] = add_typos(source, draws, target), target
    for i, pair, draws in chosen("inline_tags", settings.inline_tags):
        varied[i] = add_inline_tags(pair, draws)
    for i, pair, draws in chosen("noise", settings.noise):
        varied[i] = add_noise(pair, draws)
    return varied


def joined_with_neighbours(pairs: Sequence[Pair], index: int, draws: Draws) -> Pair:
    """The pair at an index joined with the next one, two or three pairs; at the end, with the pairs before it."""
    count = 2 + draws.below(_MOST_JOINED - 1)
    first = max(0, min(index, len(pairs) - count))
    sources, targets = zip(*pairs[first : first + count], strict=True)
    return join_sentences(sources), join_sentences(targets)


def rate_of(setting: float | schema.Variation) -> float:
    """The share of the pairs that a setting of `data.augment` applies to."""
    return setting.rate if isinstance(setting, schema.Variation) else setting


def sides_of(setting: float | schema.Variation) -> schema.Sides:
    """The sides that a setting of `data.augment` applies to."""
    return setting.sides if isinstance(setting, schema.Variation) else "both"


def change_case_of_pair(pair: Pair, case: Case, sides: schema.Sides, languages: tuple[str, str]) -> Pair:
    """Change the case of both sides, or of the source alone. If the script of the source has no case, the target is not
    changed either: the model could not know in which case to write. A target whose script has no case is not
    changed."""
    source = change_case(pair[0], case, languages[0])
    if sides == "source" or source == pair[0]:
        return source, pair[1]
    return source, change_case(pair[1], case, languages[1])


def remove_end_punctuation(text: str) -> str:
    """Remove full stops, exclamation marks and question marks at the end of a text, and the Spanish mark at the
    beginning that belongs to them. The text is not changed if nothing else would remain."""
    rest = text.rstrip(_END_PUNCTUATION)
    removed = text[len(rest) :]
    if not removed.strip():
        return text
    if rest[:1] in ("¿", "¡") and not {"¿", "¡"}.intersection(rest[1:]) and {"?", "!"}.intersection(removed):
        rest = rest[1:].lstrip()
    return rest or text


def remove_end_punctuation_of_pair(pair: Pair, sides: schema.Sides) -> Pair:
    """Remove end punctuation of both sides, if both have it; or of the source alone."""
    source = remove_end_punctuation(pair[0])
    if sides == "source":
        return source, pair[1]
    target = remove_end_punctuation(pair[1])
    return pair if source == pair[0] or target == pair[1] else (source, target)


def replace_copied_names(pair: Pair, draws: Draws) -> Pair:
    """Replace names, numbers, URLs, e-mail addresses and emoji that occur on both sides by random ones."""
    new = {item: random_item(kind, draws, like=item) for item, kind in shared_items(*pair).items()}
    return (replace_items(pair[0], new), replace_items(pair[1], new)) if new else pair


def add_inline_tags(pair: Pair, draws: Draws) -> Pair:
    """Add the same markup to both sides where it is safe without a word alignment: tags around a name or number that
    both sides have, or around the sentence; or a placeholder before or after the sentence."""
    form = draws.below(4)
    if form == 0 and (shared := sorted(shared_items(*pair))):
        item = draws.choice(shared)
        new = {item: in_tags(item, draws)}
        return replace_items(pair[0], new), replace_items(pair[1], new)
    if form <= 1:
        start = draws.below(2**32)
        return in_tags(pair[0], Draws(start)), in_tags(pair[1], Draws(start))
    return insert(pair, random_item("placeholder", draws), before=form == 2)


def in_tags(text: str, draws: Draws) -> str:
    """The text between an opening and a closing tag."""
    if draws.below(2):
        tag = draws.choice(_TAGS)
        return f"<{tag}>{text}</{tag}>"
    return f'<{(tag := draws.choice("xg"))} id="{draws.below(10)}">{text}</{tag}>'


def add_noise(pair: Pair, draws: Draws) -> Pair:
    """Add the same symbols, emoji, URLs, e-mail addresses or numbers to both sides: before the sentences, after them,
    or instead of them."""
    kind = draws.choice(_NOISE)
    noise = " ".join(random_item(kind, draws) for _ in range(1 + draws.below(3)))
    position = draws.below(3)
    return (noise, noise) if position == 2 else insert(pair, noise, before=position == 0)


def insert(pair: Pair, text: str, *, before: bool) -> Pair:
    """The same text before or after both sentences."""
    if before:
        return f"{text} {pair[0]}", f"{text} {pair[1]}"
    return f"{pair[0]} {text}", f"{pair[1]} {text}"
