"""Write an English-German parallel corpus from a small grammar of our own, with exact references.

    python scripts/make_demo_corpus.py OUTPUT_DIR [--train 40000] [--validation 500] [--test 500] [--seed 1]

Every pair is one derivation written out in both languages, so the German shows what no word-by-word model
can do: gender, case and adjective endings, the verb in second or last place, separable verbs, numbers with
the unit before the ten, clock times (`half past three` is `halb vier`), dates and prices.

Conventions, so that an English sentence has exactly one German one: English numbers are British (`one
thousand and one`); German numbers always write the leading one (`eintausendeins`); the simple past becomes
the German perfect; definite objects stand before the time (`verkauft das Auto heute`), others after it
(`verkauft heute ein Auto`); "his", "her" and "their" always refer to the subject.
"""

import argparse
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import islice
from pathlib import Path
from typing import NamedTuple, NoReturn, TypeVar

T = TypeVar("T")


class Phrase(NamedTuple):
    """The same thing said in both languages."""

    en: str
    de: str


class Determiner(NamedTuple):
    en: str
    de: str
    family: str  # der, ein or bare: which endings it takes, and which it asks of the adjective


class Noun(NamedTuple):
    kind: str  # decides which verbs and adjectives may stand with it
    en: str
    en_plural: str
    gender: str  # m, f or n
    de: str
    de_plural: str
    oblique: str = ""  # weak nouns only: accusative and dative singular (der Junge, den Jungen)


class Frame(NamedTuple):
    """What may stand with a verb."""

    objects: str = ""  # the kinds of noun it takes as accusative object
    recipient: bool = False  # a person in the dative
    adjuncts: str = "place"  # place, free (any), to (a city), into (a place), none
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


# ---- Tables: the lexicon. Rows end at a semicolon, fields at a space; `_` is a space inside a field ----


def rows(table: str) -> list[list[str]]:
    return [[field.replace("_", " ") for field in row.split()] for row in table.split(";")]


def phrases(table: str) -> list[Phrase]:
    return [Phrase(*row) for row in rows(table)]


# English singular and plural, gender, German singular and plural (and the oblique form of weak nouns).
NOUN_TABLE = {
    "person": """man men m Mann Männer; woman women f Frau Frauen; child children n Kind Kinder;
        girl girls n Mädchen Mädchen; boy boys m Junge Jungen Jungen; teacher teachers m Lehrer Lehrer;
        doctor doctors m Arzt Ärzte; student students m Student Studenten Studenten;
        nurse nurses f Krankenschwester Krankenschwestern""",
    "relative": """brother brothers m Bruder Brüder; sister sisters f Schwester Schwestern;
        aunt aunts f Tante Tanten; uncle uncles m Onkel Onkel; daughter daughters f Tochter Töchter;
        neighbour neighbours m Nachbar Nachbarn Nachbarn""",
    "furniture": """table tables m Tisch Tische; chair chairs m Stuhl Stühle; lamp lamps f Lampe Lampen;
        picture pictures n Bild Bilder""",
    "machine": "car cars n Auto Autos; bicycle bicycles n Fahrrad Fahrräder; radio radios n Radio Radios",
    "text": "book books n Buch Bücher; letter letters m Brief Briefe; report reports m Bericht Berichte",
    "food": "apple apples m Apfel Äpfel; pear pears f Birne Birnen; cake cakes m Kuchen Kuchen",
    "clothes": """coat coats m Mantel Mäntel; shirt shirts n Hemd Hemden; dress dresses n Kleid Kleider;
        jacket jackets f Jacke Jacken; hat hats m Hut Hüte""",
    "opening": "door doors f Tür Türen; window windows n Fenster Fenster; box boxes f Kiste Kisten",
    "animal": "dog dogs m Hund Hunde; cat cats f Katze Katzen; horse horses n Pferd Pferde",
    "home": "house houses n Haus Häuser; flat flats f Wohnung Wohnungen; garden gardens m Garten Gärten",
    "place": """hotel hotels n Hotel Hotels; museum museums n Museum Museen; school schools f Schule Schulen;
        library libraries f Bibliothek Bibliotheken; shop shops m Laden Läden""",
    "event": """film films m Film Filme; concert concerts n Konzert Konzerte;
        meeting meetings f Sitzung Sitzungen""",
    "vehicle": "train trains m Zug Züge; bus buses m Bus Busse; ship ships n Schiff Schiffe",
    "firm": "company companies f Firma Firmen; factory factories f Fabrik Fabriken",
    "span": """day days m Tag Tage; week weeks f Woche Wochen; month months m Monat Monate;
        year years n Jahr Jahre""",
    "hours": "minute minutes f Minute Minuten; hour hours f Stunde Stunden",
    "contents": "page pages f Seite Seiten; inhabitant inhabitants m Einwohner Einwohner",
}
NOUNS = {kind: [Noun(kind, *row) for row in rows(table)] for kind, table in NOUN_TABLE.items()}
GOODS, PEOPLE = "furniture machine text food clothes animal home", "person relative"

