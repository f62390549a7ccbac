"""An English-German parallel corpus from a small grammar, with exact references: text to try nmt with.

The German has what word-by-word translation cannot give: gender, cases, adjective endings, the verb in second or last
place, separable verbs, the unit before the ten, `halb vier` for `half past three`. Each sentence has one translation:
the simple past becomes the perfect; definite objects stand before the time, others after it.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from nmt.errors import NmtError
from nmt.files import atomic

SIZES = {"train": 40_000, "validation": 500, "test": 500}  # pairs


class Phrase(NamedTuple):  # the same text in English and German
    en: str
    de: str


class Noun(NamedTuple):
    en: str
    en_plural: str
    gender: str  # m, f or n
    de: str
    de_plural: str
    oblique: str = ""  # weak nouns only: accusative and dative singular (der Junge, den Jungen)


class Verb(NamedTuple):
    kind: str  # what stands with it
    en: str
    en_past: str
    de: str  # the infinitive without a separable prefix; also the plural form
    de_s: str
    participle: str
    prefix: str = ""
    be: str = ""  # its perfect: ist gegangen, but hat gekauft


def rows(kind: Any, table: str, *first: Any) -> list[Any]:
    """Rows end at a semicolon, fields at a space; `_` is a space inside a field, `-` an empty field."""
    fields = ([field.replace("_", " ").removeprefix("-") for field in row.split()] for row in table.split(";"))
    return [kind(*first, *row) for row in fields]


PEOPLE = rows(Noun, """man men m Mann Männer; woman women f Frau Frauen; child children n Kind Kinder; boy boys m
    Junge Jungen Jungen; teacher teachers m Lehrer Lehrer; doctor doctors m Arzt Ärzte""")  # fmt: skip
THINGS = rows(Noun, """table tables m Tisch Tische; lamp lamps f Lampe Lampen; car cars n Auto Autos; jacket jackets f
    Jacke Jacken; book books n Buch Bücher; dog dogs m Hund Hunde; apple apples m Apfel Äpfel""")  # fmt: skip
PLACES = rows(Noun, "hotel hotels n Hotel Hotels; garden gardens m Garten Gärten; school schools f Schule Schulen")
ADJECTIVES = rows(Phrase, "old alt; young jung; famous berühmt; beautiful schön; big groß; small klein; cheap billig")
VERBS = [
    *rows(Verb, """buy bought kaufen kauft gekauft; sell sold verkaufen verkauft verkauft; look_for looked_for suchen
        sucht gesucht; find found finden findet gefunden""", "thing"),
    *rows(Verb, """visit visited besuchen besucht besucht; call called rufen ruft angerufen an; invite invited laden
        lädt eingeladen ein; pick_up picked_up holen holt abgeholt ab""", "person"),
    *rows(Verb, """work worked arbeiten arbeitet gearbeitet; wait waited warten wartet gewartet; sing sang singen singt
        gesungen; sleep slept schlafen schläft geschlafen; dance danced tanzen tanzt getanzt""", "place"),
    *rows(Verb, "come came kommen kommt gekommen - ist", "into"),
    *rows(Verb, "get_up got_up stehen steht aufgestanden auf ist; depart departed fahren fährt abgefahren ab ist", ""),
]  # fmt: skip
AUXILIARIES = {"will": "werde wird werden", "can": "kann kann können", "must": "muss muss müssen"}
FIRST, THIRD, PLURAL = range(3)  # grammatical persons: the columns of the verb forms
HAVE, BE = ("habe", "hat", "haben"), ("bin", "ist", "sind")
SUBJECTS = [(Phrase("I", "ich"), FIRST), (Phrase("he", "er"), THIRD), (Phrase("they", "sie"), PLURAL)]
SUBJECTS += [(Phrase(name, name), THIRD) for name in ("Anna", "Maria", "Thomas", "Peter")]
TIMES = {
    "past": rows(Phrase, "yesterday gestern; last_week letzte_Woche; yesterday_evening gestern_Abend"),
    "present": rows(Phrase, "today heute; every_day jeden_Tag; this_evening heute_Abend"),
    "future": rows(Phrase, "tomorrow morgen; next_week nächste_Woche; soon bald"),
}
CONJUNCTIONS = rows(Phrase, "because weil; although obwohl; if wenn; while während")
TENS = rows(Phrase, """- -; - -; twenty zwanzig; thirty dreißig; forty vierzig; fifty fünfzig; sixty sechzig; seventy
    siebzig; eighty achtzig; ninety neunzig""")  # fmt: skip
SMALL = rows(Phrase, """zero null; one eins; two zwei; three drei; four vier; five fünf; six sechs; seven sieben; eight
    acht; nine neun; ten zehn; eleven elf; twelve zwölf; thirteen dreizehn; fourteen vierzehn; fifteen fünfzehn; sixteen
    sechzehn; seventeen siebzehn; eighteen achtzehn; nineteen neunzehn""")  # fmt: skip
# From o'clock on, every five minutes; German looks to the coming half hour. h: the hour; n: the next one.
CLOCK = rows(Phrase, """{h}_o'clock {h}_Uhr; five_past_{h} fünf_nach_{h}; ten_past_{h} zehn_nach_{h}; quarter_past_{h}
    Viertel_nach_{h}; twenty_past_{h} zwanzig_nach_{h}; twenty-five_past_{h} fünf_vor_halb_{n}; half_past_{h} halb_{n};
    twenty-five_to_{n} fünf_nach_halb_{n}; twenty_to_{n} zwanzig_vor_{n}; quarter_to_{n} Viertel_vor_{n}; ten_to_{n}
    zehn_vor_{n}; five_to_{n} fünf_vor_{n}""")  # fmt: skip
EINS = re.compile("eins$")  # becomes `ein` before what it counts
NOTHING, THE, A, MY, OUR = rows(Phrase, "- -; the der; a ein; my mein; our unser")
DEFINITE = (THE, MY, OUR)
# By case, for masculine, feminine, neuter and plural: the article and the ending of an adjective after it; the ending
# of `ein` and `mein`, and of an adjective after these; the ending of an adjective alone.
ENDINGS = {
    "nom": ("der die das die", "e e e en", "- e - e", "er e es en", "er e es e"),
    "acc": ("den die das die", "en e e en", "en e - e", "en e es en", "en e es e"),
    "dat": ("dem der dem den", "en en en en", "em er em en", "en en en en", "em er em en"),
}


def join(*parts: str) -> str:
    return " ".join(filter(None, parts))


def number(n: int) -> Phrase:
    """0 to 999,999: `three hundred and forty-two thousand and one`, `dreihundertzweiundvierzigtausendeins`."""
    if n < 20 or (n < 100 and n % 10 == 0):
        return SMALL[n] if n < 20 else TENS[n // 10]
    if n < 100:
        unit, ten = number(n % 10), TENS[n // 10]
        return Phrase(f"{ten.en}-{unit.en}", f"{EINS.sub('ein', unit.de)}und{ten.de}")
    size, word, german = (1000, "thousand", "tausend") if n >= 1000 else (100, "hundred", "hundert")
    head, rest = number(n // size), number(n % size) if n % size else NOTHING
    return Phrase(
        join(head.en, word, "and" * (0 < n % size < 100), rest.en), EINS.sub("ein", head.de) + german + rest.de
    )


def clock(mark: int) -> Phrase:
    """The time at one of the 144 marks of five minutes from one o'clock on."""
    hour, told = mark // 12 + 1, CLOCK[mark % 12]
    now, coming = number(hour), number(hour % 12 + 1)
    german = now.de if mark % 12 else EINS.sub("ein", now.de)
    return Phrase(told.en.format(h=now.en, n=coming.en), told.de.format(h=german, n=coming.de))


