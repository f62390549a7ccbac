"""How far log P of another program's model is from that of nmt's: of every subword, after the same beginnings."""

import random
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from nmt.checkpoints.model_file import Checkpoint
from nmt.data.subwords.vocabulary import BOS, EOS, UNK, Tokenizer

Pair = tuple[list[int], list[int]]  # the ids of a source and of a target, with their tokens of languages


class OtherModel(Protocol):
    columns: Sequence[int]  # the ids of those of our target subwords that it has

    def log_p(self, source: list[int], target: list[int]) -> Tensor:
        """Of the next subword after none, one, … T subwords of the target: [T + 1, columns]."""


def random_lines(tokenizer: Tokenizer, count: int = 16) -> list[str]:
    """Lines of random subwords, always the same."""
    pieces = tokenizer.every_piece()
    spellable = [i for i in range(EOS + 1, len(pieces)) if not pieces[i].startswith("<0x")] or [UNK]
    chance = random.Random(1)
    return tokenizer.decode([chance.choices(spellable, k=1 + 5 * n % 24) for n in range(count)])


def random_pairs(made: Checkpoint, lines: Sequence[str], columns: Sequence[int] | None = None) -> list[Pair]:
    """Lines, each with random target subwords, in the model's languages in turns. columns: the ids to choose from."""
    vocabulary, known = made.vocabulary, made.config.data.language_pairs
    plain = [i for i in columns or range(len(vocabulary.target)) if i > EOS]
    chance, pairs = random.Random(2), []
    for number, ids in enumerate(vocabulary.source.encode(list(lines))):
        if ids:
            languages = known.pairs[number % len(known.pairs)]
            before = vocabulary.source.tags(known.tags(languages))
            start = vocabulary.target.tags(known.tags(languages, side=1))
            pairs.append(([*before, *ids], [*start, *chance.choices(plain, k=number % 12)]))
    return pairs


@torch.inference_mode()
def our_log_p(made: Checkpoint, pairs: Sequence[Pair]) -> list[Tensor]:
    """Of the next subword after each beginning of a target: [T + 1, V] each."""
    model: Any = made.build()
    log_p = []
    for source, target in pairs:
        states = model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target]]))
        log_p.append(model.logits(states)[0].log_softmax(-1))
    return log_p


def difference(made: Checkpoint, theirs: OtherModel, lines: Sequence[str]) -> float:
    """The largest. NaN if one is."""
    pairs, columns = random_pairs(made, lines, theirs.columns), torch.tensor(list(theirs.columns))
    differences = [
        (ours[:, columns] - theirs.log_p(source, target)).abs().max()
        for ours, (source, target) in zip(our_log_p(made, pairs), pairs, strict=True)
    ]
    return float(torch.stack(differences).max())


class TransformersModel:
    """An encoder-decoder of transformers, of which only subwords of ours are allowed."""

    def __init__(self, model: Any, source_ids: Sequence[int], target_ids: Sequence[int]):
        """source_ids, target_ids: the model's id of each of our subwords; -1 where it has none."""
        self.model = model.float().eval()
        self.source_ids = [source_ids[UNK] if i < 0 else i for i in source_ids]
        self.target_ids, self.columns = target_ids, [our for our, their in enumerate(target_ids) if their >= 0]

    @torch.inference_mode()
    def log_p(self, source: list[int], target: list[int]) -> Tensor:
        given = torch.tensor([[self.source_ids[i] for i in (*source, EOS)]])
        read = pad(torch.tensor([[self.target_ids[i] for i in target]]).long(), (1, 0), value=self._start)
        logits = self.model(input_ids=given, decoder_input_ids=read).logits[0]
        return logits[:, [self.target_ids[i] for i in self.columns]].log_softmax(-1)

    @property
    def _start(self) -> int:
        return int(self.model.config.decoder_start_token_id)
