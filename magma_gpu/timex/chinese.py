"""The Chinese phrase book and its rules about order."""

from magma_gpu.timex.cjk import TIMED, Cutter
from magma_gpu.timex.rewrite import Order, order, read_book

_DAYS = dict(
    zip("一二三四五六日天", "monday tuesday wednesday thursday friday saturday sunday sunday".split(), strict=True)
)

_WEEKS = {"上": "last", "下": "next", "这": "this", "本": "this", "這": "this"}
_WEEKDAYS = {
    f"{step}{mid}{week}{day}": f"{word} week {english}"
    for step, word in _WEEKS.items()
    for mid in ("", "个", "個")
    for week in ("周", "週", "星期", "礼拜", "禮拜")
    for day, english in _DAYS.items()
}

_BARE = {f"{week}{day}": english for day, english in _DAYS.items() for week in ("周", "週", "星期", "礼拜", "禮拜")}

BOOK = _WEEKDAYS | _BARE | read_book("""
today: 今天, 今日, 当天
tomorrow: 明天, 明日
yesterday: 昨天, 昨日
the day before yesterday: 前天, 前日
the day after tomorrow: 后天, 後天
3 days ago: 大前天
in 3 days: 大后天, 大後天
tonight: 今晚, 今夜, 今天晚上
tonight at: 今晚的
this morning: 今早, 今天早上, 今晨
last night: 昨晚, 昨夜, 昨天晚上
tomorrow evening: 明晚, 明天晚上
now: 现在, 現在, 目前
this year: 今年, 本年, 当年
last year: 去年, 上年
next year: 明年, 下年
2 years ago: 前年
in 2 years: 后年, 後年
this month: 本月, 这个月, 這個月, 这月
last month: 上个月, 上個月, 上月
next month: 下个月, 下個月, 下月
this week: 本周, 这周, 這週, 本週, 这个星期, 这星期, 这个礼拜, 這個星期
last week: 上周, 上週, 上个星期, 上星期, 上个礼拜, 上礼拜, 上個星期
next week: 下周, 下週, 下个星期, 下星期, 下个礼拜, 下礼拜, 下個星期
the week before last: 上上周, 上上週, 上上个星期
the week after next: 下下周, 下下週, 下下个星期
weekend: 周末, 週末
this weekend: 这周末, 本周末, 这个周末, 這個週末
last weekend: 上周末, 上个周末, 上個週末
next weekend: 下周末, 下个周末, 下個週末
2 weekends ago: 上上周末, 上上个周末, 上上個週末
weekendafternext: 下下周末
last hour: 上个小时, 上個小時
next hour: 下个小时, 下個小時
this quarter: 本季度, 这个季度
last quarter: 上个季度, 上季度
next quarter: 下个季度, 下季度
firsthalf: 上半年
secondhalf: 下半年
firsthalfmonth: 上半月
secondhalfmonth: 下半月
later this week: 下半周, 这周晚些时候
earlier this week: 上半周
beginning: 年初, 月初
end of this year: 年底, 年末, 年终
end of this month: 月底, 月末
morning: 早上, 早晨, 上午, 早间, 早, 清晨
early morning: 凌晨
noon: 中午, 正午
afternoon: 下午, 午后
evening: 傍晚, 晚上, 晚间
night: 夜里, 深夜, 夜晚
midnight: 午夜, 半夜
spring: 春天, 春季
summer: 夏天, 夏季
autumn: 秋天, 秋季
winter: 冬天, 冬季
christmas: 圣诞节, 聖誕節
new year: 元旦, 新年
mother's day: 母亲节, 母親節
father's day: 父亲节, 父親節
halloween: 万圣节
valentine day: 情人节
thanksgiving: 感恩节
every day: 每天, 每日, 天天
every week: 每周, 每週, 每个星期, 每星期
every month: 每个月, 每月, 每個月
every year: 每年
every: 每个, 每個, 每
xbefore: 之前, 以前
xuntil: 或之前, 及之前, 及以前, 或以前, 为止
xafter: 之后, 以后, 之後, 以後
xsince: 或之后, 及之后, 及以后, 或以后, 起, 开始, 開始, 以来, 以來, 或更晚
xago: 前
xlater: 后, 後
xwithin: 以内, 之内, 以內, 之內, 内
xbetween: 之间, 之間, 间
from: 从, 從, 自, 自从, 打
to: 到, 至
and: 和, 与, 與, 及, 又
about: 大约, 大約, 大概, 左右, 差不多
last: 过去, 最近, 上个, 上一个, 前一, 過去
next: 未来, 接下来, 下个, 下一个, 今后
this: 这个, 这, 本
first week: 第一周, 第一个星期, 第1周
second week: 第二周, 第2周
third week: 第三周, 第3周
last week of: 最后一周, 最后一个星期
last monday of: 最后一个星期一
xx: 马上, 十分, 一些, 一样, 一起, 一下, 一个人, 一直, 一定, 一般, 一点, 第一, 万一, 统一, 唯一, 一切, 之一, 某天, 有一天
will: 将, 会, 要, 打算, 计划, 安排
was: 了, 过
of: 的
""")  # fmt: skip

