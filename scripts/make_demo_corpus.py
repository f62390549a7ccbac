"""Write an English-German parallel corpus from a small grammar, with exact references.

    python scripts/make_demo_corpus.py OUTPUT_DIR [--train 40000] [--validation 500] [--test 500] [--seed 1]
                                                  [--sentences 1]

The grammar generates both sides of a pair together. The German therefore has what word-by-word translation cannot give:
gender, case and adjective endings, the verb in second or last place, separable verbs, numbers with the unit before the
ten, clock times (`half past three` is `halb vier`), dates and prices.

Each English sentence has exactly one German translation, by these conventions: English numbers are British (`one
thousand and one`); German numbers always begin with a one (`eintausendeins`); the simple past becomes the German
perfect; definite objects stand before the time (`verkauft das Auto heute`), others after it (`verkauft heute ein
Auto`); "his", "her" and "their" always refer to the subject.
"""

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import islice
from pathlib import Path
from typing import NamedTuple, NoReturn, TypeVar

from nmt.files import atomic

T = TypeVar("T")


class Phrase(NamedTuple):
    """The same text in English and German."""

    en: str
    de: str


class Noun(NamedTuple):
    kind: str  # decides which verbs may stand with it
    adjectives: str  # those that may describe it
    en: str
    en_plural: str
    gender: str  # m, f or n
    de: str
    de_plural: str
    oblique: str = ""  # weak nouns only: accusative and dative singular (der Junge, den Jungen)


class Frame(NamedTuple):
    """What stands with a verb; kinds of noun are separated by spaces."""

    objects: str = ""  # the kinds of its accusative object
    recipient: bool = False  # a person in the dative
    adjunct: str = "place"  # place, free (of several sorts), city, into (a place), amount, payment, none
    subjects: str = "people"  # or the kinds of its subject
    be: bool = False  # its perfect: ist gegangen, but hat gekauft


class Verb(NamedTuple):
    frame: Frame
    en: str
    en_past: str
    de: str  # the infinitive without a separable prefix; also the plural form
    de_s: str
    participle: str
    prefix: str = ""

    @property
    def en_s(self) -> str:
        head, *particle = self.en.split()
        return " ".join([head + ("es" if head.endswith("o") else "s"), *particle])


# ---- Tables. Rows end at a semicolon, fields at a space; `_` is a space inside a field -----------------


def rows(table: str) -> list[list[str]]:
    return [[field.replace("_", " ") for field in row.split()] for row in table.split(";")]


def phrases(table: str) -> list[Phrase]:
    return [Phrase(*row) for row in rows(table)]


# The adjectives that fit a kind of noun, a colon, the nouns: English singular and plural, gender, German
# singular and plural (and the oblique form of weak nouns).
NOUN_TABLE = {
    "adult": """old young friendly famous rich sick: man men m Mann Männer; woman women f Frau Frauen;
        teacher teachers m Lehrer Lehrer; doctor doctors m Arzt Ärzte;
        student students m Student Studenten Studenten""",
    "child": """small friendly sick: child children n Kind Kinder; girl girls n Mädchen Mädchen;
        boy boys m Junge Jungen Jungen""",
    "relative": """old young friendly famous rich sick: brother brothers m Bruder Brüder;
        sister sisters f Schwester Schwestern; aunt aunts f Tante Tanten; uncle uncles m Onkel Onkel;
        daughter daughters f Tochter Töchter; neighbour neighbours m Nachbar Nachbarn Nachbarn""",
    "thing": """old new big small beautiful cheap red blue black: table tables m Tisch Tische;
        lamp lamps f Lampe Lampen; radio radios n Radio Radios; car cars n Auto Autos;
        bicycle bicycles n Fahrrad Fahrräder; box boxes f Kiste Kisten""",
    "clothes": """old new big small beautiful cheap red blue black: coat coats m Mantel Mäntel;
        shirt shirts n Hemd Hemden; jacket jackets f Jacke Jacken; hat hats m Hut Hüte;
        scarf scarves m Schal Schals""",
    "text": """new long short: book books n Buch Bücher; letter letters m Brief Briefe;
        report reports m Bericht Berichte""",
    "food": """big small fresh sweet cheap: apple apples m Apfel Äpfel; pear pears f Birne Birnen;
        cake cakes m Kuchen Kuchen""",
    "animal": """old young friendly sick big small beautiful black: dog dogs m Hund Hunde;
        cat cats f Katze Katzen; horse horses n Pferd Pferde""",
    "home": "old new big small beautiful: house houses n Haus Häuser; garden gardens m Garten Gärten",
    "place": """old new big small beautiful: hotel hotels n Hotel Hotels; museum museums n Museum Museen;
        school schools f Schule Schulen; shop shops m Laden Läden""",
    "event": """long short: film films m Film Filme; concert concerts n Konzert Konzerte;
        meeting meetings f Sitzung Sitzungen""",
    "vehicle": "old big small: train trains m Zug Züge; bus buses m Bus Busse; ship ships n Schiff Schiffe",
    "counted": """: day days m Tag Tage; week weeks f Woche Wochen; month months m Monat Monate;
        year years n Jahr Jahre; hour hours f Stunde Stunden; inhabitant inhabitants m Einwohner Einwohner""",
}
NOUNS = {
    kind: [Noun(kind, adjectives, *row) for row in rows(nouns)]
    for kind, (adjectives, _, nouns) in ((kind, table.partition(":")) for kind, table in NOUN_TABLE.items())
}
*SPANS, HOUR, INHABITANT = NOUNS.pop("counted")
PEOPLE, GOODS = "adult child relative", "thing clothes text food animal"
ADJECTIVES = dict(
    phrases("""old alt; new neu; big groß; small klein; beautiful schön; cheap billig; red rot; blue blau;
        black schwarz; fresh frisch; sweet süß; long lang; short kurz; young jung; friendly freundlich;
        famous berühmt; rich reich; sick krank""")
)

