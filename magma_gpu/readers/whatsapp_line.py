"""Takes apart one line of a WhatsApp export: its stamp, its speaker, its text.

It decides nothing for the file (whatsapp.py does). Exports hide direction marks and narrow spaces in the
stamp; a direction mark before the text is how iPhones set apart what the app itself wrote.
"""

import datetime as dt
import re
from dataclasses import dataclass

_MARKS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
_TO_SPACES = str.maketrans({"\u202f": " ", "\u00a0": " ", "\u2009": " ", **dict.fromkeys(_MARKS)})
_HEADER_CHARS = 80
_MORNING = frozenset({"am", "vm", "vorm", "dop", "de", "sa", "πμ", "pg", "قظ", "ص", "午前", "上午", "오전", "पूर्वाह्न"})
_EVENING = frozenset({"pm", "nm", "nachm", "odp", "du", "ch", "μμ", "ptg", "بظ", "م", "午後", "下午", "오후", "अपराह्न"})
# Vowel signs of Devanagari are no letters to `re`.
_LETTER = r"(?:[^\W\d_]|[\u0900-\u0903\u093a-\u094f])"
_HALF = rf"{_LETTER}{{1,9}}\.?(?: ?{_LETTER}{{1,2}}\.)?"
_DATE = r"(?P<a>\d{1,4})(?P<sep>[./-]|[./] )(?P<b>\d{1,2})(?P=sep)(?P<c>\d{1,4})[. ]?"
_TIME = (
    rf"(?:(?P<before>{_HALF}) ?)?(?P<hour>\d{{1,2}})[:.](?P<minute>\d{{2}})(?:[:.](?P<second>\d{{2}}))?"
    rf"(?: ?(?P<after>{_HALF}))?"
)
# Between date and time some languages have a word.
_THEN = r"(?: г\.)?[,،]? (?:(?:à|às|at|um|klo|kl\.|u) )?"
_STAMP = rf"{_DATE}{_THEN}{_TIME}"
_CLOCK_FIRST = rf"{_TIME}, {_DATE}"
# How a stamp ends, and the two orders in which date and time stand in it. Without a bracket or dash only a full time
# of day, as old iPhones wrote it, tells a stamp from a text.
_STAMPS = {
    "bracket": tuple(re.compile(rf"\[{stamp}\] ?") for stamp in (_STAMP, _CLOCK_FIRST)),
    "dash": tuple(re.compile(rf"{stamp} [-–—] ") for stamp in (_STAMP, _CLOCK_FIRST)),
    "colon": (re.compile(rf"{_DATE}, (?P<before>)(?P<hour>\d{{1,2}}):(?P<minute>\d\d):(?P<second>\d\d)(?P<after>): "),),
}
_CJK_DATE = re.compile(r"\[?\d{4}[年년] ?\d{1,2}[月월] ?\d{1,2}[日일]")
_CJK_TO_SIGNS = str.maketrans("年년月월日일", "////  ")
# Thailand counts years from here.
_BUDDHIST_YEARS = 543
_SPEAKER = re.compile(r"(.{1,120}?):(?: |$)")
_ATTACHED = r"<(?:attached|adjunto|Anhang|pièce jointe|allegato|anexado|bijgevoegd)\s?: [^<>\n]*>"
_OMITTED = (
    r"<(?:media omitted|medien ausgeschlossen|multimedia omitido|médias omis|media omessi|mídia oculta|"
    r"media weggelaten)>|(?:image|video|audio|sticker|gif|document|contact card) omitted"
)
_ATTACHMENT = re.compile(
    rf"\u200e?{_ATTACHED}|\u200e?(?:{_OMITTED})|[^\n]*\.\w{{2,5}} \(file attached\)", re.IGNORECASE
)
_EDITED = re.compile(r" ?\u200e?<This message was edited>\s*\Z")


