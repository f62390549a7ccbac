"""Searching with CTranslate2, in a folder written by `nmt export --format ctranslate2`.

CTranslate2's beam search keeps and ends hypotheses as nmt's does, so that the same ones end. They are ranked here, by
nmt's length penalty instead of CTranslate2's |Y|^α. Two differences remain. Tokens that are never produced (padding,
BOS, the unknown subword) keep their probability in nmt's search and have none in CTranslate2's; token scores are the
model's own in both. And an output that reaches the length limit is ended there at the price of EOS, where nmt's search
has one more round of candidates.
Source: src/decoding.cc of CTranslate2 4.8.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.checkpoints import export_folder
from nmt.config.language_pairs import LanguagePair
from nmt.data.vocabulary import EOS
from nmt.decoding.ctranslate2_model import (
    TOKENS_SCORED,
    CTranslate2Model,
    Output,
    load_package,
    penalties_for,
    unsupported,
)
from nmt.decoding.interface import AUTO_BATCH_TOKENS, Pair, SearchInput
from nmt.decoding.search.options import Hypothesis, Options
from nmt.errors import NmtError

if TYPE_CHECKING:
    from torch import Tensor

_FIXES = {
    "sampling": "method=beam",
    "no_repeat_ngram": "no_repeat_ngram=null",
    "banned": "banned=[]",
    "coverage_penalty": "coverage_penalty=0",
}  # by option: the setting of `decoding` that turns it off


class CTranslate2Engine:
    """The model in an exported folder; `settings` and `vocabulary` are those it was exported with."""

    aligns = False
    auto_batch_tokens = AUTO_BATCH_TOKENS

    def __init__(self, folder: Path, device: str = "auto"):
        """Load a folder onto `cpu`, `cuda`, `cuda:N` or `auto`: CUDA if CTranslate2 finds it. Raises NmtError if the
        package or the device is missing, or the folder is not complete."""
        load_package()  # raises before the files are read
        self.fingerprint = export_folder.fingerprint(folder)
        self.settings = export_folder.load_config(folder)
        self.vocabulary = export_folder.load_vocabulary(folder, self.settings)

        def unchanged() -> None:
            if export_folder.fingerprint(folder) != self.fingerprint:
                raise NmtError(f"{folder}: has changed since it was opened: open it again")

        self.model = CTranslate2Model(str(folder), self.vocabulary, device, unchanged)
        _check_pieces(folder, self.model.source_pieces, self.model.target_pieces)
        self.on_cuda = self.model.translator.device == "cuda"
        self.on_searched: Callable[[int], object] | None = None

    @property
    def positions(self) -> int:
        """The longest source or output, without EOS, that the folder's table of positions covers."""
        return export_folder.longest_position(self.settings) - 1

    def check_precision(self, precision: str) -> None:
        """Raise NmtError if decoding.precision differs from the folder's: it was chosen by the export."""
        computed = self.model.compute_type.partition("_")[0]
        if precision not in ("model", computed):
            raise NmtError(
                f"decoding.precision: {precision}: this CTranslate2 folder uses {self.model.compute_type} here: "
                f"set decoding.precision=model, or export with --quantization {precision}"
            )

    def search(self, sources: Sequence[SearchInput], options: Options, batch_tokens: int) -> list[list[Hypothesis]]:
        """As nmt.decoding.interface.Engine. Raises NmtError for an option that CTranslate2 does not have. Without
        options.scores a score is CTranslate2's, in which tokens that are never produced have no probability."""
        _check(options, sources)
        by_length = penalties_for(sources, options)

        def rescore(hypotheses: list[list[Hypothesis]], which: Sequence[int]) -> None:
            """Put the model's own scores into the hypotheses of these sources."""
            places = [(i, j) for i in which for j in range(len(hypotheses[i]))]
            pairs = [(sources[i].ids, hypotheses[i][j].tokens) for i, j in places]
            for (i, j), scores in zip(places, self.score(pairs, TOKENS_SCORED), strict=True):
                hypotheses[i][j] = Hypothesis.scored(hypotheses[i][j].tokens, scores, by_length)

        found = self._search_all(sources, options, batch_tokens)
        hypotheses = [[Hypothesis.ended(tokens, log_p, by_length) for tokens, log_p, _ in outputs] for outputs in found]
        # The score of an output that was cut at its length limit lacks EOS: then all are scored before the choice.
        cut = [i for i, outputs in enumerate(found) if not all(ended for *_, ended in outputs)]
        rescore(hypotheses, cut)
        best = [_best(each, options.n_best) for each in hypotheses]
        if options.scores:
            rescore(best, range(len(best)))
            best = [_best(each, options.n_best) for each in best]
        return best

    def begin_search(
        self, sources: Sequence[SearchInput], options: Options, batch_tokens: int
    ) -> Callable[[], list[list[Hypothesis]]]:
        """As nmt.decoding.interface.Engine. Nothing is searched before the result is asked for."""
        return partial(self.search, sources, options, batch_tokens)

    def score(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[float]]:
        """As nmt.decoding.interface.Engine."""
        return self.model.score(pairs, batch_tokens)

    def align(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[list[float]]]:
        """Raises NmtError: CTranslate2 returns attention only from a search, and of other heads."""
        raise NmtError("a CTranslate2 folder gives no alignment: use the model file")

    def subwords(self, lines: Sequence[str], pairs: Sequence[LanguagePair] | None = None) -> list[list[int]]:
        """As nmt.commands.export.parity.Exported."""
        source, known = self.vocabulary.source, self.settings.data.language_pairs
        tags = [source.tags(known.tags(pair)) for pair in pairs] if pairs else [[] for _ in lines]
        return [tag + ids for tag, ids in zip(tags, source.encode(list(lines)), strict=True)]

    def encode(self, sources: Sequence[list[int]], batch_tokens: int) -> list["Tensor"]:
        """Raises NmtError: CTranslate2 does not return the encoder's output."""
        raise NmtError("a CTranslate2 folder gives no encoder output: use the model file")

    def _search_all(self, sources: Sequence[SearchInput], options: Options, batch_tokens: int) -> list[list[Output]]:
        """All outputs that ended or were cut at the length limit, for each source."""
        in_order = sorted(range(len(sources)), key=lambda i: sources[i].shortest)
        batches: list[list[int]] = []
        for _, group in groupby(in_order, key=lambda i: sources[i].shortest):  # a batch has one shortest length
            batches += self.model.batches(sources, list(group), options, batch_tokens)
        self.model.on_searched = self.on_searched
        found = dict(self.model.search(sources, batches, options, never=options.never))
        # A source with an output at its length limit is searched again alone: a batch has one limit for all. With twice
        # the patience no more outputs end than before, but all that end and all that are cut are returned.
        again = [[i] for i, outputs in found.items() if any(len(o[0]) >= sources[i].longest for o in outputs)]
        found |= self.model.search(sources, again, options, patience=2, never=options.never)
        return [found[i] for i in range(len(sources))]


