"""The Japanese phrase book and its rules about order."""

from magma_gpu.timex.cjk import TIMED, Cutter
from magma_gpu.timex.rewrite import Order, order, read_book

_DAYS = dict(zip("月火水木金土日", "monday tuesday wednesday thursday friday saturday sunday".split(), strict=True))

BOOK = {f"{day}曜{end}": english for day, english in _DAYS.items() for end in ("日", "")} | read_book("""
today: 今日, きょう, 本日
tomorrow: 明日, あした, あす
yesterday: 昨日, きのう
the day before yesterday: 一昨日, おととい
the day after tomorrow: 明後日, あさって
the day before: 前日
the day after: 翌日
end of tomorrow: 明日中
tonight: 今夜, 今晩
this morning: 今朝
last night: 昨夜, 昨晩, ゆうべ
now: 今, 現在
this year: 今年, 本年
last year: 去年, 昨年
next year: 来年, 翌年
2 years ago: 一昨年, おととし
in 2 years: 再来年
this month: 今月
last month: 先月
next month: 来月, 翌月
this week: 今週
last week: 先週, 前の週
next week: 来週, 翌週
the week before last: 先々週
the week after next: 再来週
weekend: 週末
this weekend: 今週末, この週末
last weekend: 先週末
next weekend: 来週末
end of this year: 年末, 今年末
end of this month: 月末, 今月末
year to date: 年初来
firsthalf: 前半, 上半期
secondhalf: 後半, 下半期
firstpart: 初め, はじめ, 上旬, 早く, 初旬
midpart: 半ば, 中旬, なかば
lastpart: 終わり, 終わりごろ, 下旬, 末, 終わり頃
first week: 第1週, 最初の週, 第一週
second week: 第2週, 第二週
third week: 第3週, 第三週
fourth week: 第4週, 第四週
last week of: 最後の週
last monday of: 最後の月曜日
morning: 朝, 午前中, 午前, 朝ごろ
noon: 正午, 昼, お昼, 昼頃
afternoon: 午後
evening: 夕方, 晩
night: 夜, 深夜
midnight: 真夜中
spring: 春
summer: 夏
autumn: 秋
winter: 冬
christmas: クリスマス
new year eve: 大晦日
new year: 元日, 正月, お正月, 元旦
valentine day: バレンタインデー
mother's day: 母の日
father's day: 父の日
halloween: ハロウィン
every day: 毎日
every week: 毎週, 毎週の
every month: 毎月
every year: 毎年
every morning: 毎朝
every night: 毎晩
xfrom: から, より
xto: まで, までの, まで の
xbefore: の前, 以前, より前, までに
xuntil: またはその前, 及びその前, またはそれ以前, 及びそれ以前
xsince: 以降, 以後, またはその後, またはそれ以降, 及びその後, の後から, 以来
xafter: の後, より後, のあと
xago: 前, まえ
xlater: 後, あと, 後に, で
xwithin: 以内に, 以内, 内に
xbetween: の間, までの間, 間に
xevery: ごとに, おきに, 毎に
last: 過去, ここ, 直近, 前の, この前の
this: この
next: 今後, 次の, 向こう, これから, 後
about: 約, ごろ, 頃, およそ
more than: 以上, を上回る, を超える
less than: 以下, を下回る, 未満
xx: 今回, 一番, 一緒, 一部, 万一, 統一, 一般, 日本, 毎回, 休日, 平日, 土地, 十分に, 午後の紅茶
xx: 分かり, 分から, 時々, 名前, 以前から, 人前, 前に進, 夏目, 秋葉, 春日
xx: 前回, でし, です, でき, では, でも, での, ので, まで
will: でしょう, つもり, 予定, 予約, ます
was: ました, でした, った
jof: の, に, は, が, も
and: と, や, 及び
""")  # fmt: skip

CUTTER = Cutter(BOOK | {"まで": "xto"}, max(map(len, BOOK)))

_A = rf"(?:(?:{TIMED}|end|of|first|second|third|now|middle|beginning) )"

