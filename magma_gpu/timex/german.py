"""The German phrase book and its rules about order."""

import re

from magma_gpu.timex.rewrite import COMMON, MONTHS, Order, begins, clock, number, order, read_book

_DAYS = {
    "monday": "montag", "tuesday": "dienstag", "wednesday": "mittwoch", "thursday": "donnerstag", "friday": "freitag",
    "saturday": "samstag", "sunday": "sonntag",
}  # fmt: skip
_PARTS = {
    "morning": ("morgen", "früh", "frühmorgens", "vormittag"), "afternoon": ("nachmittag",),
    "evening": ("abend", "spätabends"), "night": ("nacht",),
}  # fmt: skip
# Compounds such as "Dienstagabend".
_COMPOUNDS = {
    f"{german}{tail}{ending}": f"{english} {part}"
    for english, german in [*_DAYS.items(), ("saturday", "sonnabend")]
    for part, tails in _PARTS.items()
    for tail in tails
    for ending in ("", "s")
}

BOOK = _COMPOUNDS | read_book("""
zero: null
a: ein, eine, einen, einem, einer, eines
one: eins
two: zwei, zwo
three: drei
four: vier
five: fünf
six: sechs
seven: sieben
eight: acht
nine: neun
ten: zehn
eleven: elf
twelve: zwölf
thirteen: dreizehn
fourteen: vierzehn
fifteen: fünfzehn
sixteen: sechzehn
seventeen: siebzehn
eighteen: achtzehn
nineteen: neunzehn
twenty: zwanzig
twenty one: einundzwanzig
twenty two: zweiundzwanzig
twenty three: dreiundzwanzig
twenty four: vierundzwanzig
twenty five: fünfundzwanzig
twenty six: sechsundzwanzig
twenty seven: siebenundzwanzig
twenty eight: achtundzwanzig
twenty nine: neunundzwanzig
thirty: dreißig, dreissig
forty: vierzig
fifty: fünfzig
sixty: sechzig
seventy: siebzig
eighty: achtzig
ninety: neunzig
hundred: hundert
thousand: tausend
first: erste, ersten, erster, erstes, erstem
second: zweite, zweiten, zweiter, zweites, zweitem
third: dritte, dritten, dritter, drittes
fourth: vierte, vierten, vierter, viertes
fifth: fünfte, fünften, fünfter
sixth: sechste, sechsten, sechster
seventh: siebte, siebten, siebter
eighth: achte, achten, achter
ninth: neunte, neunten, neunter
tenth: zehnte, zehnten, zehnter
eleventh: elfte, elften
twelfth: zwölfte, zwölften
several: mehrere, mehreren
few: einige, einigen, ein paar, paar, wenige, wenigen
half: halb, halbe, halben, halbes, halber
january: januar, jänner, jan
february: februar, feb
xmarch: märz, mrz
april: april, apr
xmay: mai
june: juni, jun
july: juli, jul
august: august, aug
september: september, sept, sep
october: oktober, okt
november: november, nov
december: dezember, dez
monday: montag, mo
tuesday: dienstag
wednesday: mittwoch
thursday: donnerstag
friday: freitag
saturday: samstag, sonnabend
sunday: sonntag
mondays: montags
tuesdays: dienstags
wednesdays: mittwochs, immer mittwochs
thursdays: donnerstags
fridays: freitags
saturdays: samstags
sundays: sonntags
second: sekunde
seconds: sekunden, sek
minute: minute
minutes: minuten, min
hour: stunde
hours: stunden, std
day: tag, tages
days: tage, tagen
week: woche
weeks: wochen
weekend: wochenende
weekends: wochenenden
workweek: arbeitswoche
month: monat, monats
months: monate, monaten
quarter: quartal, vierteljahr
quarters: quartale, quartalen
year: jahr, jahres
years: jahre, jahren
decade: jahrzehnt
decades: jahrzehnte, jahrzehnten
century: jahrhundert
nights: nächte, nächten
quarter of a hour: viertelstunde, eine viertelstunde
1.5 hours: anderthalb stunden, eineinhalb stunden
work days: werktage, werktagen, arbeitstage, arbeitstagen
today: heute
morgen: morgen
yesterday: gestern
the day before yesterday: vorgestern
the day after tomorrow: übermorgen
last night: gestern abend, gestern nacht, letzte nacht
tonight: heute nacht
this evening: heute abend, dieser abend, diesen abend
this morning: heute morgen, heute früh, heute vormittag
this afternoon: heute nachmittag
tomorrow morning: morgen früh, morgen vormittag
tomorrow evening: morgen abend
tomorrow afternoon: morgen nachmittag
in the morning: am morgen, morgens, frühmorgens, am vormittag, vormittags, in der früh, vormittagszeit
in the afternoon: am nachmittag, nachmittags
in the evening: am abend, abends, spätabends
in the night: in der nacht, nachts
afternoon: nachmittag
evening: abend
night: nacht
noon: mittag, mittags
midnight: mitternacht, mitternachts
breakfast: frühstück
lunch: mittagessen
dinner: abendessen
spring: frühling, frühjahr
summer: sommer
autumn: herbst
winter: winter
christmas: weihnachten, ersten weihnachtsfeiertag, erster weihnachtsfeiertag
christmas eve: heiligabend, heiliger abend
boxing day: zweiten weihnachtstag, zweiter weihnachtstag, zweiten weihnachtsfeiertag
new year eve: silvester
new year: neujahr
easter: ostern
valentine day: valentinstag
mother's day: muttertag
father's day: vatertag
workers day: tag der arbeit
last: letzte, letzten, letzter, letztes, letztem, vergangene, vergangenen, vergangener, vergangenes, vorige
last: vorigen, voriger, voriges
next: nächste, nächsten, nächster, nächstes, nächstem, kommende, kommenden, kommender, kommendes, folgende, folgenden
this: diese, diesen, dieser, dieses, diesem, aktuelle, aktuellen
beforelast: vorletzte, vorletzten, vorletztes, vorletztem, vorletzter
afternext: übernächste, übernächsten, übernächstes, übernächstem, übernächster
every: jede, jeden, jeder, jedes, jedem, alle
all: ganze, ganzen, den ganzen
agopre: vor
in: in, im, innerhalb von, binnen
during: während
for: für, seit
of: der, des, vom
the: die, das, den, dem
to: bis zum, bis zur
at: um, gegen
from: von, ab
on: am
until: bis
between: zwischen
and: und
or: oder
after: nach
since: ab dem, seit dem
later: später, danach
earlier: früher, zuvor, vorher
about: etwa, ungefähr, circa, ca ., rund, fast
more than: mehr als, über
less than: weniger als, unter
end of: ende, ende des, ende der, am ende des, am ende der, ende von
beginning of: anfang, anfang des, anfang der, beginn des, beginn der, zu beginn des
middle of: mitte, mitte des, mitte der
now: jetzt, gerade
daily: täglich
weekly: wöchentlich
monthly: monatlich
annual: jährlich
once: einmal
uhr: uhr
viertel: viertel
dreiviertel: dreiviertel
this week: unter der woche, diese woche, dieser woche
saints day: allerheiligen
palm sunday: palmsonntag
calendar: kalender
will: werde, wird, werden, treffen, plane, planen, buche
was: war, waren, hatte, hatten, ging, kam
""")

