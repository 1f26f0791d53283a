"""English words of time and their classes, and the reading of number words.

No rules here. What a reader would not guess: short names that are also common words (Sun, Sat, May, March) count as
dates only with a capital, or next to a number.
"""

from typing import Any

from magma_gpu.timex.grammar import Classes, Token

ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_ORDINALS = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
    "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
).split()
MONTHS = "january february march april may june july august september october november december".split()
DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
PARTS = {"morning": (8, 12), "afternoon": (12, 16), "evening": (16, 20), "night": (20, 24)}

# Words that count only with a capital inside a sentence.
CAPITALS = frozenset({"sun", "sat", "wed", "mon", "mar"})

FUTURE = frozenset(
    "will shall gonna going tomorrow next upcoming planning plan plans schedule book set let can could "
    "wanna free does join would please able soon coming meet meeting remind 'll forward".split()
)
# Words whose class says all, by class.
_PLAIN = {
    "modal": "will would can could should might must not 'll 't ’ll ’t",
    "pron": "i we you he she it they is was my our",
    "tonight": "tonight tonite",
    "eod": "eod",
    "ago": "ago",
    "back": "back",
    "earlier": "earlier",
    "later": "later hence",
    "xas": "as",
    "no": "no",
    "more": "greater more longer",
    "extra": "extra additional consecutive straight odd",
    "semester": "semester semesters",
    "per": "per",
    "now": "now",
    "present": "present",
    "last": "last",
    "past": "past",
    "prev": "previous preceding",
    "next": "next coming upcoming",
    "following": "following",
    "this": "this current",
    "these": "these",
    "that": "that",
    "same": "same",
    "other": "other",
    "every": "every each",
    "all": "all",
    "whole": "whole entire",
    "times": "times x",
    "single": "single",
    "timeword": "time",
    "the": "the",
    "of": "of",
    "in": "in",
    "on": "on",
    "at": "at",
    "from": "from",
    "to": "to",
    "until": "till til until",
    "through": "through thru",
    "and": "and",
    "or": "or",
    "between": "between",
    "before": "before",
    "prior": "prior",
    "ish": "ish",
    "recent": "recent",
    "latter": "latter",
    "ending": "ending",
    "onward": "onward onwards",
    "after": "after",
    "since": "since",
    "by": "by",
    "for": "for",
    "within": "within",
    "during": "during",
    "over": "over",
    "about": "around about circa approximately nearly almost roughly",
    "only": "only exactly",
    "less": "less fewer shorter",
    "than": "than",
    "least": "least",
    "oclock": "oclock",
    "clockword": "clock",
    "o": "o oh",
    "old": "old year-old",
    "s": "'s ’s",
    "starting": "starting commencing",
    "good": "good",
    "bi": "bi",
    "work": "work working business",
    "long": "long",
    "dateword": "date",
    "new": "new",
    "eve": "eve",
    "black": "black",
    "cyber": "cyber",
    "boxing": "boxing",
    "st": "saint st",
    "intl": "international",
    "q": "q",
    "hword": "h",
    "moment": "moment",
    "not": "don",
    "then": "then",
    "ends": "ends",
    "right": "right",
    "when": "when",
    "any": "any",
}
# Words with a value, by class: each value with its words.
_VALUED: tuple[tuple[str, Any, str], ...] = (
    ("part", (20, 24, "night"), "nite"),
    ("meal", (11, 13, "lunchtime"), "lunchtime"),
    ("meal", (16, 20, "dinnertime"), "dinnertime"),
    ("meal", (8, 18, "daytime"), "daytime"),
    ("noon", 12, "midday noon noonish"),
    ("noon", 0, "midnight"),
    ("food", (8, 12), "breakfast"),
    ("food", (11, 13), "lunch"),
    ("food", (16, 20), "dinner"),
    ("deictic", 0, "today otd"),
    ("deictic", -1, "yesterday"),
    ("deictic", 1, "tomorrow tmrw tmr"),
    ("season", "spring", "spring"),
    ("season", "summer", "summer"),
    ("season", "autumn", "autumn"),
    ("season", "winter", "winter"),
    ("fall", "autumn", "fall"),
    ("once", 1, "once"),
    ("once", 2, "twice"),
    ("early", "begin", "early"),
    ("mid", "middle", "mid"),
    ("late", "end", "late"),
    ("edge", "begin", "beginning start"),
    ("edge", "middle", "middle"),
    ("edge", "end", "end"),
    ("half", 0.5, "half"),
    ("couple", 2, "couple pair"),
    ("few", 3, "few"),
    ("several", 3, "several"),
    ("dozen", 12, "dozen"),
    ("a", 1, "a an"),
    ("unit", "week", "week's"),
    ("unit", "minute", "minute's"),
    ("freq", "day", "daily nightly everyday"),
    ("freq", "week", "weekly biweekly fortnightly semiweekly"),
    ("freq", "month", "monthly bimonthly semimonthly"),
    ("freq", "year", "yearly annually annual semiannual semiannually biannual"),
    ("freq", "quarter", "quarterly"),
    ("freq", "hour", "hourly"),
    ("fiscal", "fy", "fiscal"),
    ("fiscal", "sy", "school"),
    ("fiscal", "cy", "calendar"),
    ("fyshort", "fy", "fy"),
    ("fyshort", "sy", "sy"),
    ("fyshort", "cy", "cy"),
    ("holiday", "christmas", "christmas xmas"),
    ("holiday", "easter", "easter"),
    ("holiday", "halloween", "halloween"),
    ("holiday", "thanksgiving", "thanksgiving"),
    ("holiday", "juneteenth", "juneteenth"),
    ("namer", "earth day", "earth"),
    ("namer", "labor day", "labor labour"),
    ("namer", "memorial day", "memorial"),
    ("namer", "independence day", "independence"),
    ("namer", "mlk day", "mlk"),
    ("namer", "veterans day", "veterans"),
    ("namer", "columbus day", "columbus"),
    ("namer", "presidents day", "presidents"),
    ("namer", "groundhog day", "groundhog"),
    ("namer", "may day", "workers"),
    ("namer", "canada day", "canada"),
    ("namer", "australia day", "australia"),
    ("namer", "bastille", "bastille"),
    ("namer", "veterans day", "remembrance armistice"),
    ("namer", "election day", "election"),
    ("namer", "inauguration day", "inauguration"),
    ("may", 5, "may's"),
    ("person", "mother", "mother mothers"),
    ("person", "father", "father fathers"),
    ("saint", "valentine", "valentine valentines"),
    ("saint", "patrick", "patrick patricks"),
    ("units", "week", "weeks'"),
)

