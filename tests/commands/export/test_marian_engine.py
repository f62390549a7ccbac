"""transformers' search, brought into line, is ours."""

from pathlib import Path

import pytest
from helpers.export_models import LINES, engine_of, make_model

from nmt.commands.export import marian
from nmt.commands.export.marian_engine import MarianEngine
from nmt.data.vocabulary import BOS, EOS, PAD, UNK
from nmt.decoding.interface import SearchInput
from nmt.decoding.search.interface import Options


@pytest.mark.parametrize("beam_size", [1, 4])
def test_n_best_are_ours_with_a_longest_length_each(beam_size: int, tmp_path: Path) -> None:
    made = make_model()
    marian.write(tmp_path, made)
    options = Options(
        bos=BOS, eos=EOS, never=(PAD, UNK, BOS), beam_size=beam_size, n_best=beam_size, length_penalty=0.0
    )
    cut = made.vocabulary.source.encode([line for line in LINES if line])
    sources = [SearchInput(ids, 1 + 3 * number) for number, ids in enumerate(cut)]
    ours = engine_of(made).search(sources, options, 1000)
    theirs = MarianEngine(tmp_path).search(sources, options, 1000)
    for mine, its in zip(ours, theirs, strict=True):
        assert [hypothesis.tokens for hypothesis in mine] == [hypothesis.tokens for hypothesis in its][: len(mine)]
        for one, other in zip(mine, its, strict=False):
            assert one.token_scores == pytest.approx(other.token_scores, abs=1e-4)
            assert one.score == pytest.approx(other.score, abs=1e-4)
