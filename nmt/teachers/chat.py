"""What chat models write around a translation, or in place of one. Everything is compared with the source: what the
source has itself belongs to the translation."""

import html
import re

_FLAGS = re.IGNORECASE | re.DOTALL
_COLON = r"\s?[:：]"
_COLONS = re.compile(r"[:：](?!\d|//)")
_ENTITY = re.compile(r"&(?:#\d+|#x[0-9a-f]+|[a-z]\w*);", _FLAGS)

# An opening mark and the marks that close it. Bold and inline code are marks too.
_MARKS = {
    '"': '"', "'": "'", "`": "`", "“": "”“", "„": "“”", "”": "”", "‘": "’‘", "‚": "‘’", "«": "»", "»": "«", "‹": "›",
    "›": "‹", "「": "」", "『": "』", "《": "》", "〈": "〉", "″": "″", "＂": "＂", "〝": "〞〟", "״": "״",
    "*": "*", "_": "_",
}  # fmt: skip
# A mark, but not the apostrophe of a word, nor a point, prime or underscore between letters and digits.
_MARK = re.compile(rf"(?<![^\W_])[{re.escape(''.join(_MARKS))}]|[{re.escape(''.join(_MARKS.values()))}](?![^\W_])")

# Parts of a name or sentence that mean "translation", "answer" or a language, by which labels are known.
_LABEL_WORDS = (
    r"translat(?:ion|ed)|answer|output|response|assistant|result|target|source|text|"  # English
    r"übersetz|antwort|tradu[cçz]|réponse|respuesta|resposta|risposta|vertaling|vertaald|antwoord|"  # West of Europe
    r"översätt|oversæt|oversett|käännö|tõlge|fordítás|překlad|preklad|tłumacz|prijevod|prevod|превод|"
    r"перевод|переклад|пераклад|vertim|tulkojum|μετάφραση|çeviri|tercüme|"
    r"翻[译譯訳]|[译譯訳]文|번역|ترجم|अनुवाद|অনুবাদ|மொழிபெயர்ப்பு|คำแปล|terjemah|bản dịch|tafsiri|fassarar?|תרגום|ትርጉም|"
    # Names of languages in themselves.
    r"deutsch|français|español|português|italiano|nederlands|svenska|dansk|norsk|suomi|polski|čeština|magyar|türkçe|"
    r"русский|українська|中文|[汉漢]语|日本語|한국어|العربية|فارسی|हिन्दी|हिंदी|বাংলা|தமிழ்|ไทย|bahasa|tiếng việt|kiswahili"
)
# "Sure!", "Here is the translation of your text into Swahili:".
_GREETING = re.compile(
    r"^(?:(?:sure|certainly|of course|okay|ok|absolutely)\b[^:：\n]{0,20}[!,.:：]\s+)?"
    r"(?:(?:here(?:['’]s| is| are| you)|the following|the translation|this is the|hier ist|voici|aquí (?:está|tienes)|"
    rf"aqui está|ecco|вот|以下是|这是|以下が)[^:：\n]{{0,100}}{_COLON}|(?<=[!,.:：]\s))\s*",
    _FLAGS,
)
# Reasoning, fences, tags around everything, and ends of a turn that the service should have taken off: what is left is
# in the group. The source has none of them if the first text is not in it.
_WRAPPINGS = (
    ("<think", re.compile(r"^<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)(.*)$", _FLAGS)),
    ("</think", re.compile(r"^.*</think(?:ing)?>(.*)$", _FLAGS)),  # the beginning was in the prompt
    ("```", re.compile(r"^```[\w-]*[ \t]*\n?(.*?)\n?[ \t]*```$", _FLAGS)),
    ("<", re.compile(r"^<(?P<tag>[a-z]\w*)>(.*)</(?P=tag)>$", _FLAGS)),
    ("<", re.compile(r"^(.*?)(?:</s>|<\|?(?:im_end|end_of_turn|endoftext|eot_id|eos|end)\|?>)+$", _FLAGS)),
)

