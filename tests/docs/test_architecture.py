"""The map of the code names what is there, in the order that imports are held to."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")


def test_the_rooms_stand_as_imports_are_held_to() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = [re.split(r" \| ", layer) for layer in contracts[0]["layers"]]
    table = PAGE.split("## The order of the rooms")[1].split("\n## ")[0]
    rows = re.findall(r"^\| [^|]+ \| (`.+) \|$", table, re.MULTILINE)
    shown = [re.findall(r"`(\w+)`", layer) for row in rows for layer in row.split(";")]
    assert shown == layers


def test_every_file_that_it_names_is_there() -> None:
    names = set(re.findall(r"`([a-z_/]+/(?:[a-z_]+\.(?:py|cpp))?)`", PAGE))
    assert len(names) > 20
    assert [name for name in names if not (ROOT / "wmmadiag" / name).exists()] == []


@pytest.mark.parametrize("name", ["grid.cpp", "block.cpp", "warp.cpp", "tensor_core.cpp"])
def test_the_engine_has_its_files(name: str) -> None:
    assert f"`{name}`" in PAGE
    assert (ROOT / "wmmadiag" / "emulator" / "native" / name).exists()


TWICE = {"Program"}
"""What operators read and what trials run, too: no further ones."""


def test_a_class_name_has_one_meaning() -> None:
    names: dict[str, list[str]] = {}
    for path in sorted((ROOT / "wmmadiag").rglob("*.py")):
        for name in re.findall(r"^class ([A-Z]\w*)", path.read_text("utf-8"), re.MULTILINE):
            names.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    assert len(names) > 500
    assert {name: places for name, places in names.items() if len(places) > 1 and name not in TWICE} == {}


ROUND = {
    "what a notebook shows of results is drawn by reports": {"compare", "report", "results"},
    "an expression of host code holds calls, a call runs statements": {"hostcode"},
    "a kernel that host code calls is a subject of its own": {"subject"},
}
"""Why modules import each other in a circle, and the rooms of which they are; nowhere else does one."""


def circles(modules: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that import each other, by way of others too."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        left = [start]
        while left:
            new = modules[left.pop()] - seen
            seen |= new
            left += new
        return seen

    behind = {name: reached(name) for name in modules}
    found = {frozenset(other for other in behind[name] if name in behind[other]) for name in modules}
    return [set(one) for one in found if len(one) > 1]


def test_imports_go_round_only_where_it_is_said() -> None:
    grimp = pytest.importorskip("grimp", reason="no grimp: pip install --group dev")
    graph = grimp.build_graph("wmmadiag", exclude_type_checking_imports=True, cache_dir=None)
    found = circles({name: graph.find_modules_directly_imported_by(name) for name in graph.modules})
    rooms = [{name.split(".")[1] for name in one} for one in found]
    assert {frozenset(one) for one in rooms} <= {frozenset(one) for one in ROUND.values()} | {
        frozenset({"report", "results"})
    }, found
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]


def test_no_two_test_files_have_one_name() -> None:
    """pytest imports a test file by its name alone: the second of a name stops the whole run, and only that one."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []
