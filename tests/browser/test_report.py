"""The report in a real browser, opened from disk: sort, filter, phone, print, and data that would like to be code."""

import json
from pathlib import Path

import pytest

from tests.ui.html.made_data import HOSTILE, made_data
from turnover.ui.html.page import render

KINDS = ["text", "image", "table"]


@pytest.fixture
def report(browser, tmp_path, request):
    """A report in the browser; afterwards nothing was complained of and no request left the machine."""
    kind = getattr(request, "param", "text")
    data = made_data(kind)
    page, twin = tmp_path / "report.html", tmp_path / "report.json"
    page.write_text(render(data), encoding="utf-8")
    twin.write_text(data.as_json(), encoding="utf-8")
    browser.open(page)
    yield browser
    assert browser.errors() == []
    assert browser.outside() == []
    assert {address.split(":")[0] for address in browser.requests} <= {"file", "data"}
    assert browser.requests


def rows_of(browser, caption: str) -> list[int]:
    script = """
        const table = document.getElementById(arguments[0] + "-caption").closest("table");
        const shown = Array.from(table.tBodies[0].rows).filter((row) => row.offsetParent !== null);
        return shown.map((row) => Number(row.dataset.row));
    """
    return browser.run(script, caption)


def head_of(browser, caption: str, number: int):
    script = """
        const table = document.getElementById(arguments[0] + "-caption").closest("table");
        return table.querySelectorAll("th[aria-sort]")[arguments[1]];
    """
    return browser.run(script, caption, number)


def part_of(browser, what: str, css: str):
    return browser.run(
        "return document.getElementById(arguments[0]).closest('[data-list]').querySelector(arguments[1]);", what, css
    )


@pytest.mark.parametrize("report", KINDS, indirect=True)
def test_report_opens_from_disk_without_complaint(report):
    assert report.driver.title.endswith("turnover report")
    assert report.run("return document.documentElement.classList.contains('js')")


@pytest.mark.parametrize("report", ["text", "table"], indirect=True)
def test_scripts_in_the_data_are_shown_as_text(report):
    assert report.driver.title == "reviews.csv – turnover report"
    assert HOSTILE in report.run("return document.querySelector('.findings').textContent")
    assert HOSTILE in report.run("return document.querySelector('main').textContent")
    assert report.run("return document.scripts.length") == 1
    assert report.run("return document.querySelectorAll('img[src=x]').length") == 0