# A refusal speaks of the text, of translating or of the model, so "I'm sorry, I can't come" is none.
_TASK = (
    r"translat|assist|help (?:you )?with|fulfil|comply|provide|process|generate|respond|engage|"
    r"übersetz|tradu[cçz]|tradur|vertal|перев[ео]|переклад|tłumacz|přelož|翻[译譯訳]|번역|ترجم|अनुवाद|çevir|terjemah|dịch|tafsiri"
)
_REFUSALS = re.compile(
    # I cannot
    rf"\bI(?:['’]m| am)? (?:really |very )?(?:sorry|unable|afraid|not able|apologi[sz]e)\b[^.!?]{{0,60}}\b(?:{_TASK})|"
    rf"\bI (?:can ?not|can['’]?t|won['’]?t|will not|am not able to|do not|don['’]t) (?:{_TASK})|"
    rf"\b(?:leider|es tut mir leid|ich kann)\b[^.!?]{{0,60}}(?:{_TASK}|helfen|unterstützen)|"
    rf"\b(?:désolée?|je ne (?:peux|suis)|lo siento|no puedo|desculpe|não posso|mi dispiace|non posso|helaas|het spijt me|"
    rf"ik kan|przepraszam|nie mogę|omlouvám|nemohu|maaf|xin lỗi|samahani|siwezi|üzgünüm)\b[^.!?]{{0,60}}"
    rf"(?:{_TASK}|aid[eao]|ayud|ajud|aiut|helpen|pom[oó]|bantu|giúp|kusaidia|yardım)|"
    rf"(?:извините|к сожалению|я не могу|вибачте|на жаль)[^.!?]{{0,60}}(?:{_TASK}|помочь|допомог)|"
    rf"(?:抱歉|对不起|對不起|无法|無法|不能|申し訳|すみません|죄송|آسف|لا أستطيع|لا يمكنني|क्षमा|माफ़|खेद)[^。.!?]{{0,40}}"
    rf"(?:{_TASK}|帮助|幫助|提供|协助|お手伝い|お答え|提供|도와|도움|مساعد|मदद|सहायता)|"
    # As an AI language model
    r"\bas an? (?:AI|artificial intelligence|(?:large )?language model)\b|\bI(?:['’]m| am) (?:just |only )?an? (?:AI|"
    r"(?:large )?language model)\b|\b(?:als|comme|como|come) (?:eine?n?|une?|um|un)? ?(?:KI|IA|AI)\b|"
    r"(?:языковая модель|作为(?:一个|一名)?(?:AI|人工智能)|言語モデル|언어 모델|نموذج لغ|भाषा मॉडल|dil modeli|model bahasa|"
    r"mô hình ngôn ngữ|Sprachmodell|modèle de langage|modelo de leng|modelo de ling)|"
    # Please give me the text
    r"\b(?:please|could you|can you|kindly)\b[^.!?]{0,30}\b(?:provide|share|give|send|paste|enter|supply|clarify)\b"
    r"[^.!?]{0,40}\b(?:text|sentence|line|phrase|content|passage|context)|"
    r"\b(?:text|sentence) (?:to|you(?:['’]d| would) like (?:me )?to|you want (?:me )?to) (?:be )?translat|"
    r"(?:请|請)[^。]{0,10}提供|bitte\b[^.!?]{0,30}\bText|veuillez\b[^.!?]{0,30}\btexte|por favor\b[^.!?]{0,30}\btext",
    _FLAGS,
)
# Words that begin a note, with a colon after them or in brackets, and sentences to the reader at the end.
_NOTE_WORDS = (
    r"(?:translat(?:ion|or)(?:['’]s)? )?notes?|n\.?b\.?|literal(?:ly)?|lit\.?|literal(?: meaning| translation)|explanation|"
    r"alternative(?:ly)?|alternate(?: translation)?|pronunciation|transliteration|romani[sz]ation|pinyin|meaning|context|"
    r"breakdown|or|anmerkung|hinweis|wörtlich|remarque|note de traduction|littéralement|nota|literalmente|letteralmente|"
    r"opmerking|letterlijk|примечание|буквально|примітка|uwaga|dosłownie|poznámka|doslova|注[意释釋]?|备注|說明|说明|直译|注記|"
    r"備考|直訳|참고|직역|ملاحظة|حرفيا|नोट|टिप्पणी|शाब्दिक|not|catatan|secara harfiah|lưu ý|ghi chú|nghĩa đen|kumbuka|maelezo"
)
_NOTES = (
    (re.compile(rf"(?:^|[\s*(（\[])(?:{_NOTE_WORDS})\**{_COLON}", _FLAGS), _COLONS),
    (re.compile(rf"[(（\[]\s*(?:{_NOTE_WORDS})\b[^)）\]]*[)）\]]\W*$", _FLAGS), re.compile(r"[(（\[]")),
)
_CHAT = re.compile(
    r"\blet me know if\b[^.!?]{0,40}\b(?:need|want|would like|questions|help|else|changes|like me)|"
    r"\b(?:i )?hope (?:this|that) helps|\bfeel free to ask|\bhappy to help|\bwould you like me to|"
    r"\bthis (?:is a |sentence |phrase )?(?:translat(?:ion|es)|means)\b|\bin this translation\b|\bi (?:have )?(?:translated|"
    r"used|kept|chose)\b[^.!?]{0,80}\b(?:translat|word|term|original)|"
    r"\b(?:is|are|was) the (?:\w+ )?translation of|\bif you need (?:any|further|more|anything)\b|"
    r"希望(?:这|這)?(?:对|對)?您?有(?:所)?(?:帮助|幫助)|如果您(?:有|需要)|lass(?:en sie)? (?:es )?mich wissen, (?:wenn|falls|ob)",
    _FLAGS,
)


