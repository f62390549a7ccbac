"""Keys of everything that validation scores depend on. Scores with different keys cannot be compared."""

from collections.abc import Sequence

from nmt.config import writer
from nmt.config.declaration import settings
from nmt.config.metrics import METRICS
from nmt.config.schema import DecodingConfig, TrainingConfig
from nmt.data.prepare import ValidationSet
from nmt.files.text import content_key


def validation_key(sets: Sequence[ValidationSet], training: TrainingConfig, decoding: DecodingConfig) -> str:
    """A hash of everything that training.best_metric depends on.

    It is the `text_key`; if the metric needs translations, `-` and a hash of the search settings follow.
    """
    if not METRICS[training.best_metric].needs_translations:
        return text_key(sets)
    return f"{text_key(sets)}-{content_key(search_settings(training, decoding))}"


def text_key(sets: Sequence[ValidationSet]) -> str:
    """A hash of the validation text and its language tags. It does not depend on the files' paths."""
    return content_key([[validated.tags, validated.pairs] for validated in sets])


def search_settings(training: TrainingConfig, decoding: DecodingConfig) -> list[object]:
    """The settings that the translations depend on."""
    declared = settings(DecodingConfig)
    search = {name: value for name, value in writer.to_dict(decoding).items() if "score" in declared[name].affects}
    return [search, training.validation_sentences]


def recorded_text_key(key: str) -> str:
    """The `text_key` in a recorded validation_key."""
    return key.partition("-")[0]
