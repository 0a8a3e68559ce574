#!/usr/bin/env python3
"""Uses a page of `moec explain --html` as people do.

  explain_browser.py PAGE.html [--shots FOLDER]   with pictures of it to look at
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import browser

SIZES = [(1400, 900), (800, 900), (360, 740)]
TEXTS = "h1, h2, h3, p, b, dd, dt, td, li, label, button, select, legend span, small, output, .axis span"


def column(page, index):
    """Of the table, as it is shown."""
    return page.run(f"[...document.querySelectorAll('#ops-body tr')].map((row) => row.children[{index}].textContent)")


def seconds(text):
    value, unit = text.split() if " " in text else (text, "s")
    return float(value) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[unit]


def check_layout(page, path, shots):
    heights = {}
    for width, height in SIZES:
        for scheme in ("light", "dark"):
            page.show(path, width, height, scheme)
            assert page.run("document.documentElement.scrollWidth") == width, f"wider than {width}: {page.wide('.skip')}"
            assert page.wide(".skip") == [], f"at {width}: {page.wide('.skip')}"
            assert page.faint(TEXTS) == [], f"{scheme}: {page.faint(TEXTS)}"
            ground = page.run("getComputedStyle(document.body).backgroundColor")
            heights[scheme] = sum(map(int, ground[4:-1].split(",")))
            if shots:
                page.screenshot(f"{shots}/page-{width}-{scheme}.png")
    assert heights["light"] > 600 and heights["dark"] < 200, heights


def check_contents(page):
    assert page.run("document.querySelectorAll('h1 b').length") == 0
    assert page.run("document.getElementById('model').textContent").startswith("</script><b>x")
    assert page.run("document.title").startswith("</script><b>x")
    for figure in (".tile", ".memory .bar i", ".timeline .lane path", "#roofline .mark", "#roofline .roof", "#ops-body tr", "#plan dd"):
        assert page.run(f"document.querySelectorAll('{figure}').length") > 0, figure
    assert page.run("[...document.querySelectorAll('.timeline h3')].map((e) => e.textContent)")[:2] == ["decode", "prefill"]
    assert page.run("facts.phases.flatMap((phase) => phase.rows).filter(canBePlotted).length") == page.run("document.querySelectorAll('#roofline .mark').length")
    # No mark is outside of the plot or above a roof.
    assert page.run("""[...document.querySelectorAll('#roofline .mark')].every((mark) => { const a = mark.getBBox(), b = document.getElementById('roofline').viewBox.baseVal;
      return a.x >= 0 && a.y >= 0 && a.x + a.width <= b.width && a.y + a.height <= b.height; })""")


def check_table(page):
    # Sentences have enough width for whole lines.
    assert page.run("document.querySelector('#ops-body .why').offsetWidth") > 400
    order = column(page, 0)
    click = "document.querySelectorAll('#ops-head button')[{}].click()"
    sort = lambda index: page.run(f"document.querySelectorAll('#ops-head th')[{index}].getAttribute('aria-sort')")
    page.run(click.format(6))
    times = [seconds(text) for text in column(page, 6)]
    assert times == sorted(times, reverse=True) and times[0] > times[-1] and sort(6) == "descending"
    page.run(click.format(6))
    assert [seconds(text) for text in column(page, 6)] == sorted(times) and sort(6) == "ascending"
    page.run(click.format(6))
    assert column(page, 0) == order and sort(6) == "none"
    # Sorts by keyboard.
    page.run("document.querySelectorAll('#ops-head button')[0].focus()")
    page.press("Enter")
    assert column(page, 0) == sorted(order) and sort(0) == "ascending"
    page.run("const find = document.getElementById('ops-text'); find.value = 'ATTN_NORM'; find.dispatchEvent(new Event('input'))")
    assert 0 < len(column(page, 0)) < len(order) and all("attn_norm" in name for name in column(page, 0))
    page.run("find.value = ''; const step = document.getElementById('ops-phase'); step.value = 'prefill'; step.dispatchEvent(new Event('change'))")
    assert page.run("document.getElementById('ops-count').textContent").startswith("prefill: ")


def check_rejected(page):
    """Each op's alternatives are in a list that opens, by keyboard too, and are found by what they are."""
    lists = page.run("[...document.querySelectorAll('#ops-body details')].map((list) => [list.open, list.querySelectorAll('li').length, list.querySelector('li').textContent])")
    assert lists and all(not opened and count > 0 and " and " in text and "; " in text for opened, count, text in lists), lists[:3]
    page.run("document.querySelector('#ops-body summary').focus()")
    page.press("Enter")
    assert page.run("document.querySelector('#ops-body details').open")
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    find = "const rejected = document.getElementById('ops-text'); rejected.value = '{}'; rejected.dispatchEvent(new Event('input'))"
    page.run(find.format("rows16"))
    assert 0 < len(column(page, 0)) and all("alternative" in text for text in column(page, 9)), column(page, 9)
    page.run("rejected.value = ''; rejected.dispatchEvent(new Event('input'))")


def check_figures(page):
    for figure, readout in (("#roofline", "#roofline-readout"), (".lane svg", ".timeline output")):
        text = lambda: page.run(f"document.querySelector('{readout}').textContent")
        page.run(f"document.querySelector('{figure}').focus()")
        page.press("Home")
        first = text()
        page.press("ArrowRight")
        assert text() != first and page.run(f"document.querySelector('{figure}').getAttribute('aria-valuetext')") == text()
        page.press("ArrowLeft")
        assert text() == first and " on " in first
    page.run("const zoom = document.querySelector('.timeline select'); zoom.value = '2'; zoom.dispatchEvent(new Event('change'))")
    page.run("document.querySelector('.lane svg').focus()")
    page.press("End")
    assert page.run("document.querySelector('.timeline output').textContent").startswith("blk.2.")
    # Selects by pointer: the middle of the lane.
    x, y = page.run("(() => { const lane = document.querySelector('.lane svg'); lane.scrollIntoView(); const box = lane.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()")
    last = page.run("document.querySelector('.timeline output').textContent")
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    assert page.run("document.querySelector('.timeline output').textContent") not in ("", last)


def check_rungs(page, rungs):
    """As many, each with what it says of itself; without a ladder there is no table of them."""
    assert page.run("document.getElementById('rungs-section').hidden") == (rungs == 0)
    rows = page.run("[...document.querySelectorAll('#rungs-body tr')].map((row) => [...row.children].map((cell) => cell.textContent))")
    assert len(rows) == rungs and all(len(row) == 6 and all(row) for row in rows), rows
    assert sum("on this page" in row[0] for row in rows) == (rungs > 0), rows


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("page")
    arguments.add_argument("--rungs", type=int, default=0, help="of a ladder, of which nothing else is looked at")
    arguments.add_argument("--shots")
    arguments = arguments.parse_args()
    with browser.Browser(browser.find()) as page:
        check_layout(page, arguments.page, arguments.shots)
        page.show(arguments.page, 1400, 900)
        check_rungs(page, arguments.rungs)
        if not arguments.rungs:
            check_contents(page)
            check_rejected(page)
            check_table(page)
            check_figures(page)
        assert page.complaints == [], page.complaints


main()
