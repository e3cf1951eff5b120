"""What a program still takes, as far as its running launch shows, and the end of one that takes far too long."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.compile.options import CompileOptions
from wmmadiag.programs.build import build
from wmmadiag.programs.pace import Pace, lasting
from wmmadiag.programs.progress import Reached
from wmmadiag.programs.run import run_program
from wmmadiag.programs.spec import ProgramSpec

SOURCE = """\
#include <cstdio>
__global__ void add(float* out, int rounds) {
    float sum = 0;
    for (int i = 0; i < rounds; ++i) sum += sinf(i + sum);
    out[blockIdx.x] = sum;
}
int main(int argc, char** argv) {
    int n = 40000, rounds = argc > 1 ? 1 : 20000;
    float* out;
    cudaMalloc(&out, n * sizeof(float));
    add<<<n, 128>>>(out, rounds);
    cudaDeviceSynchronize();
    printf("done\\n");
}
"""


def at(begun: int, *, launch: int = 1, blocks: int = 1000) -> Reached:
    return Reached(launch, "k", blocks, begun)


def test_what_is_left_follows_from_the_blocks_that_have_begun():
    pace = Pace()
    assert pace.left(at(1), 10.0) == 0.0  # nothing is known at once
    assert pace.left(at(4), 13.0) == 0.0
    assert pace.left(at(10), 20.0) == 990.0
    assert pace.left(at(1000), 30.0) == 0.0


def test_another_launch_and_another_run_of_its_blocks_begin_anew():
    pace = Pace()
    pace.left(at(10), 0.0)
    assert pace.left(at(20), 10.0) > 0
    assert pace.left(at(1), 11.0) == 0.0
    assert pace.left(at(2, launch=2), 20.0) == 0.0
    assert pace.left(Reached(2, "k", 0, 0), 40.0) == 0.0  # host code


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(83.4, "about 83 s"), (14123.0, "about 14,000 s (4 hours)"), (3700.0, "about 3,700 s (1 hour)")],
)
def test_lengths_of_time(seconds, said):
    assert lasting(seconds) == said


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("pace") / "program.cu"
    path.write_text(SOURCE)
    return build([path], CompileOptions())


@pytest.mark.slow
def test_a_program_that_takes_far_longer_is_ended_early_and_says_how_long(program):
    spec = ProgramSpec(CompileOptions())
    ended = run_program(program, spec, "program", [], seconds=60.0, early=True, quiet=True)
    assert "would not end within 60 s, since this launch alone takes about" in ended.ended, ended
    assert "of 40,000 blocks had begun" in ended.ended
    told: list[float] = []
    run_program(program, spec, "program", [], seconds=15.0, quiet=True, advise=lambda reached, left: told.append(left))
    assert len(told) == 1 and told[0] > 60


@pytest.mark.slow
def test_one_that_ends_is_left_alone(program):
    spec = ProgramSpec(CompileOptions())
    done = run_program(program, spec, "program", ["short"], seconds=60.0, early=True, quiet=True)
    assert (done.ended, done.output) == ("", "done\n")


def test_a_text_in_place_of_a_source_whose_device_half_stays(tmp_path: Path):
    path = tmp_path / "program.cu"
    path.write_text(SOURCE)
    changed = SOURCE.replace("40000", "4").replace("20000", "2")
    host = build([path], CompileOptions(), texts={path: changed}, host_only=True)
    both = build([path], CompileOptions(), texts={path: changed.replace("sum += sinf", "sum = sinf")})
    assert host.units[0].text is None
    assert "sum = sinf" in (both.units[0].text or "")
    done = run_program(host, ProgramSpec(CompileOptions()), "program", [], quiet=True)
    assert (done.output, done.launches) == ("done\n", 1)
