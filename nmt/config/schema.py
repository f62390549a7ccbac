"""The settings of a run, with all sections, read from a file, a text or a model.

Other modules import only this module, so it also exports the sections.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from nmt.config import conflicts, reader, writer
from nmt.config.data_section import AugmentConfig as AugmentConfig
from nmt.config.data_section import CleaningConfig as CleaningConfig
from nmt.config.data_section import Corpus as Corpus
from nmt.config.data_section import DataConfig as DataConfig
from nmt.config.data_section import ScoreBounds as ScoreBounds
from nmt.config.data_section import ScoreColumn as ScoreColumn
from nmt.config.data_section import Sides as Sides
from nmt.config.data_section import Stage as Stage
from nmt.config.data_section import Variation as Variation
from nmt.config.declaration import required, section, setting, setting_at
from nmt.config.model_section import ModelConfig as ModelConfig
from nmt.config.model_section import RecurrentConfig as RecurrentConfig
from nmt.config.model_section import TransformerConfig as TransformerConfig
from nmt.config.sections import DecodingConfig as DecodingConfig
from nmt.config.sections import TrainingConfig as TrainingConfig
from nmt.config.sections import VocabularyConfig as VocabularyConfig
from nmt.errors import NmtError


@dataclass(frozen=True, kw_only=True)
class Config:
    run_dir: str = required("the run folder: everything that the run writes is in it", path=True, affects="nothing")
    seed: int = setting(
        1, "random seed of initialisation, dropout, shuffling and sampling", at_least=0, affects=("order", "model")
    )
    data: DataConfig = section(DataConfig, "The text to train and validate on.")
    vocabulary: VocabularyConfig = section(VocabularyConfig, "The subwords, learned from the training text only.")
    model: ModelConfig = section(TransformerConfig, "The model: `architecture` decides which settings it has.")
    training: TrainingConfig = section(TrainingConfig, "Batches, optimizer, schedule, validation, checkpoints.")
    decoding: DecodingConfig = section(DecodingConfig, "Search, in validation and in `nmt translate`.")

    @property
    def longest_source(self) -> int:
        """Subwords of the longest source that is translated without splitting: by `decoding`, else as in training."""
        return self.decoding.max_source_tokens or self.data.max_length

    @property
    def search(self) -> DecodingConfig:
        """`decoding` with the longest source as a number."""
        return replace(self.decoding, max_source_tokens=self.longest_source)

    @property
    def versions(self) -> int:
        """How many versions of the training text are stored. Each is varied or split into subwords differently."""
        return self.vocabulary.bpe_dropout_samples if self.varies_text else 1

    @property
    def varies_text(self) -> bool:
        """Whether BPE-dropout or data.augment changes the stored training text."""
        return self.vocabulary.bpe_dropout > 0 or self.data.augment.changes_text

    def conflicts(self) -> list[str]:
        """Messages on values that do not go together."""
        return [
            *conflicts.in_data(self.data),
            *conflicts.in_vocabulary(self.vocabulary, self.training),
            *conflicts.in_model(self.model, self.data, self.vocabulary),
            *conflicts.in_training(self.training, self.data, self.model),
            *conflicts.in_decoding(self.decoding, self.longest_source, self.vocabulary),
        ]


def load(path: Path, overrides: Sequence[str] = ()) -> Config:
    """The config in a YAML file. Overrides (`section.key=value`) replace its values.

    Raises NmtError with every problem: unknown settings, wrong types, values that do not go together.
    """
    if path.is_dir():
        run = (path / "config.yaml").is_file()
        remedy = f"to resume this run, give {path / 'config.yaml'}" if run else "give a YAML file of settings"
        raise NmtError(f"{path}: a folder, but a config file is expected: {remedy}")
    return parse(reader.read_text(path), str(path), tuple(overrides))


def from_dict(values: Mapping[str, Any], overrides: Sequence[str] = ()) -> Config:
    """The config in a mapping of settings. Raises NmtError as `load` does."""
    return reader.from_dict(Config, values, "config", overrides)


@lru_cache(8)  # it takes 30 ms, and the settings of a model or a run are read several times
def parse(text: str, name: str, overrides: tuple[str, ...] = ()) -> Config:
    """The config in a text, such as the text in a model file, with overrides. name: of the text, in messages.

    Raises NmtError as `load` does, and for a text that is too long to be a config, as in a damaged file.
    """
    reader.check_length(text, name, reader.LONGEST_IN_FULL)
    return reader.parse(Config, text, name, overrides)


def override(config: Config, overrides: Sequence[str]) -> Config:
    """The config of a trained model with `decoding.key=value` overrides.

    Raises NmtError for wrong values and for other settings, which a trained model cannot change; TypeError for a text.
    """
    if isinstance(overrides, str):
        raise TypeError("expected a list of overrides, not a string: for one, give [override]")
    for argument in overrides:
        if not argument.startswith("decoding."):
            advice = setting_meant(argument) or "a trained model takes only decoding settings: decoding.key=value"
            if "=" not in argument:
                file = "FILE" if Path(argument).exists() else argument  # an existing file may be another input
                advice = f"unexpected argument; to write a file, use --output {file}"
            raise NmtError(f"{argument}: {advice}")
    return reader.override(config, "the model's settings", overrides) if overrides else config


def differences_of_models(old: Config, new: Config) -> dict[str, tuple[str, str]]:
    """The settings in which the models of two configs differ, in the form of `writer.differences`: settings of `model`
    that affect its weights, without `max_positions` if both models take any number of positions."""
    changed = writer.differences(old, new)
    if old.model.longest_position is new.model.longest_position is None:
        changed.pop("model.max_positions", None)
    paths = (path for path in changed if path.startswith("model") and setting_at(Config, path).affects)
    return {path: changed[path] for path in paths}


def setting_meant(argument: str) -> str | None:
    """`did you mean decoding.key=value?` for key=value with a key of the section; None for anything else."""
    key, equals, _ = argument.partition("=")
    is_setting = equals and key in (field.name for field in fields(DecodingConfig))
    return f"did you mean decoding.{argument}?" if is_setting else None
