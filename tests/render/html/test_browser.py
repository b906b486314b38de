"""The report in a headless Chromium: what a reader sees and can do."""

import json
import time

import pytest
from browser_pages import emulate, load, violations

from hpobench_nmt.analysis.selection import EXACT

pytestmark = pytest.mark.hosts

LUMINANCE = """
const [r, g, b] = arguments[0].match(/[\\d.]+/g).map(Number).map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
return 0.2126 * r + 0.7152 * g + 0.0722 * b;
"""


@pytest.fixture
def opened(chromium, page):
    """The report, freshly opened in a light window of usual size."""
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    emulate(chromium, "light")
    load(chromium, page)
    return chromium


def press(driver, *keys):
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(driver).send_keys(*keys).perform()


def find(driver, query):
    return driver.find_element("css selector", query)


def text(driver, query):
    return driver.execute_script("return document.querySelector(arguments[0]).textContent", query)


def names(driver, board):
    return column(driver, board, 0)


def column(driver, board, place):
    return driver.execute_script(
        "return [...document.querySelectorAll(`${arguments[0]} tbody tr`)]"
        ".map((row) => row.querySelectorAll('[data-v]')[arguments[1]].dataset.v)",
        board,
        place,
    )


def click(driver, element):
    """Click in the middle of the window: the bar at the top covers what is scrolled beneath it."""
    driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
    element.click()


def open_everything(driver):
    driver.execute_script(
        "for (const d of document.querySelectorAll('details')) d.open = true;"
        "for (const b of document.querySelectorAll('[data-table]')) b.hidden = false;"
    )


def test_opens_without_an_error_and_fetches_nothing(opened, page):
    assert opened.get_log("browser") == []
    sent = []
    for entry in opened.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            sent.append(message["params"])
    # The browser's own first page is none of ours.
    own = [p["request"]["url"] for p in sent if p["documentURL"].startswith("file:")]
    assert {url for url in own if not url.startswith("data:")} == {page.as_uri()}
    assert not any(p["request"]["url"].startswith(("http:", "https:", "ws")) for p in sent)
    # Neither the page's own script nor one that was slipped in could do so.
    blocked = opened.execute_async_script(
        "const done = arguments[0];"
        "fetch('http://127.0.0.1:9/').then(() => done('sent'), () => done('refused'));"
    )
    assert blocked == "refused"
    violation = opened.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.attacked = 1';"
        "document.body.append(s); return window.attacked === undefined"
    )
    assert violation


def test_hostile_text_is_shown_and_not_run(opened, tools):
    opened.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
    assert tools.attack in opened.execute_script("return document.getElementById('made').textContent")
    assert tools.attack in opened.execute_script("return document.querySelector('h1').textContent")
    assert opened.execute_script("return document.images.length") == 0
    assert opened.execute_script("return document.scripts.length") == 2


def test_every_figure_is_drawn(opened):
    open_everything(opened)
    found = opened.execute_script(
        "return [...document.querySelectorAll('.plot')].map((plot) => {"
        " const svg = plot.querySelector('svg'); const box = svg.getBoundingClientRect();"
        " const parts = [...svg.querySelectorAll('path, use, image')];"
        " const drawn = parts.filter((e) => e.getBoundingClientRect().width > 0);"
        " return [plot.id, box.width, box.height, drawn.length, plot.getAttribute('aria-label')]; })"
    )
    assert len(found) >= 25
    for name, width, height, drawn, label in found:
        assert width > 200 and height > 100 and drawn > 5 and label, name
    # A method failed in a trial on one of the two tables, and what is left is too little to rank over.
    missing = opened.execute_script(
        "return [...document.querySelectorAll('main .missing')].map((e) => e.textContent)"
    )
    assert missing == []


def test_the_rows_of_a_leaderboard_are_low_and_its_bars_are_wide(opened):
    rows, bars = opened.execute_script(
        "const all = (query) => [...document.querySelectorAll(query)].map((e) => e.getBoundingClientRect());"
        "for (const b of document.querySelectorAll('[data-table]')) b.hidden = false;"
        "return [all('.board tbody tr').map((box) => box.height), all('.board .bar').map((box) => box.width)]"
    )
    assert rows and max(rows) <= 30
    assert bars and min(bars) > 80


