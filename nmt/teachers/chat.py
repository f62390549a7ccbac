"""Text that chat models write around a translation, or in place of one. Text that is also in the source belongs to the
translation. The word lists are in English and in the languages for which models are mostly used."""

import html
import re


def _words(*lists: str) -> tuple[str, ...]:
    """The words of these lists, which are separated by `|`. A space is the beginning or the end of a word."""
    return tuple("|".join(lists).split("|"))


def _any(*words: str) -> str:
    return f"(?:{'|'.join(words)})"


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


# Opening marks, with those that close them. Bold text and code have marks too.
_MARKS = {
    '"': '"', "'": "'", "`": "`", "“": "”“", "„": "“”„", "”": "”", "‘": "’‘", "‚": "‘’", "«": "»", "»": "«", "‹": "›",
    "›": "‹", "「": "」", "『": "』", "《": "》", "〈": "〉", "″": "″", "＂": "＂", "〝": "〞〟", "״": "״",
    "*": "*", "_": "_",
}  # fmt: skip
# Not the apostrophe in a word or the underscore in a name, which have letters on both sides.
_MARK = re.compile(f"(?<![^\\W_])[{''.join(_MARKS)}]|[{''.join(_MARKS.values())}](?![^\\W_])")

# Wrappings of other kinds: a sign that the source must not have, and a pattern with the answer in the group `rest`.
_WRAPPINGS = (
    ("<think", _compiled(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)(?P<rest>.*)")),
    ("</think", _compiled(r".*</think(?:ing)?>(?P<rest>.*)")),  # it began in the prompt
    ("```", _compiled(r"```(?:[\w-]*[ \t]*\n)?(?P<rest>.*?)```")),
    ("<", _compiled(r"<(?P<tag>[a-z]\w*)>(?P<rest>.*)</(?P=tag)>")),
    # Ends of a turn that the service should have taken off.
    ("<", _compiled(r"(?P<rest>.*?)(?:</s>|<\|?(?:im_end|end_of_turn|endoftext|eot_id|eos|end)\|?>)+")),
)
_ENTITY = _compiled(r"&(?:#\d+|#x[0-9a-f]+|[a-z]\w*);")

_COLON = re.compile(r":(?!\d|//)|：")  # not in times and addresses
# Stems of "translate".
_TRANSLATE = _words(
    "translat|übersetz|traduc|tradução|traduz|traduç|traduir|vertal|tłumacz|превод|перевод|перевед|перевес|переклад",
    "tafsir|fassara|μετάφρα|μεταφρά|çevir|翻译|翻譯|翻訳|译文|譯文|訳文|번역|ترجم|अनुवाद|terjemah|bản dịch| dịch",
)
# What a label before the answer is called: also by the name of a language in that language.
_LABEL = _any(
    rf"(?:ال)?{_any(*map(str.strip, _TRANSLATE))}[^\s:：()]{{0,15}}",
    r"answer|output|response|assistant|result|target|source|text|version|antwort|réponse|respuesta|resposta|risposta",
    r"antwoord|ответ|回答|답변|deutsch|français|español|português|italiano|nederlands|polski|türkçe|русский|українська",
    r"中文|[汉漢英]语|日本語|한국어|العربية|हिन्दी|हिंदी|bahasa|tiếng việt",
)
_LONGEST_LABEL = 250
_SENTENCE = _compiled(rf"[^:：\n]{{0,80}}?{_any(*_TRANSLATE)}[^:：\n]{{0,60}}[:：]\s*(?=\S)")  # in place of a label
_FILLER = r"(?:the|my|final|your|in|into|to|of|from|is|for|sentence|given|following|die|la|le|el|ins|auf|en|em|на)"
_GREETING = (
    r"\b(?:sure|certainly|of course|here(?: is|['’]s| are| you)|hier ist|voici|aquí|aqui|ecco|вот|以下|这是|次の)"
)

# What a model says that cannot or does not want to.
_CANNOT = _words(
    " i'm sorry| i am sorry| sorry but | i'm unable| i am unable| i'm not able| i am not able| i'm afraid| i apologi",
    " i cannot | i can not | i can't | i won't | i will not | i don't| i do not| leider| tut mir leid| ich kann ",
    " kann ich | désolé| je ne peux| je ne suis| lo siento| no puedo| desculpe| não posso| mi dispiace| non posso",
    " helaas| het spijt| ik kan | przepraszam| nie mogę| λυπάμαι| δεν μπορώ| üzgünüm| maaf| tidak dapat| tidak bisa",
    " xin lỗi| không thể| извините| к сожалению| не могу| на жаль| не можу|抱歉|对不起|對不起|无法|無法|不能|申し訳",
    "すみません|できません|죄송|수 없|آسف|لا أستطيع|لا يمكنني|عذرا|क्षमा|माफ़|खेद|नहीं कर सकत",
)
_HELP = _words(
    " assist| help you with| help with| fulfil| comply| provide| generate|helfen|behilflich| aider| ayudar| ajudar",
    " aiutar| helpen|pomóc|βοηθ|yardım|membantu| giúp|помочь|допомог|帮助|幫助|提供|协助|お手伝い|お答え|제공|도와",
    "도움|مساعد|मदद|सहायता",
)
_MODEL = _words(
    " as an ai | as a language model| as a large language model| i'm an ai | i am an ai | i'm a language model",
    " i'm just an ai | i am a language model| i'm a large language model| als ki | als ki-|sprachmodell",
    " modèle de langage| modelo de leng| modelo de ling| modello linguistic| taalmodel|языковая модель|языковой модел",
    "语言模型|語言模型|人工智能助手|言語モデル|언어 모델|نموذج لغ|भाषा मॉडल",
)
_ASK = _words(
    " please| could you| can you| kindly| bitte | veuillez| por favor| per favore| alstublieft| пожалуйста|请|請",
    "ください|주세요| proszę| lütfen| tolong| vui lòng|будь ласка|παρακαλώ|يرجى|من فضلك|कृपया",
)
_TEXT = _words(
    " text | any text| the sentence| a sentence| the source| the content| the line| den text| den satz| le texte",
    " la phrase| el texto| la frase| o texto| a frase| il testo| de tekst|текст|предложение|文本|句子|原文|テキスト",
    "텍스트|문장",
)
# What shows that an answer is a refusal: words of both lists, if the source has no word of the third one.
_REFUSALS = (
    (_CANNOT, _TRANSLATE, _TRANSLATE),
    (_CANNOT, _HELP, _CANNOT + _HELP + _words(" sorry| unable| can't | cannot | couldn't | could not | help")),
    (_MODEL, _MODEL, _MODEL + _words(" ai |language model")),
    (_ASK, _TEXT, _ASK + _TEXT),
    (_ASK, _TRANSLATE, _ASK + _TRANSLATE),
)

# What a note begins with.
_NOTE = _any(
    r"(?:translat(?:ion|or)(?:['’]s)? )?notes?|n\.?b\.?|literal(?:ly)?(?: meaning| translation)?|lit\.?|explanation",
    r"alternative(?:ly)?|alternate(?: translation)?|pronunciation|transliteration|romani[sz]ation|pinyin|meaning",
    r"context|breakdown|or|anmerkung|hinweis|wörtlich|remarque|note de traduction|littéralement|nota|literalmente",
    r"letteralmente|opmerking|letterlijk|примечание|буквально|uwaga|σημείωση|not|catatan|lưu ý|ghi chú|注[意释釋]?",
    r"备注|備註|說明|说明|直译|注記|備考|直訳|참고|직역|ملاحظة|حرفيا|नोट|टिप्पणी|शाब्दिक",
)
# What a model says to the reader.
_CHAT = _words(
    " let me know if you need| let me know if you want| let me know if you'd like| let me know if you would like",
    " let me know if you have any| hope this helps| hope that helps| feel free to ask| happy to help",
    " would you like me to| if you need any| if you need further| if you need more| this translat|in this translation",
    " is the translation of| is a translation of| i have translated| i translated| i've translated",
    " lass mich wissen wenn| lassen sie mich wissen|希望这对|希望对您|希望对你|如果您有|如果您需要|如果你需要",
)
# Notes, each with a sign of which the answer must have more than the source.
_NOTES = (
    (_compiled(rf"(?:^|[\s*(（\[。])(?:{_NOTE})\**\s?[:：]"), _COLON),
    (_compiled(rf"[(（\[]\s*(?:{_NOTE})(?![^\W_])[^()（）\[\]]*[)）\]]\W*$"), re.compile(r"[(（\[]")),
)
_PUNCTUATION = str.maketrans({"’": "'"} | dict.fromkeys('.,!?;:"()[]“”„«»*¿¡', " "))


class Unwrapping:
    """Removes the text that a chat model writes around a translation."""

    def __init__(self, *languages: str) -> None:
        """languages: the English names of both languages, which may stand in a label."""
        label = _any(_LABEL, *(rf"\b{re.escape(name)}\b" for name in languages if name))
        words = rf"(?:{_FILLER}\s+){{0,3}}{label}(?:[\s()\[\]/→,-]*\b{_any(label, _FILLER)}){{0,6}}[)\]]?"
        greeting = rf"[^:：\n]{{0,40}}?{_GREETING}[^:：\n]{{0,80}}?{label}[^:：\n]{{0,60}}?"
        bold = rf"[#\s]*(?P<bold>\*\*|__|)(?:{words}|{greeting})(?:(?P=bold)\s?[:：]|[:：](?P=bold)|(?P=bold)\s*\n)\s*"
        self._label = _compiled(rf"(?:{bold}|{_GREETING}[^\n]{{0,100}}\n\s*)(?=\S)")

    def unwrapped(self, source: str, answer: str) -> str:
        """The answer without the text around it, unless the source has it too. It may have several lines."""
        before, answer = "", answer.strip()
        while before != answer:  # one may stand in another, such as a label in a fence
            before, answer = answer, self._once(source, answer).strip()
        if "&" in answer and not _ENTITY.search(source):
            answer = _ENTITY.sub(lambda entity: html.unescape(entity[0]), answer)
        return answer

    def _once(self, source: str, answer: str) -> str:
        for sign, wrapping in _WRAPPINGS:
            if sign in answer.lower() and sign not in source.lower() and (match := wrapping.fullmatch(answer)):
                return match["rest"]
        if _is_marked(answer) and (
            source[:1] not in _MARKS or len(_MARK.findall(answer)) >= len(_MARK.findall(source)) + 2
        ):
            return answer[1:-1]
        match = self._label.match(answer[:_LONGEST_LABEL])
        if match and ("\n" in match[0] or len(_COLON.findall(answer)) > len(_COLON.findall(source))):
            return answer[match.end() :]
        match = _SENTENCE.match(answer)
        if (
            match
            and not _has(_folded(source), _TRANSLATE)
            and len(_COLON.findall(answer)) > len(_COLON.findall(source))
        ):
            return answer[match.end() :]
        return _after_source(source, answer)


def is_refusal(source: str, answer: str) -> bool:
    """Whether the model speaks of itself or of its task in place of a translation."""
    source, answer = _folded(source), _folded(answer)
    return any(
        _has(answer, first) and _has(answer, second) and not _has(source, others) for first, second, others in _REFUSALS
    )


def has_comment(source: str, answer: str) -> bool:
    """Whether there is a note on the translation, or a word to the reader."""
    if _has(_folded(answer), _CHAT) and not _has(_folded(source), _CHAT):
        return True
    return any(
        len(sign.findall(answer)) > len(sign.findall(source)) and note.search(answer) and not note.search(source)
        for note, sign in _NOTES
    )


def _folded(text: str) -> str:
    """In lower case, without punctuation, so that there is a space before and after each word."""
    return f" {' '.join(text.lower().translate(_PUNCTUATION).split())} "


def _has(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text for word in words)


def _is_marked(text: str) -> bool:
    """Whether a pair of marks is around the whole text: not in `"A" and "B"`."""
    opening, closing = text[:1], text[-1:]
    if len(text) < 3 or closing not in _MARKS.get(opening, ""):
        return False
    depth, last = 0, len(text) - 1
    for i, mark in enumerate(text):
        before, after = text[max(i - 1, 0)], text[min(i + 1, last)]
        if mark == opening and i < last and (opening != closing or i == 0 or before in " ([*_" + opening):
            depth += 1
        elif mark == closing and not (mark in "'’" and before.isalnum() and after.isalnum()):  # not an apostrophe
            depth -= 1
            if depth == 0:
                return i == last
    return False


def _after_source(source: str, answer: str) -> str:
    """What follows the source and a sign such as an arrow or a new line; otherwise the whole answer."""
    start = answer.find(source, 0, len(source) + 1) if source else -1
    if start < 0:
        return answer
    sign = re.match(r"[^\w\s]?\s*(?:→|⇒|[-=]+>|=|\n)\s*(?=\S)", answer[start + len(source) :])
    return answer if sign is None else answer[start + len(source) + sign.end() :]
