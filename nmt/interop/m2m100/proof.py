"""M2M-100, SMaLL-100 and NLLB as transformers has them, to compare an imported model with."""

import logging
from collections.abc import Sequence
from pathlib import Path

import torch

from nmt.config.language_pairs import LanguagePair
from nmt.errors import first_line
from nmt.interop.imported import Imported
from nmt.interop.m2m100 import vocabulary as m2m100_vocabulary
from nmt.interop.marian.export import load_package
from nmt.interop.proof import TransformersSource, load_model

log = logging.getLogger("nmt")

_EXCLUDED = -1e9  # the output bias of a subword that was not kept: the others share its probability


class M2M100Source(TransformersSource):
    """A model of these as transformers loads it, without the network, without the subwords that were not kept."""

    def __init__(self, folder: Path, imported: Imported):
        transformers = load_package()
        model = load_model(transformers.M2M100ForConditionalGeneration, folder)
        super().__init__(model, *imported.to_theirs)
        kept = [theirs for theirs in imported.to_theirs[1] if theirs >= 0]
        excluded = torch.full([model.config.vocab_size], _EXCLUDED)
        excluded[kept] = 0
        model.lm_head.bias = torch.nn.Parameter(excluded)
        self._kept, self._vocabulary = frozenset(kept), imported.vocabulary
        self._known = imported.config.data.language_pairs
        # SMaLL-100's tokenizer is code in its folder, which is not executed: M2M-100's puts the same before a text.
        self._reads_target = self._known.tagged != "sides"
        of_nllb = m2m100_vocabulary.family_of(folder).is_nllb
        kind = transformers.NllbTokenizer if of_nllb else transformers.M2M100Tokenizer
        try:
            self.tokenizer = kind.from_pretrained(folder, local_files_only=True)
        except Exception as error:  # of many types: NLLB's needs tokenizer.json, or another package
            log.warning("subwords: not compared with transformers: %s", first_line(error))
            self.tokenizer = None

    def subwords(self, lines: Sequence[str], pairs: Sequence[LanguagePair] | None = None) -> list[list[int]]:
        """As nmt.interop.parity.Exported. Of a line with subwords that were not kept, those of ours."""
        assert pairs is not None
        found, others = list[list[int]](), 0
        for line, pair, ids in zip(lines, pairs, self._vocabulary.source.encode(list(lines)), strict=True):
            own = self._vocabulary.source.tags(self._known.tags(pair)) + ids
            theirs = self._subwords(line, pair)
            compared = theirs is not None and self._kept.issuperset(theirs)
            others += not compared
            found.append(self.ours(theirs, own) if theirs is not None and compared else own)
        if others and self.tokenizer is not None:
            log.info(
                "subwords: not compared for %d of %d lines: some were not kept, or transformers lacks the language",
                *(others, len(lines)),
            )
        return found

    def _subwords(self, line: str, pair: LanguagePair) -> list[int] | None:
        """Their ids of a line; None without a tokenizer, and for a language that was added to the model: transformers'
        tokenizer of M2M-100 has a fixed list of languages."""
        if self.tokenizer is None:
            return None
        try:
            self.tokenizer.src_lang = pair.target if self._reads_target else pair.source
        except KeyError:
            return None
        # Of NLLB transformers' tokenizer keeps spaces at the end of a line, which its SentencePiece model removes.
        return list(self.tokenizer(line.strip())["input_ids"][:-1])