# English past tense; German infinitive, third person, participle, separable prefix.
VERB_TABLE = (
    (Frame(GOODS), "buy bought kaufen kauft gekauft; sell sold verkaufen verkauft verkauft"),
    (Frame(GOODS), "need needed brauchen braucht gebraucht; find found finden findet gefunden"),
    (Frame(f"{GOODS} {PEOPLE}"), "look_for looked_for suchen sucht gesucht; see saw sehen sieht gesehen"),
    (Frame("machine opening"), "repair repaired reparieren repariert repariert"),
    (Frame("text"), "write wrote schreiben schreibt geschrieben"),
    (Frame("food"), "eat ate essen isst gegessen"),
    (Frame("clothes"), "wear wore tragen trägt getragen"),
    (Frame("opening"), "open opened machen macht aufgemacht auf; close closed machen macht zugemacht zu"),
    (Frame(PEOPLE), "visit visited besuchen besucht besucht; invite invited laden lädt eingeladen ein"),
    (Frame(PEOPLE), "call called rufen ruft angerufen an; pick_up picked_up holen holt abgeholt ab"),
    (Frame(GOODS, recipient=True), "show showed zeigen zeigt gezeigt"),
    (
        Frame("text food clothes", recipient=True, adjuncts="none"),
        "give gave geben gibt gegeben; send sent schicken schickt geschickt; "
        "bring brought bringen bringt gebracht",
    ),
    (Frame(recipient=True), "help helped helfen hilft geholfen; thank thanked danken dankt gedankt"),
    (
        Frame(adjuncts="free"),
        "work worked arbeiten arbeitet gearbeitet; wait waited warten wartet gewartet; "
        "sleep slept schlafen schläft geschlafen; sing sang singen singt gesungen; "
        "dance danced tanzen tanzt getanzt",
    ),
    (Frame(adjuncts="none", be=True), "get_up got_up stehen steht aufgestanden auf"),
    (Frame(adjuncts="to", be=True), "travel travelled reisen reist gereist"),
    (Frame(adjuncts="into", be=True), "go went gehen geht gegangen"),
)
EVENT_TABLE = (  # the kind of subject, what it does at a certain time
    ("event", Frame(), "begin began beginnen beginnt begonnen; end ended enden endet geendet"),
    ("vehicle", Frame(be=True), "arrive arrived kommen kommt angekommen an"),
    ("vehicle", Frame(be=True), "depart departed fahren fährt abgefahren ab"),
    ("place", Frame(), "open opened machen macht aufgemacht auf; close closed machen macht zugemacht zu"),
)
VERBS = [Verb(frame, *row) for frame, table in VERB_TABLE for row in rows(table)]
EVENTS = [(kind, Verb(frame, *row)) for kind, frame, table in EVENT_TABLE for row in rows(table)]
SAY, HOPE, BELIEVE, ASK, PAY, COST = (
    Verb(Frame(adjuncts="none"), *row)
    for row in rows("""say said sagen sagt gesagt; hope hoped hoffen hofft gehofft;
        believe believed glauben glaubt geglaubt; ask asked fragen fragt gefragt;
        pay paid bezahlen bezahlt bezahlt; cost cost kosten kostet gekostet""")
)