def test_the_same_colour_is_the_same_method_everywhere(opened):
    colours = opened.execute_script(
        "const found = {};"
        "for (const g of document.querySelectorAll('.plot g[data-m]'))"
        " for (const p of g.querySelectorAll('path'))"
        " for (const key of ['fill', 'stroke']) if (p.style[key].startsWith('var(--m'))"
        "  (found[g.dataset.m] ||= {})[p.style[key]] = 1;"
        "return Object.entries(found).map(([m, seen]) => [m, Object.keys(seen)])"
    )
    assert len(colours) >= 6
    for place, seen in colours:
        assert seen == [f"var(--m{place})"]


def test_sorting(opened):
    board = "#two-toy-board"
    before = names(opened, board)
    header = f"{board} thead th:nth-child(%d)"
    find(opened, "input[name=table]").send_keys(" ")
    assert find(opened, header % 2).get_attribute("aria-sort") == "ascending"
    click(opened, find(opened, f"{header % 4} button"))
    fbp = [float(v) for v in column(opened, board, 3)]
    assert fbp == sorted(fbp, reverse=True)  # more is better: the best first
    assert find(opened, header % 4).get_attribute("aria-sort") == "descending"
    assert find(opened, header % 2).get_attribute("aria-sort") is None
    click(opened, find(opened, f"{header % 4} button"))
    assert [float(v) for v in column(opened, board, 3)] == sorted(fbp)
    click(opened, find(opened, f"{header % 1} button"))
    assert names(opened, board) == sorted(before)
    assert sorted(names(opened, board)) == sorted(before) and len(before) == 3


def test_hiding_a_method_hides_it_everywhere(opened):
    open_everything(opened)
    # Cells of a matrix belong to two methods.
    visible = (
        "return [...document.querySelectorAll(`[data-m='${arguments[0]}']`)]"
        ".filter((e) => e.getClientRects().length > 0 && !e.matches('.matrix *')).length"
    )
    button = find(opened, "[data-toggle='0']")
    figures = opened.execute_script("return document.querySelectorAll(\".plot:has([data-m='0'])\").length")
    assert figures >= 12 and opened.execute_script(visible, 0) > figures
    others = opened.execute_script(visible, 1)
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert opened.execute_script(visible, 0) == 0
    assert opened.execute_script(visible, 1) == others
    find(opened, "#all-methods").click()
    assert opened.execute_script(visible, 0) > figures
    assert button.get_attribute("aria-pressed") == "true"


def test_one_table_at_a_time_by_keyboard(opened):
    from selenium.webdriver.common.keys import Keys

    shown = (
        "return [...new Set([...document.querySelectorAll('[data-table]')]"
        ".filter((e) => e.getClientRects().length).map((e) => e.dataset.table))]"
    )
    assert opened.execute_script(shown) == ["0"]
    opened.execute_script("document.querySelector('input[name=table]').focus()")
    press(opened, Keys.ARROW_RIGHT)
    assert opened.execute_script(shown) == ["1"]
    press(opened, Keys.ARROW_LEFT)
    assert opened.execute_script(shown) == ["0"]


def test_everything_by_keyboard(opened):
    from selenium.webdriver.common.keys import Keys

    press(opened, Keys.TAB)
    assert opened.switch_to.active_element.text == "Skip to the report"
    press(opened, Keys.ENTER)
    assert opened.execute_script("return location.hash") == "#main"
    chip = find(opened, "[data-toggle='1']")
    opened.execute_script("arguments[0].focus()", chip)
    press(opened, Keys.SPACE)
    assert chip.get_attribute("aria-pressed") == "false"
    press(opened, Keys.ENTER)
    assert chip.get_attribute("aria-pressed") == "true"
    button = find(opened, "#two-overall th:nth-child(1) button")
    opened.execute_script("arguments[0].focus()", button)
    press(opened, Keys.ENTER)
    assert names(opened, "#two-overall") == sorted(names(opened, "#two-overall"))
    summary = find(opened, "#tables details.fold > summary")
    opened.execute_script("arguments[0].focus()", summary)
    press(opened, Keys.ENTER)
    assert opened.execute_script("return arguments[0].parentNode.open", summary)
    unreachable = opened.execute_script(
        "return [...document.querySelectorAll('button, input, summary, a, [data-hover]')]"
        ".filter((e) => e.tabIndex < 0).length"
    )
    assert unreachable == 0


