"""What the trainer is given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nmt.data.token_store import TokenStore
from nmt.data.vocabulary import Vocabulary
from nmt.models.interface import TranslationModel


@dataclass(frozen=True)
class TranslationScores:
    """Scores of the translated validation set.

    samples: (source, reference, translation) of some sentences; signatures: sacreBLEU's, by the score's name.
    """

    bleu: float
    chrf: float
    samples: list[tuple[str, str, str]]
    signatures: dict[str, str]


@dataclass(frozen=True)
class TrainingData:
    """What a run trains and validates on. Each key is a hash of the content that it names.

    translate_validation: translates the validation set with a model and scores the result; collective.
    validation_key: of all that best_metric depends on; scores with different keys cannot be compared.
    report: the report on the training data, as JSON values.
    """

    vocabulary: Vocabulary
    train: TokenStore
    validation: TokenStore | None
    translate_validation: Callable[[TranslationModel], TranslationScores] | None
    data_key: str
    vocabulary_key: str
    validation_key: str
    report: Mapping[str, Any]
