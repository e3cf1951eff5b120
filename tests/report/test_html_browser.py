"""The page in a real browser: it draws, hover, keys and zoom work, nothing complains, nothing is fetched."""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from example_runs import error_map, full, hostile

from wmmadiag.report import html
from wmmadiag.report.map_svg import colour_of, error_picture
from wmmadiag.results.maps import NAN

pytestmark = pytest.mark.subprocess
READY = "[...document.querySelectorAll('.map')].every(map => map.dataset.ready)"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    made = {}
    for name, run in (("full", full()), ("hostile", hostile())):
        made[name] = folder / f"{name}.html"
        made[name].write_text(html.render(run), "utf-8")
    return made


def show(browser, page, width=1280, **options):
    browser.open(page, width, **options)
    browser.value("document.querySelector('.map').scrollIntoView()")
    browser.until(READY)


def readout(browser):
    pairs = browser.value("[...document.querySelectorAll('.readout > *')].map(one => one.textContent)")
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def box(browser, selector):
    found = f"document.querySelector('{selector}').getBoundingClientRect()"
    return browser.value(f"(box => [box.left, box.top, box.width, box.height])({found})")


def held(plane, name):
    raw = zlib.decompress(base64.b64decode(getattr(plane, name)))
    return np.frombuffer(raw, "<f4").reshape(100, 64)


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False)])
@pytest.mark.parametrize("name", ["full", "hostile"])
def test_it_draws_without_complaint_or_network(browser, pages, name, width, dark):
    show(browser, pages[name], width, dark=dark)
    assert browser.complaints() == []
    fetched = [one for one in browser.requests() if not one.startswith("data:image/png")]
    assert fetched == [pages[name].as_uri()]
    assert browser.value("document.documentElement.scrollWidth") <= width  # nothing but its own boxes scrolls sideways
    colours = browser.value(
        "new Set(new Uint32Array(document.querySelector('canvas.whole').getContext('2d')"
        ".getImageData(0, 0, 200, 200).data.buffer)).size"
    )
    assert colours > 10
    assert browser.value("document.title").startswith("wrong: ")


def test_hover_and_zoom_say_what_is_there(browser, pages):
    show(browser, pages["full"])
    plane = error_map().planes[0]
    left, top, width, height = box(browser, "canvas.whole")
    row, column = 21, 37
    browser.move(left + (column + 0.5) * width / 64, top + (row + 0.5) * height / 100)
    browser.until(f"document.querySelector('.map').dataset.row === '{row}'")
    seen = readout(browser)
    assert seen["element"] == f"[0, 0, {row}, {column}]"
    assert float(seen["observed"].replace("−", "-")) == pytest.approx(
        float(held(plane, "observed")[row, column]), rel=1e-5
    )
    assert float(seen["expected"].replace("−", "-")) == pytest.approx(
        float(held(plane, "expected")[row, column]), rel=1e-5
    )
    assert seen["error"].endswith("right") and seen["tile written by"] == "block (0, 0, 0), warp 2"
    assert "tile at row 16, column 32" in browser.value("document.querySelector('.side .caption').textContent")
    # In the zoomed tile the pointer goes from element to element; a click before has pinned it.
    browser.click(left + (column + 0.5) * width / 64, top + (row + 0.5) * height / 100)
    browser.value("document.querySelector('canvas.zoom').scrollIntoView({block: 'center'})")
    left, top, width, _ = box(browser, "canvas.zoom")
    unit = width / (16 * 24 + 26)
    browser.move(left + (26 + 24 * 3.5) * unit, top + (16 + 24 * 2.5) * unit)
    browser.until("document.querySelector('.map').dataset.row === '18'")
    assert readout(browser)["element"] == "[0, 0, 18, 35]"


def test_keys_go_from_tile_to_tile_and_from_element_to_element(browser, pages):
    show(browser, pages["full"])
    assert readout(browser)["error"] == "NaN on one side only: wrong"  # the first wrong element is chosen
    browser.value("document.querySelector('canvas.whole').focus()")
    browser.key("ArrowDown")
    browser.key("ArrowRight")
    browser.until("document.querySelector('.map').dataset.column === '23'")
    assert readout(browser)["element"] == "[0, 0, 21, 23]"
    browser.value("document.querySelector('canvas.zoom').focus()")
    browser.key("ArrowLeft")
    browser.key("ArrowUp")
    browser.until("document.querySelector('.map').dataset.row === '20'")
    assert readout(browser)["element"] == "[0, 0, 20, 22]"


