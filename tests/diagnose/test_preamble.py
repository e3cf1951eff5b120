"""Headers that nothing changes are read before a source, and the guard around it goes: the compiler keeps them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from trial_changes import change, edit, product

from wmmadiag.compile import ptx_scan
from wmmadiag.compile.diagnostics import errors_in
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.sources import read_tree
from wmmadiag.csource.edits import ByteEdit, applied
from wmmadiag.diagnose.trials import programs
from wmmadiag.diagnose.trials.preamble import preamble, unguarded
from wmmadiag.diagnose.trials.prepared import prepare
from wmmadiag.diagnose.trials.programs import Programs
from wmmadiag.diagnose.trials.setting import Setting
from wmmadiag.diagnose.trials.trial_bench import TrialBench

GUARDED = """// of a library
#ifndef K_CUH_
#define K_CUH_
#include "own.h"
#include <cuda_fp16.h>
#if 0
#include <mma.h>
#endif
__global__ void k(float* x) { x[threadIdx.x] = twice(x[threadIdx.x]); }
#endif  // K_CUH_
"""
OWN = """#pragma once
#include <cuda_bf16.h>
__device__ inline float twice(float x) { return 2.0f * x; }
"""


def tree_of(folder: Path, text: str):
    own, library = folder / "source", folder / "library"
    own.mkdir()
    library.mkdir()
    (own / "own.h").write_text(OWN, "utf-8")
    (library / "outside.h").write_text("#pragma once\n", "utf-8")
    return read_tree(text, str(own / "k.cu"), [library], lambda name: name.startswith("cuda"))


def test_headers_that_nobody_changes_are_read_first_in_their_order(tmp_path):
    tree = tree_of(tmp_path, GUARDED.replace("#if 0", "#include <outside.h>\n#include <iostream>\n#if 0"))
    outside = f'#include "{(tmp_path / "library/outside.h").resolve().as_posix()}"'
    read = preamble(tree, lambda name: name.startswith("cuda")).decode().splitlines()
    assert read == ["#include <cuda_bf16.h>", "#include <cuda_fp16.h>", outside]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (GUARDED, ["#define K_CUH_", "#include", "#include", "#if 0", "#include", "#endif"]),
        (
            "#include <a.h>\n" + GUARDED,
            ["#include", "#define K_CUH_", "#include", "#include", "#if 0", "#include", "#endif"],
        ),
        (GUARDED + "int after;\n", None),  # something is outside of it
        ("#ifndef A\n#define B\nint a;\n#endif\n", None),
        ("#ifndef A\n#define A 3\nint a;\n#endif\n", None),  # a value that code may read
        ("#ifndef A\n#define A\nint a;\n#else\nint b;\n#endif\n", None),
        ("#ifdef A\n#define A\nint a;\n#endif\n", None),
        ("int a;\n", None),
        ("", None),
    ],
)
def test_the_guard_around_a_source_goes_and_nothing_else_does(tmp_path, text, left):
    tree = tree_of(tmp_path, text)
    bare = applied(text.encode(), unguarded(tree)).decode()
    assert len(bare) == len(text) and bare.count("\n") == text.count("\n")
    if left is None:
        assert bare == text
    else:
        told = [line.split("<")[0].split('"')[0].strip() for line in bare.splitlines() if line.startswith("#")]
        assert told == left


def test_a_source_that_its_header_includes_again_keeps_its_guard(tmp_path):
    tree = tree_of(tmp_path, GUARDED)
    again = replace(tree, targets={**tree.targets, (next(iter(tree.headers)), 0): tree.root.key})
    assert unguarded(tree) and not unguarded(again)


STEP = "#ifdef {name}\n#define STEP 1\n#else\n#define STEP 2\n#endif\n"


@pytest.mark.parametrize("dear", [False, True])
@pytest.mark.parametrize(
    ("before", "ahead"),
    [
        ("#define STEP 2\n", True),
        (STEP.format(name="TILE"), True),  # of the user's own, in its place
        (STEP.format(name="__CUDA_FP16_H__"), False),
    ],
)
def test_headers_stay_where_they_are_if_the_program_hangs_on_their_order(tmp_path, monkeypatch, before, ahead, dear):
    monkeypatch.setattr(programs, "DEAR_PTX", 0 if dear else 1 << 20)
    card = product(tmp_path, ("c[at(row, n, col)] = sum;", "if (col % STEP == 0) c[at(row, n, col)] = sum;"))
    source = tmp_path / "product.cu"
    source.write_text(f"{before}#include <cuda_fp16.h>\n" + source.read_text("utf-8"), "utf-8")
    bench = TrialBench(Setting(card, card.variants[0], card.cases[0]), threads=1)
    others = ("true", "col % (STEP + 0) == 0", "col % 3 == 0")
    changes = [change(edit(bench.texts, "col % STEP == 0", new)) for new in others]
    found = [one.verdict for one in bench.try_batch(changes)]
    assert (found, bench._programs.ahead) == (["right", "same", "worse"], ahead)


def test_programs_are_the_same_with_headers_read_first_and_messages_keep_their_lines(tmp_path):
    (tmp_path / "own.h").write_text(OWN, "utf-8")
    source = tmp_path / "k.cu"
    source.write_text(GUARDED, "utf-8")
    prepared = prepare(source, CompileOptions(arch="sm_90"), [""])
    ahead, behind = Programs(prepared), Programs(prepared)
    behind.ahead = False
    header = next(name for name in prepared.texts if name.endswith("own.h"))
    for file, text in ((prepared.root, b"threadIdx.x"), (header, b"2.0f")):
        at = prepared.texts[file].index(text)
        for new, good in ((b"(%s)" % text, True), (b"nothing(%s)" % text, False)):
            edits = {file: [ByteEdit(at, at + len(text), new.decode())]}
            one, other = ahead._compiled(edits), behind._compiled(edits)
            assert one.ok == other.ok == good
            if good:
                assert ptx_scan.entry_names(one.ptx) == ptx_scan.entry_names(other.ptx)
                assert one.ptx[one.ptx.index(".entry") :] == other.ptx[other.ptx.index(".entry") :]
            else:
                places = [[(told.place.file, told.place.line) for told in errors_in(each.log)] for each in (one, other)]
                assert places[0] == places[1] == [(file, prepared.texts[file][:at].count(b"\n") + 1)]
