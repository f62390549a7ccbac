"""Evaluates systems: reads the texts, translates the source with models, and computes the scores."""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from tqdm import tqdm

from nmt.commands.progress import line_bar
from nmt.config.language_pairs import LanguagePair
from nmt.config.unspaced_scripts import is_unspaced
from nmt.data.cleaning.tokenized_text import TokenizerTraces
from nmt.data.cleaning.tokenized_text import contrast as contrasted
from nmt.decoding.chunks import LineCounts, log_counts
from nmt.decoding.translator import Translation, Translator
from nmt.errors import NmtError
from nmt.evaluation import breakdowns, comet, scores
from nmt.evaluation.aligned_texts import AlignedText, check_aligned, load_test_set, read_text
from nmt.evaluation.metrics import check_tokenizer, has_words_by_spaces, sentence_chrf
from nmt.evaluation.output import Details, Evaluation
from nmt.evaluation.reliability import Reliability, measure_reliability
from nmt.evaluation.robustness import Robustness, measure, varied_texts
from nmt.evaluation.sentences import example_sentences
from nmt.evaluation.systems import System, count_words
from nmt.evaluation.text_form import NORMALIZED, RAW, TextForm
from nmt.files.outputs import check_output, is_special
from nmt.files.text import lines_out, read_lines
from nmt.loading.command_models import ModelsOfCommand
from nmt.loading.opened_model import open_model
from nmt.teachers.endpoint import is_endpoint
from nmt.teachers.opened_endpoint import OpenedEndpoint
from nmt.teachers.teacher import Teacher

log = logging.getLogger("nmt")

_LINES_LOOKED_AT = 100  # to find out whether a text has spaces

_Opened: TypeAlias = ModelsOfCommand | OpenedEndpoint
_Translator: TypeAlias = Translator | Teacher


@dataclass(frozen=True, kw_only=True)
class EvaluateRequest:
    """The options of an evaluation. The systems are the models, then the hypotheses; the first system is the
    baseline. With a glossary, each model is followed by the model with the glossary."""

    models: Sequence[Path] = ()  # also files of endpoints
    overrides: Sequence[str] = ()
    hypotheses: Sequence[Path] = ()
    source: Path | None = None  # required with models
    references: Sequence[Path] = ()
    test_set: str | None = None  # with language_pair, instead of source and references
    language_pair: str | None = None
    to: str | None = None  # languages, for models of several pairs; default: those of language_pair
    from_: str | None = None
    language: str | None = None  # of the references; chooses BLEU's tokenizer if there is no `tokenizer`
    tokenizer: str | None = None  # by its name in sacreBLEU
    glossary: Path | None = None  # each model is two systems: without and with it
    outputs: Sequence[Path] = ()  # one for each model, or none: the translation with the glossary if there is one
    details: bool = False
    training_texts: Sequence[Path] = ()
    sentences: int = 5  # of each kind to show
    robustness: bool = False  # of the models
    comet: str | None = None
    comet_command: str = "comet-score"
    raw: bool = False  # compare texts without normalization
    device: str = "auto"


def evaluate(request: EvaluateRequest) -> Evaluation:
    """The scores of all systems, and if requested their details and the robustness of the models. Raises NmtError for
    problems that the user can fix."""
    request = replace(request, details=request.details or bool(request.training_texts))
    if request.comet is not None:  # before any work
        comet.split_command(request.comet_command)
        if request.source is None and request.test_set is None:
            raise NmtError(f"--comet {request.comet}: needs the source too: give --source FILE")
    if request.tokenizer is not None:
        check_tokenizer(request.tokenizer)
    scores.check_seed()
    scores.check_names(list(map(str, [*request.models, *request.hypotheses])))
    opened = [_open(request, model) for model in request.models]
    _check_outputs(request, opened)
    for path in request.training_texts:
        if not is_special(path):
            next(read_lines(path), None)  # raises NmtError for a file that cannot be read
    source, references = _texts(request)
    hypotheses = [read_text(path) for path in request.hypotheses]
    for text in (source, *hypotheses):  # before the models translate
        if text is not None:
            check_aligned(text, references)
    languages = _languages(request, opened)
    language = languages.target
    if request.tokenizer is None and _has_no_spaces(references[0]) and has_words_by_spaces(language):
        log.warning(
            "%s: no spaces between words, so BLEU counts whole sentences as words: give --language zh or ja, or for "
            "other languages --tokenize char",
            references[0].name,
        )
    form = RAW if request.raw else NORMALIZED
    translated = _translations(request, opened, source, references, languages, form)
    systems = [*(one.text for one in translated), *hypotheses]
    _warn_of_tokenized(systems, references[0], request.tokenizer)
    source = source and source.in_form(form)
    systems = [text.in_form(form) for text in systems]
    references = [text.in_form(form) for text in references]
    all_scores = scores.score(systems, references, language, request.test_set, request.language_pair, request.tokenizer)
    if request.comet is not None:
        assert source is not None
        command = comet.split_command(request.comet_command)
        all_scores += comet.score(request.comet, command, source, systems, references[0], request.device)
    return Evaluation(
        all_scores,
        _details(request, source, systems, references, languages, translated) if request.details else None,
        [one.robustness for one in translated if one.robustness],
        [*(one.system for one in translated), *(System(text.name) for text in hypotheses)],
    )


