"""Spanish, French, German, Chinese and Japanese: common forms by value, spans on the original text, and refusals."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magma_gpu.timex import tag, windows
from magma_gpu.timex.intervals import EPOCH, micros
from magma_gpu.timex.language import Detector

AT = micros(datetime(2023, 5, 20, 14, 30))


def meaning(text: str) -> list[tuple[str, str, str]]:
    found = []
    for span in tag([text], [AT])[0]:
        assert span.text == text[span.first : span.last]
        start, end = (EPOCH + timedelta(microseconds=t) for t in (span.start, span.end))
        shape = "%Y-%m-%d" if start.time() == end.time() == datetime.min.time() else "%Y-%m-%dT%H:%M"
        found.append((span.text, f"{start:{shape}}", f"{end:{shape}}"))
    return found


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        # The forms of the case about languages.
        ("el martes pasado", "2023-05-16", "2023-05-17"),
        ("hace dos semanas", "2023-05-06", "2023-05-07"),
        ("dans trois jours", "2023-05-23", "2023-05-24"),
        ("vor drei Tagen", "2023-05-17", "2023-05-18"),
        ("前天", "2023-05-18", "2023-05-19"),
        ("先週の金曜日", "2023-05-12", "2023-05-13"),
        # Spanish
        ("Ayer fui al cine.", "2023-05-19", "2023-05-20"),
        ("la semana pasada", "2023-05-08", "2023-05-15"),
        ("el 20 de mayo de 2022", "2022-05-20", "2022-05-21"),
        ("el 03/04/2022", "2022-04-03", "2022-04-04"),
        ("mañana por la mañana", "2023-05-21T08:00", "2023-05-21T12:00"),
        ("del 3 al 10 de mayo de 2022", "2022-05-03", "2022-05-11"),
        ("hace tres meses", "2023-02-01", "2023-03-01"),
        # French
        ("Je suis arrivé hier.", "2023-05-19", "2023-05-20"),
        ("la semaine dernière", "2023-05-08", "2023-05-15"),
        ("le 20 mai 2022", "2022-05-20", "2022-05-21"),
        ("il y a deux mois", "2023-03-01", "2023-04-01"),
        ("du 3 au 10 mai 2022", "2022-05-03", "2022-05-11"),
        ("l'été 2022", "2022-06-01", "2022-09-01"),
        # German
        ("Ich war letztes Jahr in Rom.", "2022-01-01", "2023-01-01"),
        ("am 20. Mai 2022", "2022-05-20", "2022-05-21"),
        ("am 03.04.2022", "2022-04-03", "2022-04-04"),
        ("vorgestern", "2023-05-18", "2023-05-19"),
        ("vom 3. bis 10. Mai 2022", "2022-05-03", "2022-05-11"),
        ("Dienstagabend", "2023-05-16T16:00", "2023-05-16T20:00"),
        # Chinese
        ("我昨天买了一本书", "2023-05-19", "2023-05-20"),
        ("我们下周五见面", "2023-05-26", "2023-05-27"),
        ("2022年5月20日下午3点", "2022-05-20T15:00", "2022-05-20T15:01"),
        ("二零二二年五月", "2022-05-01", "2022-06-01"),
        ("三天前", "2023-05-17", "2023-05-18"),
        ("去年夏天", "2022-06-01", "2022-09-01"),
        ("2022年5月3日到10日", "2022-05-03", "2022-05-11"),
        # Japanese
        ("昨日、映画を見ました", "2023-05-19", "2023-05-20"),
        ("来週の月曜日", "2023-05-22", "2023-05-23"),
        ("3日前", "2023-05-17", "2023-05-18"),
        ("去年の8月", "2022-08-01", "2022-09-01"),
        ("令和4年5月20日", "2022-05-20", "2022-05-21"),
        ("2022年5月3日から10日まで", "2022-05-03", "2022-05-11"),
    ],
)
def test_a_common_form_has_its_interval(text: str, start: str, end: str) -> None:
    assert [(s, e) for _, s, e in meaning(text)] == [(start, end)]


def test_spans_lie_on_the_original_text() -> None:
    assert [t for t, _, _ in meaning("Nos vimos hace dos semanas en Roma.")] == ["hace dos semanas"]
    assert [t for t, _, _ in meaning("On se voit vendredi prochain !")] == ["vendredi prochain"]
    assert [t for t, _, _ in meaning("我们下周五见面")] == ["下周五"]


@pytest.mark.parametrize(
    "text",
    [
        # Languages without rules, and everyday words that look like time.
        "na semana passada",
        "в прошлый вторник",
        "الأسبوع الماضي",
        "viime tiistaina",
        "vorige week dinsdag was ik er niet",
        "once personas esperan",
        "我十分高兴",
        "一个人在家",
        "日本に行きたい",
        "der Sommerschlussverkauf ist gut",
    ],
)
def test_no_date_rather_than_a_wrong_one(text: str) -> None:
    assert meaning(text) == []


def test_questions_of_other_languages_have_windows() -> None:
    asked = ["¿Qué pasó en mayo de 2022?", "Was geschah im Mai 2022?", "2022年5月发生了什么？"]
    may = (micros(datetime(2022, 5, 1)), micros(datetime(2022, 6, 1)))
    assert windows(asked, [None] * 3) == [may] * 3


def test_languages_are_told_apart() -> None:
    detector = Detector({"en": ["yesterday", "week"], "es": ["ayer", "semana"], "fr": ["hier"], "de": ["gestern"]})
    told = {
        "we met yesterday and it was fine": "en",
        "ayer fui a la casa de mi hermano": "es",
        "hier je suis allé chez mon frère": "fr",
        "gestern war ich bei meinem bruder": "de",
        "ontem eu não fui para a casa": None,
        "昨日は寒かった": "ja",
        "昨天很冷": "zh",
        "вчера было холодно": None,
        "qwer tyui asdf ghjk": None,
    }
    assert {text: detector.detect(text) for text in told} == told


@given(
    st.text(
        alphabet="年月日号点時分上下前后後今明昨天週周末一二三十五0123456789/-:, 第のから到 hacedosdíasvorTag.éüñ",
        max_size=24,
    )
)
@settings(max_examples=400, deadline=None)
def test_any_text_gives_ordered_spans_in_range(text: str) -> None:
    last = 0
    for span in tag([text], [AT])[0]:
        assert last <= span.first < span.last <= len(text)
        assert span.start < span.end
        last = span.last
