"""The French phrase book and its rules about order."""

import re

from magma_gpu.timex.rewrite import COMMON, Order, begins, clock, oclock, order, read_book, with_minutes

BOOK = read_book("""
zero: zéro
a: un, une
two: deux
three: trois
four: quatre
five: cinq
six: six
seven: sept
eight: huit
nine: neuf
ten: dix
eleven: onze
twelve: douze
thirteen: treize
fourteen: quatorze
fifteen: quinze
sixteen: seize
seventeen: dix sept, dix - sept
eighteen: dix huit, dix - huit
nineteen: dix neuf, dix - neuf
twenty: vingt
twenty one: vingt et un, vingt et une
thirty: trente
thirty one: trente et un
forty: quarante
fifty: cinquante
sixty: soixante
seventy: soixante dix, soixante - dix
eighty: quatre vingt, quatre - vingt, quatre vingts, quatre - vingts
ninety: quatre vingt dix, quatre - vingt - dix
hundred: cent, cents
thousand: mille
first: premier, première, premiers, premières
second: deuxième, seconde, second
third: troisième
fourth: quatrième
fifth: cinquième
sixth: sixième
seventh: septième
eighth: huitième
ninth: neuvième
tenth: dixième
several: plusieurs
some: certains, certaines
few: quelques
a couple of: une paire de, un couple de
half: demi, demie, mi
january: janvier, janv, jan
february: février, fevrier, févr, fév, fev
xmarch: mars
april: avril, avr
xmay: mai
june: juin
july: juillet, juil
august: août, aout
september: septembre, sept ., sep
october: octobre, oct
november: novembre, nov
december: décembre, decembre, déc, dec
monday: lundi, lun
tuesday: mardi
wednesday: mercredi, mer
thursday: jeudi, jeu
friday: vendredi, ven
saturday: samedi, sam
sunday: dimanche, dim
mondays: lundis, tous les lundis
saturdays: samedis
sundays: dimanches
seconds: secondes, sec
minute: minute, min
minutes: minutes, mins
hour: heure
hours: heures
day: jour, journée
days: jours, journées
week: semaine
weeks: semaines
weekend: week - end, weekend, week end, fin de semaine
weekends: week - ends, weekends
fortnight: quinzaine
month: mois
quarter: trimestre
quarters: trimestres
year: an, année
years: ans, années
decade: décennie
decades: décennies
century: siècle
nights: nuits
1 nights: 1 nuit
work days: jours ouvrables, jours ouvrés, journées de travail, jours de travail
today: aujourd ' hui, aujourd ’ hui, ce jour
tomorrow: demain
yesterday: hier
the day before yesterday: avant - hier, avant hier
the day after tomorrow: après - demain, après demain
last night: hier soir, cette nuit passée, la nuit dernière, hier dans la nuit
tonight: ce soir, cette nuit
this morning: ce matin
this afternoon: cet après - midi, cet après midi
the next day: lendemain, le lendemain, le jour suivant
the day before: la veille, le jour précédent, le jour d ' avant
tomorrow night: demain soir
in the morning: le matin, du matin, au matin, dans la matinée, dans le matin, de la matinée
morning: matin, matinée
in the afternoon: l ' après - midi, de l ' après - midi, dans l ' après - midi, à l ' après - midi, d ' après - midi
afternoon: après - midi, après midi
in the evening: du soir, le soir, au soir, dans la soirée
evening: soir, soirée
in the night: de la nuit, la nuit, dans la nuit
night: nuit
noon: midi
midnight: minuit
lunchtime: heure du déjeuner
breakfast: petit déjeuner, petit - déjeuner
lunch: déjeuner
dinner: dîner
spring: printemps
summer: été
autumn: automne
winter: hiver
christmas: noël, noel
christmas eve: réveillon de noël, veille de noël
new year eve: saint sylvestre, saint - sylvestre, réveillon du nouvel an
new year: nouvel an, jour de l ' an
easter: pâques, paques
halloween: halloween
valentine day: saint valentin, saint - valentin
mother's day: fête des mères
father's day: fête des pères
thanksgiving: action de grâce, thanksgiving
workers day: fête du travail, journée internationale des travailleurs
independence day: jour de l ' indépendance, fête de l ' indépendance
last: dernier, dernière, derniers, dernières, passé, passée, passés, passées, précédent, précédente
last: précédents, précédentes
next: prochain, prochaine, prochains, prochaines, suivant, suivante, suivants, suivantes, à venir, d ' après
next: qui vient, qui viennent, en cours
this: ce, cet, cette, ces, actuel, actuelle, courant
every: chaque, tous les, toutes les, n ' importe quel, n ' importe quelle
all: toute la, tout le, toute l ', tout l '
agopre: il y a, il y avait, ça fait, cela fait
in: dans, en, d ' ici, au bout de
during: pendant, durant, au cours de
for: depuis, pour
of: de, d ', du, des
the: le, la, les, l '
to: au
at: à, vers les, à la
fromto: dès
until: jusqu ' à, jusqu ' a, jusqu ' au, jusqu ' en, jusque
since: à partir de, à partir d ', à partir du, à compter de, à compter du
between: entre
and: et
or: ou
before: avant, avant le
after: après, après le, au delà de
later: plus tard, après cela
earlier: plus tôt, auparavant
ago: avant cela
about: environ, vers, autour de, autour du, aux alentours de, à peu près, presque
more than: plus de, plus d ', de plus de
less than: moins de, moins d ', de moins de, de moins d '
end of: fin de, fin d ', fin du, à la fin de, la fin de, la fin du, la fin d ', fin
beginning of: début de, début du, au début de, au début du, le début de, le début du, début
middle of: milieu de, milieu du, au milieu de, la mi -, mi -
now: maintenant, en ce moment
right now: en ce moment même
daily: quotidien, quotidienne, quotidiennement
weekly: hebdomadaire, hebdomadairement
monthly: mensuel, mensuelle, mensuellement
annual: annuel, annuelle, annuellement
quarterly: trimestriel, trimestrielle
once: une fois
oclock: pile
minusquarter: moins le quart, moins quart
andquarter: et quart
andhalf: et demie, et demi
calendar: calendaire, calendrier, civile
fiscal: fiscale, fiscal
school: scolaire
q: trimestre -
will: sera, serai, serons, serez, irai, irons, aura, vais, allons, reviendrai, partirai, retournerai
will: quitterai, programmer, réunion
was: était, étais, fut, suis, avons, avez, arrivé, allé, allée, passé par
""")

