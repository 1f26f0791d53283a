"""The Spanish phrase book and its rules about order."""

import re

from magma_gpu.timex.rewrite import COMMON, Order, begins, clock, oclock, order, read_book, with_minutes

BOOK = read_book("""
zero: cero
a: un, una
one: uno
two: dos
three: tres
four: cuatro
five: cinco
six: seis
seven: siete
eight: ocho
nine: nueve
ten: diez
eleven: once
twelve: doce
thirteen: trece
fourteen: catorce
fifteen: quince
sixteen: dieciséis, dieciseis
seventeen: diecisiete
eighteen: dieciocho
nineteen: diecinueve
twenty: veinte
twenty one: veintiuno, veintiún, veintiuna
twenty two: veintidós, veintidos
twenty three: veintitrés, veintitres
twenty four: veinticuatro
twenty five: veinticinco
twenty six: veintiséis, veintiseis
twenty seven: veintisiete
twenty eight: veintiocho
twenty nine: veintinueve
thirty: treinta
forty: cuarenta
fifty: cincuenta
sixty: sesenta
seventy: setenta
eighty: ochenta
ninety: noventa
hundred: cien, ciento
thousand: mil
first: primer, primero, primera, primeros, primeras
second: segundo, segunda
third: tercer, tercero, tercera
fourth: cuarto, cuarta
fifth: quinto, quinta
sixth: sexto, sexta
seventh: séptimo, séptima
eighth: octavo, octava
ninth: noveno, novena
tenth: décimo, décima
several: varios, varias
some: algunos, algunas
few: unos, unas, pocos, pocas, unos pocos, unas pocas
a couple of: un par de
half: medio, media
january: enero, ene
february: febrero, feb
xmarch: marzo
april: abril, abr
xmay: mayo
june: junio, jun
july: julio, jul
august: agosto, ago
september: septiembre, setiembre, sept, sep
october: octubre, oct
november: noviembre, nov
december: diciembre, dic
monday: lunes, lun
tuesday: martes
wednesday: miércoles, miercoles, mié, miérc
thursday: jueves, jue, juev
friday: viernes, vie, vier
saturday: sábado, sabado, sáb
sunday: domingo, dom
saturdays: sábados, sabados
sundays: domingos
seconds: segundos, seg
minute: minuto
minutes: minutos, min, mins
hour: hora, h
hours: horas, hras, hrs, hr
day: día, dia, jornada
days: días, dias
week: semana
weeks: semanas
weekend: fin de semana, finde
weekends: fines de semana
fortnight: quincena
month: mes
months: meses
quarter: trimestre
quarters: trimestres
year: año, ano
years: años, anos
decade: década, decada
decades: décadas, decadas
century: siglo
centuries: siglos
nights: noches
work days: días laborables, días hábiles, días de trabajo
today: hoy, hoy día
tomorrow: mañana
yesterday: ayer
the day before yesterday: anteayer, antes de ayer, antier, antes de anoche
the day after tomorrow: pasado mañana
last night: anoche, ayer por la noche, ayer en la noche
tonight: esta noche, hoy por la noche, hoy en la noche
this morning: esta mañana
this evening: esta tarde
the next day: al día siguiente, el día siguiente
the day before: el día anterior, el dia anterior
tomorrow morning: mañana por la mañana, mañana en la mañana, mañana a la mañana
in the morning: por la mañana, de la mañana, en la mañana, a la mañana, por las mañanas, de la madrugada
the morning: la mañana
early morning: madrugada
in the evening: por la tarde, de la tarde, en la tarde, a la tarde
in the night: por la noche, de la noche, en la noche, a la noche
evening: tarde, tardes
night: noche
noon: mediodía, mediodia, medio día
midnight: medianoche, media noche
lunchtime: la hora de almuerzo, la hora del almuerzo
breakfast: desayuno
lunch: almuerzo
dinner: cena
spring: primavera
summer: verano
autumn: otoño
winter: invierno
christmas: navidad, navidades
christmas eve: nochebuena
new year eve: nochevieja, víspera de año nuevo
new year: año nuevo
easter: pascua, pascuas, semana santa, la semana santa
halloween: noche de brujas
valentine day: san valentín, día de san valentín
mother's day: día de la madre
father's day: día del padre
thanksgiving: acción de gracias, día de acción de gracias
workers day: día del trabajador, día de los trabajadores, día internacional de los trabajadores, día del trabajo
independence day: día de la independencia, día de independencia
black friday: viernes negro
last: pasado, pasada, pasados, pasadas, último, última, últimos, últimas, ultimo, ultima, ultimos, anterior
last: anteriores
next: próximo, próxima, próximos, próximas, proximo, proxima, proximos, siguiente, siguientes, que viene
next: entrante, venidero
this: este, esta, estos, estas, actual, corriente
every: cada, todos los, todas las, todo los
all: todo el, toda la
agopre: hace
in: en, dentro de, al cabo de
during: durante
for: por, para
of: de, del
the: el, la, los, las, lo
to: a, al
at: a las, a la, las
until: hasta, hacia
from: desde
xfrom: a partir de, a partir del, a contar de, comenzando, empezando, iniciando
between: entre
and: y, e
or: o, u
before: antes de, antes del, previo a, anterior a, anterior de
after: posterior de, posterior,  después de, después del, despues de, tras, posterior a, posteriores de, más tarde de
later: más tarde, mas tarde, después, despues, luego
earlier: antes
about: alrededor de, alrededor del, cerca de, aproximadamente, sobre, casi
more than: más de, mas de
less than: menos de
end of: fin de, fin del, final de, final del, finales de, finales del, fines de, fines del, últimos de, los finales de
beginning of: principio de, principio del, principios de, principios del, inicio de, inicios de, inicios del
beginning of: comienzo de, comienzos de, primeros de
middle of: mediados de, mediado de, mediados del
now: ahora, ahora mismo
right now: en este momento
daily: diario, diaria, diariamente, diarios, diarias
weekly: semanal, semanalmente, semanales
monthly: mensual, mensualmente, mensuales
annual: anual, anualmente, anuales
once: una vez, una vez al, una vez a la, una vez por
oclock: en punto
minusquarter: menos cuarto
andquarter: y cuarto
andhalf: y media, y medio
calendar: calendario
fiscal: fiscal
school: escolar
q: t
will: voy, vamos, iré, iremos, será, serán, estaré, estaremos, tendré, haré, volveré, programa, programar, reunión
was: fue, fui, fuimos, estuve, estuvo, era, llegó, pasó, hizo, dijo, ocurrió, sucedió
""")