ADJECTIVES = dict(
    phrases("""old alt; new neu; big groß; small klein; beautiful schön; cheap billig; red rot; blue blau;
        black schwarz; white weiß; fresh frisch; sweet süß; long lang; short kurz; young jung;
        friendly freundlich; famous berühmt; rich reich; clever klug; sick krank""")
)
FITTING = {  # the adjectives for each kind of noun
    kind: adjectives.split()
    for kinds, adjectives in {
        "person relative": "old young friendly famous rich clever sick",
        "animal": "old young friendly sick big small beautiful black white",
        "furniture machine clothes": "old new big small beautiful cheap red blue black white",
        "opening": "old new big small red blue black white",
        "text event": "long short",
        "food": "big small fresh sweet cheap",
        "home place": "old new big small beautiful",
        "vehicle firm": "old big small",
    }.items()
    for kind in kinds.split()
}

PERSONS = FIRST, THIRD, PLURAL = range(3)  # columns of the verb tables
HAVE, BE, WAS = ("habe", "hat", "haben"), ("bin", "ist", "sind"), ("war", "war", "waren")
ENGLISH_BE, ENGLISH_WAS, BORN = ("am", "is", "are"), ("was", "was", "were"), ("wurde", "wurde", "wurden")
AUXILIARIES = {
    auxiliary: german
    for auxiliary, *german in rows("""will werde wird werden; can kann kann können; must muss muss müssen;
        should sollte sollte sollten; want will will wollen""")
}
TENSES = ("present", "present", "present", "past", "past", "past", *AUXILIARIES)

# Endings by case; four a row: masculine, feminine, neuter, plural ("-" is none).
ARTICLES = {"nom": "der die das die", "acc": "den die das die", "dat": "dem der dem den"}
EIN_ENDINGS = {"nom": "- e - e", "acc": "en e - e", "dat": "em er em en"}
ADJECTIVE_ENDINGS = {
    "der": {"nom": "e e e en", "acc": "en e e en", "dat": "en en en en"},
    "ein": {"nom": "er e es en", "acc": "en e es en", "dat": "en en en en"},
    "bare": {"nom": "er e es e", "acc": "en e es e", "dat": "em er em en"},
}
THE, A, NO_ARTICLE = Determiner("the", "", "der"), Determiner("a", "ein", "ein"), Determiner("", "", "bare")
KEIN = Determiner("", "kein", "ein")
POSSESSIVES = {
    pronoun: Determiner(english, german, "ein")
    for pronoun, english, german in rows("I my mein; he his sein; she her ihr; we our unser; they their ihr")
}

NAMES = {"she": "Anna Maria Julia Clara Laura".split(), "he": "Thomas Peter Paul Lukas Felix".split()}
CITIES = phrases("Berlin Berlin; Hamburg Hamburg; Munich München; Cologne Köln; Vienna Wien; Zurich Zürich")
PAST_TIMES = phrases("""yesterday gestern; last_week letzte_Woche; last_year letztes_Jahr;
    yesterday_evening gestern_Abend""")
PRESENT_TIMES = phrases("today heute; every_day jeden_Tag; this_evening heute_Abend; now jetzt")
FUTURE_TIMES = phrases("tomorrow morgen; next_week nächste_Woche; soon bald; tomorrow_evening morgen_Abend")
FREQUENCIES = phrases("often oft; always immer; sometimes manchmal; rarely selten; never nie")
MANNERS = phrases("alone allein; quietly leise; for_a_long_time lange")
CONJUNCTIONS = phrases("because weil; although obwohl; if wenn; while während")
QUESTION_WORDS = phrases("when wann; where wo; why warum")
WEEKDAYS = phrases("""Monday Montag; Tuesday Dienstag; Wednesday Mittwoch; Thursday Donnerstag; Friday Freitag;
    Saturday Samstag; Sunday Sonntag""")