class NounPhrase(NamedTuple):
    determiner: Phrase
    noun: Noun
    adjective: Phrase = NOTHING
    plural: bool = False

    @property
    def en(self) -> str:
        words = join(self.adjective.en, self.noun.en_plural if self.plural else self.noun.en)
        return join("an" if self.determiner == A and words[0] in "aeiou" else self.determiner.en, words)

    def de(self, case: str) -> str:
        """Decline the phrase: nom, acc or dat."""
        column = 3 if self.plural else "mfn".index(self.noun.gender)
        the, after_the, of_ein, after_ein, alone = (endings.split()[column].strip("-") for endings in ENDINGS[case])
        forms = {THE: (the, after_the), NOTHING: ("", alone)}
        article, ending = forms.get(self.determiner, (self.determiner.de + of_ein, after_ein))
        noun = self.noun.de if case == "nom" else self.noun.oblique or self.noun.de
        if self.plural:
            noun = self.noun.de_plural + "n" * (case == "dat" and self.noun.de_plural[-1] not in "ns")
        return join(article, self.adjective.de and self.adjective.de + ending, noun)


class Clause(NamedTuple):
    subject: Phrase
    person: int
    verb: Verb
    tense: str  # present, past or one of AUXILIARIES
    negated: bool = False
    thing: NounPhrase | None = None  # the accusative object
    time: Phrase = NOTHING
    adjunct: Phrase = NOTHING

    def en(self, *, question: bool = False) -> str:
        verb, third = self.verb.en, self.person == THIRD
        auxiliary = {"past": "did", "present": "does" if third else "do"}.get(self.tense, self.tense)
        predicate = join(auxiliary, "not" * self.negated, verb).replace("can not", "cannot")
        if self.tense not in AUXILIARIES and not self.negated:
            head, _, particle = verb.partition(" ")
            present = join(f"{head}s", particle) if third else verb
            predicate = self.verb.en_past if self.tense == "past" else present
        start = (auxiliary, self.subject.en, verb) if question else (self.subject.en, predicate)
        return join(*start, self.thing.en if self.thing else "", self.adjunct.en, self.time.en)

    def de(self, order: str = "second") -> str:
        """The clause with its verb in `second` place, `first` (after anything fronted) or `last`."""
        finite, closing = (self.verb.de[:-1], self.verb.de_s, self.verb.de)[self.person], self.verb.prefix
        if self.tense in AUXILIARIES:
            finite, closing = AUXILIARIES[self.tense].split()[self.person], self.verb.prefix + self.verb.de
        elif self.tense == "past":
            finite, closing = (BE if self.verb.be else HAVE)[self.person], self.verb.participle
        thing, negation = self.thing.de("acc") if self.thing else "", "nicht" * self.negated
        definite = self.thing is not None and self.thing.determiner in DEFINITE
        timed = (thing, self.time.de, negation) if definite else (self.time.de, negation, thing)
        if order == "last":  # aufmacht, aufgemacht hat
            return join(self.subject.de, *timed, self.adjunct.de, closing + " " * (self.tense != "present") + finite)
        start = (self.subject.de, finite) if order == "second" else (finite, self.subject.de)
        return join(*start, *timed, self.adjunct.de, closing)