def test_tooltips_show_the_right_values(opened, means):
    from selenium.webdriver.common.keys import Keys

    find(opened, "input[name=table][value='1']").send_keys(" ")
    plot = find(opened, "#tables [data-table='1'] [data-hover]")
    opened.execute_script("arguments[0].focus()", plot)
    press(opened, *[Keys.ARROW_RIGHT] * 5)
    assert text(opened, "#tip b") == "after 5 look-ups"
    rows = dict(
        opened.execute_script(
            "return [...document.querySelectorAll('#tip div')]"
            ".map((d) => [d.children[1].textContent, d.children[2].firstChild.data])"
        )
    )
    assert set(rows) == {*means, EXACT}
    for method, by_lookup in means.items():
        assert rows[method] == f"{by_lookup[5]:.3g}"
    assert "after 5 look-ups" in text(opened, "#say")
    # The pointer finds the same place, and a hidden method is gone from it.
    opened.execute_script("document.querySelector(\"[data-toggle='0']\").click()")
    # A busy browser may lose a pointer's move; the keyboard's tooltip says the same until one was handled.
    deadline = time.monotonic() + 120
    shift = 1
    while len(shown := opened.find_elements("css selector", "#tip div")) != len(rows) - 1:
        assert time.monotonic() < deadline, f"{len(shown)} lines"
        x, y = opened.execute_script(
            "const d = JSON.parse(document.getElementById('data').textContent).figures[arguments[0].id];"
            "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'});"
            "const m = arguments[0].firstElementChild.getScreenCTM();"
            "const p = new DOMPoint(d.x[4], 60).matrixTransform(m);"
            "return [p.x, p.y]",
            plot,
        )
        moved = {"type": "mouseMoved", "x": x + shift, "y": y}
        opened.execute_cdp_cmd("Input.dispatchMouseEvent", moved)
        shift = 1 - shift
        time.sleep(0.2)
    assert text(opened, "#tip b") == "after 5 look-ups"
    press(opened, Keys.ESCAPE)
    assert not find(opened, "#tip").is_displayed()


