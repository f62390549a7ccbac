"""The input of the trainer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class TranslatedSets:
    """The scores of each validation set, and an entry for the provenance of the model: its calibration by these
    translations (see nmt.decoding.confidence), or nothing."""

    scores: Sequence[TranslationScores] = ()
    calibration: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainingData:
    """The data that a run trains and validates on. Each key is a hash of the named content.

    translate_validation: translates the validation sets with a model and scores each result; collective.
    validation_key: of everything that best_metric depends on; scores with different keys cannot be compared.
    start: the model that the run starts from, or None.
    """

    prepared: PreparedData
    translate_validation: Callable[[TranslationModel], TranslatedSets] | None
    vocabulary_key: str
    validation_key: str
    start: Start | None = None
