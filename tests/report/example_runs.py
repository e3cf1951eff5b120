"""Whole runs to render: the reports of `example_reports`, with maps, sources, a diagnosis and fragments."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
from example_reports import broken, case, everything, passing, report, seen

from wmmadiag.compare.observation import TILE
from wmmadiag.recording.error_maps import Room, packed
from wmmadiag.report.terminal_diagnosis import RULED_OUT
from wmmadiag.results.diagnosis import Cause, Diagnosis, Excerpt, Fix, Tested, Work
from wmmadiag.results.maps import NAN, FragmentCell, HeldFragment, OwnedPlane, TileOwner
from wmmadiag.results.model import ReportedFinding
from wmmadiag.results.run import KernelRun, Rule, Run, SourceText, Unchecked

SOURCE = """\
// two tiles of keys
extern "C" __global__ void attention(const half* q, const half* k, const half* v, half* o, int seq_len) {
    __shared__ half sK[64][72];
    for (int i = threadIdx.x; i < 64 * 64; i += blockDim.x) {
        sK[i / 64][i % 64] = k[i];
    }
    __syncthreads();
\twmma::load_matrix_sync(b, &sK[tile * 16][0], 64);
    wmma::mma_sync(acc, a, b, acc);
}
"""
DIFF = """\
--- kernel.cu
+++ kernel.cu
@@ -7,3 +7,3 @@
     __syncthreads();
-\twmma::load_matrix_sync(b, &sK[tile * 16][0], 64);
+\twmma::load_matrix_sync(b, &sK[tile * 16][0], 72);
     wmma::mma_sync(acc, a, b, acc);
