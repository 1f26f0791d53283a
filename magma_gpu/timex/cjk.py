"""Cuts Chinese and Japanese texts, which have no blanks, into English words of time.

Dates, times of day and amounts are read here, because digits and characters mix in them; words come from a
language's phrase book, the longest first. What a reader would not guess: numbers in characters count only before a
character that counts something, so that the "one" of everyday words is not a number.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from magma_gpu.timex.rewrite import FILLER, MONTHS, Piece

_DIGITS = {c: k for k, c in enumerate("〇一二三四五六七八九")} | {"零": 0, "两": 2, "兩": 2}
_N = r"[\d〇零一二两兩三四五六七八九十百]+"
_ERAS = {"明治": 1867, "大正": 1911, "昭和": 1925, "平成": 1988, "令和": 2018, "民国": 1911, "民國": 1911}
_HALVES = {
    "上午": "am", "午前": "am", "早上": "am", "早晨": "am", "清晨": "am", "凌晨": "am", "朝": "am",
    "今晨": "am", "早": "am", "下午": "pm", "午後": "pm", "晚上": "pm", "傍晚": "pm", "夜": "pm",
    "夜の": "pm", "朝の": "am", "晚": "pm", "夕方": "pm", "晚间": "pm", "晩": "pm", "夜里": "pm",
    "中午": "noon", "正午": "noon",
}  # fmt: skip
_HALF = "|".join(sorted(_HALVES, key=len, reverse=True))

_DATE = re.compile(
    rf"(?P<era>{'|'.join(_ERAS)})(?P<ey>元|{_N})年(?:(?P<em>{_N})月(?:(?P<ed>{_N})[日号號])?)?"
    rf"|(?P<y>\d{{4}}|[〇零一二三四五六七八九]{{4}}|\d\d|[〇零一二三四五六七八九]{{2}})\s?年(?!半|前|后|後|間|间|以内|内)的?(?P<m>{_N})月的?(?:份)?(?:(?:初)?(?P<d>{_N})[日号號]?)?"
    rf"|(?P<yo>\d{{4}}|[〇零一二三四五六七八九]{{4}}|[〇零]{{1}}[一二三四五六七八九]|[二一][〇零][一二三四五六七八九〇零]{{2}})\s?年(?!半|间|間)"
    rf"|(?P<m2>{_N})月(?!間)的?(?P<d2>{_N})[日号號](?!間|间)"
    rf"|(?P<m3>{_N})月(?!間|间)份?"
    rf"|(?<![\d第])(?P<d3>{_N})[日号號](?![間间内前後后常])"
)
_TIME = re.compile(
    rf"(?P<half>{_HALF})?(?P<h>{_N})(?:点钟?|點鐘?|時(?!間)|时(?!间))(?:(?P<half2>半)|(?P<q>[一三])刻|(?P<mi>{_N})(?:分(?!钟|鐘|間|之)(?:(?P<s>{_N})秒)?|(?![\d日号天年月周週時时点點个個]))?)?(?:頃|ごろ|左右)?"
    rf"|(?P<half3>{_HALF})\s?(?P<hm>\d{{1,2}}[:：]\d\d)(?::\d\d)?"
)
_UNITS = {
    "秒钟": "seconds", "秒間": "seconds", "秒": "seconds", "分钟": "minutes", "分鐘": "minutes",
    "分間": "minutes", "分": "minutes", "小时": "hours", "小時": "hours", "钟头": "hours",
    "鐘頭": "hours", "時間": "hours", "时": "hours", "天": "days", "日間": "days", "日间": "days",
    "晩": "nights", "晚": "nights", "泊": "nights", "星期": "weeks", "礼拜": "weeks",
    "禮拜": "weeks", "周": "weeks", "週間": "weeks", "週": "weeks", "周末": "weekends",
    "月": "months", "ヶ月間": "months", "か月間": "months", "ヶ月": "months", "か月": "months",
    "カ月": "months", "箇月": "months", "季度": "quarters", "四半期": "quarters", "年間": "years",
    "年": "years", "营业日": "days", "営業日": "days", "工作日": "days", "世纪": "centuries",
    "日": "days", "年代": "decades", "十年": "decades",
}  # fmt: skip
_UNIT = "|".join(sorted(_UNITS, key=len, reverse=True))
_AMOUNT = re.compile(
    rf"(?P<n>{_N}(?:\.\d+)?|数|數|几|幾|半)\s?(?P<half>半)?(?P<ge>个|個|ヶ|か|カ)?(?P<half2>半)?(?P<u>{_UNIT})(?P<half3>半)?(?:間|间)?"
)

# Words that may belong to one date, in the notation of `magma_gpu.timex.rewrite.order`.
TIMED = (
    r"ISO|MONTH|\d+|\d+th|DOW|STEP|UNIT|PART|CLOCK|SEASON|HOLIDAY|am|pm|today|tomorrow|yesterday|tonight|noon|midnight|"
    r"the|on|ago|day|before|after|year|new|mother's"
)


def numeral(text: str) -> int | None:
    """Returns the value of a number in digits, in characters read as digits, or in characters with ten and hundred."""
    if text.isdigit() and text.isascii():
        return int(text[:9])
    if not any(c in text for c in "十百"):
        digits = [int(c) if c.isdigit() and c.isascii() else _DIGITS.get(c) for c in text]
        return None if None in digits else int("".join(map(str, digits)))
    total, current = 0, 0
    for char in text:
        if char == "百":
            total, current = total + (current or 1) * 100, 0
        elif char == "十":
            total, current = total + (current or 1) * 10, 0
        elif char in _DIGITS:
            current = _DIGITS[char]
        else:
            return None
    return total + current


@dataclass(frozen=True, slots=True)
class Cutter:
    """Cuts texts by one phrase book."""

    book: Mapping[str, str]
    # Whether "15分" may be a time's minutes only, and "3日" a day of the month.
    longest: int

    def cut(self, text: str) -> list[Piece]:
        """Returns English words of time, and a filler for each stretch of other characters."""
        pieces: list[Piece] = []
        at = 0
        while at < len(text):
            for read in (_time_at, _phrase_at(self), _date_at, _amount_at, _digits_at):
                found = read(text, at)
                if found is not None:
                    words, last = found
                    pieces.extend(Piece(word, at, last) for word in words.split())
                    at = last
                    break
            else:
                char = text[at]
                if char in "。！？!?\n；;":
                    pieces.append(Piece(".", at, at + 1))
                elif char in "-–—~～〜,，、/()（）:<>=":
                    word = {"，": ",", "、": ",", "～": "~", "〜": "~", "（": "(", "）": ")"}.get(char, char)
                    pieces.append(Piece(word, at, at + 1))
                elif not char.isspace() and not (pieces and pieces[-1].word == FILLER and pieces[-1].last == at):
                    pieces.append(Piece(FILLER, at, at + 1))
                elif not char.isspace():
                    pieces[-1] = Piece(FILLER, pieces[-1].first, at + 1)
                at += 1
        return pieces


Reader = Callable[[str, int], tuple[str, int] | None]


def _phrase_at(cutter: Cutter) -> Reader:
    def read(text: str, at: int) -> tuple[str, int] | None:
        for size in range(min(cutter.longest, len(text) - at), 0, -1):
            word = cutter.book.get(text[at : at + size])
            if word is not None:
                return word, at + size
        return None

    return read


_ISO = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?!\d)|(\d{1,2})([-/])(\d{1,2})\6(\d{4}|\d\d)(?!\d)")


def _date_at(text: str, at: int) -> tuple[str, int] | None:
    iso = _ISO.match(text, at)
    if iso is not None and (at == 0 or not text[at - 1].isdigit()):
        if iso[1]:
            return f"{iso[1]}-{iso[3]}-{iso[4]}", iso.end()
        if len(iso[8]) == 2:
            return f"20{iso[5]}-{iso[7]}-{iso[8]}", iso.end()
        day, month = (
            sorted((int(iso[5]), int(iso[7])), reverse=True) if int(iso[7]) > 12 else (int(iso[5]), int(iso[7]))
        )
        return (f"{iso[8]}-{month}-{day}", iso.end()) if month <= 12 else None
    match = _DATE.match(text, at)
    if match is None:
        return None
    words = _date_words(match)
    return None if words is None else (words, match.end())


def _date_words(match: re.Match[str]) -> str | None:
    if match["era"]:
        year = 1 if match["ey"] == "元" else numeral(match["ey"])
        if year is None:
            return None
        return _ymd(_ERAS[match["era"]] + year, match["em"], match["ed"])
    if match["y"] or match["yo"]:
        year = numeral(match["y"] or match["yo"])
        if year is None:
            return None
        if year < 100:
            year += 2000 if year < 50 else 1900
        return _ymd(year, match["m"], match["d"])
    month = numeral(match["m2"] or match["m3"] or "1")
    day = numeral(match["d2"] or match["d3"] or "1")
    if month is None or day is None or not 1 <= month <= 12 or not 1 <= day <= 31:
        return None
    if match["d3"]:
        return f"on the {day}th ,"
    return f"{MONTHS[month - 1]} {day}" if match["m2"] else MONTHS[month - 1]


def _ymd(year: int, month: str | None, day: str | None) -> str | None:
    if month is None:
        return f"{year:04d}"
    number = numeral(month)
    if number is None or not 1 <= number <= 12:
        return None
    if day is None:
        return f"{MONTHS[number - 1]} {year:04d}"
    return f"{year:04d}-{number}-{numeral(day)}"


def _time_at(text: str, at: int) -> tuple[str, int] | None:
    match = _TIME.match(text, at)
    if match is None:
        return None
    half = _HALVES.get(match["half"] or match["half3"] or "", "")
    if match["hm"]:
        hour, minute = (int(n) for n in re.split("[:：]", match["hm"]))
    else:
        hour = numeral(match["h"])  # type: ignore[assignment]
        minute = (
            30
            if match["half2"]
            else 15 * int(numeral(match["q"]) or 0)
            if match["q"]
            else numeral(match["mi"] or "零") or 0
        )
    if hour is None or hour > 24 or minute > 59:
        return None
    if half == "pm" and hour < 12:
        hour += 12
    elif half == "am" and hour == 12:
        hour = 0
    # A leading nought says that the half of the day is known.
    exact = bool(half) or hour == 0 or hour > 12
    return f"{hour:02d}:{minute:02d}" if exact else f"{hour}:{minute:02d}", match.end()


def _amount_at(text: str, at: int) -> tuple[str, int] | None:
    match = _AMOUNT.match(text, at)
    if match is None:
        return None
    unit = _UNITS[match["u"]]
    if match["u"] == "月" and not match["ge"]:
        return None
    if match["n"] in "数數几幾":
        number = 3.0
    elif match["n"] == "半":
        number = 0.5
    else:
        whole = float(match["n"]) if re.fullmatch(r"\d+\.\d+", match["n"]) else numeral(match["n"])
        if whole is None:
            return None
        number = float(whole)
    if match["half"] or match["half2"] or match["half3"]:
        number += 0.5
    if unit == "years" and number >= 1000:
        return f"{int(number)}", match.end()
    return f"{number:g} {unit}", match.end()


def _digits_at(text: str, at: int) -> tuple[str, int] | None:
    match = re.compile(r"\d+(?:[:.]\d+)*(?:\s?[ap]\.?m\.?)?", re.ASCII).match(text, at)
    if match is None:
        return None
    word = re.sub(r"\s?([ap])\.?m\.?$", r" \1m", match[0])
    return word, match.end()