@dataclass(frozen=True, slots=True)
class Header:
    """The stamp of a line and what stands behind it.

    Attributes:
        numbers: the three numbers of the date, in the line's order.
        clock: hour (0 to 23), minute, second; None where it is no time of day.
        shape: equal for all stamps that one phone writes.
        date_text: the date as it stands there.
        rest: the line behind the stamp.
    """

    numbers: tuple[int, int, int]
    clock: tuple[int, int, int] | None
    shape: tuple[object, ...]
    date_text: str
    rest: str

    def time(self, order: str) -> str | None:
        """Returns the stamp in ISO form, its date read by `order` ("day" or "month" first); None if there is
        no such."""
        first, second, third = self.numbers
        if self.shape[1] == "year first":
            year, month, day = first, second, third
        elif order == "day":
            year, month, day = third, second, first
        else:
            year, month, day = third, first, second
        if self.clock is None:
            return None
        year -= _BUDDHIST_YEARS if year > 2400 else 0
        try:
            return dt.datetime(year if year > 99 else 2000 + year, month, day, *self.clock).isoformat()  # noqa: DTZ001
        except ValueError:
            return None


def parse_header(line: str) -> Header | None:
    """Returns the stamp that a line begins with; None where it begins with none."""
    # Marks and narrow spaces go from the stamp alone; the text keeps them.
    start = line.lstrip(_MARKS)
    if not start[:1].isdigit() and start[:1] != "[":
        return None
    head = start[:_HEADER_CHARS].translate(_TO_SPACES)
    if cjk := _CJK_DATE.match(head):
        head = head[: cjk.end()].translate(_CJK_TO_SIGNS) + head[cjk.end() :]
    kinds = ("bracket",) if head.startswith("[") else ("dash", "colon")
    found = ((kind, n, m) for kind in kinds for n, p in enumerate(_STAMPS[kind]) if (m := p.match(head)) is not None)
    kind, place, match = next(found, ("", 0, None))
    if match is None:
        return None
    a, b, c = match["a"], match["b"], match["c"]
    is_year_first = len(a) == 4
    year = a if is_year_first else c
    half = match["before"] or match["after"]
    if (len(a), len(year)) not in ((4, 4), (1, 4), (2, 4), (1, 2), (2, 2)) or (is_year_first and len(c) > 2):
        return None
    is_evening = _is_evening(half) if half else None
    if half and is_evening is None:
        return None
    shape = (
        (kind, place),
        "year first" if is_year_first else len(year),
        match["sep"],
        bool(match["second"]),
        bool(half),
    )
    # The stamp ends where as many visible characters have passed in the untouched line.
    return Header(
        numbers=(int(a), int(b), int(c)),
        clock=_clock(match, is_evening),
        shape=shape,
        date_text=f"{a}{match['sep']}{b}{match['sep']}{c}",
        rest=_behind(start, match.end()),
    )


def split_speaker(rest: str) -> tuple[str | None, str, bool]:
    """Splits what stands behind a stamp.

    Returns:
        The speaker or None, the text, and whether the app itself wrote it.
    """
    match = _SPEAKER.match(rest)
    # A quotation mark before the colon: a title or name that the app reports.
    if match is None or match[1].count('"') % 2 or "“" in match[1]:
        return None, rest.lstrip(_MARKS), True
    speaker = match[1].translate(_TO_SPACES).strip().removeprefix("~").strip()
    text = _EDITED.sub("", rest[match.end() :])
    is_service = text.startswith("\u200e") and not _ATTACHMENT.match(text)
    return speaker or None, text.lstrip(_MARKS), is_service or not speaker


def is_attachment(text: str) -> bool:
    """Whether a text is nothing but the mark of an attachment."""
    return bool(_ATTACHMENT.fullmatch(text.strip(_MARKS + " \n")))


def without_attachment(text: str) -> str:
    """Returns a text without the marks of what was attached to it."""
    return re.sub(rf"\s?\u200e?{_ATTACHED}", "", text).strip(_MARKS) if "<" in text else text


def _behind(line: str, num_visible: int) -> str:
    at = 0
    while num_visible > 0:
        num_visible -= line[at] not in _MARKS
        at += 1
    return line[at:]


def _is_evening(half: str) -> bool | None:
    word = half.lower().replace(".", "").replace(" ", "")
    return True if word in _EVENING else False if word in _MORNING else None


def _clock(match: re.Match[str], is_evening: bool | None) -> tuple[int, int, int] | None:
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"] or 0)
    if is_evening and hour < 12:
        hour += 12
    elif is_evening is False and hour == 12:
        hour = 0
    return (hour, minute, second) if hour < 24 and minute < 60 and second < 60 else None