class Labels:
    """Takes off what a chat puts around a translation. names: of both languages, which may stand before an answer."""

    def __init__(self, names: tuple[str, ...]) -> None:
        words = rf"(?:{_LABEL_WORDS}|\b(?:{'|'.join(map(re.escape, filter(None, names)))})\b)"
        decoration = r"[#*_\s]*"
        self._label = re.compile(
            rf"^{decoration}[^\s:：][^:：\n]{{0,30}}?(?<=)(?:{decoration}{_COLON}{decoration}|{decoration}\n)\s*",
            _FLAGS,
        )
        self._words = re.compile(words, _FLAGS)

    def unwrapped(self, source: str, answer: str) -> str:
        """The answer without what is around it and is not around the source. It may have several lines."""
        before = None
        while before != answer:  # one may stand in another, such as a label in a fence
            before, answer = answer, self._once(source, answer.strip())
        if "&" in answer and not _ENTITY.search(source):
            answer = _ENTITY.sub(lambda entity: html.unescape(entity[0]), answer)
        return answer

    def _once(self, source: str, answer: str) -> str:
        for sign, wrapping in _WRAPPINGS:
            if sign in answer.lower() and sign not in source.lower() and (match := wrapping.match(answer)):
                return match[match.lastindex or 1]
        if _wrapped(source, answer):
            return answer[1:-1]
        if (rest := _after_source(source, answer)) is not None:
            return rest
        for pattern in (_GREETING, self._label):
            match = pattern.match(answer)
            if match and match.end() < len(answer) and self._is_label(source, answer, match[0], pattern):
                return answer[match.end() :]
        return answer

    def _is_label(self, source: str, answer: str, label: str, pattern: re.Pattern[str]) -> bool:
        """Whether the first words of the answer are a label: not if the source has words and a colon there too."""
        if not label or (pattern is self._label and not self._words.search(label)):
            return False
        more_colons = len(_COLONS.findall(answer)) > len(_COLONS.findall(source))
        return more_colons or ("\n" in label and not _COLONS.search(label))


def is_refusal(source: str, answer: str) -> bool:
    """Whether the model speaks of itself or of the task in place of a translation."""
    return bool(_REFUSALS.search(answer)) and not _REFUSALS.search(source)


def has_comment(source: str, answer: str) -> bool:
    """Whether there is a note on the translation, or a word to the reader, beside the translation."""
    if _CHAT.search(answer) and not _CHAT.search(source):
        return True
    return any(
        note.search(answer) and not note.search(source) and len(sign.findall(answer)) > len(sign.findall(source))
        for note, sign in _NOTES
    )


def _wrapped(source: str, answer: str) -> bool:
    """Whether a pair of quotation or other marks is around the whole answer, and is not in the source."""
    if len(answer) < 2 or answer[-1] not in _MARKS.get(answer[0], ""):
        return False
    depth = 0
    for place, mark in enumerate(answer):
        if mark == answer[0] != answer[-1] or (mark == answer[0] and (place == 0 or answer[place - 1] in " (*_")):
            depth += 1
        elif mark == answer[-1]:
            depth -= not (mark in "'’" and place + 1 < len(answer) and answer[place + 1].isalnum())
        if depth <= 0 and place < len(answer) - 1:
            return False
    return len(_MARK.findall(answer)) >= len(_MARK.findall(source)) + 2


def _after_source(source: str, answer: str) -> str | None:
    """What follows the repeated source and a sign such as an arrow or a new line; None if it is not repeated."""
    start = answer.find(source)
    if not source or start not in (0, 1) or (start == 1 and answer[0] not in _MARKS):
        return None
    rest = re.match(r"[^\w\s]?\s*(?:→|⇒|[-=]+>|=|\n)\s*(?=\S)", answer[start + len(source) :])
    return None if rest is None else answer[start + len(source) + rest.end() :]
