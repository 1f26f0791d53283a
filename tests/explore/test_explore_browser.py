"""The page in a headless Chromium: it draws, obeys keys, fits a phone, runs nothing of a log and asks for nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from explore_pages import hostile_store, large_store
from headless import Browser, find_chromium

from magma_gpu.config import load_config
from magma_gpu.explore import explore
from magma_gpu.explore.page import render

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed here")
PRESSED = (
    "[...document.querySelectorAll('.switch')].filter(b => b.ariaPressed === 'true').map(b => b.id.slice(7)).join()"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None
    with Browser(CHROMIUM) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    config = load_config(None, ["search.policy=paper", "search.num_anchors=1"])
    explore(hostile_store(folder), folder / "page.html", questions=["Why did Ana move to Porto?"], config=config)
    return folder / "page.html"


def test_it_draws_and_nothing_of_the_log_runs(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.problems() == []
    assert browser.requests() == [page.as_uri()]
    assert browser.js("window.broken") is None
    assert browser.js("document.querySelectorAll('img, b b').length") == 0
    assert browser.js("document.getElementById('memory').textContent").startswith("</script><script>")
    # Something other than the background was painted.
    count = browser.js(
        "(() => { const c = document.querySelector('#graph canvas'); const d = c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data; const s = new Set();"
        "for (let i = 0; i < d.length; i += 4) s.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return s.size })()"
    )
    assert count > 20


def test_the_network_is_out_of_reach(browser: Browser, page: Path) -> None:
    browser.open(page)
    said = browser.js("fetch('http://127.0.0.1:9/x').then(() => 'fetched', () => 'refused')")
    assert said == "refused"
    browser.js("new Promise(d => { const i = new Image(); i.onerror = d; i.src = 'http://127.0.0.1:9/y' })")
    assert any("Content Security Policy" in p for p in browser.problems())
    sent = [
        e["params"]["requestId"]
        for e in browser.events
        if e["method"] == "Network.requestWillBeSent" and "127.0.0.1" in e["params"]["request"]["url"]
    ]
    blocked = [
        e["params"]["requestId"]
        for e in browser.events
        if e["method"] == "Network.loadingFailed" and e["params"].get("blockedReason") == "csp"
    ]
    assert set(sent) <= set(blocked)


def test_keys(browser: Browser, page: Path) -> None:
    browser.open(page, "question=9")
    browser.js("document.getElementById('graph').focus()")
    before = set(browser.js(PRESSED).split(","))
    assert {"temporal", "semantic", "entity"} <= before
    browser.press("2")
    assert set(browser.js(PRESSED).split(",")) == before - {"semantic"}
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    assert "</script>" in browser.js("document.querySelector('#panel-details h2').textContent")
    browser.press("ArrowLeft")
    assert browser.js("document.querySelector('#panel-details h2').textContent") == "Ana"
    browser.press("e")
    assert browser.js("document.querySelector('#panel-entities').hidden") is False
    browser.press("t")
    assert browser.js("document.documentElement.dataset.theme") == "dark"
    browser.press("?")
    assert browser.js("document.getElementById('keys').open") is True
    assert browser.problems() == []


def test_a_part_of_the_time_is_chosen(browser: Browser, page: Path) -> None:
    browser.open(page, "question=9")
    assert browser.js("document.getElementById('from-text').value") == "1 Jan 2024"
    assert browser.js("document.getElementById('all-time').hidden") is True
    browser.js(
        "(() => { const f = document.getElementById('from'); f.value = 500; f.dispatchEvent(new Event('input')) })()"
    )
    assert browser.js("document.getElementById('from-text').value") == "1 Mar 2024"
    browser.js("document.getElementById('all-time').click()")
    assert browser.js("document.getElementById('from-text').value") == "1 Jan 2024"
    assert browser.problems() == []


def test_search_marks_the_words(browser: Browser, page: Path) -> None:
    browser.open(page, "question=9&search=CLARA porto")
    assert browser.js("document.querySelectorAll('#panel-search .item').length") == 2
    assert (
        browser.js("[...document.querySelectorAll('mark')].map(m => m.textContent.toLowerCase()).sort()[0]") == "clara"
    )
    browser.open(page, "search=nothing holds this")
    assert "Nothing holds" in browser.js("document.getElementById('panel-search').textContent")


def test_a_question_is_walked_hop_by_hop(browser: Browser, page: Path) -> None:
    browser.open(page, "hop=0")
    heads = "[...document.querySelectorAll('#panel-question h3')].map(h => h.firstChild.textContent).join()"
    assert browser.js(heads) == "Intent,Walk,Anchors,Evidence (5),Context"
    shown = browser.js("document.querySelector('#panel-question .stepper span').textContent")
    hops = int(shown.removeprefix("hop 0 of "))
    assert hops >= 1
    browser.press("]")
    assert browser.js(heads) == "Intent,Walk,Anchors,Hop 1,Evidence (5),Context"
    assert browser.js("document.querySelectorAll('#panel-question .badge.edge').length") >= 1
    assert "tokens" in browser.js("document.getElementById('panel-question').textContent")
    browser.press("[")
    assert "Hop 1" not in browser.js(heads)


@pytest.mark.parametrize(("width", "height"), [(360, 720), (820, 900), (1280, 800)])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_the_screen_in_both_themes(browser: Browser, page: Path, width: int, height: int, dark: bool) -> None:
    browser.open(page, width=width, height=height, dark=dark)
    assert browser.js("document.documentElement.scrollWidth <= innerWidth") is True
    assert browser.js("document.documentElement.scrollHeight <= innerHeight") is True
    assert browser.js("document.getElementById('graph').clientHeight") > 150
    assert browser.js("document.getElementById('panels').clientHeight") > 150
    background = browser.js("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(17, 20, 26)" if dark else "rgb(246, 245, 242)")
    assert browser.problems() == []


def test_an_empty_memory_has_a_page(browser: Browser, tmp_path: Path) -> None:
    from magma_gpu.explore.payload import describe
    from magma_gpu.export.select import READ
    from magma_gpu.schema import TABLES

    empty = describe("nobody", {t: TABLES[t].empty_table() for t in READ}, [], ["causal", "entity"])
    (tmp_path / "empty.html").write_text(render(empty), encoding="utf-8")
    browser.open(tmp_path / "empty.html")
    assert browser.problems() == []
    assert browser.js("document.getElementById('counts').textContent") == "0 messages · 0 sessions · 0 entities"
    assert browser.js("document.getElementById('time').hidden") is True


def test_five_thousand_messages_open_in_three_seconds(browser: Browser, tmp_path: Path) -> None:
    report = explore(large_store(tmp_path, 5000), tmp_path / "big.html")
    assert report.events == 5000
    assert browser.open(tmp_path / "big.html") < 3000
    assert browser.problems() == []
