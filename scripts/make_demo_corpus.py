"""Write an English-German parallel corpus from a small grammar of our own, with exact references.

Every pair is one derivation written out in both languages: the German is a function of the derivation,
never of the English words, so it shows what a word-by-word model cannot do: gender, case and adjective
endings, the verb in second or last place, separable verbs, numbers with the unit before the ten, clock
times (`half past three` is `halb vier`), dates and prices.

    python scripts/make_demo_corpus.py OUTPUT_DIR [--train 40000] [--validation 500] [--test 500] [--seed 1]

Conventions, so that each English sentence has one German one: English numbers are British (`one thousand
and one`), German ones always write the leading one (`eintausendeins`, `einhundert`), the simple past
becomes the German perfect, and definite objects stand before the time (`verkauft das Auto heute`) while
indefinite ones stand after it (`verkauft heute ein Auto`).
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
from typing import Literal, NamedTuple, NoReturn, TypeVar

T = TypeVar("T")
Case = Literal["nom", "acc", "dat"]


class Phrase(NamedTuple):
    """The same thing said in both languages."""

    en: str
    de: str


@dataclass(frozen=True)
class Noun:
    en: str
    en_plural: str
    gender: str  # m, f or n
    de: str
    de_plural: str
    kind: str  # what it is: decides which verbs and adjectives may stand with it
    oblique: str = ""  # weak nouns only: the accusative and dative singular (der Junge, den Jungen)


@dataclass(frozen=True)
class Verb:
    en: str
    en_s: str
    en_past: str
    de: str  # infinitive, without the separable prefix; also the plural form
    de_s: str
    participle: str
    objects: tuple[str, ...] = ()  # kinds of the accusative object
    recipient: bool = False  # takes a dative person
    adjuncts: Literal["place", "free", "to", "into", "none"] = "place"
    prefix: str = ""
    perfect_with_be: bool = False  # ist gegangen, not hat gegangen


class Determiner(NamedTuple):
    en: str
    de: str
    family: Literal["der", "ein", "bare"]  # which endings it takes and calls for


# ---- Tables: the lexicon -------------------------------------------------------------------------------

GOODS = ("furniture", "machine", "text", "food", "clothes", "animal", "home")
PEOPLE = ("person", "relative")

NOUNS = (
    Noun("man", "men", "m", "Mann", "Männer", "person"),
    Noun("woman", "women", "f", "Frau", "Frauen", "person"),
    Noun("child", "children", "n", "Kind", "Kinder", "person"),
    Noun("girl", "girls", "n", "Mädchen", "Mädchen", "person"),
    Noun("boy", "boys", "m", "Junge", "Jungen", "person", "Jungen"),
    Noun("teacher", "teachers", "m", "Lehrer", "Lehrer", "person"),
    Noun("doctor", "doctors", "m", "Arzt", "Ärzte", "person"),
    Noun("student", "students", "m", "Student", "Studenten", "person", "Studenten"),
    Noun("nurse", "nurses", "f", "Krankenschwester", "Krankenschwestern", "person"),
    Noun("brother", "brothers", "m", "Bruder", "Brüder", "relative"),
    Noun("sister", "sisters", "f", "Schwester", "Schwestern", "relative"),
    Noun("aunt", "aunts", "f", "Tante", "Tanten", "relative"),
    Noun("uncle", "uncles", "m", "Onkel", "Onkel", "relative"),
    Noun("daughter", "daughters", "f", "Tochter", "Töchter", "relative"),
    Noun("neighbour", "neighbours", "m", "Nachbar", "Nachbarn", "relative", "Nachbarn"),
    Noun("table", "tables", "m", "Tisch", "Tische", "furniture"),
    Noun("chair", "chairs", "m", "Stuhl", "Stühle", "furniture"),
    Noun("lamp", "lamps", "f", "Lampe", "Lampen", "furniture"),
    Noun("picture", "pictures", "n", "Bild", "Bilder", "furniture"),
    Noun("car", "cars", "n", "Auto", "Autos", "machine"),
    Noun("bicycle", "bicycles", "n", "Fahrrad", "Fahrräder", "machine"),
    Noun("radio", "radios", "n", "Radio", "Radios", "machine"),
    Noun("book", "books", "n", "Buch", "Bücher", "text"),
    Noun("letter", "letters", "m", "Brief", "Briefe", "text"),
    Noun("report", "reports", "m", "Bericht", "Berichte", "text"),
    Noun("apple", "apples", "m", "Apfel", "Äpfel", "food"),
    Noun("pear", "pears", "f", "Birne", "Birnen", "food"),
    Noun("cake", "cakes", "m", "Kuchen", "Kuchen", "food"),
    Noun("coat", "coats", "m", "Mantel", "Mäntel", "clothes"),
    Noun("shirt", "shirts", "n", "Hemd", "Hemden", "clothes"),
    Noun("dress", "dresses", "n", "Kleid", "Kleider", "clothes"),
    Noun("jacket", "jackets", "f", "Jacke", "Jacken", "clothes"),
    Noun("hat", "hats", "m", "Hut", "Hüte", "clothes"),
    Noun("door", "doors", "f", "Tür", "Türen", "opening"),
    Noun("window", "windows", "n", "Fenster", "Fenster", "opening"),
    Noun("box", "boxes", "f", "Kiste", "Kisten", "opening"),
    Noun("dog", "dogs", "m", "Hund", "Hunde", "animal"),
    Noun("cat", "cats", "f", "Katze", "Katzen", "animal"),
    Noun("horse", "horses", "n", "Pferd", "Pferde", "animal"),
    Noun("house", "houses", "n", "Haus", "Häuser", "home"),
    Noun("flat", "flats", "f", "Wohnung", "Wohnungen", "home"),
    Noun("garden", "gardens", "m", "Garten", "Gärten", "home"),
    Noun("hotel", "hotels", "n", "Hotel", "Hotels", "place"),
    Noun("museum", "museums", "n", "Museum", "Museen", "place"),
    Noun("school", "schools", "f", "Schule", "Schulen", "place"),
    Noun("library", "libraries", "f", "Bibliothek", "Bibliotheken", "place"),
    Noun("shop", "shops", "m", "Laden", "Läden", "place"),
    Noun("film", "films", "m", "Film", "Filme", "event"),
    Noun("concert", "concerts", "n", "Konzert", "Konzerte", "event"),
    Noun("meeting", "meetings", "f", "Sitzung", "Sitzungen", "event"),
    Noun("train", "trains", "m", "Zug", "Züge", "vehicle"),
    Noun("bus", "buses", "m", "Bus", "Busse", "vehicle"),
    Noun("ship", "ships", "n", "Schiff", "Schiffe", "vehicle"),
    Noun("company", "companies", "f", "Firma", "Firmen", "firm"),
    Noun("factory", "factories", "f", "Fabrik", "Fabriken", "firm"),
    Noun("day", "days", "m", "Tag", "Tage", "span"),
    Noun("week", "weeks", "f", "Woche", "Wochen", "span"),
    Noun("month", "months", "m", "Monat", "Monate", "span"),
    Noun("year", "years", "n", "Jahr", "Jahre", "span"),
)

# English, German stem (endings are added to it), the kinds of noun it may describe.
ADJECTIVES = (
    ("old", "alt", "person relative furniture machine text clothes opening animal home place vehicle firm"),
    ("new", "neu", "furniture machine text clothes opening home place"),
    ("big", "groß", "furniture machine opening animal home place vehicle firm food"),
    ("small", "klein", "furniture machine opening animal home place vehicle firm food"),
    ("beautiful", "schön", "furniture machine clothes animal home place"),
    ("cheap", "billig", "furniture machine clothes food"),
    ("red", "rot", "furniture machine clothes opening vehicle"),
    ("blue", "blau", "furniture machine clothes opening vehicle"),
    ("black", "schwarz", "furniture machine clothes opening animal"),
    ("white", "weiß", "furniture machine clothes opening animal"),
    ("fresh", "frisch", "food"),
    ("sweet", "süß", "food"),
    ("long", "lang", "text event"),
    ("short", "kurz", "text event"),
    ("young", "jung", "person relative animal"),
    ("friendly", "freundlich", "person relative animal"),
    ("famous", "berühmt", "person relative place firm"),
    ("rich", "reich", "person relative firm"),
    ("clever", "klug", "person relative"),
    ("sick", "krank", "person relative animal"),
)

VERBS = (
    Verb("buy", "buys", "bought", "kaufen", "kauft", "gekauft", GOODS),
    Verb("sell", "sells", "sold", "verkaufen", "verkauft", "verkauft", GOODS),
    Verb("need", "needs", "needed", "brauchen", "braucht", "gebraucht", GOODS),
    Verb("find", "finds", "found", "finden", "findet", "gefunden", GOODS),
    Verb("look for", "looks for", "looked for", "suchen", "sucht", "gesucht", GOODS + PEOPLE),
    Verb("see", "sees", "saw", "sehen", "sieht", "gesehen", GOODS + PEOPLE),
    Verb("repair", "repairs", "repaired", "reparieren", "repariert", "repariert", ("machine", "opening")),
    Verb("write", "writes", "wrote", "schreiben", "schreibt", "geschrieben", ("text",)),
    Verb("eat", "eats", "ate", "essen", "isst", "gegessen", ("food",)),
    Verb("wear", "wears", "wore", "tragen", "trägt", "getragen", ("clothes",)),
    Verb("visit", "visits", "visited", "besuchen", "besucht", "besucht", PEOPLE),
    Verb("call", "calls", "called", "rufen", "ruft", "angerufen", PEOPLE, prefix="an"),
    Verb("invite", "invites", "invited", "laden", "lädt", "eingeladen", PEOPLE, prefix="ein"),
    Verb("pick up", "picks up", "picked up", "holen", "holt", "abgeholt", PEOPLE, prefix="ab"),
    Verb("open", "opens", "opened", "machen", "macht", "aufgemacht", ("opening",), prefix="auf"),
    Verb("close", "closes", "closed", "machen", "macht", "zugemacht", ("opening",), prefix="zu"),
    Verb("give", "gives", "gave", "geben", "gibt", "gegeben", ("text", "food", "clothes"), recipient=True),
    Verb("show", "shows", "showed", "zeigen", "zeigt", "gezeigt", GOODS, recipient=True),
    Verb("send", "sends", "sent", "schicken", "schickt", "geschickt", ("text", "clothes"), recipient=True),
    Verb("bring", "brings", "brought", "bringen", "bringt", "gebracht", ("text", "food"), recipient=True),
    Verb("help", "helps", "helped", "helfen", "hilft", "geholfen", recipient=True),
    Verb("thank", "thanks", "thanked", "danken", "dankt", "gedankt", recipient=True),
    Verb("work", "works", "worked", "arbeiten", "arbeitet", "gearbeitet", adjuncts="free"),
    Verb("wait", "waits", "waited", "warten", "wartet", "gewartet", adjuncts="free"),
    Verb("sleep", "sleeps", "slept", "schlafen", "schläft", "geschlafen", adjuncts="free"),
    Verb("sing", "sings", "sang", "singen", "singt", "gesungen", adjuncts="free"),
    Verb("dance", "dances", "danced", "tanzen", "tanzt", "getanzt", adjuncts="free"),
    Verb("get up", "gets up", "got up", "stehen", "steht", "aufgestanden", (), False, "none", "auf", True),
    Verb("travel", "travels", "travelled", "reisen", "reist", "gereist", (), False, "to", "", True),
    Verb("go", "goes", "went", "gehen", "geht", "gegangen", (), False, "into", "", True),
)

# What the film, the train and the museum do, always with a time.
EVENTS = (
    ("event", Verb("begin", "begins", "began", "beginnen", "beginnt", "begonnen")),
    ("event", Verb("end", "ends", "ended", "enden", "endet", "geendet")),
    ("vehicle", Verb("arrive", "arrives", "arrived", "kommen", "kommt", "angekommen", (), False, "none", "an", True)),
    ("vehicle", Verb("depart", "departs", "departed", "fahren", "fährt", "abgefahren", (), False, "none", "ab", True)),
    ("place", Verb("open", "opens", "opened", "machen", "macht", "aufgemacht", prefix="auf")),
    ("place", Verb("close", "closes", "closed", "machen", "macht", "zugemacht", prefix="zu")),
)

REPORTS = (
    (Verb("say", "says", "said", "sagen", "sagt", "gesagt"), Phrase("that", "dass")),
    (Verb("hope", "hopes", "hoped", "hoffen", "hofft", "gehofft"), Phrase("that", "dass")),
    (Verb("believe", "believes", "believed", "glauben", "glaubt", "geglaubt"), Phrase("that", "dass")),
    (Verb("ask", "asks", "asked", "fragen", "fragt", "gefragt"), Phrase("whether", "ob")),
)