def _best(hypotheses: list[Hypothesis], n: int) -> list[Hypothesis]:
    return sorted(hypotheses, key=lambda hypothesis: hypothesis.score, reverse=True)[:n]


def _check_pieces(folder: Path, source: list[str], target: list[str]) -> None:
    """Raise NmtError if the SentencePiece models have other subwords than the folder's model. The source's special
    subwords are not compared: CTranslate2 uses the target's names for them."""
    sides = ("source", export_folder.SOURCE, source, EOS + 1), ("target", export_folder.TARGET, target, 0)
    for side, name, pieces, first in sides:
        own = folder / f"{side}_vocabulary.json"
        path = own if own.is_file() else folder / "shared_vocabulary.json"
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise NmtError(f"{path}: cannot be read: {error}: export it again") from None
        if not isinstance(known, list):
            raise NmtError(f"{path}: not a list of subwords: export it again")
        if known[first:] != pieces[first:]:
            raise NmtError(
                f"{folder / name}: its {len(pieces)} subwords differ from the {len(known)} of {path.name}: it "
                "belongs to another model: export it again"
            )


def _check(options: Options, sources: Sequence[SearchInput]) -> None:
    """Raise NmtError for every option that is not supported here."""
    for name in unsupported(options):
        given = getattr(options, name)
        key, _, without = _FIXES.get(name, name).partition("=")
        shown = f": {given}" if isinstance(given, int | float | str) else ""
        raise NmtError(
            f"decoding.{key}{shown}: a CTranslate2 folder has beam search and greedy search only: "
            f"{f'set decoding.{key}={without}' if without else 'leave it out'}, or translate with the model file"
        )
    if any(source.prefix for source in sources):
        raise NmtError("a CTranslate2 folder takes no prefix: leave it out, or translate with the model file")