DAY_PARTS = phrases("morning morgen; afternoon nachmittag; evening abend")
MONTHS = phrases("""January Januar; February Februar; March März; April April; May Mai; June Juni; July Juli;
    August August; September September; October Oktober; November November; December Dezember""")

SMALL = phrases("""zero null; one eins; two zwei; three drei; four vier; five fünf; six sechs; seven sieben;
    eight acht; nine neun; ten zehn; eleven elf; twelve zwölf; thirteen dreizehn; fourteen vierzehn;
    fifteen fünfzehn; sixteen sechzehn; seventeen siebzehn; eighteen achtzehn; nineteen neunzehn""")
TENS = phrases("""- -; - -; twenty zwanzig; thirty dreißig; forty vierzig; fifty fünfzig; sixty sechzig;
    seventy siebzig; eighty achtzig; ninety neunzig""")
ENGLISH_ORDINALS = {1: "first", 2: "second", 3: "third", 5: "fifth", 8: "eighth", 9: "ninth", 12: "twelfth"}
GERMAN_ORDINALS = {1: "erst", 3: "dritt", 7: "siebt", 8: "acht"}
NOTHING, ON = Phrase("", ""), Phrase("on", "am")


# ---- Numbers, times, dates and prices ------------------------------------------------------------------


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
    return ENGLISH_ORDINALS.get(n) or (f"{english_number(n)}th".replace("yth", "ieth"))


def german_ordinal(n: int) -> str:
    """Return the stem of an ordinal, to which the case ending is added: `dritt`, `einundzwanzigst`."""
    return GERMAN_ORDINALS.get(n) or german_number(n) + ("t" if n < 20 else "st")


def calendar(day: date, *, weekday: bool, year: bool, on: bool) -> Phrase:
    """Name a day: `Monday, the third of May,` or, with `on`, `am Montag, dem dritten Mai,` in the dative.

    The date is an apposition to the weekday, so a comma closes it; `sentence` drops that before a full stop.
    """
    month, name = MONTHS[day.month - 1], WEEKDAYS[day.weekday()]
    english = f"the {english_ordinal(day.day)} of {month.en}"
    german = f"{german_ordinal(day.day)}{'en' if on else 'e'} {month.de}"
    named = both(Phrase(english, german), year_name(day.year) if year else NOTHING)
    if weekday:
        article = "dem" if on else "der"
        named = Phrase(f"{name.en}, {named.en},", f"{name.de}, {article} {named.de},")
    elif not on:
        named = both(Phrase("", "der"), named)
    return both(ON, named) if on else named


def clock(hour: int, minute: int) -> Phrase:
    """Tell a time from 1:00 to 12:59; German counts to the coming half hour: `fünf vor halb vier`."""
    coming = hour % 12 + 1
    past, distance = minute <= 30, min(minute, 60 - minute)
    near = number(hour if past else coming)
    half = f"halb {german_number(coming)}"
    if minute == 0:
        return Phrase(f"{near.en} o'clock", f"{german_count(hour)} Uhr")
    if minute == 30:
        return Phrase(f"half past {near.en}", half)
    amount = Phrase("quarter", "Viertel") if distance == 15 else number(distance)
    if distance % 5:
        amount = counted(distance, NOUNS["hours"][0], "nom")
    english = f"{amount.en} {'past' if past else 'to'} {near.en}"
    if distance == 25:
        return Phrase(english, f"fünf {'vor' if past else 'nach'} {half}")
    return Phrase(english, f"{amount.de} {'nach' if past else 'vor'} {near.de}")


