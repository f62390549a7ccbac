"""Text in many scripts, to compare an imported model with the original: short everyday sentences, and characters that
programs often treat differently (quotation marks, dashes, spaces, digits, emoji, accents, forms of letters)."""

from nmt.config.language_codes import scripts
from nmt.data.cleaning.rules.characters import in_scripts
from nmt.errors import NmtError

LINES = (
    "The house is small, but it has a large garden.",
    "Where is the nearest station?",
    "«Guten Morgen», sagte sie – und ging.",
    "“Don’t worry,” he said; ‘it’s only 3.50 €…’",
    "L'été dernier, nous étions à la plage : il faisait 35 °C !",
    "¿Dónde está la biblioteca? ¡Aquí está, señor Núñez!",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "Îți mulțumesc pentru ajutor, Ștefan.",
    "Bu akşam İstanbul'da yağmur yağacak.",
    "Tôi muốn học tiếng Việt mỗi ngày.",
    "Доброе утро! Как дела?",
    "Ця книга дуже цікава.",
    "Καλημέρα, τι κάνεις σήμερα;",
    "صباح الخير، كيف حالك اليوم؟",
    "این کتاب را می‌خوانم.",
    "שלום, מה שלומך?",
    "आज मौसम बहुत अच्छा है।",
    "আমি বাংলায় কথা বলি।",
    "நான் தமிழ் பேசுகிறேன்.",
    "నేను తెలుగు నేర్చుకుంటున్నాను.",
    "ผมชอบกินข้าวผัด",
    "今天天气很好,我们去公园吧。",
    "今日は天気がいいですね。",
    "오늘은 날씨가 정말 좋습니다.",
    "დილა მშვიდობისა!",
    "Բարի լույս, ինչպե՞ս ես։",
    "ሰላም፣ እንዴት ነህ?",
    "ខ្ញុំស្រឡាញ់ភាសាខ្មែរ។",
    "မင်္ဂလာပါ။",
    "Habari za asubuhi, rafiki yangu.",
    "Ｆｕｌｌ　ｗｉｄｔｈ １２３, ﬁne ﬂow, ½ m², ①",
    "Cafe\u0301 and café; a\u00a0b\u2009c\u200bd\u00ade",
    "Prices: 1,234.56 / 1.234,56 / 1 234,56; 50% off!!!",
    "Write to anna@example.org or see https://example.org/a?b=c#d_e.",
    "😀 👨‍👩‍👧 ❤️ 🇩🇪 5️⃣",
    "{name} has %d files in <b>C:\\temp</b> & more_",
    "ALL CAPITALS, Title Case, camelCase, x",
    "  two  spaces   and\ta tab  ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 1234567890123456789",
    "?",
)

# More English, which nearly every model reads or writes.
ENGLISH = (
    "We are going to visit our grandparents next weekend.",
    "The children are playing in the street in front of the school.",
    "I would like to know how much this book costs.",
    "She has been working in this hospital for many years.",
    "It was raining all day, so we stayed at home.",
    "Could you please tell me when the next train leaves?",
)


def lines_in_scripts(code: str) -> list[str]:
    """The lines in the scripts of a language; all lines if its scripts are not known."""
    try:
        names = scripts(code)
    except NmtError:
        names = ()
    lines = [*LINES, *ENGLISH]
    if not names:
        return lines
    readable = in_scripts(tuple(sorted(names)))
    return [line for line in lines if all(readable[ord(character)] for character in line)]
