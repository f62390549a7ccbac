"""The section `data` of a run's settings; see nmt.config.sections."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import Literal

from nmt.config.cleaning_section import CleaningConfig as CleaningConfig
from nmt.config.cleaning_section import ScoreBounds, ScoreColumn
from nmt.config.declaration import free_setting, required, section, setting
from nmt.config.declaration import text_setting as text_setting
from nmt.config.language_pairs import LanguagePair, LanguagePairs, LanguageTags
from nmt.config.special_subwords import TERM_TAGS

# The location of a corpus's text. Keys contain a hash of the text instead, so that the text may be moved.
content_setting = partial(setting, None, affects="text", by_content=True)
mix_setting = partial(setting, affects=("vocabulary", "order"))
subword_setting = partial(setting, affects=("vocabulary", "tokens"))

# The endings of a file with both sides of a corpus, before the ending of its compression.
FILE_ENDINGS = (".tmx", ".tsv", ".csv", ".jsonl", ".parquet")

# In subwords. Up to this length, length penalties and scores are finite in float32 for every allowed α.
LONGEST_OUTPUT = 1_000_000


@dataclass(frozen=True)
class Corpus:
    """An entry of `data.train`, or `data.validation`: two text files (`source` and `target`), one table or
    translation memory (`file`), a Hugging Face dataset (`hub`), a corpus of OPUS (`opus`), or, for validation, a test
    set of sacreBLEU (`sacrebleu`).

        {source: train.en, target: train.de}
        {file: train.tsv.gz, source_column: "2", target_column: "3"}
        {file: memory.tmx, target_column: de-AT}
        {hub: wmt/wmt14, name: de-en}
        {opus: Tatoeba, version: latest}
        {source: train.en, target: train.fr, languages: [en, fr]}
        {source: train.en, target: train.fr, languages: [en, fr], reversed: true}

    Text files, .tsv, .csv, .jsonl and .tmx may be compressed with gzip, xz, bzip2 or Zstandard.

    Columns are named by dotted paths: `translation.en` finds `{translation: {en: …}}`. In a .tsv or .csv file they are
    numbered from 1, or named as in the first line. For a .tmx file, OPUS and sacreBLEU they are language codes."""

    source: str | None = content_setting("text file of source sentences, one per line", path=True)
    target: str | None = content_setting("text file of target sentences, aligned with `source`", path=True)
    file: str | None = content_setting(
        "file of both sides: .tsv, .csv, .jsonl, .parquet, or .tmx (a translation memory)", path=True
    )
    hub: str | None = content_setting("dataset on the Hugging Face hub, or a local folder in its formats", path=True)
    name: str | None = content_setting(
        "its name in reports and `data.stages`; with `hub`: the dataset's configuration, such as `de-en`"
    )
    split: str | None = content_setting("with `hub`: the split; `train` for training corpora, `validation` otherwise")
    revision: str | None = content_setting("with `hub`: branch, tag or commit")
    streaming: bool = free_setting(False, "with `hub`: read it once during preparation instead of downloading it")
    opus: str | None = content_setting("corpus of OPUS (opus.nlpl.eu), such as `Tatoeba`; it is downloaded")
    version: str | None = content_setting("with `opus`: version, such as `v2023-04-12`; null or `latest`: the newest")
    sacrebleu: str | None = content_setting("for validation: a test set that sacreBLEU downloads, such as `wmt14/full`")
    source_column: str | None = content_setting(
        "column of the source; null: `translation.en`, `en` (the language) or `source`; in .tsv without headings "
        "`1`; in .tmx a language code, such as `en-GB`; null: `en` or the first `en-…`",
    )
    target_column: str | None = content_setting(
        "column of the target; null: `translation.de`, `de` (the language) or `target`; in .tsv without headings "
        "`2`; in .tmx a language code, such as `de-AT`; null: `de` or the first `de-…`",
    )

    invalid: Literal["error", "drop"] = setting(
        "error", "what happens at lines that are not UTF-8: stop, or drop their pairs", affects="text", by_content=True
    )
    languages: tuple[str, str] | None = text_setting(
        None, "languages, such as `[en, fr]`; null: `data.source_language` and `data.target_language`"
    )
    reversed: bool = text_setting(
        False, "exchange the sides: `{source: a.en, target: a.de, reversed: true}` is German to English"
    )
    tag: str | None = subword_setting(
        None, "token before each source, such as `<bt>` for back-translated text; no text can produce it"
    )
    weight: float | None = mix_setting(
        None, "its share of the training pairs, relative to other corpora; null: by size", above=0
    )
    scores: str | Mapping[str, str | ScoreColumn] | None = content_setting(
        "scores of the pairs by name, `{kiwi: web.kiwi, mx: {column: 3}}`: a file with a line for each pair (the last "
        "column counts), or a column of the table; for `data.clean.score`: a file that `nmt score` wrote",
        path=True,
    )

    @property
    def is_file(self) -> bool:
        """Whether its text is in files that the settings name; other corpora are downloaded."""
        return self.source is not None or self.file is not None

    @property
    def named_scores(self) -> Mapping[str, str | ScoreColumn]:
        """Where the scores of the pairs are, by name. A file alone has the name `score`."""
        return {"score": self.scores} if isinstance(self.scores, str) else self.scores or {}

    @property
    def own_name(self) -> str | None:
        """The name that the user gave it. (For a hub dataset, `name` is a part of the dataset's name.)"""
        return None if self.hub else self.name

    @property
    def label(self) -> str:
        """Its name in reports, messages and data.stages: its own name, or else the origin of its text."""
        if self.own_name:
            return self.own_name
        if self.hub:
            origin = "/".join(part for part in (self.hub, self.name, self.split) if part)
        elif self.opus:
            origin = "/".join(part for part in ("opus", self.opus, self.version) if part)
        elif self.sacrebleu:
            origin = f"sacrebleu/{self.sacrebleu}"
        else:
            origin = self.file or f"{self.source} + {self.target}"
        return f"{origin}, reversed" if self.reversed else origin

    @property
    def name_without_folders(self) -> str:
        """Its label without the folders of its files, which nobody else needs to know."""
        names = [PurePath(file).name for file in (self.file, self.source, self.target) if file]
        return self.own_name or " + ".join(names) or self.label


@dataclass(frozen=True)
class Stage:
    """An entry of `data.stages`: a mix of the corpora, by their names, and when it ends.

        {weights: {europarl: 1, crawled: 3}, steps: 20000}
        {weights: {europarl: 1, crawled: 1}, passes: {europarl: 2}}
        {temperature: 5, steps: 10000}
        {weights: {europarl: 1}}

    Without weights and temperature, corpora are mixed by size. Every stage except the last ends after `steps` or
    `passes`, counted from its beginning. The last stage lasts until the end of training."""

    weights: Mapping[str, float] | None = mix_setting(
        None, "share of each corpus, by its name, relative to the others; corpora that are not named are not used",
        at_least=0,
    )  # fmt: skip
    temperature: float | None = mix_setting(None, "instead of weights: as `data.temperature`", at_least=1)
    steps: int | None = setting(None, "the stage ends after this many optimizer steps", at_least=1, affects="order")
    passes: Mapping[str, float] | None = setting(
        None, "the stage ends after this many passes over a corpus, such as `{europarl: 2}`", above=0, affects="order"
    )


Sides = Literal["both", "source"]


@dataclass(frozen=True)
class Variation:
    """A setting of `data.augment` that also says which sides it changes:

        uppercase: {rate: 0.05, sides: source}

    A number alone is the rate, for both sides."""

    rate: float = subword_setting(0.0, "share of the training pairs", at_least=0, at_most=1)
    sides: Sides = subword_setting("both", "the sides that are changed: both, or the source alone")


@dataclass(frozen=True)
class MarkedTerms:
    """The setting `data.augment.terms` with a glossary:

        terms: {share: 0.1, file: terms.tsv}

    A number alone is the share. The terms are then words of the training text."""

    share: float = subword_setting(0.0, "share of the training pairs", at_least=0, at_most=1)
    file: str | None = setting(
        None, "glossary (`source term TAB target term`); null: words that the training text translates consistently",
        affects=("vocabulary", "tokens"), by_content=True, path=True,
    )  # fmt: skip


@dataclass(frozen=True)
class AugmentConfig:
    uppercase: float | Variation = subword_setting(0.0, "IN CAPITALS, in scripts with case", at_least=0, at_most=1)
    titlecase: float | Variation = subword_setting(0.0, "Every Word With A Capital", at_least=0, at_most=1)
    lowercase: float | Variation = subword_setting(0.0, "in lower case", at_least=0, at_most=1)
    remove_end_punctuation: float | Variation = subword_setting(
        0.0, "without the full stop, question mark or exclamation mark at the end", at_least=0, at_most=1
    )
    typos: float = subword_setting(0.0, "typing errors in the source: about one in ten words", at_least=0, at_most=1)
    noise: float = subword_setting(
        0.0, "symbols, emoji, URLs, e-mail addresses or numbers on both sides, beside or instead of the sentence",
        at_least=0, at_most=1,
    )  # fmt: skip
    inline_tags: float = subword_setting(
        0.0, "markup such as `<b>…</b>`, or a placeholder such as `{0}`, the same on both sides", at_least=0, at_most=1
    )
    joined: float = setting(
        0.0, "joined with the one to three pairs after it, up to `max_length`: text of several sentences",
        at_least=0, at_most=1, affects="tokens"
    )  # fmt: skip
    copied_names: float = subword_setting(
        0.0, "names, numbers, URLs and the like that both sides have: replaced by random ones", at_least=0, at_most=1
    )
    terms: float | MarkedTerms = subword_setting(
        0.0, "terms with their translation after them, between two tags: so a model learns to use a glossary",
        at_least=0, at_most=1,
    )  # fmt: skip

    @property
    def changes_text(self) -> bool:
        """Whether there is a share above 0."""
        return self != AugmentConfig()

    @property
    def marked_terms(self) -> MarkedTerms:
        """`terms` with its file."""
        return self.terms if isinstance(self.terms, MarkedTerms) else MarkedTerms(self.terms)


@dataclass(frozen=True)
class DataConfig:
    source_language: str = required(
        "code of the language to translate from, such as `en`; for each corpus without its own `languages`",
        affects="text",
    )
    target_language: str = required("language to translate into, such as `de`; see source_language", affects="text")
    train: tuple[Corpus, ...] = required("the corpora to train on", affects=("text", "vocabulary", "tokens", "order"))
    temperature: float | None = mix_setting(
        None,
        "weight of each corpus (with several language pairs: of each language pair) = its number of pairs ^ "
        "(1 / temperature); 1: by size, as null; 100: nearly equal",
        at_least=1,
    )
    language_tags: LanguageTags = subword_setting(
        "target",
        "tokens that name languages, with several language pairs; `target`: `<2de>` before each source; `both`: "
        "`<en> <2de>`; `target_always`: as `target`, also with one pair; `sides`: `<en>` before each source and `<de>` "
        "before each target, also with one pair",
    )
    validation: tuple[Corpus, ...] | Corpus | None = setting(
        None,
        "held-out corpus that decides which checkpoint is the best, or a list of several; null: none",
        affects="score",
        by_content=True,
    )
    license: str | None = free_setting(
        None, "license of the training text, such as `cc-by-4.0`, for the model card of exports; null: not stated"
    )
    stages: tuple[Stage, ...] = mix_setting(
        (), "curriculum: mixes that are used one after the other, such as noisy text first; see [Stage](#stage)"
    )
    validation_in_training: Literal["error", "warn"] = free_setting(
        "error", "over 1% (and over 10) of the validation pairs are training pairs too: stop, or only warn"
    )
    store_dir: str | None = free_setting(
        None, "folder of prepared data; runs can share it; null: `RUN/data`", path=True
    )
    max_length: int = setting(
        256,
        "drop training pairs with more subwords than this on a side",
        at_least=1,
        at_most=LONGEST_OUTPUT // 10,
        affects="tokens",
    )
    max_length_ratio: float | None = setting(
        9.0,
        "drop training pairs whose sides differ by more than this factor in subwords; null: keep",
        at_least=1,
        affects="tokens",
    )
    drop_duplicates: bool = text_setting(
        False,
        "deduplication: drop pairs that equal an earlier one, apart from spaces, NFC and invisible characters",
    )
    drop_copies: bool = text_setting(False, "drop training pairs whose source equals their target")
    clean: CleaningConfig | None = text_setting(
        None,
        "rules that drop pairs with faults, such as a wrong language or HTML; `{}`: all with defaults; null: none",
    )
    augment: AugmentConfig = section(
        AugmentConfig,
        "Data augmentation: the share of the training pairs that each kind changes; other pairs in each epoch.",
    )
    over_budget: Literal["skip", "error"] = free_setting(
        "skip", "a pair larger than a batch: skip it and count it, or stop"
    )
    pool_pairs: int = setting(
        1_000_000, "number of pairs that are shuffled and sorted by length together", at_least=1, affects="order"
    )
    workers: int | None = free_setting(
        None,
        "processes that encode text and apply the rules of `clean`; null: one per core",
        at_least=1,
        at_most=1024,
    )
    prefetch: int = free_setting(8, "batches that are prepared ahead of training", at_least=1, at_most=1000)

    @property
    def held_out(self) -> tuple[Corpus, ...]:
        """The corpora to validate on."""
        if isinstance(self.validation, Corpus):
            return (self.validation,)
        return self.validation or ()

    @property
    def held_out_names(self) -> tuple[str, ...]:
        """The name of each validation set: its own name, or its languages if they are unique, or its label."""
        pairs = [str(self.pair_of(corpus)) for corpus in self.held_out]
        return tuple(
            corpus.own_name or (pair if pairs.count(pair) == 1 else corpus.label)
            for corpus, pair in zip(self.held_out, pairs, strict=True)
        )

    def pair_of(self, corpus: Corpus) -> LanguagePair:
        """The languages that a corpus is translated from and into."""
        pair = LanguagePair(*(corpus.languages or (self.source_language, self.target_language)))
        return LanguagePair(pair.target, pair.source) if corpus.reversed else pair

    @property
    def choosing_score(self) -> tuple[str, int] | None:
        """The score by which `clean.same_source` and `same_target` choose: its name, and 1 if a higher one is better or
        -1 if a lower one is. None: they take the first pairs, or are not used."""
        if self.clean is None or not (self.clean.same_source or self.clean.same_target):
            return None
        bounds = self.clean.scores or {}
        names = [*bounds, *(name for corpus in self.train for name in corpus.named_scores)]
        return (names[0], bounds.get(names[0], ScoreBounds()).sign) if names else None

    @property
    def language_pairs(self) -> LanguagePairs:
        """The language pairs of the training corpora."""
        return LanguagePairs.from_pairs(map(self.pair_of, self.train), self.language_tags)

    def with_languages_of(self, corpus: Corpus) -> "DataConfig":
        """The settings with the languages of a corpus instead of the common languages. Columns are found by them."""
        if corpus.languages is None:
            return self
        source, target = corpus.languages
        return replace(self, source_language=source, target_language=target)

    def tags_of(self, corpora: tuple[Corpus, ...], side: int = 0) -> list[tuple[str, ...]]:
        """The tokens before each source (side 0) or each target (side 1) of these corpora: the tokens of the languages,
        then the token of the corpus."""
        pairs = self.language_pairs
        own = [(corpus.tag,) if corpus.tag and not side else () for corpus in corpora]
        return [pairs.tags(self.pair_of(corpus), side) + tag for corpus, tag in zip(corpora, own, strict=True)]

    def tags(self, sides: Iterable[int]) -> tuple[str, ...]:
        """The tokens of these sides of all training corpora, sorted."""
        tags = set[str]()
        for side in sides:
            tags.update(TERM_TAGS if self.augment.marked_terms.share and not side else ())
            tags.update(*self.tags_of(self.train, side))
        return tuple(sorted(tags))