def _has_no_spaces(text: AlignedText) -> bool:
    """Whether most letters at the beginning of a text belong to scripts without spaces, and there are more than eight
    letters for each space. Korean has more spaces."""
    beginning = "".join(text.lines[:_LINES_LOOKED_AT])
    letters = list(filter(str.isalpha, beginning))
    return len(letters) > 8 * beginning.count(" ") and 2 * sum(map(is_unspaced, letters)) > len(letters)


def _warn_of_tokenized(systems: Sequence[AlignedText], reference: AlignedText, tokenizer: str | None) -> None:
    """Warn if translations look tokenized and the reference does not, or the other way round."""
    expected, contrasts = TokenizerTraces().add(reference.lines), list[str]()
    for system in systems:
        traces = TokenizerTraces().add(system.lines)
        if contrast := contrasted(system.name, traces, reference.name, expected):
            contrasts.append(contrast)
        elif traces.look_tokenized and expected.look_tokenized and tokenizer is None:
            log.warning(
                "%s and %s look tokenized: BLEU tokenizes them again, so it cannot be compared with BLEU on other "
                "text: detokenize both, or give --tokenize none",
                system.name,
                reference.name,
            )
    if contrasts:
        log.warning("%s: scores mean little: bring both texts into the same form first", "; ".join(contrasts))


def _open(request: EvaluateRequest, model: Path) -> _Opened:
    """Open a model or an endpoint. A model of several language pairs uses the pair of the test set, if there is one."""
    to, from_ = request.to, request.from_
    if is_endpoint(model):
        return OpenedEndpoint.open(model, to, from_)
    opened = open_model(model)
    if not (to or from_) and request.language_pair and opened.languages.several:
        from_, _, to = request.language_pair.partition("-")
    return ModelsOfCommand(opened, (), opened.languages.choose(to, from_))


def _check_outputs(request: EvaluateRequest, opened: Sequence[_Opened]) -> None:
    """Raises NmtError for an output that cannot be written, or that would replace a text or another output."""
    read = list(chain.from_iterable(models.files for models in opened))
    read += [*request.hypotheses, *request.references, *request.training_texts]
    read += filter(None, (request.source, request.glossary))
    checked: set[Path] = set()
    for path in request.outputs:
        output = check_output(path, read)
        if output in checked:
            raise NmtError(f"--output {path}: named twice: each model needs its own file")
        checked.add(output)


def _languages(request: EvaluateRequest, opened: Sequence[_Opened]) -> LanguagePair:
    """The languages of the source and the target, from the options, the test set or the models; empty if unknown."""
    source, _, target = (request.language_pair or "").partition("-")
    targets = dict.fromkeys(models.pair.target for models in opened)
    target = request.language or target
    if not target and len(targets) > 1:
        raise NmtError(f"the models have different target languages ({', '.join(targets)}): give --language")
    source = source or next((models.pair.source for models in opened), "")
    return LanguagePair(source, target or next(iter(targets), ""))


def _texts(request: EvaluateRequest) -> tuple[AlignedText | None, list[AlignedText]]:
    """The source and the references."""
    if request.test_set is not None and request.language_pair is not None:
        return load_test_set(request.test_set, request.language_pair)
    source = None if request.source is None else read_text(request.source)
    return source, [read_text(path) for path in request.references]


@dataclass(frozen=True)
class _Translated:
    """A system's translation of the source."""

    text: AlignedText
    system: System
    robustness: Robustness | None
    reliability: Reliability | None


