"""The input of the trainer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nmt.data.prepare import PreparedData
from nmt.models.translation_model import TranslationModel
from nmt.training.start_from import Start


@dataclass(frozen=True)
class TranslatedText:
    """The text that the scores of a validation set describe: languages, number of sentences, and the form in which
    translations and references are compared."""

    source_language: str
    target_language: str
    sentences: int
    compared: str


@dataclass(frozen=True)
class TranslationScores:
    """Scores of a translated validation set, by their names in METRICS.

    samples: (source, reference, translation) of some sentences; signatures: sacreBLEU's signature of each score; text:
    the translated text.
    """

    scores: dict[str, float]
    samples: list[tuple[str, str, str]]
    signatures: dict[str, str]
    text: TranslatedText


# The scores of each validation set, and the entry of their calibration in the provenance of the model, or nothing.
Translated = tuple[Sequence[TranslationScores], Mapping[str, Any]]


@dataclass(frozen=True)
class TrainingData:
    """The data that a run trains and validates on. Each key is a hash of the named content.

    translate_validation: translates the validation sets with a model and scores each result; collective.
    validation_key: of everything that best_metric depends on; scores with different keys cannot be compared.
    start: the model that the run starts from, or None.
    """

    prepared: PreparedData
    translate_validation: Callable[[TranslationModel], Translated] | None
    vocabulary_key: str
    validation_key: str
    start: Start | None = None