SUFFIXES = re.compile(r"(\d{1,2})\.(?=\s?(?:[a-zäöü]|$))")

_SAID = r"(?:the |of |in |NUM |\d+th |MONTH |DOW |ISO |CLOCK |year |STEP |UNIT |today |tomorrow |now |oclock |PART )"


def _uhr(match: re.Match[str]) -> list[int | str] | None:
    """Makes "8 oclock" or "18:12" out of "8 Uhr", "18 Uhr 12", "18.12 Uhr"."""
    hour, _, minutes = match[1].strip().partition(".")
    whole, more = number(hour), number(minutes or match[2] or "0")
    if whole is None or more is None or whole > 24 or more > 59:
        return None
    return [f"{whole}:{more:02d}"] if minutes or match[2] else [f"{whole} oclock"]


def _day_month(day: str, month: str) -> list[int | str] | None:
    return [f"{MONTHS[int(month) - 1]} {day}"] if 1 <= int(month) <= 12 else None


ORDERS: tuple[Order, ...] = (
    order(r"morgen (?=at|NUM|CLOCK)", "tomorrow"),
    order(r"((?:DOW|today) )morgen ", 1, "morning"),
    order(r"morgen ", "tomorrow"),
    order(r"(\d{1,2}\.\d\d )uhr ()", make=_uhr),
    order(
        r"((?:NUM |a ){1,2})uhr (?:and )?((?:NUM ){1,2})?(?!UNIT)",
        make=lambda m: _uhr(m) if not m[1].startswith("a") else ["1 oclock"],
    ),
    order(r"(CLOCK )uhr ", 1),
    order(r"viertel ((?:NUM ){1})(?!UNIT)", make=lambda m: clock(m, -45)),
    order(r"dreiviertel ((?:NUM ){1})(?!UNIT)", make=lambda m: clock(m, -15)),
    order(r"half ((?:NUM ){1})(?!UNIT)", make=lambda m: clock(m, -30)),
    order(r"(\d{1,2})th (\d{1,2})th ", make=lambda m: _day_month(m[1], m[2])),
    order(r"(\d{1,2})\.(\d{1,2}) \. ", make=lambda m: _day_month(m[1], m[2])),
    # "vor drei Tagen".
    order(
        r"agopre ((?:about |more than |less than )?(?:a |half )?(?:NUM )*(?:a )?(?:half )?UNIT (?:and a half )?)",
        1,
        "ago",
    ),
    order(r"agopre ", "before"),
    order(r"beforelast (week|month|year|weekend) ", make=lambda m: [f"the {m[1]} before last"]),
    order(r"afternext (week|month|year|weekend) ", make=lambda m: [f"the {m[1]} after next"]),
    order(r"(?:from|of) ((?:NUM|CLOCK) )until ((?:NUM|CLOCK) )(in the PART )", "from", 1, "to", 2, 3),
    order(rf"(?:of|from) ({_SAID}{{1,8}}?)((?:to|until|~) )", make=lambda m: ["xfrom", 1, "to"] if begins(m) else None),
    order(r"from (?=NUM|CLOCK|the|end|MONTH|DOW|today|tomorrow|ISO)", "since"),
    order(r"xfrom ", "from"),
    order(r"end of (?=\d{4} |MONTH |this|the|UNIT)", "end of"),
    order(r"(UNIT )at (?=NUM|CLOCK)", 1, "at"),
    order(r"every two (UNIT )", "every two", 1),
    *COMMON,
)