# Classes of which a text without digits holds one where it has an expression at all, numbers in words aside.
TRIGGERS = frozenset(
    "unit units deictic dow dows ordw part parts nights moment now season fall freq food meal noon dateword tonight "
    "present weekends weekdays workweek holiday month may decades s saint mardi eod endof semester".split()
)
NUMBERS = frozenset({"ones", "tens", "hundred", "thousand"})
# A lone number in words needs one of these to be a time of day ("half past seven", "seven p.m.", "at seven").
BESIDE_NUMBER = frozenset({"am", "pm", "m", "past", "clock", "oclock", "at"})

PAST = frozenset(
    "was were did had went said met got took came saw made told gave found bought left ate won lost felt thought "
    "began ran wrote read spent held drove flew sang swam taught caught brought built sent fell ve been".split()
)


def lexicon() -> dict[str, tuple[str, Any]]:
    """Returns lower-case words with class name and value."""
    words: dict[str, tuple[str, Any]] = {}
    for k, word in enumerate(ONES):
        words[word] = ("ones", k)
    for k, word in enumerate(TENS):
        words[word] = ("tens", 20 + 10 * k)
        words[word[:-1] + "ies"] = ("decades", 20 + 10 * k)
    for k, word in enumerate(_ORDINALS):
        words[word] = ("ordw", k)
    words["thirtieth"] = ("ordw", 30)
    words["hundred"] = ("hundred", 100)
    words["thousand"] = ("thousand", 1000)
    for k, word in enumerate(MONTHS):
        ambiguous = word in ("may", "march")
        words[word] = ("may" if ambiguous else "month", k + 1)
        if word != "may":
            words[word[:3]] = ("month", k + 1)
    # Words that only rewritten texts of other languages hold.
    words |= {"sept": ("month", 9), "xmarch": ("month", 3), "xmay": ("month", 5)}
    for k, word in enumerate(DAYS):
        for short in (word, word[:3]):
            words[short] = ("dow", k)
        words[word + "s"] = ("dows", k)
    words |= dict.fromkeys(("tues",), ("dow", 1)) | dict.fromkeys(("thur", "thurs"), ("dow", 3)) | {"weds": ("dow", 2)}
    for word, unit in {
        "second": "second", "minute": "minute", "hour": "hour", "day": "day", "week": "week", "month": "month",
        "year": "year", "decade": "decade", "century": "century", "quarter": "quarter", "weekend": "weekend",
        "fortnight": "fortnight", "min": "minute", "sec": "second", "hr": "hour", "yr": "year", "wk": "week",
    }.items():  # fmt: skip
        if word not in ("second",):
            words[word] = ("unit", unit)
        words[word + "s"] = ("units", unit)
    words |= dict.fromkeys(("qtr", "qtrs"), ("unit", "quarter"))
    words |= dict.fromkeys(("week-end", "wkend", "week-ends"), ("unit", "weekend"))
    words |= {"eom": ("endof", "month"), "eoy": ("endof", "year"), "untill": ("until", None)}
    words |= (
        dict.fromkeys(("chinese", "lunar"), ("lunar", None))
        | dict.fromkeys(("rest", "remainder"), ("rest", None))
        | {"just": ("right", None)}
    )
    words |= {"some": ("some", 3), "full": ("whole", None)}
    words |= {
        "palm": ("sundays", "palm sunday"),
        "maundy": ("sundays", "maundy thursday"),
        "pentecost": ("holiday", "pentecost"),
        "saints": ("namer", "all saints"),
    }
    words |= {"another": ("a", 1), "mardi": ("mardi", None), "gras": ("gras", None), "ash": ("ash", None)}
    words |= {"fools": ("namer", "april fools"), "fool": ("namer", "april fools"), "flag": ("namer", "flag day")}
    words |= {"women": ("person", "women"), "womens": ("person", "women"), "arbor": ("namer", "arbor day")}
    words |= {"paddy": ("saint", "patrick"), "souls": ("namer", "all souls")}
    words["martin"] = ("namer", "mlk day")
    words |= {"luther": ("namer", ""), "king": ("namer", "")}
    words["centuries"] = ("units", "century")
    words["mins"] = ("units", "minute")
    words["weekends"] = ("weekends", "weekend")
    words["wks"] = ("units", "week")
    words["workweek"] = ("workweek", None)
    words |= {"workday": ("unit", "weekday"), "workdays": ("units", "weekday")}
    words["weekday"] = ("unit", "weekday")
    words["weekdays"] = ("weekdays", None)
    for word, (first, last) in PARTS.items():
        words[word] = ("part", (first, last, word))
        if word != "night":
            words[word + "s"] = ("parts", (first, last, word))
    words["nights"] = ("nights", (20, 24, "night"))
    for name, plain in _PLAIN.items():
        words |= dict.fromkeys(plain.split(), (name, None))
    for name, value, valued in _VALUED:
        words |= dict.fromkeys(valued.split(), (name, value))
    return words