def test_a_click_on_a_head_sorts_and_the_next_one_turns_round(report):
    assert rows_of(report, "memorized") == list(range(10))
    head = head_of(report, "memorized", 3)
    assert head.get_attribute("aria-sort") == "descending"
    head.find_element("css selector", "button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert rows_of(report, "memorized") == list(range(35, 25, -1))
    head.find_element("css selector", "button").click()
    assert rows_of(report, "memorized") == list(range(10))


def test_sorting_works_by_keyboard_and_moves_the_mark(report):
    head = head_of(report, "label-errors", 0)
    report.run("arguments[0].querySelector('button').focus()", head)
    report.driver.switch_to.active_element.send_keys("\n")
    assert head.get_attribute("aria-sort") == "ascending"
    assert rows_of(report, "label-errors") == list(range(10))
    report.driver.switch_to.active_element.send_keys(" ")
    assert head.get_attribute("aria-sort") == "descending"
    assert rows_of(report, "label-errors") == list(range(35, 25, -1))
    assert head_of(report, "label-errors", 4).get_attribute("aria-sort") == "none"


def test_words_and_labels_filter_together(report):
    report.one("#harmful-words").send_keys("plot MESS")
    assert rows_of(report, "harmful") == [2, 6, 10, 14, 18, 22, 26, 30, 34]
    assert part_of(report, "harmful-words", "[data-shown]").text == "Showing 9 of 9 that fit, 36 in all"
    report.run(
        "const s = arguments[0]; s.value = '1'; s.dispatchEvent(new Event('change'))", report.one("#harmful-label")
    )
    assert rows_of(report, "harmful") == []
    report.one("#harmful-words").clear()
    report.one("#harmful-words").send_keys("flat")
    assert rows_of(report, "harmful") == [1, 5, 9, 13, 17, 21, 25, 29, 33]


def test_the_rest_of_a_list_is_one_click_away(report):
    more = part_of(report, "harmful-words", "[data-more]")
    assert more.text == "Show all 36"
    more.click()
    assert rows_of(report, "harmful") == list(range(36))
    assert more.get_attribute("aria-expanded") == "true"
    more.click()
    assert len(rows_of(report, "harmful")) == 10


def test_numbers_on_the_page_are_those_of_the_twin(report):
    twin = json.loads(Path(report.driver.current_url.removeprefix("file://")).with_suffix(".json").read_text())
    for caption, name, column in (
        ("harmful", "harmful", 3),
        ("memorized", "memorized", 3),
        ("label-errors", "likely_label_errors", 4),
    ):
        script = """
            const table = document.getElementById(arguments[0] + "-caption").closest("table");
            const value = (row) => Number(row.children[arguments[1]].dataset.value);
            return Array.from(table.tBodies[0].rows).map((row) => [Number(row.dataset.row), value(row)]);
        """
        key = {"harmful": "score", "memorized": "self_influence", "likely_label_errors": "p_wrong"}[name]
        assert report.run(script, caption, column) == [[one["row"], one[key]] for one in twin[name]["items"]]


@pytest.mark.parametrize("report", KINDS, indirect=True)
def test_a_phone_needs_no_sideways_scrolling(report):
    report.resize(360, 740)
    assert report.run("return document.documentElement.scrollWidth") <= 360
    if report.all("#label-errors-order"):
        assert report.one("#label-errors-order").is_displayed()
        report.run(
            "const s = arguments[0]; s.value = '0 descending'; s.dispatchEvent(new Event('change'))",
            report.one("#label-errors-order"),
        )
        assert rows_of(report, "label-errors")[0] == 35


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_their_background(report, scheme):
    report.prefer(scheme)
    script = """
        const light = (color) => {
          const parts = color.match(/[\\d.]+/g).slice(0, 3).map((part) => Number(part) / 255);
          const [r, g, b] = parts.map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const behind = (element) => {
          for (let at = element; at; at = at.parentElement) {
            const color = getComputedStyle(at).backgroundColor;
            if (!color.startsWith("rgba") || color.endsWith(" 1)")) return color;
          }
          return "rgb(255, 255, 255)";
        };
        const bad = [];
        for (const element of document.querySelectorAll("main *, header *, nav *, footer *")) {
          const own = Array.from(element.childNodes).some((node) => node.nodeType === 3 && node.textContent.trim());
          if (!own || element.closest("svg, .matrix") || !element.checkVisibility()) continue;
          const one = light(getComputedStyle(element).color), other = light(behind(element));
          const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
          if (ratio < 4.5) bad.push(element.outerHTML.slice(0, 80) + " " + ratio.toFixed(2));
        }
        return bad;
    """
    assert report.run(script) == []


def test_on_paper_everything_is_unfolded_and_there_is_nothing_to_click(report):
    report.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        report.run("window.dispatchEvent(new Event('beforeprint'))")
        assert rows_of(report, "harmful") == list(range(36))
        assert not report.visible("details:not([open])")
        for gone in ("nav", ".controls", ".more"):
            assert report.visible(gone) == [], gone
        report.run("window.dispatchEvent(new Event('afterprint'))")
    finally:
        report.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert len(rows_of(report, "harmful")) == 10
    assert not report.all("details[open]")


def test_without_scripts_everything_is_there(browser, tmp_path):
    page = tmp_path / "report.html"
    page.write_text(render(made_data()), encoding="utf-8")
    browser.without_scripts()
    browser.open(page)
    assert len(browser.visible("#harmful-caption ~ tbody tr")) == 36
    assert browser.visible(".controls") == []


def test_all_controls_are_reached_by_keyboard_and_show_it(report):
    script = """
        const all = Array.from(document.querySelectorAll("a, button, input, select, summary, [tabindex]"));
        const unseen = (element) => {
          element.focus({ focusVisible: true });
          return document.activeElement !== element || getComputedStyle(element).outlineStyle === "none";
        };
        return all.filter((e) => e.checkVisibility() && unseen(e)).map((e) => e.outerHTML.slice(0, 80));
    """
    assert report.run(script) == []
