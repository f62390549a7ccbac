"""Keys of what the scores of a validation depend on: scores with different keys cannot be compared."""

from collections.abc import Sequence

from nmt.config import writer
from nmt.config.declaration import settings
from nmt.config.metrics import METRICS, OF_TRANSLATIONS
from nmt.config.schema import DecodingConfig, TrainingConfig
from nmt.data.prepare import ValidationSet
from nmt.data.subwords.normalization import comparable
from nmt.files.text import content_key


def validation_key(sets: Sequence[ValidationSet], training: TrainingConfig, decoding: DecodingConfig) -> str:
    """A hash of everything that training.best_metric depends on.

    It is the `text_key`; if the metric needs a search, `-` and a hash of the search's settings follow. Older versions
    compared references as they are: scores with references that this changes cannot be compared with theirs.
    """
    if not METRICS[training.best_metric].of_translations:
        return text_key(sets)
    compared = search_settings(training, decoding)
    if any(comparable(reference) != reference for validated in sets for _, reference in validated.pairs):
        compared.append("references in comparable form")
    return f"{text_key(sets)}-{content_key(compared)}"


def text_key(sets: Sequence[ValidationSet]) -> str:
    """A hash of the validation text and its languages' tags, wherever it was read from."""
    if len(sets) == 1 and not sets[0].tags:
        return content_key(sets[0].pairs, [])
    return content_key([[validated.tags, validated.pairs] for validated in sets] or None, [])


def search_settings(training: TrainingConfig, decoding: DecodingConfig) -> list[object]:
    """The settings that the translations depend on."""
    known = settings(DecodingConfig)
    search = {name: value for name, value in writer.to_dict(decoding).items() if "score" in known[name].affects}
    search["batch_tokens"] = 16_000  # has no influence; keys of older runs have it
    return [search, training.validation_sentences]


def recorded_text_key(key: str, best_metric: str) -> str | None:
    """The `text_key` in a recorded validation_key; None where it was not recorded.

    Older keys whose metric needs a search are one hash of text and search together, without a `-`.
    """
    if best_metric in OF_TRANSLATIONS and "-" not in key:
        return None
    return key.partition("-")[0] or None
