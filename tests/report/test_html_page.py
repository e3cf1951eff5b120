"""The page without a browser: what is in it, its size, and the time it takes."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser

import numpy as np
from example_runs import all_right, error_map, full, run, source

from wmmadiag.recording.error_maps import Room
from wmmadiag.report import html
from wmmadiag.results.run import KernelRun

VOID = {"meta", "br", "meter", "link", "img", "input"} - {"meter"}


class _Nested(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.tags = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_elements_are_closed_and_names_unique():
    page = _Nested(html.render(full()))
    assert not page.open and len(page.ids) == len(set(page.ids))
    targets = [attrs["href"][1:] for tag, attrs in page.tags if tag == "a"]
    assert targets and set(targets) <= set(page.ids)


def test_what_people_without_eyes_or_mouse_need():
    page = _Nested(html.render(full()))
    tags = [tag for tag, _ in page.tags]
    assert {"header", "main", "footer", "h1", "h2", "h3"} <= set(tags) and tags.count("h1") == tags.count("main") == 1
    for tag, attrs in page.tags:
        if tag == "th":
            assert attrs.get("scope") in ("col", "row")
        if attrs.get("role") == "group":
            assert attrs.get("aria-label") or attrs.get("aria-labelledby") in page.ids
        if tag in ("section", "article") and "aria-labelledby" in attrs:
            assert set(attrs["aria-labelledby"].split()) <= set(page.ids)
    assert ("html", {"lang": "en"}) in page.tags


def test_nothing_is_fetched_and_only_its_own_script_may_run():
    text = html.render(full())
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#|data:image/png;base64,)|@import|url\(""", text)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy.replace("&#39;", "'")
    assert "/tmp/" not in text and "style=" not in text


def test_the_diagnosis_is_there_without_scripts():
    text = re.sub(r"<script.*?</script>", "", html.render(full()), flags=re.DOTALL)
    for words in (
        "K is read with the wrong leading dimension.",
        "the check races watched the whole run",
        "Bank conflicts",
        "[0], 72);",
        "wmmadiag check kernel.toml --arch sm_90",
        "lane 4 x[0]: held K[0,0] row 0",
        "hang.cu: out of time",
    ):
        assert words in text, words
    assert "Diagnosis" not in html.render(all_right())


def test_a_large_case_stays_small_and_quick():
    big = error_map(shape=(2, 8, 512, 64))
    assert len(big.planes) == 16 and big.numbers == "f16" and all(plane.observed for plane in big.planes)
    made = run(KernelRun(full().kernels[0].report, (source(),), {}, (big,)))
    started = time.perf_counter()
    text = html.render(made)
    assert time.perf_counter() - started < 2 and len(text.encode()) < 5_000_000


def test_many_large_cases_stay_small():
    room = Room(10**9, 10**9)
    big = [error_map(name=f"tail{number}", shape=(2, 8, 512, 64), room=room) for number in range(3)]
    kernel = KernelRun(full().kernels[0].report, (source(),), {}, tuple(big))
    text = html.render(run(kernel, kernel))
    assert len(text.encode()) < 5_000_000 and "left_out" in text


def test_a_page_for_no_cases():
    assert "wrong" not in re.sub(r"<(script|style).*?</\1>|<footer.*</footer>", "", html.render(run()), flags=re.DOTALL)


def test_room_is_shared_between_cases():
    room = Room(3 * 6400, 6400)
    first, second = error_map(room=room), error_map(name="b", room=room)
    assert [len(one.planes) for one in (first, second)] == [2, 1] and second.left_out == 1
    assert [bool(plane.observed) for one in (first, second) for plane in one.planes] == [True, False, False]
    assert second.planes[0].wrong and room.coded == 0
    assert np.prod(second.owners[0].index or 1) >= 0