class Dice(random.Random):
    """Draws made of `random()` alone, the one method whose numbers Python promises never to change."""

    def pick(self, items: Sequence[Any]) -> Any:
        return items[int(self.random() * len(items))]

    def between(self, low: int, high: int) -> int:
        return low + int(self.random() * (high - low + 1))

    def noun(self, nouns: list[Noun], *, definite: bool = False, plural: float = 0.25) -> NounPhrase:
        many, determiner = self.random() < plural, self.pick(DEFINITE if definite else (*DEFINITE, A, A))
        adjective = self.pick(ADJECTIVES) if self.random() < 0.4 else NOTHING
        return NounPhrase(NOTHING if many and determiner == A else determiner, self.pick(nouns), adjective, many)

    def subject(self) -> tuple[Phrase, int]:
        noun = self.noun(PEOPLE, definite=True)
        people = Phrase(noun.en, noun.de("nom")), PLURAL if noun.plural else THIRD
        return people if self.random() < 0.4 else self.pick(SUBJECTS)

    def time(self, tense: str) -> Phrase:
        at, about = clock(self.between(0, 143)), self.pick(TIMES.get(tense, TIMES["future"]))
        return self.pick((about, Phrase(f"at {at.en}", f"um {at.de}")))

    def adjunct(self, kind: str) -> Phrase:
        """`into the garden` (in den Garten); for `place`: `in the garden` (im Garten), or company, or nothing."""
        place, company = self.noun(PLACES, plural=0), self.noun(PEOPLE, definite=True)
        german = f"in {place.de('acc' if kind == 'into' else 'dat')}".replace("in dem", "im").replace("in das", "ins")
        there = Phrase(f"{'into' if kind == 'into' else 'in'} {place.en}", german)
        anywhere = self.pick((there, NOTHING, Phrase(f"with {company.en}", f"mit {company.de('dat')}")))
        return {"into": there, "place": anywhere}.get(kind, NOTHING)

    def clause(self, tense: str = "", time: float = 0.7) -> Clause:
        """A clause; `time` is the chance that it says when."""
        verb, tense = self.pick(VERBS), tense or self.pick(("present", "past", "past", *AUXILIARIES))
        objects = {"thing": THINGS, "person": PEOPLE}.get(verb.kind)
        thing = self.noun(objects) if objects else None
        # `must not` forbids, but `muss nicht` does not; and a negated `ein` would be `kein`.
        negated = self.random() < 0.25 and tense != "must" and (not thing or thing.determiner in DEFINITE)
        when = self.time(tense) if self.random() < time else NOTHING
        return Clause(*self.subject(), verb, tense, negated, thing, when, self.adjunct(verb.kind))

    def statement(self) -> tuple[str, str]:
        """A question, or a main clause, its time sometimes in front: `Tomorrow, Anna will` (`Morgen wird Anna`)."""
        clause, roll = self.clause(), self.random()
        if roll < 0.25:
            return clause.en(question=True) + "?", clause._replace(negated=False).de("first") + "?"
        if roll < 0.6 and clause.time != NOTHING:
            rest = clause._replace(time=NOTHING)
            return f"{clause.time.en}, {rest.en()}", f"{clause.time.de} {rest.de('first')}"
        return clause.en(), clause.de()

    def two_clauses(self) -> tuple[str, str]:
        """A main clause and a subordinate one, whose verb comes last: `Anna singt, weil sie ... hat.`"""
        word, tense = self.pick(CONJUNCTIONS), self.pick(("present", "past"))
        main, under = self.clause(tense, 0.2), self.clause(tense, 0.2)
        english, german = f"{word.en} {under.en()}", f"{word.de} {under.de('last')}"
        if self.random() < 0.6:
            return f"{main.en()} {english}", f"{main.de()}, {german}"
        return f"{english}, {main.en()}", f"{german}, {main.de('first')}"

    def short(self) -> Phrase:
        """A number, price or time."""
        value, time = self.between(0, 10 ** self.between(1, 6) - 1), clock(self.between(0, 143))
        euros, cents = number(self.between(2, 99)), number(self.between(2, 99))
        price = Phrase(f"{euros.en} euros and {cents.en} cents", f"{euros.de} Euro und {cents.de} Cent")
        return self.pick((number(value), price, Phrase(f"it is {time.en}", f"es ist {time.de}")))