def price(euros: int, cents: int = 0) -> Phrase:
    """Return an amount of money: `one euro and fifty cents`, `ein Euro und fünfzig Cent`."""
    english, german = english_number(euros) + " euro" + "s" * (euros != 1), f"{german_count(euros)} Euro"
    if cents:
        english += f" and {english_number(cents)} cent" + "s" * (cents != 1)
        german += f" und {german_count(cents)} Cent"
    return Phrase(english, german)


# ---- Grammar: noun phrases and clauses, each written out in both languages -----------------------------


def join(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def both(*parts: Phrase) -> Phrase:
    return Phrase(join(*(part.en for part in parts)), join(*(part.de for part in parts)))


def sentence(english: str, german: str, mark: str = ".") -> Phrase:
    """Finish both sides: the mark, no doubled punctuation, a capital at the start."""
    finished = []
    for text in (english + mark, german + mark):
        text = text.replace(",,", ",").replace(",.", ".").replace(",?", "?")
        finished.append(text[0].upper() + text[1:])
    return Phrase(*finished)


@dataclass(frozen=True)
class NounPhrase:
    determiner: Determiner
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

    def german(self, case: str, negated: bool = False) -> str:
        """Decline the phrase (nom, acc or dat); negated, `ein` and a missing article become `kein`."""
        column = 3 if self.plural else "mfn".index(self.noun.gender)
        determiner = KEIN if negated and self.determiner in (A, NO_ARTICLE) else self.determiner
        article = determiner.de
        if determiner.family == "der":
            article = ARTICLES[case].split()[column]
        elif determiner.family == "ein":
            article += EIN_ENDINGS[case].split()[column].strip("-")
        ending = ADJECTIVE_ENDINGS[determiner.family][case].split()[column]
        adjective = ADJECTIVES[self.adjective] + ending if self.adjective else ""
        if self.plural:
            noun = self.noun.de_plural
            return join(article, adjective, noun + ("n" if case == "dat" and noun[-1] not in "ns" else ""))
        return join(article, adjective, self.noun.oblique if case != "nom" and self.noun.oblique else self.noun.de)

    def phrase(self, case: str) -> Phrase:
        return Phrase(self.english, self.german(case))


def counted(n: int, noun: Noun, case: str, adjective: str = "") -> Phrase:
    """Return so many things, `three red apples`; a single one as with the article, `eine Stunde`."""
    if n == 1:
        return NounPhrase(Determiner("one", "ein", "ein"), noun, adjective).phrase(case)
    return NounPhrase(Determiner(*number(n), "bare"), noun, adjective, plural=True).phrase(case)


@dataclass(frozen=True)
class Subject:
    name: Phrase
    person: int
    pronoun: str = ""  # the key in PRONOUNS; none where English would have a choice (the child: he, she, it)
    noun: Noun | None = None


PRONOUNS = {
    english: Subject(Phrase(english, german), person, english)
    for (english, german), person in zip(
        phrases("I ich; he er; she sie; we wir; they sie"), (FIRST, THIRD, THIRD, PLURAL, PLURAL), strict=True
    )
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
    adjuncts: Phrase = NOTHING


def english_auxiliary(clause: Clause) -> tuple[str, str]:
    """Return what questions and negation are made of: (`does`, `buy`), (`do`, `want to buy`), (`can`, `buy`)."""
    verb, third = clause.verb.en, clause.subject.person == THIRD
    if clause.tense == "past":
        return "did", verb
    if clause.tense in ("present", "want"):
        return "does" if third else "do", f"want to {verb}" if clause.tense == "want" else verb
    return clause.tense, verb


def english_predicate(clause: Clause) -> str:
    auxiliary, base = english_auxiliary(clause)
    if clause.negated:
        return f"{auxiliary} not {base}".replace("can not", "cannot")
    if clause.tense == "past":
        return clause.verb.en_past
    if auxiliary in ("do", "does"):
        third_want = base.replace("want to", "wants to", 1)
        return base if auxiliary == "do" else third_want if third_want != base else clause.verb.en_s
    return f"{auxiliary} {base}"