def _translations(
    request: EvaluateRequest,
    opened: Sequence[_Opened],
    source: AlignedText | None,
    references: Sequence[AlignedText],
    languages: LanguagePair,
    form: TextForm,
) -> list[_Translated]:
    """The translation by each model and endpoint, which is also written to its output file if there is one; and the
    robustness of each if requested. Endpoints come last, because they may cost money and models may fail."""
    for system in opened:
        system.log()
    translated = dict[int, list[_Translated]]()
    for index in sorted(range(len(opened)), key=lambda index: not isinstance(opened[index], ModelsOfCommand)):
        assert source is not None
        system, texts = opened[index], list[str]()
        size = None if isinstance(system, OpenedEndpoint) else sum(file.stat().st_size for file in system.files)
        description = "translating" if len(opened) == 1 else f"translating, model {index + 1}"
        translated[index] = []
        for name, translator in _translators(request, opened, index):
            translate = partial(_translate, translator, description)
            translator.translate([])  # loads the rules for answers of an endpoint
            started = time.perf_counter()
            calibration, best, reliability = None, list[Translation](), None
            if request.details and isinstance(translator, Translator) and (calibration := translator.calibration):
                with line_bar(description, len(source.lines)) as bar:
                    translator.on_lines = bar.update
                    best = [first for first, *_ in translator.hypotheses(source.lines, token_scores=False)]
            texts = [one.text for one in best] or translate(source.lines)
            speed = count_words(source.lines) / (time.perf_counter() - started)
            _log_counts(translator)
            counted = translator.counts.terms if isinstance(translator, Translator) else None
            robustness = None
            if request.robustness:
                if isinstance(translator, Translator):
                    translator.counts = LineCounts()  # count the variations separately
                varied = varied_texts(source.lines, [reference.lines for reference in references], languages)
                robustness = measure(name, texts, varied, translate, languages.target, request.tokenizer, form)
                _log_counts(translator)
            facts = System(name, size, speed, None if counted is None else counted.how)
            if calibration:
                chrf = sentence_chrf(texts, *(reference.lines for reference in references))
                rated = [(one.confidence, one.log_probability / max(1, one.subwords)) for one in best]
                reliability = measure_reliability(str(calibration), rated, chrf)
            translated[index].append(_Translated(AlignedText(name, texts), facts, robustness, reliability))
        if request.outputs:
            with lines_out(request.outputs[index]) as write:
                for text in texts:
                    write(text)
    return list(chain.from_iterable(translated[index] for index in range(len(opened))))


def _translators(request: EvaluateRequest, opened: Sequence[_Opened], index: int) -> Iterator[tuple[str, _Translator]]:
    """The translator of a system, and the same with the glossary if there is one; each with the system's name. The
    first is used before the second is made. Settings for decoding are for the models if there are any."""
    system, name = opened[index], str(request.models[index])
    with_glossary = f"{name}, {request.glossary}"
    if isinstance(system, ModelsOfCommand):
        translator = system.translator(request.device, request.overrides, request.glossary)
        glossary, translator.glossary = translator.glossary, None
        yield name, translator
        if glossary is not None:
            translator.glossary, translator.counts = glossary, LineCounts()
            yield with_glossary, translator
        return
    overrides = () if any(isinstance(other, ModelsOfCommand) for other in opened) else request.overrides
    teachers = {name: system.teacher(overrides)}
    if request.glossary is not None:
        teachers[with_glossary] = system.teacher(overrides, request.glossary)  # finds mistakes before any request
    yield from teachers.items()


def _translate(translator: _Translator, description: str, lines: Sequence[str], variation: str = "") -> list[str]:
    """The translations of the lines, with a progress bar."""
    with line_bar(f"{description}, {variation}" if variation else description, len(lines)) as bar:
        translator.on_lines = bar.update
        try:
            return translator.translate(lines)
        except BaseException:
            if not isinstance(translator, Translator):
                translator.log_used()
            raise


def _log_counts(translator: _Translator) -> None:
    if isinstance(translator, Translator):
        log_counts(translator.counts, translator.longest_part)
    else:
        translator.log_counts()


def _details(
    request: EvaluateRequest,
    source: AlignedText | None,
    systems: Sequence[AlignedText],
    references: Sequence[AlignedText],
    languages: LanguagePair,
    translated: Sequence[_Translated],
) -> Details:
    language = languages.target
    measured = [] if source is None else [(source, languages.source)]
    measured.append((references[0], language))
    arguments = (systems, references, language, request.tokenizer)
    counted_in = ", ".join(map(str, request.training_texts)) or references[0].name
    text: Iterable[str] = references[0].lines
    if request.training_texts:
        text = chain.from_iterable(map(read_lines, request.training_texts))
        text = tqdm(text, "counting words", unit=" lines", disable=None, leave=False, delay=2)
    worst, changed = example_sentences(source, *arguments, count=request.sentences)
    return Details(
        lengths=[breakdowns.by_length(text, its_language, *arguments) for text, its_language in measured],
        frequencies=breakdowns.by_frequency(counted_in, text, systems, references[0], language, request.tokenizer),
        worst=worst,
        changed=changed,
        confidence={one.text.name: one.reliability for one in translated if one.reliability},
    )
