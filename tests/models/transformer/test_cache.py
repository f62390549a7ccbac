"""What decoding attends to: always a hypothesis's own past, in few places, whatever search follows."""

import math

import pytest
import torch
from torch import Tensor

from nmt.models.transformer import cache
from nmt.models.transformer.cache import KeysByHead, KeysBySlot, Pool, SourceCache, TargetCache

H, DK, DV = 2, 3, 5
STEPS = 45


def place(cached: TargetCache, names: Tensor) -> TargetCache:
    """Give each hypothesis a newest position, whose key and value are its name in every head; names [B, K]."""
    cached, slots = cached.with_room().allocate()
    for pool in cached.layers:
        pool.write(slots, names[:, :, None].double().expand(-1, -1, H * (DK + DV)).contiguous())
    return cached


def parts(pool: Pool) -> tuple[Tensor, Tensor]:
    """The keys [B·H, N, dk] and the values [B·H, N, dv] of a pool."""
    if isinstance(pool, KeysByHead):
        return pool.keys, pool.values
    keys, values = torch.split(pool.both, [H * DK, H * DV], dim=-1)
    by_head = [x.unflatten(2, (H, -1)).transpose(1, 2).flatten(0, 1) for x in (keys, values)]
    return by_head[0], by_head[1]


def seen(cached: TargetCache) -> list[list[list[int]]]:
    """The names that each hypothesis sees, [B][K], in order; the same in every layer and head."""
    mask = cached.mask.repeat_interleave(H, dim=0)
    sights = []
    for pool in cached.layers:
        for part in parts(pool):
            named = part[:, None, :, 0].expand(-1, mask.shape[1], -1)
            rows = [
                [sorted(names[visible].int().tolist()) for names, visible in zip(line, shown, strict=True)]
                for line, shown in zip(named, mask == 0, strict=True)
            ]
            sights += [rows[head::H] for head in range(H)]
    assert all(sight == sights[0] for sight in sights)
    return sights[0]


@pytest.fixture(params=[KeysByHead, KeysBySlot])
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_layout", lambda device: request.param)


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("hypotheses", [1, 20])
def test_every_hypothesis_sees_its_own_past_and_dead_places_are_used_again(hypotheses: int) -> None:
    generator = torch.Generator().manual_seed(hypotheses)
    sentences, name = 4, 0
    cached = TargetCache.empty(torch.zeros(0, dtype=torch.double), sentences, 2, H, (DK, DV))
    expected: list[list[list[int]]] = [[[]] for _ in range(sentences)]
    for step in range(STEPS):
        names = torch.arange(name + 1, name + 1 + cached.mask[:, :, 0].numel()).view(cached.mask.shape[:2])
        name += names.numel()
        cached = place(cached, names)
        expected = [
            [[*own, int(new)] for own, new in zip(line, news, strict=True)]
            for line, news in zip(expected, names, strict=True)
        ]
        assert seen(cached) == expected
        kept = [0, 1, 3] if step == 40 else list(range(len(expected)))
        width = len(expected[0])
        chosen = torch.randint(0, width, (len(kept), hypotheses), generator=generator)
        rows = chosen + width * torch.tensor(kept)[:, None]
        cached = cached.select(rows, torch.tensor(kept) if step == 40 else None)
        expected = [[expected[b][int(k)] for k in line] for b, line in zip(kept, chosen, strict=True)]
        assert seen(cached) == expected
    distinct = max(len({token for own in line for token in own}) for line in expected)
    # Besides what is seen: the places of one step, what was seen at the same time before, and rounding.
    assert cached.mask.shape[2] <= distinct + STEPS + 4 * hypotheses
    if hypotheses == 20:
        assert cached.mask.shape[2] < STEPS * hypotheses / 4


@pytest.mark.usefixtures("layout")
def test_attention_to_the_source_is_equation_1() -> None:
    generator = torch.Generator().manual_seed(1)
    sentences, hypotheses, places = 3, 4, 5
    keys, values, queries = (
        torch.randn(sentences, *shape, generator=generator, dtype=torch.double)
        for shape in ((H, places, DK), (H, places, DV), (hypotheses, H * DK))
    )
    tokens = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]).bool()
    source = SourceCache.build([(keys, values)], tokens)
    found = source.layers[0].attend(queries, source.attention_mask)
    for b in range(sentences):
        own = tokens[b]
        for k in range(hypotheses):
            for h in range(H):
                scores = keys[b, h, own] @ queries[b, k, h * DK : (h + 1) * DK] / math.sqrt(DK)
                expected = scores.softmax(0) @ values[b, h, own]
                torch.testing.assert_close(found[b, k, h * DV : (h + 1) * DV], expected)
    other = source.select(torch.tensor([2, 0]))
    torch.testing.assert_close(other.layers[0].attend(queries[[2, 0]], other.attention_mask), found[[2, 0]])
