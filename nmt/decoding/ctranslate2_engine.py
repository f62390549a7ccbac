"""Searching with CTranslate2, in a folder that `nmt export --format ctranslate2` wrote.

Its beam search is ours in which hypotheses live on and when a search is over, so that the same ones end; they are
ranked here, by our length penalty rather than by its own, |Y|^α. Two differences remain. What may never be
produced (padding, BOS, the unknown subword) keeps its share of the probabilities in our search and has none in
CTranslate2's; the token scores are the model's own all the same. And an output that reaches the longest length is
closed there at the price of EOS, where our search has one more round of candidates.
Source: src/decoding.cc of CTranslate2 4.8.
"""

import dataclasses
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nmt.checkpoints import export_folder
from nmt.data.vocabulary import EOS
from nmt.decoding.engine import Pair, Source
from nmt.decoding.search.interface import Hypothesis, Options, length_penalties
from nmt.errors import NmtError

if TYPE_CHECKING:
    import ctranslate2

_KNOWN = {"bos", "eos", "never", "beam_size", "length_penalty", "n_best", "scores", "normalization"}  # of Options
_MENDS = {
    "sampling": "method=beam",
    "no_repeat_ngram": "no_repeat_ngram=null",
    "banned": "banned=[]",
    "coverage_penalty": "coverage_penalty=0",
}  # by option: the setting of `decoding` that does without it
_ALMOST_ZERO = 1e-9  # |Y|^this is 1 in float32: scores are sums, but no search ends early as it does with 0
_IMPOSSIBLE = -1e30  # above what stands for -inf there
_ROWS_AT_ONCE = 128  # hypotheses of a batch on the CPU: larger ones leave its cache, and take a quarter longer
_TOKENS_SCORED = 1000  # at once: each has the scores of the whole vocabulary


def load_package() -> Any:
    """The ctranslate2 package. Raises NmtError where it is not installed."""
    try:
        import ctranslate2
    except ImportError as error:
        raise NmtError(f"CTranslate2 cannot be loaded ({error}): pip install 'nmt[ctranslate2]'") from None
    return ctranslate2