def read_numbers(tokens: list[Token], classes: Classes) -> list[Token]:
    """Joins number words: cardinals to class `wn`, ordinals to `ordw`."""
    ones, tens, hundred, thousand = (classes.code(n) for n in ("ones", "tens", "hundred", "thousand"))
    joiners = (classes.code("dash"), classes.code("and"))
    ordw, wn = classes.code("ordw"), classes.code("wn")
    simple = (ones, tens)
    if not any(t.code in simple for t in tokens):
        return tokens
    out: list[Token] = []
    k = 0
    while k < len(tokens):
        token = tokens[k]
        if token.code not in simple:
            out.append(token)
            k += 1
            continue
        first, value, last = k, token.value, token.last
        k += 1
        code = wn
        if token.code == tens:
            dash = k < len(tokens) and tokens[k].code == joiners[0]
            j = k + dash
            if j < len(tokens) and tokens[j].code == ones and 1 <= tokens[j].value <= 9:
                value, last, k = value + tokens[j].value, tokens[j].last, j + 1
            elif j < len(tokens) and tokens[j].code == ordw and 1 <= tokens[j].value <= 9:
                value, last, k, code = value + tokens[j].value, tokens[j].last, j + 1, ordw
        while code == wn and k < len(tokens) and tokens[k].code in (hundred, thousand):
            value, last = value * tokens[k].value, tokens[k].last
            k += 1
            j = k + (k < len(tokens) and tokens[k].code == joiners[1])
            rest = read_numbers(tokens[j : j + 3], classes) if j < len(tokens) else []
            if rest and rest[0].code == wn and rest[0].value < value:
                # "two thousand and fifteen": the smaller number belongs to it.
                value, last = value + rest[0].value, rest[0].last
                while k < len(tokens) and tokens[k].last <= last:
                    k += 1
        out.append(Token(code, tokens[first].first, last, value))
    return out