# English base and past; German infinitive, third person, participle and separable prefix.
VERB_TABLE = {
    Frame(GOODS): """buy bought kaufen kauft gekauft; sell sold verkaufen verkauft verkauft;
        choose chose wählen wählt gewählt; find found finden findet gefunden""",
    Frame(f"{GOODS} {PEOPLE}"): "look_for looked_for suchen sucht gesucht; see saw sehen sieht gesehen",
    Frame("thing"): "repair repaired reparieren repariert repariert",
    Frame("text"): "write wrote schreiben schreibt geschrieben",
    Frame("food"): "eat ate essen isst gegessen",
    Frame("clothes"): "wear wore tragen trägt getragen",
    Frame(PEOPLE, adjunct="none"): """visit visited besuchen besucht besucht;
        call called rufen ruft angerufen an; invite invited laden lädt eingeladen ein;
        pick_up picked_up holen holt abgeholt ab""",
    Frame(GOODS, recipient=True, adjunct="none"): """give gave geben gibt gegeben;
        show showed zeigen zeigt gezeigt; bring brought bringen bringt gebracht""",
    Frame(recipient=True): "help helped helfen hilft geholfen; thank thanked danken dankt gedankt",
    Frame(adjunct="free"): """work worked arbeiten arbeitet gearbeitet; wait waited warten wartet gewartet;
        sing sang singen singt gesungen; dance danced tanzen tanzt getanzt""",
    Frame(): "sleep slept schlafen schläft geschlafen",
    Frame(adjunct="none", be=True): "get_up got_up stehen steht aufgestanden auf",
    Frame(adjunct="city", be=True): "travel travelled reisen reist gereist",
    Frame(adjunct="into", be=True): "go went gehen geht gegangen",
    Frame(adjunct="payment"): "pay paid bezahlen bezahlt bezahlt",
    Frame(adjunct="amount", subjects=GOODS): "cost cost kosten kostet gekostet",
    Frame(adjunct="none", subjects="event"): """begin began beginnen beginnt begonnen;
        end ended enden endet geendet""",
    Frame(adjunct="none", subjects="vehicle", be=True): """arrive arrived kommen kommt angekommen an;
        depart departed fahren fährt abgefahren ab""",
    Frame(adjunct="none", subjects="place"): """open opened machen macht aufgemacht auf;
        close closed machen macht zugemacht zu""",
}
VERBS = [Verb(frame, *row) for frame, table in VERB_TABLE.items() for row in rows(table)]
REPORTS = [  # what opens a reported clause, and the verb that governs it
    (Phrase(english, german), Verb(Frame(), *verb))
    for english, german, *verb in rows("""that dass say said sagen sagt gesagt;
        that dass hope hoped hoffen hofft gehofft; that dass believe believed glauben glaubt geglaubt;
        whether ob ask asked fragen fragt gefragt""")
]
AUXILIARIES = {
    english: german
    for english, *german in rows("""will werde wird werden; can kann kann können; must muss muss müssen;
        should sollte sollte sollten""")
}
TENSES = ("present", "present", "past", "past", *AUXILIARIES)
FIRST, THIRD, PLURAL = 0, 1, 2  # grammatical persons: the columns of the verb forms
HAVE, BE, WAS = ("habe", "hat", "haben"), ("bin", "ist", "sind"), ("war", "war", "waren")
ENGLISH_BE, ENGLISH_WAS, BORN = ("am", "is", "are"), ("was", "was", "were"), ("wurde", "wurde", "wurden")

