"""What is shown of recurrent models: their one attention, where it looks, and that the rest is left out."""

from typing import Any

import pytest
import torch
from helpers.inspection_models import RECURRENT, SENTENCES, inspector_of, new_checkpoint

from nmt.data.subwords.vocabulary import BOS, EOS
from nmt.models.recurrent.model import RecurrentModel
from nmt.pages.inspect import output_folder
from nmt.pages.inspect.inspect import Inspection
from nmt.pages.inspect.text import to_data, to_text

SOURCE, TARGET = SENTENCES["en"], SENTENCES["de"]
KINDS: list[dict[str, Any]] = [
    {"attention": "additive", "cell": "gru", "input_feeding": False},
    {"attention": "general", "attention_span": "local-p", "attention_window": 3},
    {"attention": "concat", "attention_span": "local-p", "attention_window": 3, "attention_choice": "hard"},
]


def seen_in(**settings: Any) -> tuple[RecurrentModel, Inspection]:
    inspector = inspector_of(new_checkpoint(of=RECURRENT, **settings))
    assert isinstance(inspector.model, RecurrentModel)
    return inspector.model, inspector.inspect(SOURCE, TARGET)


@pytest.fixture(scope="module", params=KINDS, ids=lambda one: "-".join(map(str, one.values())))
def pair(request: pytest.FixtureRequest) -> tuple[RecurrentModel, Inspection]:
    return seen_in(**request.param)


def steps(model: RecurrentModel, seen: Inspection) -> tuple[torch.Tensor, torch.Tensor | None]:
    """α [T, S] and p_t [T] as search computes them, one step at a time; from the states after each step."""
    tokenizer = new_checkpoint().vocabulary.source
    source, target = tokenizer.encode([SOURCE])[0], tokenizer.encode([TARGET])[0]
    state = model.start(model.encode(torch.tensor([[*source, EOS]])))
    weights, centers = [], []
    attention = model.decoder.attention
    assert attention is not None
    for position, token in enumerate([BOS, *target]):
        _, state = model.step(state, torch.tensor([[token]]))
        query = state.cells[-1][0][:, None]
        weights.append(attention.weights(query, state.source, torch.tensor([position]))[0, 0])
        if seen.inside.window is not None:
            centers.append(attention.centers(query, state.source, torch.tensor([position]))[0, 0])
    return torch.stack(weights), torch.stack(centers) if centers else None


@torch.no_grad()
def test_attention_and_centres_are_those_of_search(pair: tuple[RecurrentModel, Inspection]) -> None:
    model, seen = pair
    weights, centers = steps(model, seen)
    assert list(seen.inside.attention) == ["cross"]
    torch.testing.assert_close(seen.inside.attention["cross"], weights[None, None])
    torch.testing.assert_close(seen.inside.alignment, weights / weights.sum(dim=1, keepdim=True))
    if centers is None:
        assert seen.inside.centers is None
    else:
        torch.testing.assert_close(seen.inside.centers, centers.to(seen.inside.centers.dtype))  # type: ignore[union-attr]
    if model.config.attention_choice == "hard":
        assert seen.inside.chosen is not None and seen.inside.chosen.tolist() == weights.argmax(dim=1).tolist()
    else:
        assert seen.inside.chosen is None


def test_without_attention() -> None:
    _, seen = seen_in(attention="none", input_feeding=False)
    data = to_data(seen)
    assert data["attention"] == {} and data["alignment"]["weights"] is None
    assert "This model has no attention at all" in data["missing"]
    assert "word alignment: none, as this model has no attention\n\nbeam of 3" in to_text(seen)
    assert output_folder.page(seen).count("This model has no attention at all") == 1
