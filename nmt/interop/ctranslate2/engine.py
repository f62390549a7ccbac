"""Search by CTranslate2, for a model file and for an exported folder. What it does not have goes to PyTorch's engine.

The result is nearly that of nmt's own search: the same hypotheses compete, and finished ones are ranked here, with the
length penalty of nmt. What differs:

- Padding, BOS and the unknown subword are forbidden before the softmax, so their share goes to the other subwords.
- If more than K hypotheses end in the last step, CTranslate2 returns only the K with the highest log P.
- The length limit is one for a batch; a longer output is cut.
- After a target prefix (`SearchInput.start`), the empty output is found only if it is the likeliest.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from torch import Tensor

from nmt.checkpoints.model_file import Checkpoint
from nmt.config.schema import Config
from nmt.data.subwords.vocabulary import EOS
from nmt.decoding.engine_protocol import AUTO_BATCH_TOKENS, Engine, Pair, SearchInput
from nmt.decoding.engine_support import ctranslate2_lacks
from nmt.decoding.search.options import Hypothesis, SearchOptions, best_first, length_penalties
from nmt.errors import NmtError
from nmt.interop import export_folder
from nmt.interop.ctranslate2 import files
from nmt.interop.ctranslate2.model import Batch, CTranslate2Model, load_package

log = logging.getLogger("nmt")

_MOST_POSITIONS = 10_000  # of a table of sinusoids: to write a longer one would take seconds
_WORKER_TOKENS = 8_000  # decoding.batch_tokens: auto, for each thread: smaller batches would take more time per token


class CTranslate2Engine:
    """A model in CTranslate2. PyTorch's engine computes what CTranslate2 does not have; without it, that is refused."""

    def __init__(
        self, model: CTranslate2Model, positions: int | None, load_pytorch: Callable[[], Engine] | None = None
    ):
        """positions: as nmt.decoding.engine_protocol.Searcher; load_pytorch: opens PyTorch's engine. Raises NmtError
        if the model's scores are not numbers: greedy search would not notice."""
        self.model, self.positions, self._load_pytorch = model, positions, load_pytorch
        self.aligns, self.on_cuda = load_pytorch is not None, model.translator.device == "cuda"
        self.auto_batch_tokens = max(AUTO_BATCH_TOKENS, _WORKER_TOKENS * model.workers)
        self.on_searched: Callable[[int], object] | None = None
        [scores] = model.score([([EOS + 1], [EOS + 1])], AUTO_BATCH_TOKENS)
        if not all(map(math.isfinite, scores)):
            raise NmtError("the model's scores are not numbers: its weights are damaged or too large: use another one")

    @cached_property
    def pytorch(self) -> Engine:
        """PyTorch's engine, loaded when it is first needed."""
        assert self._load_pytorch is not None
        return self._load_pytorch()

    def search(
        self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int
    ) -> list[list[Hypothesis]]:
        """As nmt.decoding.engine_protocol.Searcher. Raises NmtError for what is refused."""
        return self.begin_search(sources, options, batch_tokens)()

    def begin_search(
        self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int
    ) -> Callable[[], list[list[Hypothesis]]]:
        """As nmt.decoding.engine_protocol.Engine: CTranslate2's own threads search. Raises NmtError for what is
        refused."""
        lacking = ctranslate2_lacks(options.decoding, in_folder=self._load_pytorch is None)
        if options.constrained:
            lacking = "prefixes and glossaries: CTranslate2 has none"
        if lacking and self._load_pytorch is None:
            raise NmtError(f"{lacking}: change that, or translate with the model file")

        def by_pytorch() -> list[list[Hypothesis]]:
            if "pytorch" not in vars(self):
                log.info("search: PyTorch (%s)", lacking)
            self.pytorch.on_searched = self.on_searched
            return self.pytorch.search(sources, options, batch_tokens)

        if lacking:
            return by_pytorch
        batches = self.model.search(sources, options, batch_tokens)
        return partial(self._results, sources, batches, options, batch_tokens)

    def _results(
        self, sources: Sequence[SearchInput], batches: Iterator[Batch], options: SearchOptions, batch_tokens: int
    ) -> list[list[Hypothesis]]:
        """The n best of each source, when all batches are searched."""
        penalties = length_penalties(max((source.longest for source in sources), default=0) + 1, options.decoding)
        results = [list[Hypothesis]() for _ in sources]
        is_text_only = options.decoding.beam_size == 1 and not options.scores
        cut: list[tuple[int, list[int]]] = []  # outputs at the length limit, whose log P lacks EOS
        for batch in batches:
            for i, outputs in batch:
                longest = sources[i].longest
                for output in outputs:
                    if is_text_only or (output.has_ended and len(output.tokens) <= longest):
                        hypothesis = Hypothesis.ended(output.tokens[:longest], output.log_probability, penalties)
                        results[i].append(hypothesis)
                    else:
                        cut.append((i, output.tokens[:longest]))
            if self.on_searched is not None:
                self.on_searched(len(batch))
        for (i, _), hypothesis in zip(cut, self._scored(sources, cut, options, batch_tokens), strict=True):
            results[i].append(hypothesis)
        results = [best_first(hypotheses)[: options.n_best] for hypotheses in results]
        if not (options.scores and options.token_scores):
            return results
        outputs_of_all = [(i, each.tokens) for i, hypotheses in enumerate(results) for each in hypotheses]
        scored = iter(self._scored(sources, outputs_of_all, options, batch_tokens))
        return [best_first(next(scored) for _ in hypotheses) for hypotheses in results]

    def _scored(
        self,
        sources: Sequence[SearchInput],
        outputs: Sequence[tuple[int, list[int]]],
        options: SearchOptions,
        batch_tokens: int,
    ) -> list[Hypothesis]:
        """Outputs, each of the source with this index, as hypotheses with token scores."""
        scores = self.model.score([sources[i].pair(tokens) for i, tokens in outputs], batch_tokens)
        penalties = length_penalties(max(map(len, scores), default=0), options.decoding)
        return [
            Hypothesis.scored(tokens, token_scores[len(sources[i].start) :], penalties)
            for (i, tokens), token_scores in zip(outputs, scores, strict=True)
        ]

    def score(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[float]]:
        """As nmt.decoding.engine_protocol.Searcher."""
        return self.model.score(pairs, batch_tokens)

    def align(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[list[float]]]:
        """As nmt.decoding.engine_protocol.Engine. Raises NmtError for a folder: CTranslate2 returns attention only from
        a search, and of other heads."""
        if self._load_pytorch is None:
            raise NmtError("a CTranslate2 folder gives no alignment: use the model file")
        return self.pytorch.align(pairs, batch_tokens)

    def encode(self, sources: Sequence[list[int]], batch_tokens: int) -> list[Tensor]:
        """As nmt.decoding.engine_protocol.Engine. Raises NmtError for a folder: CTranslate2 does not return it."""
        if self._load_pytorch is None:
            raise NmtError("a CTranslate2 folder gives no encoder output: use the model file")
        return self.pytorch.encode(sources, batch_tokens)