SUFFIXES = re.compile(r"(\d{1,2})(?:\.?[ºª°]|er\b|ro\b|do\b|to\b)")

_SAID = r"(?:the |at |of |in |am |pm |NUM |\d+th |MONTH |DOW |ISO |CLOCK |year |STEP |UNIT |today |tomorrow |now |- )"

ORDERS: tuple[Order, ...] = (
    # Times of day.
    order(r"at ((?:NUM ){1,2})and ((?:NUM )+)(?!UNIT)", make=with_minutes),
    order(r"((?:NUM ))and ((?:NUM )+)(?=in the|am|pm)", make=with_minutes),
    order(r"((?:NUM ){1,2})andhalf (?!UNIT)", make=lambda m: clock(m, 30)),
    order(r"((?:NUM ){1,2})andquarter ", make=lambda m: clock(m, 15)),
    order(r"((?:NUM ){1,2})minusquarter ", make=lambda m: clock(m, -15)),
    order(r"(at |the )?a andhalf ", "1:30"),
    order(r"(?:at|until at|and the|and at) a (?!UNIT)", "at 1 oclock"),
    order(r"(UNIT )andhalf ", 1, "and a half"),
    order(r"(?:of|from) (?:the )?((?:NUM |CLOCK )(?:am |pm )?)at ((?:NUM|CLOCK) )", "from", 1, "to", 2),
    order(r"(CLOCK (?:am |pm )?)at ((?:NUM|CLOCK) )", 1, "to", 2),
    order(r"at (the )?((?:NUM ){1,2})hours? ", make=lambda m: oclock(m, 2)),
    order(
        r"at (the )?((?:NUM ){1,2})(?!am|pm|UNIT|CLOCK|in |to |and |-|oclock|MONTH|of )", make=lambda m: oclock(m, 2)
    ),
    # "hace dos semanas".
    order(
        r"agopre ((?:about |more than |less than )?(?:a |half )?(?:NUM )*(?:a )?(?:half )?UNIT (?:and a half )?)",
        1,
        "ago",
    ),
    # "desde ... hasta ...", "de ... a ...".
    order(r"from ((?:(?!until|to|at|-|~|\.)\S+ ){1,9}?)((?:until|to|-|~) )", "xxfrom", 1, 2),
    order(rf"(?:of|at) ({_SAID}{{1,8}}?)((?:to|until|~) )", make=lambda m: ["xxfrom", 1, 2] if begins(m) else None),
    order(r"from ", "since"),
    order(r"xxfrom ", "from"),
    order(r"((?:NUM |a )+UNIT )xfrom (?:of )?", 1, "from"),
    order(r"xfrom (?:of )?", "since"),
    order(r"of the (?=year \d)", "of"),
    order(r"(?:the )?day (\d{1,2}) (?=of|\.|,|MONTH|$)", make=lambda m: ["the", f"{m[1]}th"]),
    order(r"(\d{4} )(?:- )?q ?(\d) ", make=lambda m: [f"q{m[2]} {m[1]}"]),
    order(r"to ((?:the )?(?:CLOCK|noon|midnight|night) )", "at", 1),
    *COMMON,
)