def test_a_thousand_cases_are_small_quick_and_can_be_searched(browser, tmp_path):
    run = full()
    kernel = run.kernels[0]
    cases = tuple(replace(kernel.report.cases[n % len(kernel.report.cases)], case=f"number{n}") for n in range(1000))
    maps = tuple(replace(kernel.maps[0], case=f"number{n}") for n in range(1000))
    many = replace(kernel, maps=maps, report=replace(kernel.report, cases=cases))
    page = tmp_path / "many.html"
    page.write_text(html.render(replace(run, kernels=(many,))))
    assert page.stat().st_size < 10_000_000
    painted = []
    for _ in range(3):  # of a busy machine the quickest
        browser.open(page, 1400)
        painted.append(browser.value("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
    assert min(painted) < 1000
    browser.value(
        "(() => { const box = document.getElementById('filter'); box.value = 'NUMBER77';"
        " box.dispatchEvent(new Event('input')) })()"
    )
    seen = browser.value("[...document.querySelectorAll('table.summary tbody tr')].filter(row => !row.hidden).length")
    assert seen == 11 and browser.value("document.getElementById('filtered').textContent") == "11 of 1000 cases"
    assert browser.value("[...document.querySelectorAll('article.case')].filter(one => !one.hidden).length") <= 11
    assert browser.complaints() == []


def test_paper_shows_maps_that_no_script_has_drawn(browser, tmp_path):
    run = full()
    kernel = run.kernels[0]
    maps = tuple(replace(kernel.maps[0], case=case.case) for case in kernel.report.cases)
    page = tmp_path / "page.html"
    page.write_text(html.render(replace(run, kernels=(replace(kernel, maps=maps),))), "utf-8")
    browser.open(page, 1280)
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        stills = "[...document.querySelectorAll('.map:not([data-ready]) img')]"
        browser.until(f"{stills}.length > 3 && {stills}.every(one => one.complete && one.naturalWidth === 64)")
        assert browser.value(f"{stills}.every(one => one.clientWidth >= 64)")
        # Nothing of the summary is cut off at the paper's edge.
        assert browser.value("document.documentElement.scrollWidth <= innerWidth")
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")
    assert browser.complaints() == [] and browser.requests()[0] == page.as_uri()


def test_a_picture_of_a_map_has_a_pixel_of_its_colour_for_each_element():
    one = error_map()
    for plane in one.planes:
        picture = base64.b64decode(error_picture(plane, one.rows, one.columns).partition(",")[2])
        assert picture.startswith(b"\x89PNG") and picture[16:24] == struct.pack(">II", one.columns, one.rows)
        at = picture.index(b"IDAT")
        (size,) = struct.unpack(">I", picture[at - 4 : at])
        lines = np.frombuffer(zlib.decompress(picture[at + 4 : at + 4 + size]), np.uint8).reshape(one.rows, -1)
        codes = np.frombuffer(zlib.decompress(base64.b64decode(plane.error)), np.uint8).reshape(one.rows, -1)
        assert not lines[:, 0].any() and (lines[:, 1:] == codes).all()
        palette = picture[picture.index(b"PLTE") + 4 :][: 3 * 256]
        assert palette[3 * NAN : 3 * NAN + 3].hex() == colour_of(NAN)[1:]
    assert error_picture(replace(plane, error="?"), one.rows, one.columns) == ""
    assert error_picture(plane, one.rows + 1, one.columns) == ""


def test_heads_and_modes(browser, pages):
    show(browser, pages["full"])
    browser.value("document.querySelectorAll('.heads button')[1].click()")
    browser.until("document.querySelector('.map').dataset.plane === '1'")
    assert browser.value("document.querySelectorAll('.heads button')[1].getAttribute('aria-pressed')") == "true"
    pictures = set()
    for mode in ("error", "observed", "expected", "difference", "owner"):
        browser.value(f"document.querySelector('.modes input[value={mode}]').click()")
        browser.until(f"document.querySelector('.map').dataset.mode === '{mode}'")
        pictures.add(browser.value("document.querySelector('canvas.whole').toDataURL()"))
    assert len(pictures) == 5 and browser.complaints() == []
    browser.value("document.querySelector('canvas.whole').focus()")
    for _ in range(6):
        browser.key("ArrowDown")
    browser.until("document.querySelector('.map').dataset.row === '99'")
    assert readout(browser)["tile written by"] == "nobody"


def test_every_control_has_a_name_and_can_be_reached(browser, pages):
    show(browser, pages["full"])
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "radio", "link", "application"}
    controls = [n for n in nodes if n.get("role", {}).get("value") in roles and not n["ignored"]]
    assert len(controls) > 15 and all(n["name"]["value"].strip() for n in controls)
    browser.value("document.activeElement.blur()")
    reached = set()
    for _ in range(60):
        browser.key("Tab")
        reached.add(browser.value("document.activeElement.className || document.activeElement.type"))
    assert {"skip", "whole", "zoom", "radio"} <= reached