def from_model_file(
    name: str, loaded: Checkpoint, settings: Config, load_pytorch: Callable[[], Engine]
) -> CTranslate2Engine:
    """The engine for a model file, on the CPU. name: of the file, in messages; settings: with those of the search that
    is planned, which decide how many positions are converted. Raises NmtError where CTranslate2 cannot load it."""
    positions = export_folder.longest_position(settings)
    if settings.model.longest_position is None and positions > _MOST_POSITIONS:
        raise NmtError(f"decoding.max_source_tokens: {settings.longest_source}: too long to convert for CTranslate2")

    load_package()  # raises before the files are written
    try:
        with TemporaryDirectory(prefix="nmt-", ignore_cleanup_errors=True) as folder:
            weights = {name: weight.float().numpy() for name, weight in loaded.weights.items()}
            files.write(Path(folder), loaded.config, loaded.vocabulary, weights, positions)
            model = CTranslate2Model(loaded.vocabulary, "cpu", Path(folder))
    except OSError as error:
        raise NmtError(
            f"{error.filename or gettempdir()}: {error.strerror or error}: CTranslate2 reads the model from a "
            "temporary folder: free some space there, or set TMPDIR to another folder"
        ) from None
    except (RuntimeError, ValueError) as error:
        raise NmtError(f"{name}: CTranslate2 cannot load it: {error}") from None
    return CTranslate2Engine(model, positions - 1, load_pytorch)