CUTTER = Cutter(BOOK, max(map(len, BOOK)))

_A = rf"(?:(?:{TIMED}|of|-) )"

ORDERS: tuple[Order, ...] = (
    order(r"of ", ""),
    order(r"weekendafternext ", "the weekend after next"),
    order(r"((?:STEP year |\d{4} ))firsthalf ", "first half of", 1),
    order(r"((?:STEP year |\d{4} ))secondhalf ", "second half of", 1),
    order(r"firsthalf ", "first half of this year"),
    order(r"secondhalf ", "second half of this year"),
    order(r"(STEP year )(SEASON )", make=lambda m: [f"{m[1].split()[0]} {m[2]}"]),
    order(r"(\d{4} )(SEASON )", 2, "of", 1),
    order(r"(STEP year |\d{4} )(MONTH )", 2, "of", 1),
    order(r"(\d{4} |MONTH \d{4} |MONTH |STEP year |STEP month )((?:first|second|third) (?:week|DOW) )", 2, "of", 1),
    order(r"(\d{4} |MONTH \d{4} |MONTH |STEP year |STEP month )(last (?:week|DOW) )of ?", 2, "of", 1),
    order(r"(\d{4} |MONTH )xago (\d+) weeks ", make=lambda m: [f"first {m[2]} weeks of {m[1]}"]),
    order(r"to on (the \d+th )(?:, )?", "to", 1),
    order(r"xfrom on (the \d+th )(?:, )?", "xfrom", 1),
    order(r"(STEP month )on the (\d+th )(?:, )?", "the", 2, "of", 1),
    order(r"((?:about )?(?:\d+(?:\.\d+)? (?:UNIT) )+)(?:xago|xbefore) ", 1, "ago"),
    order(r"((?:about )?(?:\d+(?:\.\d+)? (?:UNIT) )+)(?:xlater|xafter) ", 1, "later"),
    order(r"(?:xafter|xlater) ((?:\d+(?:\.\d+)? (?:UNIT) ))", "next", 1),
    order(r"(?:xbefore) ((?:\d+(?:\.\d+)? (?:UNIT) ))", "last", 1),
    order(r"((?:\d+(?:\.\d+)? UNIT )+)xwithin ", "within", 1),
    order(rf"({_A}+)and ({_A}+)xbetween ", "between", 1, "and", 2),
    order(rf"({_A}+)(?:and |to )({_A}+)xbetween ", "between", 1, "and", 2),
    order(rf"({_A}+)(?:xbefore|xago) ", "before", 1),
    order(rf"({_A}+)xuntil ", "until", 1),
    order(rf"({_A}+)(?:xafter|xlater) ", "after", 1),
    order(rf"from ({_A}+)xsince ", "since", 1),
    order(rf"({_A}+)xsince ", "since", 1),
    order(rf"from ({_A}+)(?!to |-|{_A})", "since", 1),
    order(r"every (DOW |UNIT )", "every", 1),
    order(r"((?:week )?DOW )(PART )(CLOCK )", 1, 3),
    order(r"(?:xbefore|xafter|xuntil|xsince|xago|xlater|xwithin|xbetween) ", "xx"),
)
