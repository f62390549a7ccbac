"""Search with CTranslate2, for model files and exported folders. PyTorch's engine does what CTranslate2 cannot.

The results are nearly those of nmt's own search: the same hypotheses compete, and finished hypotheses are ranked here,
with nmt's length penalty. The differences:

- Padding, BOS and the unknown subword are forbidden before the softmax, so the other subwords get their probability.
- If more than K hypotheses end in the last step, CTranslate2 returns only the K with the highest log P.
- With the default limits, sources of different limits are searched together; a longer output is cut.
- After a target prefix (`SearchInput.start`), the empty output is only found if it has the highest probability.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import islice
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

_MOST_POSITIONS = 10_000  # of a table of sinusoids: writing a longer one takes seconds
_WORKER_TOKENS = 8_000  # for each thread with decoding.batch_tokens: auto; smaller batches take more time per token


class CTranslate2Engine:
    """A model in CTranslate2. Options that CTranslate2 lacks go to PyTorch's engine; without it, they raise
    NmtError."""

    def __init__(
        self, model: CTranslate2Model, positions: int | None, load_pytorch: Callable[[], Engine] | None = None
    ):
        """positions: as nmt.decoding.engine_protocol.Searcher; load_pytorch: returns PyTorch's engine. Raises NmtError
        if the model's scores are not finite, which greedy search would not notice."""
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
        """As nmt.decoding.engine_protocol.Searcher. Raises NmtError for options that cannot be used."""
        return self.begin_search(sources, options, batch_tokens)()

    def begin_search(
        self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int
    ) -> Callable[[], list[list[Hypothesis]]]:
        """As nmt.decoding.engine_protocol.Engine; CTranslate2 searches in its own threads. Raises NmtError for options
        that cannot be used."""
        lacking = ctranslate2_lacks(options.decoding, in_folder=self._load_pytorch is None)
        if options.constrained:
            lacking = "prefixes: CTranslate2 has none"
        if lacking and self._load_pytorch is None:
            raise NmtError(f"{lacking}: change the option, or translate with the model file")

        def by_pytorch() -> list[list[Hypothesis]]:
            if "pytorch" not in vars(self):
                log.info("search: PyTorch (%s)", lacking)
            self.pytorch.on_searched = self.on_searched
            return self.pytorch.search(sources, options, batch_tokens)

        if lacking:
            return by_pytorch
        batches = self.model.search(sources, options, batch_tokens)
        return lambda: self._results(sources, batches, options, batch_tokens)

    def _results(
        self, sources: Sequence[SearchInput], batches: Iterator[Batch], options: SearchOptions, batch_tokens: int
    ) -> list[list[Hypothesis]]:
        """The n best hypotheses of each source, after all batches are searched."""
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
        best_outputs = list[tuple[int, list[int]]]()
        for i, hypotheses in enumerate(results):
            best_outputs += [(i, hypothesis.tokens) for hypothesis in hypotheses]
        scored = iter(self._scored(sources, best_outputs, options, batch_tokens))
        return [best_first(islice(scored, len(hypotheses))) for hypotheses in results]

    def _scored(
        self,
        sources: Sequence[SearchInput],
        outputs: Sequence[tuple[int, list[int]]],
        options: SearchOptions,
        batch_tokens: int,
    ) -> list[Hypothesis]:
        """Outputs, each with the index of its source, as hypotheses with token scores."""
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
        """As nmt.decoding.engine_protocol.Engine. Raises NmtError for a folder: CTranslate2 does not return encoder
        outputs."""
        if self._load_pytorch is None:
            raise NmtError("a CTranslate2 folder gives no encoder output: use the model file")
        return self.pytorch.encode(sources, batch_tokens)


def from_model_file(
    name: str, loaded: Checkpoint, settings: Config, load_pytorch: Callable[[], Engine]
) -> CTranslate2Engine:
    """The engine for a model file, on the CPU. name: of the file, for messages; settings: with those of the coming
    search, which decide how many positions are converted. Raises NmtError if CTranslate2 cannot load the model."""
    positions = export_folder.longest_position(settings)
    if settings.model.longest_position is None and positions > _MOST_POSITIONS:
        raise NmtError(f"decoding.max_source_tokens: {settings.longest_source}: too long to convert for CTranslate2")

    load_package()  # raises before the files are written
    try:
        with TemporaryDirectory(prefix="nmt-", ignore_cleanup_errors=True) as folder:
            shortlist = loaded.shortlist if settings.search.shortlist == "auto" else None
            model_parts = loaded.config, loaded.vocabulary, loaded.weights, positions
            files.write(Path(folder), *model_parts, shortlist=shortlist)
            model = CTranslate2Model(loaded.vocabulary, "cpu", Path(folder))
    except OSError as error:
        raise NmtError(
            f"{error.filename or gettempdir()}: {error.strerror or error}: CTranslate2 reads the model from a "
            "temporary folder: free some space there, or set TMPDIR to another folder"
        ) from None
    except (RuntimeError, ValueError) as error:
        raise NmtError(f"{name}: CTranslate2 cannot load it: {error}") from None
    return CTranslate2Engine(model, positions - 1, load_pytorch)