def pairs(seed: int, most: int = 1) -> Iterator[Phrase]:
    """Pairs of 1 to `most` sentences of at most 16 English words, without end, none twice on either side."""
    dice, seen = Dice(seed), set[str]()
    while True:
        count, drawn = dice.between(1, most), list[tuple[str, ...]]()
        while len(drawn) < count:
            pair = dice.pick((dice.statement, dice.statement, dice.two_clauses, dice.short))()
            if len(pair[0].split()) <= 16:
                drawn.append(tuple(text[0].upper() + text[1:] + "." * (text[-1] != "?") for text in pair))
        line = Phrase(*map(" ".join, zip(*drawn, strict=True)))
        if seen.isdisjoint(line):
            seen.update(line)
            yield line


def write(folder: Path, sizes: Mapping[str, int] = SIZES, seed: int = 1, sentences: int = 1) -> None:
    """Write `train.en`, `train.de` and so on into a folder, with so many pairs of 1 to `sentences` sentences. A file
    that is there already stays if it is the same.

    Raises NmtError for a file with other content, before any is written, and where they cannot be written."""
    drawn, order = list(islice(pairs(seed, sentences), sum(sizes.values()))), Dice(seed)
    # Shuffled, because short sentences become rare: the last pairs drawn differ from the first.
    drawn.sort(key=lambda _: order.random())
    rest, files = iter(drawn), dict[Path, bytes]()
    for split, size in sizes.items():
        for language, lines in zip(("en", "de"), zip(*islice(rest, size), strict=True), strict=True):
            files[folder / f"{split}.{language}"] = "".join(f"{line}\n" for line in lines).encode()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            if path.exists() and path.read_bytes() != content:
                raise NmtError(f"{path}: exists with other content: move it away, or work in another folder")
        for path, content in files.items():
            if not path.exists():
                with atomic.replacing(path) as unfinished:
                    unfinished.write_bytes(content)
    except OSError as error:
        raise NmtError(f"{folder}: the demo corpus cannot be written: {error.strerror}") from None
