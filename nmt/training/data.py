"""What a run trains and validates on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from nmt.data.token_store import Sequences
from nmt.data.vocabulary import Vocabulary
from nmt.models.interface import TranslationModel


class SearchScores(Protocol):
    """What translating the validation set gives; samples are (source, reference, translation).

    signatures: sacreBLEU's, by the score's name.
    """

    @property
    def bleu(self) -> float: ...
    @property
    def chrf(self) -> float: ...
    @property
    def samples(self) -> Sequence[tuple[str, str, str]]: ...
    @property
    def signatures(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class Material:
    """What a run trains and validates on; each key stands for the content that it names.

    validation_key: of all that best_metric is measured by; scores under two keys do not compare.
    data_report: the report on the training data, as JSON values.
    """

    vocabulary: Vocabulary
    train: Sequences
    validation: Sequences | None
    translate_validation: Callable[[TranslationModel], SearchScores] | None
    data_key: str
    vocabulary_key: str
    validation_key: str
    data_report: Mapping[str, Any]
