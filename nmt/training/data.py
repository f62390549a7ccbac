"""What the trainer is given."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nmt.data.prepare import PreparedData
from nmt.models.translation_model import TranslationModel
from nmt.training.start_from import Start


@dataclass(frozen=True)
class TranslatedText:
    """What the scores of a validation set are of: languages, number of sentences, and the form in which translations
    and references are compared."""

    source_language: str
    target_language: str
    sentences: int
    compared: str


@dataclass(frozen=True)
class TranslationScores:
    """Scores of a translated validation set, by their names in METRICS.

    samples: (source, reference, translation) of some sentences; signatures: sacreBLEU's, by the score's name; text:
    what was translated.
    """

    scores: dict[str, float]
    samples: list[tuple[str, str, str]]
    signatures: dict[str, str]
    text: TranslatedText


@dataclass(frozen=True)
class TrainingData:
    """What a run trains and validates on. Each key is a hash of the content that it names.

    translate_validation: translates the validation sets with a model and scores the result of each; collective.
    validation_key: of all that best_metric depends on; scores with different keys cannot be compared.
    start: the model that the run starts from, if there is one.
    """

    prepared: PreparedData
    translate_validation: Callable[[TranslationModel], Sequence[TranslationScores]] | None
    vocabulary_key: str
    validation_key: str
    start: Start | None = None
