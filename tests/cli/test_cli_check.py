"""`wmmadiag check`: exit codes, what is printed where, and which card is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("here")

HANG = ("hang.cu", "--computes", "gemm", "--grid", "1", "--block", "32", "--case", "small")


def test_a_right_kernel(run):
    answer = run("check", "right.toml")
    assert answer.code == 0 and not answer.err
    assert answer.out.rstrip().split("\n")[-1].startswith("ok: all 2 cases")


def test_a_wrong_kernel(run):
    answer = run("check", "wrong.toml")
    assert answer.code == 1
    assert "WRONG" in answer.out and "256 of 256 elements" in answer.out.replace("all 256", "256 of 256")


def test_a_source_without_a_card(run):
    assert run("check", "gemm.cu", "--computes", "gemm").code == 0
    assert run("check", "gemm.cu", "--computes", "gemm", "-D", "FILL=0.5f").code == 1


def test_what_it_computes_must_be_said_where_the_source_does_not(run):
    Path("fused.cu").write_text(Path("gemm.cu").read_text().replace("gemm", "gemm_gelu"))
    answer = run("check", "fused.cu")
    assert answer.code == 2
    assert "what should the kernel compute" in answer.err and "--computes with an operation" in answer.err
    assert "gemm is the likeliest, but its name has 'gelu'" in answer.err


@pytest.mark.slow
def test_what_is_taken_from_the_source_is_said_and_a_failure_depends_on_it(run):
    right = run("check", "gemm.cu")
    assert right.code == 0
    assert "assumed: taken as gemm, because its arrays are named" in right.out
    assert "--computes says otherwise" in " ".join(right.out.split())
    wrong = run("check", "gemm.cu", "-D", "FILL=0.5f")
    assert wrong.code == 3 and "does it compute gemm? If so, --computes gemm" in " ".join(wrong.out.split())
    assert "assumed: taken as gemm" in wrong.out and "holds only if" not in wrong.out  # nothing is said to hold
    told = run("diagnose", "gemm.cu", "-D", "FILL=0.5f", "--effort", "quick")
    assert "only if this holds, which nobody said: taken as gemm" in " ".join(told.out.split())


def test_a_card_beside_the_source_is_offered(run):
    Path("gemm.toml").write_text(Path("right.toml").read_text())
    assert "wmmadiag check gemm.toml" in run("check", "gemm.cu").out


def test_ptx(run):
    Path("gemm.ptx").write_text(run("ptx", "gemm.cu", "--raw", "--arch", "sm_80").out)
    answer = run("check", "gemm.ptx", "--computes", "gemm", "--grid", "1", "--block", "32")
    assert answer.code == 2  # PTX keeps no names: which number is K?
    assert "the value of 'arg4'" in answer.err and "arg0: a pointer to __half, which is read" in answer.err
    Path("ptx.toml").write_text(
        Path("right.toml").read_text().replace("gemm.cu", "gemm.ptx").replace('"gemm"\narg', '"gemm"\narg')
    )
    answer = run("check", "ptx.toml")
    assert answer.code == 0 and "sm_80 on the emulator" in answer.out


def test_undecided_is_3(run):
    answer = run("check", *HANG, "--budget-instructions", "10000")
    assert answer.code == 3
    assert "UNDECIDED" in answer.out and "hang.cu:5" in answer.out
    assert run("check", *HANG, "--budget-seconds", "0.05").code == 3


def test_a_compile_error_is_2_and_names_the_line(run):
    Path("gemm.cu").write_text(Path("gemm.cu").read_text().replace("int r", "itn r"))
    answer = run("check", "right.toml")
    assert answer.code == 2 and "gemm.cu:8:" in answer.out and '"itn"' in answer.out


@pytest.mark.parametrize(
    ("paths", "code"),
    [
        (("right.toml", "wrong.toml"), 1),
        (("broken.toml", "wrong.toml"), 1),
        (("broken.toml", "right.toml"), 2),
        (("hangs.toml", "right.toml"), 3),
        (("hangs.toml", "broken.toml"), 2),
        (("hangs.toml", "wrong.toml", "broken.toml"), 1),
    ],
)
def test_the_gravest_counts(run, paths, code):
    Path("broken.toml").write_text(Path("right.toml").read_text().replace("[cases", "cases ["))
    Path("broken.toml").write_text(Path("right.toml").read_text().replace("format = 1", "format = 9"))
    Path("hangs.toml").write_text(Path("right.toml").read_text().replace("gemm.cu", "hang.cu").replace(
        'entry = "gemm"', 'entry = "hang"'))  # fmt: skip
    answer = run("check", *paths, "--budget-instructions", "10000", "--case", "one")
    assert answer.code == code
    assert f"{len(paths)} checks:" in answer.out


def test_a_folder_means_all_its_cards_and_nothing_else(run):
    Path("pyproject.toml").write_text("[project]\nname = 'x'\n")
    Path(".hidden").mkdir()
    Path(".hidden/card.toml").write_text("format = 1\nsource = 'gone.cu'\n")
    Path("deeper").mkdir()
    Path("deeper/again.toml").write_text(Path("right.toml").read_text().replace("gemm.cu", "../gemm.cu"))
    answer = run("check", ".")
    assert answer.code == 1
    assert "3 checks: 2 ok, 1 wrong" in answer.out


def test_a_broken_card_in_a_folder_is_not_skipped(here, run):
    Path("wrong.toml").write_text("format = 1\nsource = 'gemm.cu'\nentry = [")
    answer = run("check", here)
    assert answer.code == 2
    assert "wrong.toml:3" in answer.err and "2 checks: 1 ok, 1 in error" in answer.out


def test_of_many_those_that_are_not_right_are_named_at_the_end(run):
    text = "__global__ void mystery(float* what) { what[threadIdx.x] = 1; }\n"
    for name in "abc":
        Path(f"{name}.cu").write_text(text)
    answer = run("check", "right.toml", "a.cu", "b.cu", "c.cu")
    assert answer.code == 2
    listed = "not right:\n" + "".join(f"  asked      {name}.cu\n" for name in "abc")
    assert f"{listed}4 checks: 1 ok, 3 asked" in answer.out


def test_a_path_given_twice_is_checked_once(here, run):
    assert "checks:" not in run("check", "right.toml", "./right.toml", here / "right.toml").out


def test_case_and_variant(run):
    answer = run("check", "right.toml", "--case", "two", "--variant", "default")
    assert answer.code == 0 and "/ two" in answer.out and "/ one" not in answer.out
    answer = run("check", "right.toml", "--case", "three")
    assert answer.code == 2 and "it has: one, two" in answer.err


def test_of_several_cards_those_with_the_case(here, run):
    answer = run("check", here, "--case", "two")
    assert answer.code == 0 and "right" in answer.out and "wrong" not in answer.out
    answer = run("check", here, "--case", "two", "--case", "othr")
    assert answer.code == 2 and "did you mean 'other'?" in answer.err


def test_seed_inputs_and_the_command_that_repeats(run):
    answer = run("check", "wrong.toml", "--case", "one", "--seed", "7", "--inputs", "small_integers", "-D", "FILL=2.0f")
    assert answer.code == 1 and "small_integers, seed 7" in answer.out
    [repeat] = [line for line in answer.out.splitlines() if "repeat:" in line]
    words = repeat.split("repeat: wmmadiag ")[1].split()
    again = run(*words)
    assert again.code == 1

    def numbers(text):
        return [line for line in text.splitlines() if "first:" in line or "worst:" in line]

    assert numbers(again.out) == numbers(answer.out) != []


def test_a_repeat_command_of_a_source(run):
    answer = run("check", "wrong.cu", "--computes", "gemm", "--symbol", "K=48", "--case", "small", "-I", ".")
    [repeat] = [line for line in answer.out.splitlines() if "repeat:" in line]
    words = repeat.split("repeat: wmmadiag ")[1].split()
    assert {"--symbol", "--include", "--computes"} <= set(words)
    assert run(*words).code == 1


def test_arches(run):
    answer = run("check", "right.toml", "--arch", "sm_80", "--arch", "90", "--arch", "sm_80", "--case", "one")
    assert answer.code == 0
    assert answer.out.count("on the emulator") == 2 and "2 checks: 2 ok" in answer.out
    answer = run("check", "right.toml", "--arch", "hopper")
    assert answer.code == 2 and "unknown architecture 'hopper'" in answer.err
    answer = run("check", "right.toml", "--arch", "sm_60", "--case", "one")
    assert answer.code == 2 and "unknown architecture 'sm_60'" in answer.out + answer.err


def test_launch_in_place_of_the_cards(run):
    answer = run("check", "right.toml", "--grid", "N/16", "--case", "two")
    assert answer.code == 1 and "never written" in answer.out
    answer = run("check", "right.toml", "--block", "32,1,1,1")
    assert answer.code == 2 and "--block" in answer.err


def test_symbols_in_place_of_the_cases(run):
    answer = run("check", "right.toml", "--symbol", "K=64", "--case", "one")
    assert answer.code == 0 and "K=64" in answer.out


def test_computes_cannot_contradict_a_card(run):
    answer = run("check", "right.toml", "--computes", "softmax")
    assert answer.code == 2 and "right.toml:" in answer.err and "'gemm'" in answer.err


def test_resources(run):
    assert "registers" not in run("check", "right.toml", "--case", "one").out
    for option in ("--resources", "-v"):
        assert " registers, no spills, 0 bytes static" in run("check", "right.toml", "--case", "one", option).out


def test_what_ptxas_refuses_is_the_kernels_error(run):
    big = "__shared__ float big[20000]; big[threadIdx.x] = K; __syncthreads(); if (big[N] == 3) C[1] = 0; int r ="
    Path("gemm.cu").write_text(Path("gemm.cu").read_text().replace("int r =", big))
    answer = run("check", "right.toml", "--case", "one", "--resources")
    assert answer.code == 2 and "80000 bytes of static shared memory" in answer.out


def test_quiet(here, run):
    assert run("check", "right.toml", "-q").out == ""
    answer = run("check", here, "-q")
    assert answer.code == 1 and "right: gemm" not in answer.out and "wrong: gemm" in answer.out


def test_against_another_kernel(run):
    Path("wrong.toml").write_text(Path("right.toml").read_text().replace("gemm.cu", "wrong.cu"))
    answer = run("check", "right.toml", "--case", "one", "--against", "wrong.toml", "-v")
    assert "against right" in answer.out


def test_colours(run, monkeypatch):
    assert "\x1b[" not in run("check", "right.toml", "--case", "one").out
    assert "\x1b[32m" in run("check", "right.toml", "--case", "one", "--color", "always").out
    assert "\x1b[" in run("check", "gone.toml", "--color", "always").err
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[32m" in run("check", "right.toml", "--case", "one").out
    assert "\x1b[" not in run("check", "right.toml", "--case", "one", "--color", "never").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in run("check", "right.toml", "--case", "one").out


def test_progress_only_on_a_terminal_and_cleared(run, monkeypatch):
    assert not run("check", "right.toml").err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    err = run("check", "right.toml", "--seed", "1").err  # nothing is shown of a check that is known from before
    shown, _, left = err.rpartition("\r\x1b[K")
    assert "[case 2/2] right default / two" in shown
    assert not left or left.startswith("of this, the compiler took")  # on a busy machine


def test_jobs_say_the_same(here, run):
    def told(answer):
        return answer.code, [line.split(",")[0] for line in answer.out.splitlines() if "s static" not in line]

    options = (here, "--case", "one", "--arch", "sm_80")
    Path("broken.toml").write_text(Path("right.toml").read_text().replace("format = 1", "format = 9"))
    alone, together = run("check", *options), run("check", *options, "--jobs", "3")
    assert told(alone) == told(together)
    assert alone.err == together.err and "format 9" in alone.err


def test_no_gpu_is_said_once(run):
    from importlib import import_module

    if not import_module("wmmadiag.gpu.devices").available():
        pytest.skip("there is a GPU here")
    answer = run("check", "right.toml", "--backend", "gpu")
    assert answer.code == 2 and not answer.out and "--backend emulator" in answer.err
    assert "known here: emulator, gpu" in run("check", "right.toml", "--backend", "tpu").err


def test_a_fault_leads_with_the_line_and_the_array(run):
    source = Path(__file__).parents[2] / "examples/tutorial/gemm.cu"
    said = " ".join(run("check", source, "--computes", "gemm").out.split())
    first = said.partition(" gemm: gemm")[0]
    assert first.startswith("WRONG: ") and "gemm.cu:15:9: " in first and "past the end of B (default / tiles)" in first
    assert "0x" not in first
