"""What is gathered of a sentence: the translator's own translation, the model's own attention, and what adds up."""

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.inspection_models import SENTENCES, inspector_of, labels, new_checkpoint

from nmt.checkpoints import model_file
from nmt.config import schema
from nmt.data.subwords.vocabulary import BOS, EOS
from nmt.errors import NmtError
from nmt.loading.opened_model import open_model
from nmt.models.transformer.positions import sinusoids
from nmt.pages.inspect.inspect import Inspection, Inspector
from nmt.pages.inspect.text import position_title, strongest_links

SOURCE, TARGET = SENTENCES["en"], SENTENCES["de"]
VARIANTS: list[dict[str, Any]] = [
    {"positions": "learned", "tie": "none", "bias": False},
    {"encoder_layers": 3, "decoder_layers": 1, "key_size": 3, "value_size": 5},
]


@pytest.fixture(scope="module", params=VARIANTS, ids=str)
def pair(request: pytest.FixtureRequest) -> tuple[Inspector, Inspection]:
    inspector = inspector_of(new_checkpoint(**request.param))
    return inspector, inspector.inspect(SOURCE, TARGET)


def test_attention_of_every_kind_has_its_shape_and_labels(pair: tuple[Inspector, Inspection]) -> None:
    inspector, seen = pair
    layers = {"encoder": len(inspector.model.encoder), "decoder": len(inspector.model.decoder)}
    layers["cross"] = layers["decoder"]
    for kind in ("encoder", "decoder", "cross"):
        rows, columns = labels(seen, kind)
        assert seen.inside.attention[kind].shape == (layers[kind], 4, len(rows), len(columns))
        torch.testing.assert_close(seen.inside.attention[kind].sum(dim=-1), torch.ones(layers[kind], 4, len(rows)))
    assert not seen.inside.attention["decoder"].triu(1).any()


def test_attention_is_that_of_the_model(pair: tuple[Inspector, Inspection]) -> None:
    """Given the sentence pair alone, layer by layer (`test_attention_weights` has that it is what the model uses)."""
    inspector, seen = pair
    vocabulary, model = inspector.translator.vocabulary, inspector.model
    source, target = (
        torch.tensor([ids])
        for ids in ([*vocabulary.source.encode([SOURCE])[0], EOS], [BOS, *vocabulary.target.encode([TARGET])[0]])
    )
    with torch.no_grad():
        for layer, weights in enumerate(model.attention_weights(source, target).cross):
            torch.testing.assert_close(seen.inside.attention["cross"][layer], weights[0])


def test_the_alignment_is_the_translators_by_words(pair: tuple[Inspector, Inspection]) -> None:
    inspector, seen = pair
    ids = inspector.translator.vocabulary.source.encode([SOURCE])[0]
    output = inspector.translator.vocabulary.target.encode([TARGET])[0]
    [between_subwords] = inspector.engine.align([(ids, output)], 1000)
    for m, row in enumerate(seen.target.words):
        for n, column in enumerate(seen.source.words):
            block = [sum(line[column.start : column.end]) for line in between_subwords[row.start : row.end]]
            assert float(seen.alignment[m, n]) == pytest.approx(sum(block) / len(block), abs=1e-5)
    for (word, looked_at, share), row in zip(strongest_links(seen), seen.alignment[:, :-1].tolist(), strict=False):
        assert share == max(row)
        assert looked_at == seen.source.words[row.index(share)].text
        assert word in [one.text for one in seen.target.words]


@pytest.mark.parametrize(
    "decoding",
    [
        schema.DecodingConfig(beam_size=1, max_extra_tokens=2),
        schema.DecodingConfig(beam_size=4, coverage_penalty=0.4, no_repeat_ngram=2),
    ],
    ids=["greedy", "coverage"],
)
def test_the_translation_is_the_translators(decoding: schema.DecodingConfig, tmp_path: Path) -> None:
    found = new_checkpoint(decoding=decoding)
    model_file.save(tmp_path / "m.safetensors", found)
    seen = Inspector.load(tmp_path / "m.safetensors", "cpu").inspect(SOURCE)
    [[expected]] = open_model(tmp_path / "m.safetensors").translator("cpu").hypotheses([SOURCE])
    assert (seen.translation.text, seen.translation.pieces) == (expected.text, expected.pieces)
    assert seen.translation.score == pytest.approx(expected.score, abs=1e-4)
    assert seen.target.pieces == expected.pieces and not seen.given and seen.model == "m.safetensors"
    assert seen.ranks and set(seen.ranks.values()) == set(range(len(seen.hypotheses)))
    for place, rank in seen.ranks.items():
        assert seen.nodes[place].score == pytest.approx(seen.hypotheses[rank].score, abs=1e-4)


def test_a_given_target_has_its_score() -> None:
    inspector = inspector_of(new_checkpoint())
    seen = inspector.inspect(SOURCE, TARGET)
    [expected] = inspector.translator.score([SOURCE], [TARGET])
    assert seen.given and seen.translation == expected and seen.target.text == TARGET
    assert seen.hypotheses[0].text == inspector.inspect(SOURCE).translation.text != TARGET
    assert inspector.inspect(SOURCE, "").target.pieces == ["</s>"]


def test_positions() -> None:
    for layout in ("interleaved", "concatenated"):
        seen = inspector_of(new_checkpoint(positions=layout)).inspect("street")
        assert list(seen.inside.positions) == ["interleaved", "concatenated"]
        for name, table in seen.inside.positions.items():
            assert torch.equal(table, sinusoids(100, 16, name))  # type: ignore[arg-type]
            assert position_title(name, layout).endswith("as this model has them") == (name == layout)
    inspector = inspector_of(new_checkpoint(positions="learned"))
    seen = inspector.inspect("street")
    assert torch.equal(seen.inside.positions["source"], inspector.model.source_positions(0, 80))
    assert torch.equal(seen.inside.positions["target"], inspector.model.target_positions(0, 80))
    assert not inspector_of(new_checkpoint(positions="rotary")).inspect("street").inside.positions, "added to nothing"


def test_what_cannot_be_looked_into(tmp_path: Path) -> None:
    inspector = inspector_of(new_checkpoint(positions="learned"))
    for text in ("", " \n"):
        with pytest.raises(NmtError, match="source text is empty"):
            inspector.inspect(text)
    with pytest.raises(NmtError, match=r"has \d+ subwords, more than the 79 that this model translates at once"):
        inspector.inspect("the street " * 60)
    file = tmp_path / "m.safetensors"
    model_file.save(file, new_checkpoint())
    with pytest.raises(NmtError, match=r"add decoding\.method=beam"):
        Inspector.load(file, "cpu", ["decoding.method=sample"])
    (tmp_path / "exported").mkdir()
    (tmp_path / "exported" / "model.bin").write_bytes(b"x")
    with pytest.raises(NmtError, match="cannot be inspected: give the model file"):
        Inspector.load(tmp_path / "exported", "cpu")
    assert (
        Inspector.load(file, "cpu", ["decoding.precision=int8"]).inspect("street").inside.attention["cross"].dtype
        == torch.float32
    )
