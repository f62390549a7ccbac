"""Opens a model file, the best model of a run folder, or an exported CTranslate2 folder.

Opening reads the settings and the provenance. The weights are read when a translator is made.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt import device as devices
from nmt.checkpoints import model_file
from nmt.config import schema
from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.config.special_subwords import TERM_TAGS
from nmt.data.cleaning.source_text import SourceText, as_set
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.decoding.confidence import Calibration
from nmt.decoding.engine_protocol import Engine
from nmt.decoding.engine_support import ctranslate2_lacks
from nmt.decoding.translator import Translator
from nmt.errors import NmtError
from nmt.files.packages import install_command, is_installed
from nmt.interop import export_folder
from nmt.interop.ctranslate2 import engine as ctranslate2_engine
from nmt.interop.ctranslate2 import files as ctranslate2_files
from nmt.interop.ctranslate2.folder import CTranslate2Folder
from nmt.loading import model_loader
from nmt.terms.glossary import Glossary

log = logging.getLogger("nmt")


@dataclass(frozen=True)
class OpenedModel:
    """A model without its weights.

    path: of the user; file: the model file, or the exported folder; provenance: empty for a folder; source_text: facts
    about the training text, if they are known; calibration: for the confidence of translations, if there is one.
    """

    path: Path
    file: Path
    is_exported: bool
    settings: schema.Config
    provenance: Mapping[str, Any]
    source_text: SourceText | None
    calibration: Calibration | None

    @property
    def languages(self) -> LanguagePairs:
        """The language pairs that the model was trained on."""
        return self.settings.data.language_pairs

    @property
    def files(self) -> list[Path]:
        """The files that a translator is read from: the model file, or the files of the folder."""
        return sorted(filter(Path.is_file, self.file.iterdir())) if self.is_exported else [self.file]

    def translator(
        self,
        device: str = "auto",
        overrides: Sequence[str] = (),
        ensemble: Sequence["OpenedModel"] = (),
        glossary: Path | Glossary | None = None,
        pair: LanguagePair | None = None,
    ) -> Translator:
        """Load the weights. Logs which engine translates, and why.

        overrides: `decoding.key=value`, which replace the model's own settings; ensemble: more models with the same
        vocabulary, which translate together with this one; glossary: terms or a file of them; pair: the languages
        for which it is read, None if they are not known yet.
        Raises NmtError if a file is damaged, an override is wrong, the models do not belong together, or the device is
        not available.
        """
        pair = self.languages.pairs[0] if pair is None and not self.languages.several else pair
        terms = Glossary.load(glossary, pair) if isinstance(glossary, Path) else glossary  # to find mistakes early
        translator = self._load(device, overrides, ensemble, terms is not None)
        if terms is not None:
            translator.use_glossary(terms, str(glossary) if isinstance(glossary, Path) else "glossary")
        return translator

    def _load(
        self, device: str, overrides: Sequence[str], ensemble: Sequence["OpenedModel"], glossary: bool
    ) -> Translator:
        settings = schema.override(self.settings, overrides)
        decoding = settings.search
        for model in (self, *ensemble) if glossary else ():
            architecture = model.settings.model
            if isinstance(architecture, schema.RecurrentConfig) and not architecture.has_attention:
                raise NmtError(f"{model.path}: without attention it cannot place glossary terms: use another model")
        if ensemble and (exported := [model.path for model in (self, *ensemble) if model.is_exported]):
            raise NmtError(f"{exported[0]}: an exported folder cannot be in an ensemble: give model files")
        if self.is_exported:
            if decoding.engine == "torch" and any(override.startswith("decoding.engine=") for override in overrides):
                raise NmtError(
                    f"{self.path}: decoding.engine: torch: this folder is for CTranslate2: give the model file"
                )
            loaded = self._load_exported(settings, device)
            if glossary and loaded.vocabulary.source.tag(TERM_TAGS[0]) is None:  # it cannot place terms
                raise NmtError(f"{self.path}: an exported folder cannot use a glossary: translate with the model file")
            return loaded
        reason = self._without_ctranslate2(decoding, device, ensemble)
        if reason is None:
            translator = self._load_for_ctranslate2(settings, device)
            if isinstance(translator, Translator):
                log.info("search: CTranslate2")
                return translator
            reason = translator
        if decoding.engine == "ctranslate2":
            raise NmtError(f"decoding.engine: ctranslate2 is not possible ({reason}): set decoding.engine=auto")
        log.info("search: PyTorch%s", f" ({reason})" if decoding.engine == "auto" else "")
        return self._load_for_pytorch(settings, device, ensemble)

    def _load_exported(self, settings: schema.Config, device: str) -> Translator:
        engine = CTranslate2Folder(self.file, device)
        self._check_same(engine.settings)
        engine.check_precision(settings.search.precision)
        return self._translator(settings, engine, engine.vocabulary)

    def _without_ctranslate2(
        self, decoding: schema.DecodingConfig, device: str, ensemble: Sequence["OpenedModel"]
    ) -> str | None:
        """The reason why CTranslate2 cannot search; None if there is none before the weights are read."""
        if decoding.engine == "torch":
            return "as set"
        if not isinstance(self.settings.model, schema.TransformerConfig):
            return f"model.architecture: {self.settings.model.architecture}: CTranslate2 does not support it"
        if not is_installed("ctranslate2"):
            return f"CTranslate2 is not installed: {install_command('ctranslate2')}"
        if ensemble:
            return "CTranslate2 has no ensembles"
        if not devices.is_cpu(device):
            return "CTranslate2 is used on CPUs only: --device cpu"
        if decoding.precision not in ("model", "float32"):
            return f"decoding.precision: {decoding.precision}: CTranslate2 searches a model file in float32"
        return ctranslate2_lacks(decoding, in_folder=False) or ctranslate2_files.unsupported(self.settings.model)

    def _load_for_ctranslate2(self, settings: schema.Config, device: str) -> Translator | str:
        """A translator with CTranslate2's engine, or the reason why this is not possible."""
        checkpoint = model_file.load(self.file)
        self._check_same(checkpoint.config)
        if not checkpoint.is_finite:
            return "some weights are not finite numbers"

        def pytorch() -> Engine:  # from memory, because the file may be replaced later
            return model_loader.pytorch_engine([checkpoint], device, settings.search)

        try:
            engine = ctranslate2_engine.from_model_file(str(self.file), checkpoint, settings, pytorch)
        except NmtError as error:
            return str(error)
        return self._translator(settings, engine, checkpoint.vocabulary)

    def _load_for_pytorch(self, settings: schema.Config, device: str, ensemble: Sequence["OpenedModel"]) -> Translator:
        for member in ensemble:
            self._check_languages(member)
        models = [self, *ensemble]
        checkpoints = [model_file.load(model.file) for model in models]
        for model, checkpoint in zip(models, checkpoints, strict=True):
            model._check_same(checkpoint.config)
            if checkpoint.vocabulary.protos != checkpoints[0].vocabulary.protos:
                raise NmtError(
                    f"{model.path}: its vocabulary differs from that of {self.file}: an ensemble needs models with the "
                    "same vocabulary"
                )
        engine = model_loader.pytorch_engine(checkpoints, device, settings.search)
        translator = self._translator(settings, engine, checkpoints[0].vocabulary)
        if ensemble and translator.calibration is not None:
            log.info("an ensemble has no confidence: the calibration belongs to %s alone", self.file)
            translator.calibration = None
        return translator

    def _translator(self, settings: schema.Config, engine: Engine, vocabulary: Vocabulary) -> Translator:
        source_text = as_set(settings, self.source_text)
        return Translator(engine, vocabulary, settings.search, self.languages, source_text, self.calibration)

    def _check_same(self, settings: schema.Config) -> None:
        """Raise NmtError if another model has replaced the file after it was opened. settings: read with the
        weights."""
        if settings != self.settings:
            raise NmtError(f"{self.file}: was replaced by another model while it was read: try again")

    def _check_languages(self, other: "OpenedModel") -> None:
        """Raise NmtError or warn if another model of an ensemble translates other languages."""
        own, others = self.languages, other.languages
        if (own.has_tags or others.has_tags) and others != own:
            raise NmtError(
                f"{other.path}: its language pairs, {', '.join(map(str, others.pairs))}, or their tags differ from "
                f"those of {self.file}: an ensemble needs models with the same pairs"
            )
        # Only a warning, because a language can have several codes, such as de and deu.
        if not all(map(own.has, others.pairs)):
            log.warning(
                "%s: translates %s, and %s translates %s: an ensemble needs models with the same languages",
                *(other.path, others.pairs[0], self.file, own.pairs[0]),
            )


def open_model(path: Path) -> OpenedModel:
    """Open a model file, the best model of a run folder, or an exported CTranslate2 folder.

    Raises NmtError if it is missing, damaged or not a model.
    """
    if export_folder.is_ctranslate2(path):
        return OpenedModel(path, path, True, export_folder.load_config(path), {}, *export_folder.load_known(path))
    file = model_file.locate(path)
    settings, provenance = model_file.load_header(file)
    known = model_file.source_text(provenance), Calibration.of(provenance)
    return OpenedModel(path, file, False, settings, provenance, *known)