NAMES = phrases("Anna she; Maria she; Julia she; Clara she; Thomas he; Peter he; Paul he; Lukas he")
CITIES = phrases("Berlin Berlin; Hamburg Hamburg; Munich München; Cologne Köln; Vienna Wien; Zurich Zürich")
TIMES = {
    "past": phrases("yesterday gestern; last_week letzte_Woche; yesterday_evening gestern_Abend"),
    "present": phrases("today heute; every_day jeden_Tag; this_evening heute_Abend"),
    "future": phrases("tomorrow morgen; next_week nächste_Woche; tomorrow_evening morgen_Abend; soon bald"),
}
FREQUENCIES = phrases("often oft; always immer; sometimes manchmal; rarely selten; never nie")
MANNERS = phrases("alone allein; quietly leise; for_a_long_time lange")
DEGREES = phrases("not nicht; very sehr; too zu; not_very nicht_sehr; not_too nicht_zu")
CONJUNCTIONS = phrases("because weil; although obwohl; if wenn; while während")
WEEKDAYS = phrases("""Monday Montag; Tuesday Dienstag; Wednesday Mittwoch; Thursday Donnerstag;
    Friday Freitag; Saturday Samstag; Sunday Sonntag""")
MONTHS = phrases("""January Januar; February Februar; March März; April April; May Mai; June Juni; July Juli;
    August August; September September; October Oktober; November November; December Dezember""")
SMALL = phrases("""zero null; one eins; two zwei; three drei; four vier; five fünf; six sechs; seven sieben;
    eight acht; nine neun; ten zehn; eleven elf; twelve zwölf; thirteen dreizehn; fourteen vierzehn;
    fifteen fünfzehn; sixteen sechzehn; seventeen siebzehn; eighteen achtzehn; nineteen neunzehn""")
TENS = phrases("""- -; - -; twenty zwanzig; thirty dreißig; forty vierzig; fifty fünfzig; sixty sechzig;
    seventy siebzig; eighty achtzig; ninety neunzig""")
ENGLISH_ORDINALS = {1: "first", 2: "second", 3: "third", 5: "fifth", 8: "eighth", 9: "ninth", 12: "twelfth"}
GERMAN_ORDINALS = {1: "erst", 3: "dritt", 7: "siebt", 8: "acht"}

NOTHING, ON, THE, A = Phrase("", ""), Phrase("on", "am"), Phrase("the", "der"), Phrase("a", "ein")
PRONOUN_TABLE = "I ich my mein; he er his sein; she sie her ihr; we wir our unser; they sie their ihr"
POSSESSIVES = {pronoun: Phrase(*possessive) for pronoun, _, *possessive in rows(PRONOUN_TABLE)}
# Endings by case, four a row: masculine, feminine, neuter, plural ("-" is none).
ARTICLES = {"nom": "der die das die", "acc": "den die das die", "dat": "dem der dem den"}
EIN_ENDINGS = {"nom": "- e - e", "acc": "en e - e", "dat": "em er em en"}
ADJECTIVE_ENDINGS = {  # after der; after ein, kein, mein; after a number or nothing
    "der": {"nom": "e e e en", "acc": "en e e en", "dat": "en en en en"},
    "ein": {"nom": "er e es en", "acc": "en e es en", "dat": "en en en en"},
    "bare": {"nom": "er e es e", "acc": "en e es e", "dat": "em er em en"},
}


# ---- Numbers, times, dates and prices ------------------------------------------------------------------


