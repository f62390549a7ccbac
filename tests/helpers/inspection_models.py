"""Small untrained models of sentences in several scripts, to look into."""

from dataclasses import replace
from functools import cache
from typing import Any

import torch

from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.config import schema
from nmt.data.subwords import vocabulary
from nmt.data.subwords.vocabulary import Tokenizer, Vocabulary
from nmt.pages.inspect.inspect import Inspection, Inspector

SENTENCES = {
    "en": "The animal didn't cross the street because it was too tired.",
    "de": "Das Tier überquerte die Straße nicht, weil es zu müde war.",
    "ar": "لم يعبر الحيوان الشارع لأنه كان متعبا جدا (2017).",
    "he": "החיה לא חצתה את הכביש כי היא הייתה עייפה מדי.",
    "zh": "这只动物没有过马路，因为它太累了。",
    "ja": "その動物は疲れすぎていたので、道を渡りませんでした。",
    "ko": "그 동물은 너무 피곤해서 길을 건너지 않았다.",
}
SETTINGS = replace(
    schema.parse(
        "run_dir: r\ndata: {source_language: en, target_language: de, train: [{source: a, target: b}]}\n", "test"
    ),
    model=schema.TransformerConfig(d_model=16, feed_forward=32, layers=2, heads=4, max_positions=80),
    decoding=schema.DecodingConfig(beam_size=3, max_extra_tokens=4),
)


@cache
def tokenizer() -> Tokenizer:
    return vocabulary.learn([*SENTENCES.values()] * 3, schema.VocabularyConfig(size=520, character_coverage=1.0))


RECURRENT = schema.RecurrentConfig(embedding_size=16, hidden_size=16, max_positions=257)


def new_checkpoint(
    source: str = "en",
    target: str = "de",
    decoding: Any = None,
    of: schema.ModelConfig = SETTINGS.model,
    **model: Any,
) -> Checkpoint:
    """Random weights; of: the model, whose settings `model` changes."""
    settings = replace(
        SETTINGS,
        data=replace(SETTINGS.data, source_language=source, target_language=target),
        model=replace(of, **model),
        decoding=decoding or SETTINGS.decoding,
    )
    torch.manual_seed(2)
    vocabularies = Vocabulary(tokenizer(), tokenizer())
    new = model_file.new_model(settings.model, vocabularies)
    with torch.no_grad():
        for parameter in new.parameters():
            if parameter.dim() > 1:
                parameter *= 2
    return Checkpoint(settings, vocabularies, model_file.weights_of(new), {})


def inspector_of(checkpoint: Checkpoint) -> Inspector:
    return Inspector("model.safetensors", checkpoint.config, checkpoint.vocabulary, checkpoint.build())


def labels(seen: Inspection, kind: str) -> tuple[list[str], list[str]]:
    """The subwords of the rows and of the columns of a kind of attention."""
    source, target = seen.source.pieces, seen.target.pieces
    of_kind = {"encoder": (source, source), "decoder": (target, ["<s>", *target[:-1]]), "cross": (target, source)}
    return of_kind[kind]