class CTranslate2Engine:
    """The model in an exported folder; `settings` and `vocabulary` are those it was exported with."""

    def __init__(self, folder: Path, device: str = "auto"):
        """Load a folder onto `cpu`, `cuda`, `cuda:N` or `auto`: CUDA where CTranslate2 finds it.

        Raises NmtError where the package or the device is not there, or the folder is not whole.
        """
        package = load_package()
        self.settings, self.vocabulary = export_folder.load_config(folder), export_folder.load_vocabulary(folder)
        kind, index = _device(package, device)
        # As many batches at once as there are threads: one batch's operations are too small to share.
        self.workers = torch.get_num_threads() if kind == "cpu" else 1
        try:
            self.model: ctranslate2.Translator = package.Translator(
                str(folder), kind, device_index=index, inter_threads=self.workers, intra_threads=1
            )
        except (RuntimeError, ValueError) as error:
            raise NmtError(f"{folder}: CTranslate2 cannot load it: {error}: export it again") from None
        self.source_pieces = self.vocabulary.source.every_piece()
        self.target_pieces = self.vocabulary.target.every_piece()
        _check_pieces(folder, self.source_pieces, self.target_pieces)
        self.target_ids = {piece: i for i, piece in enumerate(self.target_pieces)}

    @property
    def positions(self) -> int:
        """The longest source or output, EOS left out, that the folder's table of positions covers."""
        sizes = self.settings.model
        learned = sizes.positions == "learned"
        return (sizes.max_positions if learned else export_folder.table_length(self.settings)) - 1

    @property
    def aligns(self) -> bool:
        return False

    def check_precision(self, precision: str) -> None:
        """Raise NmtError where decoding.precision is not what this folder is computed in: it is decided by then."""
        computed = self.model.compute_type.partition("_")[0]
        if precision not in ("model", computed):
            raise NmtError(
                f"decoding.precision: {precision}: this CTranslate2 folder is computed in {self.model.compute_type} "
                f"here: set decoding.precision=model, or export with --quantization {precision}"
            )

    def search(self, sources: Sequence[Source], options: Options, batch_tokens: int) -> list[list[Hypothesis]]:
        """As nmt.decoding.engine.Engine. Raises NmtError for an option that CTranslate2 has not.

        Without options.scores a score is CTranslate2's: what is never produced has no share in it.
        """
        _check(options, sources)
        penalties = length_penalties(max((s.longest for s in sources), default=0) + 1, options).tolist()
        found = self._found(sources, options, batch_tokens // (self.workers * options.beam_size))
        # An output that was closed has yet to pay for its end: where there is one, all are scored before the choice.
        closed = [i for i, outputs in enumerate(found) if not all(output.ended for output in outputs)]
        hypotheses = [[output.hypothesis(penalties) for output in outputs] for outputs in found]
        self._score(hypotheses, closed, sources, penalties)
        best = [_best(each, options.n_best) for each in hypotheses]
        if options.scores:
            self._score(best, range(len(best)), sources, penalties)
            best = [_best(each, options.n_best) for each in best]
        return best

    def score(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[float]]:
        """As nmt.decoding.engine.Engine."""
        results = self.model.score_batch(
            [[self.source_pieces[i] for i in source] for source, _ in pairs],
            [[self.target_pieces[i] for i in target] for _, target in pairs],
            max_batch_size=min(batch_tokens, _TOKENS_SCORED),
            batch_type="tokens",
            max_input_length=0,
        )
        return [list(result.log_probs) for result in results]

    def align(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[list[float]]]:
        """Raises NmtError: CTranslate2 gives the attention of a search alone, and of other heads."""
        raise NmtError("a CTranslate2 folder gives no alignment: translate with the model file for it")

    def subwords(self, lines: Sequence[str]) -> list[list[int]]:
        """Each line's subword ids, without EOS."""
        return self.vocabulary.source.encode(list(lines))

    def encode(self, sources: Sequence[list[int]], batch_tokens: int) -> list[Tensor]:
        """Raises NmtError: CTranslate2 keeps the encoder's output to itself."""
        raise NmtError("a CTranslate2 folder gives no encoder output: encode with the model file")

    def _score(
        self,
        hypotheses: list[list[Hypothesis]],
        which: Sequence[int],
        sources: Sequence[Source],
        penalties: list[float],
    ) -> None:
        """Put the model's own scores into the hypotheses of these sources."""
        places = [(i, j) for i in which for j in range(len(hypotheses[i]))]
        pairs = [(sources[i].ids, hypotheses[i][j].tokens) for i, j in places]
        for (i, j), scores in zip(places, self.score(pairs, _TOKENS_SCORED), strict=True):
            hypotheses[i][j] = Hypothesis.scored(hypotheses[i][j].tokens, scores, penalties)

    def _found(self, sources: Sequence[Source], options: Options, cells: int) -> list[list["_Output"]]:
        """All outputs that ended or were closed, for each source."""
        most = _ROWS_AT_ONCE // options.beam_size if self.model.device == "cpu" else len(sources)
        batches = list(_batches(sources, cells, max(1, most)))
        found = self._searched(sources, batches, options)
        # A source that went to its longest length goes there once more alone: one number limits a whole batch. With
        # twice the patience no more end than before, but of those that end and those that are closed all come back.
        far = [[i] for i, outputs in found.items() if any(len(o.tokens) >= sources[i].longest for o in outputs)]
        found |= self._searched(sources, far, options, patience=2)
        return [found[i] for i in range(len(sources))]

    def _searched(
        self, sources: Sequence[Source], batches: list[list[int]], options: Options, patience: int = 1
    ) -> dict[int, list["_Output"]]:
        """The outputs of each source, by its number; batches are searched at the same time."""
        beam = options.beam_size
        pending = [
            self.model.translate_batch(
                [[self.source_pieces[i] for i in sources[number].ids] for number in batch],
                asynchronous=True,
                beam_size=beam,
                patience=patience,
                num_hypotheses=beam * patience if beam > 1 else 1,
                length_penalty=_ALMOST_ZERO,
                suppress_sequences=[[self.target_pieces[i]] for i in options.never],
                max_input_length=0,
                min_decoding_length=sources[batch[0]].shortest,
                max_decoding_length=max(sources[i].longest for i in batch),
                return_end_token=True,
                return_scores=True,
            )
            for batch in batches
        ]
        results = (result.result() for batch in pending for result in batch)
        numbers = (number for batch in batches for number in batch)
        return {number: self._outputs(result) for number, result in zip(numbers, results, strict=True)}

    def _outputs(self, result: "ctranslate2.TranslationResult") -> list["_Output"]:
        outputs = []
        for pieces, score in zip(result.hypotheses, result.scores, strict=True):
            tokens = [self.target_ids[piece] for piece in pieces]
            ended = tokens[-1:] == [EOS]
            if score > _IMPOSSIBLE:  # NaN is not
                outputs.append(_Output(tokens[:-1] if ended else tokens, score, ended))
        return outputs


@dataclass(frozen=True)
class _Output:
    """What a search found: tokens without EOS, and log P of them, with EOS where it `ended` by itself."""

    tokens: list[int]
    log_probability: float
    ended: bool

    def hypothesis(self, penalties: list[float]) -> Hypothesis:
        penalty = penalties[len(self.tokens) + 1]
        return Hypothesis(self.tokens, self.log_probability / penalty, self.log_probability, [])


def _best(hypotheses: list[Hypothesis], n: int) -> list[Hypothesis]:
    return sorted(hypotheses, key=lambda hypothesis: hypothesis.score, reverse=True)[:n]


def _batches(sources: Sequence[Source], cells: int, most: int) -> Iterator[list[int]]:
    """The numbers of the sources, longest first, in batches of at most so many cells and so many sources, and of one
    shortest output."""
    order = sorted(range(len(sources)), key=lambda i: (sources[i].shortest, len(sources[i].ids)), reverse=True)
    start = 0
    while start < len(order):
        size = min(most, max(1, cells // (len(sources[order[start]].ids) + 1)))  # EOS
        batch = [i for i in order[start : start + size] if sources[i].shortest == sources[order[start]].shortest]
        yield batch
        start += len(batch)


def _check_pieces(folder: Path, source: list[str], target: list[str]) -> None:
    """Raise NmtError where the SentencePiece models cut into other pieces than the folder's model knows.

    The special ones of the source do not matter: they go by the names of the target's.
    """
    for side, name, pieces, first in (
        ("source", export_folder.SOURCE, source, EOS + 1),
        ("target", export_folder.TARGET, target, 0),
    ):
        shared, own = folder / "shared_vocabulary.json", folder / f"{side}_vocabulary.json"
        path = own if own.is_file() else shared
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise NmtError(f"{path}: cannot be read: {error}: export it again") from None
        if not isinstance(known, list):
            raise NmtError(f"{path}: not a list of subwords: export it again")
        if known[first:] != pieces[first:]:
            raise NmtError(
                f"{folder / name}: {len(pieces)} subwords that are not the {len(known)} of {path.name}: it is another "
                "model's: export it again"
            )


def _check(options: Options, sources: Sequence[Source]) -> None:
    """Raise NmtError for what CTranslate2 cannot do as we do it: every option that is not known here."""
    for field in dataclasses.fields(options):
        given = getattr(options, field.name)
        if field.name not in _KNOWN and given != field.default:
            key, _, without = _MENDS.get(field.name, field.name).partition("=")
            shown = f": {given}" if isinstance(given, int | float | str) else ""
            raise NmtError(
                f"decoding.{key}{shown}: a CTranslate2 folder is searched by beam search or greedily alone: "
                f"{f'set decoding.{key}={without}' if without else 'leave it out'}, or translate with the model file"
            )
    if any(source.prefix for source in sources):
        raise NmtError("a CTranslate2 folder takes no prefix here: leave it out, or translate with the model file")


def _device(package: Any, name: str) -> tuple[str, int]:
    """CTranslate2's words for our --device, and which of its kind."""
    found = package.get_cuda_device_count()
    if name == "auto":
        return "cuda" if found else "cpu", 0
    if not re.fullmatch(r"cpu|cuda(:[0-9]+)?", name):
        raise NmtError(f"--device {name}: CTranslate2 knows cpu, cuda, cuda:N and auto")
    kind, _, index = name.partition(":")
    if kind == "cuda" and int(index or 0) >= found:
        raise NmtError(f"--device {name}: CTranslate2 finds {found} CUDA devices here: choose another, or auto")
    return kind, int(index or 0)