"""
VERSIONS = {"wmmadiag": "0.1.0", "Python": "3.11", "NVRTC": "13.0", "platform": "Linux x86_64"}
RULES = (
    Rule("races", "accesses to one place that no barrier, fence or atomic orders", "Judged by happens-before."),
    Rule("banks", "bank conflicts and uncoalesced accesses, by source line"),
)


def source(path="kernel.cu", text=SOURCE):
    return SourceText(path, hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(), text)


def diagnosis(variant="wmma", name="tail0"):
    fix = Fix("pass 72 as the leading dimension", DIFF, "verified", 1025, 0, 0.25, 0.0003, ("tail0", "tail1"))
    cause = Cause(
        "leading-dimension",
        "proven",
        "load_matrix_sync on line 8 reads sK with a leading dimension of 64, but its rows are 72 elements apart.",
        "kernel.cu:8:2",
        "kernel.cu:5:9",
        Excerpt("kernel.cu", 7, tuple(SOURCE.split("\n")[6:9]), (8,)),
        1025,
        1025,
        (
            "240 of 256 elements of the fragment are not those that mma_sync multiplies.",
            "with this change alone 2 cases pass (tail0, tail1)",
        ),
        ("The maximum of the row is too small, so that the sum of exponentials is, too.",),
        fix,
        ("64 for 72, as the pitch of sK",),
        0.75,
    )
    second = Cause("value", "undecided", "The scores may lack 1/sqrt(D).", "kernel.cu:9:5", explains=12, of=1025)
    watched = "the check races watched the whole run"
    tested = (
        Tested("races", "accesses to one place that nothing orders", "refuted", watched),
        *(Tested(f"own{at}", f"rule {at} of the user", "refuted", "it never fired") for at in range(RULED_OUT)),
        Tested("value", "a value is computed wrongly", "undecided", "40 changes, none mends it", "kernel.cu:9:5"),
    )
    return Diagnosis(
        "attention",
        "kernel.toml",
        "kernel.cu",
        "attention",
        "sm_90",
        "emulator",
        variant,
        name,
        "diagnosed",
        "K is read with the wrong leading dimension.",
        {"B": 1, "H": 2, "S": 100, "D": 64},
        {"tail0": "failed", "one": "passed"},
        (cause, second),
        tested,
        ("rows 32 to 63 of head 1 are wrong, in the first 16 columns", "the error is the same in each run"),
        unseen=("asynchronous copies: the kernel has none",),
        seconds=0.4,
        work=Work("normal", 512, 12, 1_250_000, complete=True),
        repeat="wmmadiag diagnose kernel.toml --case tail0",
    )


def error_map(variant="wmma", name="tail0", shape=(1, 2, 100, 64), room=None):
    generator = np.random.default_rng(7)
    expected = generator.standard_normal(shape)
    observed = expected + generator.standard_normal(shape) * 1e-4
    codes = generator.integers(60, 128, shape).astype(np.uint8)
    observed[..., 1, 32:64, :16] += 0.25
    codes[..., 1, 32:64, :16] = 190
    codes[..., 0, 5, 7], observed[..., 0, 5, 7] = NAN, np.nan
    wrong = codes > 128
    made = packed(variant, name, "O", "BHSD", observed, expected, codes, wrong, room or Room())
    rows, columns = -(-shape[-2] // TILE), -(-shape[-1] // TILE)
    owned = tuple(
        OwnedPlane(
            plane.index,
            tuple(
                tuple(
                    TileOwner((row // 2, plane.index[-1], 0), (column % 4,), 1, 256) if row < 6 else None
                    for column in range(columns)
                )
                for row in range(rows)
            ),
        )
        for plane in made.planes
    )
    return replace(made, owners=owned)


def fragment():
    cells = []
    for lane in range(32):
        for slot in range(8):
            row, column = lane // 4 + 8 * (slot // 2 % 2), lane % 4 * 2 + slot % 2 + 8 * (slot // 4)
            held = f"K[0,0] row {row}, column {column}"
            shifted = f"K[0,0] row {row - 1}, column {column + 8}" if row else held
            cells.append(FragmentCell(row, column, lane, slot, shifted, held))
    return HeldFragment("B of mma_sync, block (0, 0, 0), warp 1", "kernel.cu:8:2", 16, 16, tuple(cells))


def findings():
    return (
        ReportedFinding(
            "races",
            "read-write",
            "error",
            "this line reads sK, line 5 writes; no barrier orders them",
            "kernel.cu:8:2",
            "kernel.cu:5:9",
            12,
            ("first seen at sK[3][5]",),
            "put __syncthreads() between",
        ),
        ReportedFinding(
            "banks",
            "bank-conflicts",
            "advice",
            "line 8 takes more passes than it needs",
            "kernel.cu:8:2",
            "",
            200,
            ("4 passes per request where 1 would do",),
            "pad the rows",
        ),
        ReportedFinding(
            "banks", "uncoalesced", "advice", "line 5 takes more sectors than it needs", "kernel.cu:5:9", "", 50
        ),
    )


def diagnosed():
    checked = broken()
    first = next(at for at, one in enumerate(checked.cases) if one.status == "failed")
    cases = tuple(replace(one, findings=findings()) if at == first else one for at, one in enumerate(checked.cases))
    return KernelRun(
        replace(checked, cases=cases),
        (source(), source("kernel.toml", "name = 'attention'\n")),
        {"checks": "default"},
        (error_map(),),
        (fragment(),),
        (diagnosis(),),
    )


def run(*kernels, unchecked=()):
    return Run(tuple(kernels), tuple(unchecked), "wmmadiag check kernels", "2026-01-02T03:04:05Z", 3.5, VERSIONS, RULES)


def all_right():
    return run(KernelRun(passing(), (source(),)))


def full():
    return run(
        diagnosed(),
        KernelRun(replace(everything(), name="everything"), (source(),)),
        KernelRun(replace(passing(), name="right"), (source(),)),
        unchecked=[
            Unchecked("broken.toml", "sm_80", "broken.toml:3: what is this?\nnext: mend it"),
            Unchecked("hang.cu", "", "hang.cu: out of time", 3),
        ],
    )


HOSTILE = (
    "</script><script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>'",
    "<!--<script>",
    "]]>",
    "&lt;b&gt; & {{ 7*7 }} {% raw %}",
    "`code` ``` ~~~ | * _ [link](javascript:alert(1)) @everyone #1",
    "\x00\x01\x1b[31m\x7f\x85\u202e\u2066\ufeff\u2028\ud800",
    "::error::%0A%25",
    "a,b:c=d",
    "mañana 数 🧪",
    "--> <style>*{display:none}</style>",
)


def hostile(texts=HOSTILE):
    """Every text of the model that comes from a user's files is a hostile one."""
    every = " ".join(texts)
    name = every.replace("/", "∕")
    finding = ReportedFinding(name, name, "error", every, f"{every}:3:1", f"{name}:4", 2, tuple(texts), every)
    one = case(
        name,
        name,
        "failed",
        [seen(lambda o, p: o.__setitem__((0, 0, 0, 0), 9))],
        findings=(finding,),
        notes=tuple(texts),
        output=every,
    )
    bad = replace(one, repeat=every, symbols={"S": 1})
    made = replace(report([bad]), name=name, card=name, source=f"{name}.cu", operation=every)
    lines = tuple(every.split("\n"))
    cause = Cause(
        name,
        "proven",
        every,
        f"{every}:1:1",
        every,
        Excerpt(name, 1, lines, (1,)),
        1,
        1,
        tuple(texts),
        tuple(texts),
        Fix(
            every,
            f"--- {every}\n+++ b\n@@ -1 +1 @@\n-{lines[0]}\n+{lines[0]}x\n",
            "verified",
            1,
            0,
            1.0,
            0.0,
            tuple(texts),
            every,
        ),
    )
    told = replace(
        diagnosis(name, name),
        name=name,
        headline=every,
        causes=(cause,),
        symptoms=tuple(texts),
        tested=(Tested(name, every, "refuted", every, every),),
        unseen=tuple(texts),
        repeat=every,
    )
    cells = (FragmentCell(0, 0, 0, 0, every, name),)
    kernel = KernelRun(
        made,
        (source(f"{name}.cu", every),),
        {name: every},
        (error_map(name, name),),
        (HeldFragment(every, every, 1, 1, cells),),
        (told,),
    )
    return replace(run(kernel, unchecked=[Unchecked(name, name, every)]), command=every, versions={name: every})