SUFFIXES = re.compile(r"(\d{1,2})\s?(?:er\b|ère\b|ème\b|e\b|ᵉ|º)")

_SAID = (
    r"(?:the |of |in |am |pm |NUM |\d+th |MONTH |DOW |ISO |CLOCK |year |"
    r"STEP |UNIT |today |tomorrow |yesterday |now |- |oclock |PART )"
)

ORDERS: tuple[Order, ...] = (
    # "9 heures", "9h30", "huit heures 20 minutes", "sept heures et demie".
    order(r"(?:at )?((?:NUM ){1,2})hours? andhalf ", make=lambda m: clock(m, 30)),
    order(r"(?:at )?((?:NUM ){1,2})hours? andquarter ", make=lambda m: clock(m, 15)),
    order(r"(?:at )?((?:NUM ){1,2})hours? minusquarter ", make=lambda m: clock(m, -15)),
    order(r"(?:at )?((?:NUM ){1,2})hours? ((?:NUM ){1,2})(?:minutes )?", make=with_minutes),
    order(
        r"(in the morning|this morning|in the evening|in the afternoon|PART) ?(?:at )((?:NUM ){1,2})hours? ",
        make=lambda m: [m[1], *(oclock(m, 2) or ())],
    ),
    order(r"(?:at )((?:NUM ){1,2})hours? ", make=lambda m: oclock(m, 1)),
    order(
        r"((?:NUM ){1,2})hours? (?=in the|of the|this|tonight|today|tomorrow|DOW|every|- |at \d|noon|yesterday)",
        make=lambda m: (oclock(m, 1) or ())[1:] or None,
    ),
    order(
        r"(of |to |from |between |and |- |before |after |until |since |DOW |MONTH |\d{4} |today |tomorrow |, )"
        r"((?:NUM ){1,2})hours? ",
        make=lambda m: [1, *(oclock(m, 2) or ())[1:]],
    ),
    order(r"^((?:NUM ){1,2})hours? (?=at )", make=lambda m: (oclock(m, 1) or ())[1:] or None),
    order(r"at (\d{1,2} )(?!\d|UNIT|MONTH|oclock|am|pm)(?=$|\. |, |\? |in the)", "at", 1, "oclock"),
    # "il y a deux semaines".
    order(
        r"agopre ((?:about |more than |less than )?(?:a |half )?(?:NUM )*(?:a )?(?:half )?UNIT (?:and a half )?)",
        1,
        "ago",
    ),
    order(r"(UNIT )andhalf ", 1, "and a half"),
    order(
        r"(?:of|since|from) ((?:(?!until|to|at|-|~|\.)\S+ ){1,7}?)(?:until (?:the )?|at the |to the )"
        r"(?=STEP|MONTH|DOW|NUM|\d|today|now|CLOCK)",
        make=lambda m: ["from", 1, "to"] if begins(m) else None,
    ),
    order(rf"of ({_SAID}{{1,8}}?)((?:to|at|until|~) )", make=lambda m: ["from", 1, "to"] if begins(m) else None),
    order(r"((?:CLOCK|\d{1,2}) (?:oclock )?(?:am |pm |in the PART )?)at (?:the )?(?=CLOCK|NUM)", 1, "to"),
    order(r"((?:MONTH|\d{4}|MONTH \d{1,2}) )at (?:the )?(?=\d{1,2} MONTH|MONTH|\d{4} |ISO|today)", 1, "to"),
    order(r"((?:NUM |a )+UNIT )since (?:of )?", 1, "from"),
    order(r"fromto ", "since"),
    order(r"of the (?=year \d)", "of"),
    order(r"(?:the )?day (\d{1,2}) (?=of|\.|,|MONTH|$)", make=lambda m: ["the", f"{m[1]}th"]),
    order(r"(\d{4} )(?:- )?quarter ?(\d) ", make=lambda m: [f"q{m[2]} {m[1]}"]),
    order(r"(\d{2,4})s ", make=lambda m: [f"{m[1]}s"]),
    *COMMON,
)
