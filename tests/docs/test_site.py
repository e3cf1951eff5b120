"""The built site (`scripts/site`) in a folder: it fits a phone, loads nothing over a network, and its search finds."""

from __future__ import annotations

from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "build/site"
pytestmark = [
    pytest.mark.subprocess,
    pytest.mark.skipif(not (SITE / "index.html").is_file(), reason="the site is not built: scripts/site"),
]


@pytest.mark.parametrize("width", [1400, 390])
def test_every_page_fits_and_loads_nothing_over_a_network(browser, width):
    pages = [one for one in sorted(SITE.glob("*.html")) if one.stem != "404"]
    assert len(pages) > 25
    for page in pages:
        browser.open(page, width)
        assert browser.value("document.documentElement.scrollWidth") <= width, page.name
        asked = browser.requests()
        assert [one for one in asked if not one.startswith(("file:", "data:", "blob:"))] == [], page.name
        assert browser.complaints() == [], page.name


def test_the_search_finds_from_a_folder(browser):
    browser.open(SITE / "tutorial.html", 1400)
    browser.value("document.querySelector('[data-md-toggle=search]').click()")
    browser.until("document.querySelector('.md-search__input') !== null")
    browser.value(
        "(box => { box.focus(); box.value = 'race'; box.dispatchEvent(new Event('keyup', {bubbles: true}));"
        " box.dispatchEvent(new Event('input', {bubbles: true})) })(document.querySelector('.md-search__input'))"
    )
    browser.until(
        "[...document.querySelectorAll('.md-search-result__link')].some(one => one.href.includes('checks.html'))"
    )
