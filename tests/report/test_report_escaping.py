"""Names and sources that would break a format, or do something in it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from example_runs import HOSTILE, hostile
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from wmmadiag.report import github, html, junit, markdown, sarif, terminal, terminal_diagnosis
from wmmadiag.report.markdown import code, escaped, fenced
from wmmadiag.results import json_file
from wmmadiag.results.text import DiffLine, Edit, diff_lines, edits, one_line, split_place, visible

TEXTS = st.text(st.characters(), max_size=40)
FEW = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class _Elements(HTMLParser):
    """Elements and attributes of a page; scripts' texts apart."""

    def __init__(self, text):
        super().__init__()
        self.found, self.scripts, self.words = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, tuple(name for name, _ in attrs)))

    def handle_data(self, data):
        if self.found and self.found[-1][0] == "script":
            self.scripts.append(data)
        self.words += data


def page(run):
    return _Elements(html.render(run))


def test_html_shows_hostile_texts_as_text():
    harmless, seen = page(hostile(("plain",))), page(hostile())
    assert [tag for tag, _ in seen.found].count("script") == [tag for tag, _ in harmless.found].count("script") == 2
    assert not {tag for tag, _ in seen.found} & {"iframe", "object", "link"}
    # Pictures are those of maps, with their own attributes and no others.
    assert {names for tag, names in seen.found if tag == "img"} == {("src", "width", "height", "alt")}
    attributes = [name for tag, names in seen.found if tag != "img" for name in names]
    assert not [name for name in attributes if name.startswith("on") or name in ("src", "srcset")]
    for text in HOSTILE:
        assert visible(text).split("\n")[0] in seen.words
    json.loads(seen.scripts[0])


@FEW
@given(TEXTS)
def test_html_has_the_same_elements_whatever_the_texts(text):
    assert {tag for tag, _ in page(hostile((text,))).found} <= {tag for tag, _ in page(hostile(("plain",))).found}
    assert not HIDDEN.search(html.render(hostile((text,))))


@FEW
@given(TEXTS)
def test_xml_is_well_formed(text):
    root = ElementTree.fromstring(junit.render(hostile((text,))).encode())
    assert root.get("failures") == "1" and len(root) == 2


@FEW
@given(TEXTS)
@example("\ud800")
def test_sarif_and_json_are_json(text):
    for made in (sarif.render(hostile((text,))), json_file.render(hostile((text,)))):
        json.loads(made.encode())


@FEW
@given(TEXTS)
def test_annotations_are_one_line_each(text):
    lines = github.render(hostile((text,))).split("\n")[:-1]
    assert lines and all(line.startswith(("::error ", "::warning ", "::notice ")) for line in lines)
    for line in lines:
        properties = line.split(" ", 1)[1].split("::")[0]
        assert set(re.findall(r"(?:^|,)(\w+)=", properties)) <= {"file", "line", "col", "title"}


@FEW
@given(TEXTS)
def test_markdown_keeps_its_parts(text):
    made, harmless = markdown.render(hostile((text,))), markdown.render(hostile(("plain",)))
    assert made.count("<details>") == harmless.count("<details>") == made.count("</details>")
    assert not HIDDEN.search(made)


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("a <b> & *c* _d_ `e` [f](g) | h ~~i~~", r"a &lt;b&gt; &amp; \*c\* \_d\_ \`e\` \[f\](g) \| h \~\~i\~\~"),
        ("@someone #12 GH-3", "@<!-- -->someone #<!-- -->12 GH-<!-- -->3"),
        ("- no list\n# no title", "<!-- -->- no list # no title"),
        ("1. no list", "<!-- -->1. no list"),
        ("see https://x.y", "see https:<!-- -->//x.y"),
    ],
)
def test_markdown_text(text, safe):
    assert escaped(text) == safe


@given(TEXTS)
def test_markdown_code_cannot_be_left(text):
    shown = code(text)
    if shown:
        ticks = re.match("`+", shown)[0]
        assert ticks not in re.sub("^`+|`+$", "", shown[len(ticks) : -len(ticks)].strip(" ")) or len(ticks) > len(text)
    fence = fenced(text).split("\n")
    assert fence[-2] == re.match("`+", fence[0])[0] and not [line for line in fence[1:-2] if line.strip() == fence[-2]]


@given(TEXTS)
def test_terminals_get_no_control_characters(text):
    run = hostile((text,))
    assert not HIDDEN.search(terminal_diagnosis.render(run.kernels[0].diagnoses[0]))
    assert "\x1b" not in terminal.render_run(run)


@given(st.text())
def test_visible_is_visible(text):
    assert not HIDDEN.search(visible(text)) and "\n" not in one_line(text)
    visible(text).encode("utf-8")


def test_places():
    assert (split_place("a:b.cu:3:4").file, split_place("a.cu:3").line, split_place("a.cu").line) == ("a:b.cu", 3, 0)
    assert split_place(r"C:\a.cu:3:4").column == 4 and split_place("").file == ""


DIFF = """\
--- a.cu
+++ a.cu
@@ -2,4 +2,4 @@
 two
--- three
+++ drei
+more
 four
-five
@@ -9,0 +11 @@
+ten
"""


def test_diffs_are_read_by_their_counts():
    assert DiffLine("removed", "-- three") in diff_lines(DIFF) and DiffLine("added", "++ drei") in diff_lines(DIFF)
    assert edits(DIFF, "a.cu") == [
        Edit("a.cu", 3, ("-- three",), ("++ drei", "more")),
        Edit("a.cu", 5, ("five",), ()),
        Edit("a.cu", 10, (), ("ten",)),
    ]


@given(st.lists(st.sampled_from(["a", "b", "- x", "+ y", "", "@@"]), min_size=1, max_size=12), st.data())
def test_edits_do_what_the_diff_says(old, data):
    import difflib

    new = data.draw(st.lists(st.sampled_from(["a", "b", "- x", "+ y", "", "@@", "new"]), min_size=1, max_size=12))
    diff = "\n".join(difflib.unified_diff(old, new, "a", "a", lineterm="", n=data.draw(st.integers(0, 3))))
    lines = list(old)
    for edit in reversed(edits(diff, "a")):
        assert tuple(lines[edit.first - 1 : edit.first - 1 + len(edit.removed)]) == edit.removed
        lines[edit.first - 1 : edit.first - 1 + len(edit.removed)] = edit.added
    assert lines == new
