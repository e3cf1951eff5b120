"""An entry of the catalogue fits together, and a module that holds none is named at import."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace

import pytest
from operation_mistakes import mistakes

from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.model import Alternative, Choice, Packed, Parameter, Role
from wmmadiag.ops.registry import catalogued

GEMM = OPERATIONS["gemm"]
SOFTMAX = OPERATIONS["softmax"]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Makes an importable package of the modules that are given as name → text."""

    def make(**modules: str):
        folder = tmp_path / "some_operations"
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        for name, text in modules.items():
            (folder / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        for name in [one for one in sys.modules if one.partition(".")[0] == "some_operations"]:
            monkeypatch.delitem(sys.modules, name)
        return importlib.import_module("some_operations")

    return make


ONE = "from wmmadiag.ops import Operation\nOPERATION = Operation(name={!r}, meaning='Y = X')\n"


def test_each_module_is_one_operation(package):
    assert list(catalogued(package(scale=ONE.format("scale"), add=ONE.format("add")))) == ["add", "scale"]


@pytest.mark.parametrize(
    ("modules", "what"),
    [
        ({"scale": "OPERATION = 1\n"}, "scale.py: it defines no OPERATION"),
        ({"scale": "x = 1\n"}, "scale.py: it defines no OPERATION"),
        ({"add": ONE.format("add"), "other": ONE.format("add")}, "other.py: the operation is called 'add'"),
    ],
    ids=["no operation", "nothing", "twice"],
)
def test_a_module_that_is_none_is_named(package, modules, what):
    with pytest.raises(TypeError, match=what):
        catalogued(package(**modules))


WORDS = Parameter("word", "a", "what", ("a", "b"))


@pytest.mark.parametrize(
    ("operation", "what"),
    [
        (replace(SOFTMAX, roles={"x": Role("MN", ("M",))}), "the role 'x' has 2 axes and 1 extents"),
        (replace(SOFTMAX, roles={"x": Role("MM", ("M", "M"))}), "has an axis twice"),
        (replace(SOFTMAX, roles={"x": Role("M", ("M",), usual="N")}), "an axis that it has not"),
        (replace(SOFTMAX, roles={"x": Role("M", ("M",), updates="z")}), "updates 'z', which is no role"),
        (replace(SOFTMAX, parameters={"p": Parameter("number", "1", "")}), "unknown kind 'number'"),
        (replace(SOFTMAX, parameters={"p": Parameter("word", "a", "")}), "has words, or needs some"),
        (replace(SOFTMAX, parameters={"p": replace(WORDS, default="c")}), "is none of its words"),
        (replace(SOFTMAX, parameters={"x": WORDS}), "'x' is a role and a parameter"),
        (replace(SOFTMAX, packed={"xz": Packed(("x", "z"), "M2N")}), "'z' is packed with others, but no role"),
        (replace(SOFTMAX, extents={"M": "m rows", "N": "n rows"}), "'rows' is a word for 'M' and for 'N'"),
        (replace(SOFTMAX, choices=(Choice("How?", "storage", ()),)), "How? has fewer than two answers"),
        (
            replace(GEMM, choices=(Choice("How?", "meaning", (Alternative("so"), Alternative("thus", {"x": 1}))),)),
            "How? 'thus' sets 'x', which is no parameter",
        ),
        (
            replace(
                GEMM, choices=(Choice("How?", "storage", (Alternative("so"), Alternative("up", layouts={"a": "KN"}))),)
            ),
            "lays 'a' out as 'KN', which are not its axes",
        ),
    ],
)
def test_what_does_not_fit_together_is_said(operation, what):
    assert any(what in mistake for mistake in mistakes(operation)), list(mistakes(operation))


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_the_catalogue_has_no_mistakes(name):
    assert list(mistakes(OPERATIONS[name])) == []