def join(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def both(*parts: Phrase) -> Phrase:
    return Phrase(join(*(part.en for part in parts)), join(*(part.de for part in parts)))


def english_number(n: int) -> str:
    """Return 0 to 999,999 in British words: `three hundred and forty-two thousand and one`."""
    if n < 20:
        return SMALL[n].en
    if n < 100:
        return TENS[n // 10].en + (f"-{SMALL[n % 10].en}" if n % 10 else "")
    size, word = (1000, "thousand") if n >= 1000 else (100, "hundred")
    rest = english_number(n % size) if n % size else ""
    return join(english_number(n // size), word, "and" if 0 < n % size < 100 else "", rest)


def german_number(n: int) -> str:
    """Return 0 to 999,999 in German words: `dreihundertzweiundvierzigtausendeins`."""
    if n < 20:
        return SMALL[n].de
    if n < 100:
        return (f"{german_count(n % 10)}und" if n % 10 else "") + TENS[n // 10].de
    size, word = (1000, "tausend") if n >= 1000 else (100, "hundert")
    return german_count(n // size) + word + (german_number(n % size) if n % size else "")


def german_count(n: int) -> str:
    """Return the number as it stands before what it counts: `ein`, `einhundertein`, else as ever."""
    word = german_number(n)
    return word.removesuffix("s") if word.endswith("eins") else word


def number(n: int) -> Phrase:
    return Phrase(english_number(n), german_number(n))


def year_name(n: int) -> Phrase:
    """Read a year from 1100 to 2099: `nineteen eighty-four`, `neunzehnhundertvierundachtzig`."""
    century, rest = divmod(n, 100)
    if century == 20 and rest < 10:
        return number(n)
    tail = "hundred" if rest == 0 else f"oh {english_number(rest)}" if rest < 10 else english_number(rest)
    german = f"{german_number(century)}hundert" + (german_number(rest) if rest else "")
    return Phrase(f"{english_number(century)} {tail}", german_number(n) if century == 20 else german)


def english_ordinal(n: int) -> str:
    """Return 1 to 31 as `first`, `twentieth`, `thirty-first`."""
    if n > 20 and n % 10:
        return f"{TENS[n // 10].en}-{english_ordinal(n % 10)}"
    return ENGLISH_ORDINALS.get(n) or f"{english_number(n)}th".replace("yth", "ieth")


def german_ordinal(n: int) -> str:
    """Return the stem of an ordinal, to which the case ending is added: `dritt`, `einundzwanzigst`."""
    return GERMAN_ORDINALS.get(n) or german_number(n) + ("t" if n < 20 else "st")


def calendar(day: date, *, weekday: bool, year: bool, on: bool) -> Phrase:
    """Name a day: `Monday, the third of May,` or, with `on`, `am Montag, dem dritten Mai,` in the dative.

    The date is an apposition to the weekday, so a comma closes it; `sentence` drops that before a full stop.
    """
    month, name = MONTHS[day.month - 1], WEEKDAYS[day.weekday()]
    ordinal = german_ordinal(day.day) + ("en" if on else "e")
    named = Phrase(f"the {english_ordinal(day.day)} of {month.en}", f"{ordinal} {month.de}")
    named = both(named, year_name(day.year) if year else NOTHING)
    if weekday:
        named = Phrase(f"{name.en}, {named.en},", f"{name.de}, {'dem' if on else 'der'} {named.de},")
    elif not on:
        named = Phrase(named.en, f"der {named.de}")
    return both(ON, named) if on else named


def clock(hour: int, minute: int) -> Phrase:
    """Tell a time, in steps of five minutes, from 1:00 to 12:55; German looks to the coming half hour."""
    coming, past = hour % 12 + 1, minute <= 30
    near, half = number(hour if past else coming), f"halb {german_number(coming)}"
    if minute == 0:
        return Phrase(f"{near.en} o'clock", f"{german_count(hour)} Uhr")
    if minute == 30:
        return Phrase(f"half past {near.en}", half)
    distance = min(minute, 60 - minute)
    amount = Phrase("quarter", "Viertel") if distance == 15 else number(distance)
    german = f"{amount.de} {'nach' if past else 'vor'} {near.de}"
    if distance == 25:  # twenty-five past three is five before half of the fourth hour
        german = f"fünf {'vor' if past else 'nach'} {half}"
    return Phrase(f"{amount.en} {'past' if past else 'to'} {near.en}", german)


def price(euros: int, cents: int = 0) -> Phrase:
    """Return an amount of money: `one euro and fifty cents`, `ein Euro und fünfzig Cent`."""
    english, german = english_number(euros) + " euro" + "s" * (euros != 1), f"{german_count(euros)} Euro"
    if cents:
        english += f" and {english_number(cents)} cent" + "s" * (cents != 1)
        german += f" und {german_count(cents)} Cent"
    return Phrase(english, german)


# ---- Grammar: noun phrases and clauses, each written out in both languages -----------------------------


@dataclass(frozen=True)
class NounPhrase:
    determiner: Phrase
    noun: Noun
    adjective: str = ""
    plural: bool = False

    @property
    def definite(self) -> bool:
        return self.determiner == THE or self.determiner in POSSESSIVES.values()

    @property
    def english(self) -> str:
        words = join(self.adjective, self.noun.en_plural if self.plural else self.noun.en)
        return join("an" if self.determiner == A and words[0] in "aeiou" else self.determiner.en, words)

    def german(self, case: str, *, negated: bool = False) -> str:
        """Decline the phrase (nom, acc or dat); negated, `ein` and a missing article become `kein`."""
        column = 3 if self.plural else "mfn".index(self.noun.gender)
        article, family = self.determiner.de, "bare"
        if self.determiner == THE:
            article, family = ARTICLES[case].split()[column], "der"
        elif self.determiner == A or self.definite or negated:
            article = "kein" if negated and not self.definite else article
            article, family = article + EIN_ENDINGS[case].split()[column].strip("-"), "ein"
        ending = ADJECTIVE_ENDINGS[family][case].split()[column]
        noun = self.noun.de if case == "nom" else self.noun.oblique or self.noun.de
        if self.plural:
            noun = self.noun.de_plural
            noun += "n" if case == "dat" and noun[-1] not in "ns" else ""
        return join(article, ADJECTIVES[self.adjective] + ending if self.adjective else "", noun)

    def phrase(self, case: str) -> Phrase:
        return Phrase(self.english, self.german(case))


def counted(n: int, noun: Noun, adjective: str = "") -> NounPhrase:
    return NounPhrase(number(n), noun, adjective, plural=True)


@dataclass(frozen=True)
class Subject:
    name: Phrase
    person: int
    pronoun: str = ""  # its key in PRONOUNS; empty if English has several (the child: he, she, it)
    noun: Noun | None = None


PRONOUNS = {
    english: Subject(Phrase(english, german), person, english)
    for (english, german, *_), person in zip(rows(PRONOUN_TABLE), (FIRST, THIRD, THIRD, PLURAL, PLURAL), strict=True)
}


@dataclass(frozen=True)
class Clause:
    subject: Subject
    verb: Verb
    tense: str  # present, past or one of AUXILIARIES
    negated: bool = False
    recipient: NounPhrase | None = None
    thing: NounPhrase | None = None  # the accusative object
    often: Phrase = NOTHING
    time: Phrase = NOTHING
    adjunct: Phrase = NOTHING


def english_clause(clause: Clause, *, question: bool = False) -> str:
    verb, third = clause.verb, clause.subject.person == THIRD
    auxiliary = {"past": "did", "present": "does" if third else "do"}.get(clause.tense, clause.tense)
    nouns = [phrase.english for phrase in (clause.recipient, clause.thing) if phrase]
    rest = join(*nouns, clause.adjunct.en, clause.time.en)
    if question:
        return join(auxiliary, clause.subject.name.en, verb.en, rest)
    predicate = join(auxiliary, "not" if clause.negated else "", verb.en).replace("can not", "cannot")
    if clause.tense not in AUXILIARIES and not clause.negated:
        predicate = verb.en_past if clause.tense == "past" else verb.en_s if third else verb.en
    return join(clause.subject.name.en, clause.often.en, predicate, rest)


def german_verb(clause: Clause) -> tuple[str, str]:
    """Return the finite verb and what closes the clause: (`macht`, `auf`), (`hat`, `gekauft`)."""
    person, verb = clause.subject.person, clause.verb
    if clause.tense == "present":
        return (verb.de[:-1], verb.de_s, verb.de)[person], verb.prefix
    if clause.tense == "past":
        return (BE if verb.frame.be else HAVE)[person], verb.participle
    return AUXILIARIES[clause.tense][person], verb.prefix + verb.de


def german_middle(clause: Clause) -> str:
    """Return what stands between the two parts of the verb, in the order of the module's conventions."""
    recipient = clause.recipient.german("dat") if clause.recipient else ""
    when, negation = join(clause.often.de, clause.time.de), "nicht" if clause.negated else ""
    if not clause.thing:
        return join(recipient, when, negation, clause.adjunct.de)
    thing = clause.thing.german("acc", negated=clause.negated)
    if clause.thing.definite:
        return join(recipient, thing, when, negation, clause.adjunct.de)
    return join(recipient, when, thing, clause.adjunct.de)  # the negation is in `kein`


def german_clause(clause: Clause, order: str = "second") -> str:
    """Write the clause with its verb in `second` place, `first` (after anything fronted) or `last`."""
    subject, middle, (finite, closing) = clause.subject.name.de, german_middle(clause), german_verb(clause)
    if order == "second":
        return join(subject, finite, middle, closing)
    if order == "first":
        return join(finite, subject, middle, closing)
    end = closing + finite if clause.tense == "present" else f"{closing} {finite}"  # aufmacht, aufgemacht hat
    return join(subject, middle, end)


def sentence(english_text: str, german_text: str, mark: str = ".") -> Phrase:
    """Finish both sides: the mark, no doubled punctuation, a capital at the start."""
    finished = []
    for text in (english_text + mark, german_text + mark):
        text = text.replace(",,", ",").replace(",.", ".").replace(",?", "?")
        finished.append(text[0].upper() + text[1:])
    return Phrase(*finished)


# ---- Chance: one derivation at a time ------------------------------------------------------------------


class Dice:
    """Draws made of `random()` alone, the one method whose numbers Python promises never to change."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self.random() * len(items))]

    def between(self, low: int, high: int) -> int:
        return low + int(self.random() * (high - low + 1))

    def size(self, most_digits: int) -> int:
        """Draw a number of 1 to `most_digits` digits; each length is equally likely."""
        digits = self.between(1, most_digits)
        return self.between(10 ** (digits - 1) if digits > 1 else 0, 10**digits - 1)

    def count(self, most_digits: int) -> int:
        """Draw a number from 2 on, but not 101, 201, …, for which German usage varies."""
        n = max(self.size(most_digits), 2)
        return n + 1 if n % 100 == 1 else n


def draw_nouns(
    dice: Dice, kinds: str, *, owner: Phrase = NOTHING, the: float = 0.5, plural: float = 0.25
) -> NounPhrase:
    """Draw a noun of one of the kinds, a determiner and perhaps an adjective; `the`, `plural`: how likely."""
    noun = dice.pick([noun for kind in kinds.split() for noun in NOUNS[kind]])
    many = dice.chance(plural)
    determiner = THE if dice.chance(the) else NOTHING if many else A
    if noun.kind == "relative":  # `the aunt` would make one ask whose
        determiner = owner if owner != NOTHING and dice.chance(0.6) else POSSESSIVES[dice.pick(("I", "we"))]
    elif owner != NOTHING and noun.kind in GOODS.split() and dice.chance(0.3):
        determiner = owner
    adjective = dice.pick(noun.adjectives.split()) if dice.chance(0.4) else ""
    return NounPhrase(determiner, noun, adjective, many)


def as_subject(phrase: NounPhrase) -> Subject:
    pronoun = "they" if phrase.plural else {"m": "he", "f": "she", "n": ""}[phrase.noun.gender]
    return Subject(phrase.phrase("nom"), PLURAL if phrase.plural else THIRD, pronoun, phrase.noun)


def draw_subject(dice: Dice, kinds: str = "people") -> Subject:
    """Draw a pronoun, a name, two names or a noun phrase."""
    if kinds != "people":
        return as_subject(draw_nouns(dice, kinds, the=1, plural=0))
    roll, (name, pronoun), (other, _) = dice.random(), dice.pick(NAMES), dice.pick(NAMES)
    if roll < 0.2:
        return dice.pick(list(PRONOUNS.values()))
    if roll < 0.4 or (roll < 0.5 and name == other):
        return Subject(Phrase(name, name), THIRD, pronoun)
    if roll < 0.5:
        return Subject(Phrase(f"{name} and {other}", f"{name} und {other}"), PLURAL, "they")
    return as_subject(draw_nouns(dice, PEOPLE, the=0.8, plural=0.2))


def draw_clock(dice: Dice) -> Phrase:
    return clock(dice.between(1, 12), 5 * dice.between(0, 11))


def draw_date(dice: Dice, *, year: bool, on: bool) -> Phrase:
    day = date.fromordinal(dice.between(date(1900, 1, 1).toordinal(), date(2019, 12, 31).toordinal()))
    return calendar(day, weekday=dice.chance(0.5), year=year, on=on)


def draw_price(dice: Dice) -> Phrase:
    euros = dice.count(4)
    return price(euros, dice.between(5, 95) if euros < 100 and dice.chance(0.6) else 0)


def draw_time(dice: Dice, tense: str, *, exact: bool) -> Phrase:
    """Draw when it happens, in keeping with the tense; `exact` gives the time of day."""
    at, weekday = both(Phrase("at", "um"), draw_clock(dice)), dice.pick(WEEKDAYS)
    span = counted(dice.between(2, 40), dice.pick(SPANS)).phrase("dat")
    when = "future" if tense in AUXILIARIES else tense
    by_tense = {
        "past": Phrase(f"{span.en} ago", f"vor {span.de}"),
        "present": both(Phrase("every", "jeden"), weekday),
        "future": both(Phrase("in", "in"), span),
    }
    some_day = draw_date(dice, year=tense == "past" and dice.chance(0.5), on=True)
    on = both(ON, weekday)
    choices = (dice.pick(TIMES[when]), by_tense[when], on, some_day, both(on, at), at)
    return dice.pick(choices[-2:] if exact else choices)


def draw_place(dice: Dice, case: str) -> Phrase:
    """Draw a place, `in the garden` (dat: im Garten), or a direction, `into the garden` (acc: in den Garten)."""
    place = draw_nouns(dice, "home place", the=0.7, plural=0)
    german_place = f"in {place.german(case)}".replace("in dem ", "im ").replace("in das ", "ins ")
    return Phrase(f"{'in' if case == 'dat' else 'into'} {place.english}", german_place)


def draw_adjunct(dice: Dice, kind: str, owner: Phrase) -> Phrase:
    """Draw what else a verb calls for or allows: a goal, a price, a place, company."""
    place = draw_place(dice, "acc" if kind == "into" else "dat")
    if kind == "city":
        city = dice.pick(CITIES)
        return Phrase(f"to {city.en}", f"nach {city.de}")
    if kind == "amount":
        return draw_price(dice)
    if kind == "payment":
        return both(draw_price(dice), Phrase("for", "für"), draw_nouns(dice, GOODS, plural=0).phrase("acc"))
    if kind == "free":
        hours = counted(dice.between(2, 12), HOUR).phrase("acc")
        company = both(Phrase("with", "mit"), draw_nouns(dice, PEOPLE, owner=owner, the=0.8).phrase("dat"))
        duration = Phrase(f"for {hours.en}", f"{hours.de} lang")
        return dice.pick((NOTHING, place, company, both(company, place), dice.pick(MANNERS), duration))
    return place if kind == "into" or (kind == "place" and dice.chance(0.3)) else NOTHING


def draw_clause(dice: Dice, *, subject: Subject | None = None, tense: str = "", time: float = 0.6) -> Clause:
    """Draw a clause, about the person if one is given; `time` is the chance that it says when."""
    verb = dice.pick([verb for verb in VERBS if not subject or verb.frame.subjects == "people"])
    frame = verb.frame
    subject = subject or draw_subject(dice, frame.subjects)
    tense = tense or dice.pick(TENSES if frame.subjects == "people" else ("present", "past", "will"))
    owner = POSSESSIVES.get(subject.pronoun, NOTHING)
    clocked = frame.adjunct == "none" and not frame.objects  # the train arrives, and always at some time
    # `must not` forbids, but `muss nicht` does not.
    negated = dice.chance(0.2) and not clocked and tense != "must"
    recipient = draw_nouns(dice, PEOPLE, owner=owner, the=1) if frame.recipient else None
    thing = draw_nouns(dice, frame.objects, owner=owner) if frame.objects else None
    if thing and thing.noun.kind in GOODS.split() and not negated and dice.chance(0.1):
        thing = counted(dice.count(2), thing.noun, thing.adjective)
    habit = tense == "present" and not (negated or clocked) and not (thing and thing.definite)
    often = dice.pick(FREQUENCIES) if habit and dice.chance(0.3) else NOTHING
    timed = often == NOTHING and (clocked or dice.chance(time))
    when = draw_time(dice, tense, exact=clocked and dice.chance(0.6)) if timed else NOTHING
    adjunct = draw_adjunct(dice, frame.adjunct, owner)
    if {subject.noun} & {phrase.noun for phrase in (recipient, thing) if phrase}:
        return draw_clause(dice, subject=subject, tense=tense, time=time)  # no doctor visits a doctor
    return Clause(subject, verb, tense, negated, recipient, thing, often, when, adjunct)


# ---- Recipes: the kinds of sentence, and how often each is drawn ---------------------------------------


def statement(dice: Dice) -> Phrase:
    """A main clause, its time sometimes in front: `Tomorrow, Anna will ...`, `Morgen wird Anna ...`."""
    clause = draw_clause(dice)
    if clause.time == NOTHING or dice.chance(0.5):
        return sentence(english_clause(clause), german_clause(clause))
    rest = replace(clause, time=NOTHING)
    return sentence(f"{clause.time.en}, {english_clause(rest)}", f"{clause.time.de} {german_clause(rest, 'first')}")


def question(dice: Dice) -> Phrase:
    """A question, with or without a question word that takes the place of what it asks for."""
    clause = replace(draw_clause(dice), negated=False, often=NOTHING)
    untimed, bare = replace(clause, time=NOTHING), replace(clause, adjunct=NOTHING)
    choices = [(NOTHING, clause), (Phrase("why", "warum"), clause), (Phrase("when", "wann"), untimed)]
    if clause.verb.frame.adjunct in ("place", "free"):
        choices.append((Phrase("where", "wo"), bare))
    if clause.verb.frame.adjunct == "amount":
        choices = [(Phrase("how much", "wie viel"), bare)]
    word, asked = dice.pick(choices)
    return sentence(
        join(word.en, english_clause(asked, question=True)), join(word.de, german_clause(asked, "first")), "?"
    )


def two_clauses(dice: Dice) -> Phrase:
    """A main clause and a subordinate one, whose verb comes last: `Anna singt, weil sie ... hat.`"""
    word = dice.pick(CONJUNCTIONS)
    tense = dice.pick(list(AUXILIARIES) if word.en == "if" else ["present", "past"])
    main = draw_clause(dice, subject=draw_subject(dice), tense=tense, time=0.15)
    pronoun = PRONOUNS[main.subject.pronoun] if main.subject.pronoun and dice.chance(0.5) else None
    sub = draw_clause(dice, subject=pronoun, tense="present" if word.en == "if" else tense, time=0.15)
    if sub.verb == main.verb or (sub.subject == main.subject and not pronoun):
        return two_clauses(dice)
    under = Phrase(f"{word.en} {english_clause(sub)}", f"{word.de} {german_clause(sub, 'last')}")
    if dice.chance(0.7):
        return sentence(f"{english_clause(main)} {under.en}", f"{german_clause(main)}, {under.de}")
    return sentence(f"{under.en}, {english_clause(main)}", f"{under.de}, {german_clause(main, 'first')}")


def report(dice: Dice) -> Phrase:
    """`They hope that ...`, `Anna asks whether ...`: in German the subordinate clause has its verb last."""
    word, verb = dice.pick(REPORTS)
    main = Clause(draw_subject(dice), verb, dice.pick(("present", "present", "past")))
    reported = draw_clause(dice, tense="past" if main.tense == "past" else "", time=0.3)
    if reported.subject == main.subject:
        return report(dice)
    return sentence(
        *both(
            Phrase(english_clause(main), f"{german_clause(main)},"),
            word,
            Phrase(english_clause(reported), german_clause(reported, "last")),
        )
    )


def description(dice: Dice) -> Phrase:
    """`The old car was not very cheap.`: the adjective after the verb takes no ending."""
    phrase = draw_nouns(dice, " ".join(NOUNS), the=1)
    adjective, subject = dice.pick(phrase.noun.adjectives.split()), as_subject(phrase)
    if adjective == phrase.adjective:  # The old car was old
        return description(dice)
    english_be, german_be = dice.pick(((ENGLISH_BE, BE), (ENGLISH_WAS, WAS)))
    verb = Phrase(english_be[subject.person], german_be[subject.person])
    degree = dice.pick((NOTHING, dice.pick(DEGREES)))
    return sentence(*both(subject.name, verb, degree, Phrase(adjective, ADJECTIVES[adjective])))


def numbers(dice: Dice) -> Phrase:
    """A number, a sum, a price, an age, the inhabitants of a city now or then."""
    a, b, who, city = dice.size(3), dice.size(3), draw_subject(dice), dice.pick(CITIES)
    be = Phrase(ENGLISH_BE[who.person], BE[who.person])
    people = counted(100 * dice.between(20, 9999), INHABITANT).phrase("acc")
    year = year_name(dice.between(1800, 2019))
    choices = (
        number(dice.size(6)),
        both(number(a), Phrase("plus", "plus"), number(b), Phrase("is", "ist"), number(a + b)),
        draw_price(dice),
        both(who.name, be, number(dice.between(2, 99)), Phrase("years old", "Jahre alt")),
        both(city, Phrase("has", "hat"), people),
        both(Phrase(f"in {year.en},", f"im Jahr {year.de} hatte"), city, Phrase("had", ""), people),
    )
    return sentence(*dice.pick(choices))


def times(dice: Dice) -> Phrase:
    """A clock time, a date or a birthday, with little around it."""
    who, year = draw_subject(dice), dice.chance(0.5)
    born = Phrase(f"{ENGLISH_WAS[who.person]} born", BORN[who.person])
    choices = (
        both(Phrase("it is", "es ist"), draw_clock(dice)),
        both(Phrase("today is", "heute ist"), draw_date(dice, year=year, on=False)),
        draw_date(dice, year=year, on=True),
        both(who.name, born, draw_date(dice, year=True, on=True), Phrase("", "geboren")),
    )
    return sentence(*dice.pick(choices))


WEIGHTS = {statement: 40, question: 14, two_clauses: 12, report: 8, description: 8, numbers: 12, times: 6}
RECIPES = [recipe for recipe, weight in WEIGHTS.items() for _ in range(weight)]
MOST_WORDS = 16  # longer English sentences are drawn again


# ---- The corpus ----------------------------------------------------------------------------------------


def sentences(seed: int) -> Iterator[Phrase]:
    """Yield sentence pairs without end, with repeats."""
    dice = Dice(seed)
    while True:
        pair = dice.pick(RECIPES)(dice)
        if len(pair.en.split()) <= MOST_WORDS:
            yield pair


def lines(seed: int, most: int) -> Iterator[Phrase]:
    """Yield pairs of 1 to `most` sentences without end, with repeats; each number of sentences is equally frequent."""
    drawn, dice = sentences(seed), Dice(seed)
    while True:
        count = 1 if most == 1 else dice.between(1, most)
        yield Phrase(*map(" ".join, zip(*islice(drawn, count), strict=True)))


def pairs(seed: int, most: int = 1) -> Iterator[tuple[str, str]]:
    """Yield pairs of 1 to `most` sentences without end, none twice on either side."""
    seen: set[str] = set()
    for pair in lines(seed, most):
        if seen.isdisjoint(pair):
            seen.update(pair)
            yield pair


def write_corpus(folder: Path, sizes: dict[str, int], seed: int, most: int = 1) -> None:
    """Write a file for each split and language, of lines of 1 to `most` sentences. It appears only when it is complete.

    Raises FileExistsError, before anything is written, if one of them exists with other content.
    """
    drawn, order = list(islice(pairs(seed, most), sum(sizes.values()))), Dice(seed)
    # Shuffled, because short sentences become rare: the last pairs drawn differ from the first.
    drawn.sort(key=lambda _: order.random())
    folder.mkdir(parents=True, exist_ok=True)
    rest, files = iter(drawn), dict[Path, bytes]()
    for split, size in sizes.items():
        for language, lines in zip(("en", "de"), zip(*islice(rest, size), strict=True), strict=True):
            files[folder / f"{split}.{language}"] = "".join(f"{line}\n" for line in lines).encode()
    for path, content in files.items():
        if path.exists() and path.read_bytes() != content:
            raise FileExistsError(f"{path} exists with other content: delete it or choose another folder")
    for path, content in files.items():
        with atomic.replacing(path) as unfinished:
            unfinished.write_bytes(content)


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")  # one line, without the usage


def main() -> None:
    parser = Parser(description="Write an English-German corpus from a grammar, with exact references.")
    parser.add_argument("folder", metavar="OUTPUT_DIR", type=Path)
    for split, size in {"train": 40_000, "validation": 500, "test": 500}.items():
        parser.add_argument(f"--{split}", type=int, default=size, metavar="PAIRS")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sentences", type=int, default=1, metavar="N", help="each line has 1 to N of them")
    given = parser.parse_args()
    sizes = {"train": given.train, "validation": given.validation, "test": given.test}
    if not all(1 <= size <= 1_000_000 for size in sizes.values()):
        parser.error("each size must be from 1 to 1000000 pairs")
    if not 1 <= given.sentences <= 20:
        parser.error(f"--sentences {given.sentences}: must be from 1 to 20")
    try:
        write_corpus(given.folder, sizes, given.seed, given.sentences)
    except OSError as error:
        parser.error(f"cannot write the corpus: {error}")
    counts = ", ".join(f"{size} {split}" for split, size in sizes.items())
    print(f"{parser.prog}: wrote {counts} pairs to {given.folder}", file=sys.stderr)


if __name__ == "__main__":
    main()
