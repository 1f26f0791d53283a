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
MONTHS = (
    "january february march april may june july august september october november december".split()
)
DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
PARTS = {"morning": (8, 12), "afternoon": (12, 16), "evening": (16, 20), "night": (20, 24)}

# Words that count only with a capital inside a sentence.
CAPITALS = frozenset({"sun", "sat", "mon", "wed", "thu", "fri", "mar", "jan", "dec"}) - {"thu", "jan", "dec"}

FUTURE = frozenset(
    "will ll shall gonna going won tomorrow next upcoming planning plan plans schedule book set let can could "
    "would please able soon coming meet meeting remind 'll forward".split()
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
    words["sept"] = ("month", 9)
    for k, word in enumerate(DAYS):
        for short in (word, word[:3]):
            words[short] = ("dow", k)
        words[word + "s"] = ("dows", k)
    words |= {w: ("dow", 1) for w in ("tues",)} | {w: ("dow", 3) for w in ("thur", "thurs")} | {"weds": ("dow", 2)}
    for word, unit in {
        "second": "second", "minute": "minute", "hour": "hour", "day": "day", "week": "week", "month": "month",
        "year": "year", "decade": "decade", "century": "century", "quarter": "quarter", "weekend": "weekend",
        "fortnight": "fortnight", "min": "minute", "sec": "second", "hr": "hour", "yr": "year", "wk": "week",
    }.items():  # fmt: skip
        if word not in ("second",):
            words[word] = ("unit", unit)
        words[word + "s"] = ("units", unit)
    words["centuries"] = ("units", "century")
    words["mins"] = ("units", "minute")
    words["weekends"] = ("weekends", "weekend")
    words["wks"] = ("units", "week")
    words["workweek"] = ("workweek", None)
    words["weekday"] = ("unit", "weekday")
    words["weekdays"] = ("weekdays", None)
    for word, (first, last) in PARTS.items():
        words[word] = ("part", (first, last, word))
        words[word + "s"] = ("parts", (first, last, word))
    words |= {w: ("modal", None) for w in "will would can could should might must not 'll 't ’ll ’t".split()}
    words |= {w: ("pron", None) for w in "i we you he she it they is was my our".split()}
    words |= {
        "nite": ("part", (20, 24, "night")),
        "lunchtime": ("meal", (11, 13, "lunchtime")), "dinnertime": ("meal", (16, 20, "dinnertime")),
        "daytime": ("meal", (8, 18, "daytime")), "midday": ("noon", 12), "noon": ("noon", 12),
        "midnight": ("noon", 0), "breakfast": ("food", (8, 12)), "lunch": ("food", (11, 13)),
        "dinner": ("food", (16, 20)), "tonight": ("tonight", None), "tonite": ("tonight", None),
        "today": ("deictic", 0), "yesterday": ("deictic", -1), "tomorrow": ("deictic", 1),
        "tmrw": ("deictic", 1), "tmr": ("deictic", 1), "otd": ("deictic", 0), "eod": ("eod", None),
        "spring": ("season", "spring"), "summer": ("season", "summer"), "fall": ("fall", "autumn"),
        "autumn": ("season", "autumn"), "winter": ("season", "winter"),
        "ago": ("ago", None), "back": ("back", None), "earlier": ("earlier", None), "later": ("later", None), "as": ("xas", None), "no": ("no", None), "greater": ("more", None), "per": ("per", None),
        "hence": ("later", None), "now": ("now", None), "present": ("present", None),
        "last": ("last", None), "past": ("past", None), "previous": ("prev", None), "preceding": ("prev", None),
        "next": ("next", None), "coming": ("next", None), "upcoming": ("next", None),
        "following": ("following", None), "this": ("this", None), "current": ("this", None), "these": ("these", None),
        "that": ("that", None), "same": ("same", None), "other": ("other", None), "every": ("every", None),
        "each": ("every", None), "all": ("all", None), "whole": ("whole", None), "entire": ("whole", None),
        "once": ("once", 1), "twice": ("once", 2), "times": ("times", None), "time": ("timeword", None),
        "early": ("early", "begin"), "mid": ("mid", "middle"), "late": ("late", "end"),
        "beginning": ("edge", "begin"), "start": ("edge", "begin"), "middle": ("edge", "middle"),
        "end": ("edge", "end"), "half": ("half", 0.5), "couple": ("couple", 2), "few": ("few", 3),
        "several": ("several", 3), "dozen": ("dozen", 12), "a": ("a", 1), "an": ("a", 1), "the": ("the", None),
        "of": ("of", None), "in": ("in", None), "on": ("on", None), "at": ("at", None), "from": ("from", None),
        "to": ("to", None), "till": ("until", None), "til": ("until", None), "until": ("until", None),
        "through": ("through", None), "thru": ("through", None), "and": ("and", None), "or": ("or", None),
        "between": ("between", None), "before": ("before", None), "prior": ("prior", None),
        "after": ("after", None), "since": ("since", None), "by": ("by", None), "for": ("for", None),
        "within": ("within", None), "during": ("during", None), "over": ("over", None),
        "around": ("about", None), "about": ("about", None), "circa": ("about", None), "approximately": ("about", None),
        "nearly": ("about", None), "almost": ("about", None), "roughly": ("about", None), "only": ("only", None),
        "more": ("more", None), "less": ("less", None), "than": ("than", None), "least": ("least", None),
        "oclock": ("oclock", None), "clock": ("clockword", None), "o": ("o", None), "old": ("old", None),
        "week's": ("unit", "week"), "'s": ("s", None), "’s": ("s", None), "starting": ("starting", None),
        "beginning ": ("starting", None), "commencing": ("starting", None), "good": ("good", None),
        "daily": ("freq", "day"), "weekly": ("freq", "week"), "monthly": ("freq", "month"),
        "yearly": ("freq", "year"), "annually": ("freq", "year"), "annual": ("freq", "year"),
        "quarterly": ("freq", "quarter"), "biweekly": ("freq", "week"), "bimonthly": ("freq", "month"),
        "semiannual": ("freq", "year"), "semiannually": ("freq", "year"), "nightly": ("freq", "day"),
        "hourly": ("freq", "hour"), "biannual": ("freq", "year"), "bi": ("bi", None), "everyday": ("freq", "day"),
        "fiscal": ("fiscal", "fy"), "school": ("fiscal", "sy"), "calendar": ("fiscal", "cy"),
        "fy": ("fyshort", "fy"), "sy": ("fyshort", "sy"), "cy": ("fyshort", "cy"),
        "work": ("work", None), "working": ("work", None), "business": ("work", None), "long": ("long", None),
        "date": ("dateword", None), "new": ("new", None), "eve": ("eve", None), "christmas": ("holiday", "christmas"),
        "xmas": ("holiday", "christmas"), "easter": ("holiday", "easter"), "halloween": ("holiday", "halloween"),
        "thanksgiving": ("holiday", "thanksgiving"), "juneteenth": ("holiday", "juneteenth"),
        "black": ("black", None), "cyber": ("cyber", None), "boxing": ("boxing", None), "earth": ("namer", "earth day"),
        "labor": ("namer", "labor day"), "labour": ("namer", "labor day"), "memorial": ("namer", "memorial day"),
        "independence": ("namer", "independence day"), "mlk": ("namer", "mlk day"), "may's": ("may", 5),
        "veterans": ("namer", "veterans day"), "columbus": ("namer", "columbus day"),
        "presidents": ("namer", "presidents day"), "groundhog": ("namer", "groundhog day"),
        "workers": ("namer", "may day"), "mother": ("person", "mother"), "mothers": ("person", "mother"),
        "father": ("person", "father"), "fathers": ("person", "father"), "valentine": ("saint", "valentine"),
        "valentines": ("saint", "valentine"), "patrick": ("saint", "patrick"), "patricks": ("saint", "patrick"),
        "saint": ("st", None), "st": ("st", None), "fools": ("fools", None), "international": ("intl", None),
        "am": ("xam", None), "q": ("q", None), "h": ("hword", None), "ct": ("zone", None),
        "moment": ("moment", None), "times ": ("times", None), "weeks'": ("units", "week"), "don": ("not", None),
        "then": ("then", None), "ad": ("zone", None), "utc": ("zone", None), "gmt": ("zone", None),
        "ends": ("ends", None), "right": ("right", None), "when": ("when", None), "minute's": ("unit", "minute"), "sometime": ("sometime", None), "any": ("any", None), "year-old": ("old", None),
    }  # fmt: skip
    return words


def read_numbers(tokens: list[Token], classes: Classes) -> list[Token]:
    """Joins number words: cardinals to class `wn`, ordinals to `ordw`."""
    ones, tens, hundred, thousand = (classes.code(n) for n in ("ones", "tens", "hundred", "thousand"))
    joiners = (classes.code("dash"), classes.code("and"))
    ordw, wn = classes.code("ordw"), classes.code("wn")
    simple = (ones, tens)
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