ORDERS: tuple[Order, ...] = (
    order(
        r"jof (?=(?:xfrom|xto|xbefore|xafter|PART|DOW|CLOCK|MONTH|\d|first|last|second|"
        r"third|on|noon|STEP|firsthalf|secondhalf|firstpart|lastpart|midpart) ?)",
        "",
    ),
    order(
        r"((?:STEP year |\d{4} |year |STEP month |STEP week |week |MONTH |MONTH \d{4} ))firsthalf ",
        make=lambda m: [f"first half of {m[1]}"] if "week" not in m[1] and "month" not in m[1] else [f"earlier {m[1]}"],
    ),
    order(
        r"((?:STEP year |\d{4} |year |STEP month |STEP week |week |MONTH |MONTH \d{4} ))secondhalf ",
        make=lambda m: [f"second half of {m[1]}"] if "week" not in m[1] and "month" not in m[1] else [f"later {m[1]}"],
    ),
    order(
        r"((?:STEP (?:year|month|week) |\d{4} |MONTH |MONTH \d{4} |today |STEP week DOW |DOW ))firstpart ",
        "beginning of",
        1,
    ),
    order(r"((?:STEP (?:year|month|week) |\d{4} |MONTH |MONTH \d{4} ))midpart ", "middle of", 1),
    order(
        r"((?:STEP (?:year|month|week) |\d{4} |MONTH |MONTH \d{4} |today |STEP week DOW |DOW ))lastpart ", "end of", 1
    ),
    order(r"(STEP year )(SEASON )", make=lambda m: [f"{m[1].split()[0]} {m[2]}"]),
    order(r"(STEP year |\d{4} )(MONTH )(?!\d)", 2, "of", 1),
    order(r"(STEP year |\d{4} )(MONTH \d+ )", 2, "of", 1),
    order(
        r"(\d{4} |MONTH \d{4} |MONTH |STEP year |STEP month )((?:first|second|third|fourth) (?:week|DOW) )", 2, "of", 1
    ),
    order(r"(\d{4} |MONTH \d{4} |MONTH |STEP year |STEP month )(last (?:week|DOW) )(?:of )?(?:jof )?", 2, "of", 1),
    order(r"to on (the \d+th )(?:, )?", "to", 1),
    order(r"xfrom on (the \d+th )(?:, )?", "xfrom", 1),
    order(r"(STEP month )on the (\d+th )(?:, )?", "the", 2, "of", 1),
    order(r"on the (\d+th )(?:, )?(DOW )", 2, "the", 1),
    order(r"((?:about )?(?:\d+(?:\.\d+)? (?:UNIT) )+)xago ", 1, "ago"),
    order(r"((?:about )?(?:\d+(?:\.\d+)? (?:UNIT) )+)xlater ", 1, "later"),
    order(r"((?:\d+(?:\.\d+)? UNIT )+)xwithin ", "within", 1),
    order(r"((?:\d+(?:\.\d+)? UNIT )+)xevery ", "every", 1),
    order(r"((?:\d+(?:\.\d+)? UNIT )+)(more than |less than )", 2, 1),
    order(r"(MONTH (?:\d+ )?|ISO|CLOCK |\d{4} )and (?=MONTH|ISO|CLOCK|\d{4})", 1, "and"),
    order(rf"({_A}+)xfrom ({_A}+)(?:xto |xbetween |to )(?:xbetween )?", "from", 1, "to", 2),
    order(rf"({_A}+)xfrom ({_A}*CLOCK )", "from", 1, "to", 2),
    order(rf"({_A}+)and ({_A}+)xbetween ", "between", 1, "and", 2),
    order(rf"({_A}+)(?:xbefore|xago) ", "before", 1),
    order(rf"({_A}+)(?:xuntil|xto) ", "until", 1),
    order(rf"({_A}+)(?:xafter) ", "after", 1),
    order(rf"({_A}+)(?:xsince|xfrom) ", "since", 1),
    order(r"every week (DOW )", "every", 1),
    order(r"((?:week )?DOW )(PART )(CLOCK )", 1, 3),
    order(r"jof ", "xx"),
    order(
        r"(?:xbefore|xafter|xuntil|xsince|xago|xlater|xwithin|xbetween|"
        r"xfrom|xto|xevery|firsthalf|secondhalf|firstpart|midpart|lastpart) ",
        "xx",
    ),
)