def test_a_trial_is_replayed_by_keyboard_and_by_itself(opened, folders):
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select

    from hpobench_nmt.analysis.replay import replay
    from hpobench_nmt.benchmarking.records.store import load_results

    found = replay(load_results(folders[1]), "toy")
    box = "[data-replay='two-toy-replay']"
    assert not find(opened, box).get_attribute("hidden")
    assert opened.execute_script(
        "return [...document.querySelectorAll('#two-toy-replay .still')]"
        ".every((e) => getComputedStyle(e).display === 'none')"
    )
    dots = "return document.querySelectorAll('#two-toy-replay circle:not(.now)').length"
    for method, trial in found.trials.items():
        Select(find(opened, f"{box} select")).select_by_visible_text(method)
        n = len(trial.rows)
        assert text(opened, f"{box} output b").startswith(f"Look-up {n} of {n}: row {trial.rows[-1]},")
        assert opened.execute_script(dots) == n
        opened.execute_script("arguments[0].focus()", find(opened, f"{box} input"))
        press(opened, Keys.HOME, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        assert text(opened, f"{box} output b").startswith(f"Look-up 3 of {n}: row {trial.rows[2]},")
        assert opened.execute_script(dots) == 3
        held, front = trial.front_after(3), set(found.front.tolist())
        rows = "1 row" if len(held) == 1 else f"{len(held)} rows"
        on_both = sum(int(row) in front for row in held)
        told = text(opened, f"{box} output span")
        assert f"Front so far: {rows}, {on_both} of them on the table’s front of {len(front)}." in told
        values = zip(found.hyperparameters, found.configs[int(trial.rows[2])], strict=True)
        assert told.startswith(", ".join(f"{name} {value:g}" for name, value in values))
        assert opened.execute_script(
            "return document.querySelectorAll('#two-toy-replay .held').length"
        ) == len(held)
    click(opened, find(opened, f"{box} button"))
    assert text(opened, f"{box} button") == "Pause"
    deadline = time.monotonic() + 60
    while text(opened, f"{box} button") == "Pause":
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert opened.execute_script(dots) == n


def test_the_report_begins_with_the_picture_of_the_answer(opened):
    first = opened.execute_script("return document.querySelector('main .plot').id")
    assert first.endswith("-fewer")
    assert "times fewer trainings than random search" in text(opened, "main .finding") or "No method" in text(
        opened, "main .finding"
    )


def test_dark_mode(opened):
    def colours(query):
        return opened.execute_script(
            "const s = getComputedStyle(document.querySelector(arguments[0])); return [s.color, s.fill]",
            query,
        )

    def luminance(colour):
        return opened.execute_script(LUMINANCE, colour)

    def contrast(first, second):
        high, low = sorted([luminance(first), luminance(second)], reverse=True)
        return (high + 0.05) / (low + 0.05)

    def paper():
        return opened.execute_script("return getComputedStyle(document.body).backgroundColor")

    def check():
        for query in ("h1", ".lead", ".fine li", ".mark", "nav a", "summary"):
            assert contrast(colours(query)[0], paper()) >= 4.5, query
        assert contrast(colours(".plot text")[1], paper()) >= 4.5

    light = paper()
    check()
    find(opened, "#theme").click()
    assert luminance(paper()) < 0.05
    find(opened, "#theme").click()
    assert paper() == light
    opened.refresh()
    emulate(opened, "dark")
    assert luminance(paper()) < 0.05
    check()
    for place in opened.execute_script(
        "return [...document.querySelectorAll('[data-toggle]')].map((b) => b.dataset.toggle)"
    ):
        line = opened.execute_script(
            "const swatch = document.querySelector(`.swatch[data-swatch='${arguments[0]}'] path`);"
            "return getComputedStyle(swatch).stroke",
            place,
        )
        assert contrast(line, paper()) >= 3, place


@pytest.mark.parametrize("width", [320, 390, 768])
def test_narrow_windows_do_not_scroll_sideways(opened, width):
    size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    open_everything(opened)
    assert opened.execute_script("return document.documentElement.scrollWidth") <= width
    # Nor does a figure or a table, within itself. A matrix of many methods may, and so may a figure of
    # several panels, whose letters can be read.
    cut = opened.execute_script(
        "return [...document.querySelectorAll('.plot:not(.wide), .scroll:not(:has(.matrix))')]"
        ".filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.ariaLabel)"
    )
    assert width != 390 or cut == []
    smallest = opened.execute_script(
        "return Math.min(...[...document.querySelectorAll('.plot.wide svg')].flatMap((svg) =>"
        "[...svg.querySelectorAll('text')].map((t) =>"
        "parseFloat(getComputedStyle(t).fontSize) * svg.clientWidth / svg.viewBox.baseVal.width)))"
    )
    assert smallest > 5.5


def test_print_shows_every_table_and_no_controls(opened):
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        seen = (
            "return [...document.querySelectorAll(arguments[0])]"
            ".filter((e) => e.getClientRects().length > 0).length"
        )
        assert opened.execute_script(seen, ".controls, nav, #theme") == 0
        tables = opened.execute_script("return document.querySelectorAll('[data-table]').length")
        assert opened.execute_script(seen, "[data-table]") == tables > 0
        assert opened.execute_script(seen, ".key") >= 8
    finally:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_the_report_is_accessible(opened):
    assert violations(opened) == []
