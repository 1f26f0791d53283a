"""The words of stamps in other languages, in English.

It knows the months and weekdays of Spanish, French, German, Italian, Portuguese and Dutch, and the small words between
them; it reads no numbers. What a reader would not guess: small words ("de", "um", "a las") are dropped only where a
month of that kind was found, so that no other stamp becomes readable by them.
"""

import re

_MONTHS = {
    "jan": "januar janvier enero ene gennaio janeiro januari gen",
    "feb": "februar février fevrier févr febrero febbraio fevereiro februari fev",
    "mar": "märz maerz mär mars marzo março marco maart mrt",
    "apr": "april avril avr abril abr aprile",
    "may": "mai mayo maggio maio mei mag",
    "jun": "juni juin junio giugno junho giu",
    "jul": "juli juillet juil julio luglio julho lug",
    "aug": "august août aout agosto ago augustus",
    "sep": "september septembre septiembre setiembre settembre setembro set",
    "oct": "oktober okt octobre octubre ottobre outubro ott out",
    "nov": "november novembre noviembre novembro",
    "dec": "dezember dez décembre decembre déc diciembre dic dicembre dezembro",
}
_DAYS = {
    "mon": "montag lundi lunes lunedì maandag segunda-feira",
    "tue": "dienstag mardi martes martedì dinsdag terça-feira",
    "wed": "mittwoch mercredi miércoles miercoles mercoledì woensdag quarta-feira",
    "thu": "donnerstag jeudi jueves giovedì donderdag quinta-feira",
    "fri": "freitag vendredi viernes venerdì vrijdag sexta-feira",
    "sat": "samstag sonnabend samedi sábado sabado sabato zaterdag",
    "sun": "sonntag dimanche domingo domenica zondag",
}
_OF_MONTHS = {word: english for english, words in _MONTHS.items() for word in words.split()}
_OF_DAYS = {word: english for english, words in _DAYS.items() for word in words.split()}
_WORD = re.compile(r"[^\W\d_]+(?:-feira)?\.?")
_SMALL = re.compile(
    r"(?<![^\W\d_])(?:de|del|di|um|uhr|om|uur|à|às|a las|alle|ore|le|den|el|il)(?![^\W\d_])", re.IGNORECASE
)
_HOURS = re.compile(r"(?<!\d)(\d{1,2})\s?h\s?(\d\d)(?!\d)", re.IGNORECASE)


def in_english(text: str) -> str:
    """Returns a stamp with its month and weekday in English, or as it is where it names none of those known."""
    found = [w for w in (m[0].lower().rstrip(".") for m in _WORD.finditer(text)) if w in _OF_MONTHS]
    if not found:
        return text

    def one(match: re.Match[str]) -> str:
        word = match[0].lower().rstrip(".")
        return _OF_MONTHS.get(word) or _OF_DAYS.get(word) or match[0]

    text = _SMALL.sub(" ", _WORD.sub(one, text))
    return _HOURS.sub(r"\1:\2", text)
