"""`pytest FOLDER`: cards become tests; ids, failure texts, reports, options, and files that are left alone."""

from __future__ import annotations

import json

import pytest
from small_kernels import HANG, RIGHT, write_card, write_right, write_wrong

pytest_plugins = ["pytester"]

OPTIONS = ("--wmmadiag-arch", "sm_80", "--wmmadiag-reports", "found", "--wmmadiag-diagnose=no")
VARIANTS = "variants = { plain = {}, filled = { macros = { FILL = '1.0f' } } }\n"


def test_one_test_per_case_variant_and_architecture(pytester):
    card = write_right(pytester.path)
    names = [f"right.toml::{case}[sm_90]" for case in ("one", "two")]
    pytester.runpytest("--collect-only", "-q").stdout.fnmatch_lines([name.replace("[", "[[]") for name in names])
    card.write_text(VARIANTS + card.read_text())
    found = pytester.runpytest("--collect-only", "-q", "--wmmadiag-arch", "sm_80", "--wmmadiag-arch", "90").outlines
    assert [line for line in found if "::" in line] == [
        f"right.toml::{case}[{variant}-{arch}]"
        for case in ("one", "two")
        for variant in ("plain", "filled")
        for arch in ("sm_80", "sm_90")
    ]
    result = pytester.runpytest("right.toml::two[plain-sm_90]", "--wmmadiag-diagnose=no")
    result.assert_outcomes(passed=1)
    pytester.runpytest("-k", "filled and two", "--wmmadiag-diagnose=no").assert_outcomes(failed=1, deselected=3)


@pytest.mark.slow
def test_a_failure_is_its_diagnosis_and_writes_a_report(pytester):
    write_right(pytester.path)
    write_wrong(pytester.path)
    result = pytester.runpytest("-k", "one", "--wmmadiag-reports", "out/reports")
    result.assert_outcomes(passed=1, failed=1, deselected=2)
    text = result.stdout.str()
    assert "diagnosis of wrong" in text and "256 of 256" in text.replace("all 256", "256 of 256")
    assert "Traceback" not in text
    assert "def runtest" not in text and "repeat: wmmadiag check" in text
    (page,) = (pytester.path / "out" / "reports").glob("*.html")
    assert f"report: {page}" in text
    assert json.loads(page.with_suffix(".json").read_text())["kernels"][0]["diagnoses"]


@pytest.mark.parametrize("words", [("--lf",), ("--lf", "wrong.toml"), ("--ff", "-x")])
def test_what_failed_last_is_selected(pytester, words):
    write_right(pytester.path)
    card = write_wrong(pytester.path)
    (pytester.path / "gemm.cu").write_text(RIGHT)
    # Only the second case of the wrong kernel fails.
    text = RIGHT.replace("fill_fragment(sum, FILL)", "fill_fragment(sum, K == 32 ? 1.0f : 0.0f)")
    (pytester.path / card.with_suffix(".cu").name).write_text(text)
    pytester.runpytest("--wmmadiag-diagnose=no").assert_outcomes(passed=3, failed=1)
    result = pytester.runpytest(*words, "-v", "--wmmadiag-diagnose=no")
    result.assert_outcomes(failed=1, deselected=1 if words == ("--lf", "wrong.toml") else 0)
    assert "wrong.toml::two[sm_90] FAILED" in result.stdout.str()


@pytest.mark.slow
def test_a_diagnosis_is_told_once(pytester):
    write_wrong(pytester.path)
    result = pytester.runpytest()
    result.assert_outcomes(failed=2)
    text = result.stdout.str().partition("short test summary")[0]
    assert text.count("diagnosis of wrong") == 1 and text.count("diagnosis: as of wrong.toml::one[sm_90]") == 1


def test_reports_go_to_the_cache_folder_where_nobody_says(pytester):
    write_wrong(pytester.path)
    result = pytester.runpytest("-k", "one", "--wmmadiag-diagnose=no")
    (page,) = (pytester.path / ".pytest_cache" / "d" / "wmmadiag").glob("*.html")
    assert f"report: {page}" in result.stdout.str() and "diagnosis of" not in result.stdout.str()
    pytester.runpytest("-k", "one", "--wmmadiag-diagnose=no", "-p", "no:cacheprovider").assert_outcomes(
        failed=1, deselected=1
    )


def test_what_cannot_be_decided_is_no_pass(pytester):
    (pytester.path / "spin.cu").write_text(HANG.replace("hang(", "gemm(").replace("go = 1;", 'go = 1; asm("wgmma");'))
    write_card(pytester.path, "spin", "spin.cu")
    result = pytester.runpytest("-k", "one")
    result.assert_outcomes(failed=1, deselected=1)


def test_a_broken_card_is_an_error_of_its_own(pytester):
    card = write_right(pytester.path)
    card.write_text(card.read_text().replace('entry = "gemm"', 'enrty = "gemm"'))
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*right.toml:4: unknown key 'enrty'*", "*did you mean 'entry'*"])
    assert "Traceback" not in result.stdout.str() and "load_card" not in result.stdout.str()


def test_files_of_others_are_left_alone(pytester):
    write_right(pytester.path)
    files = {
        "pyproject": "[project]\nname = 'x'\n",
        "other": "format = 1\nsource = 'x'\nname = 'y'\n",
        "broken": "format = \n[",
        "nothing": "",
        "binary": "format = 1\n\0source = 1\nentry",
    }
    for name, text in files.items():
        (pytester.path / f"{name}.toml").write_text(text)
    pytester.runpytest("--collect-only").assert_outcomes()
    assert "2 tests collected" in pytester.runpytest("--collect-only").stdout.str()


def test_kernels_broken_on_purpose_only_by_name(pytester):
    write_right(pytester.path)
    folder = pytester.mkdir("wrong")
    write_wrong(folder)
    (folder / "wrong.truth.toml").write_text('cause = "x"\nformat = 1\nsource = 1\nentry = 1\nlines = [1]\n')
    result = pytester.runpytest("--wmmadiag-diagnose=no")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*1 kernels that are broken on purpose were left out*"])
    result = pytester.runpytest("wrong/wrong.toml", "--wmmadiag-diagnose=no")
    result.assert_outcomes(failed=2)
    assert "left out" not in result.stdout.str()
    assert "left out" not in pytester.runpytest("right.toml").stdout.str()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--wmmadiag-backend", "gup"), "there is no 'gup'; known: emulator"),
        (("--wmmadiag-arch", "sm_1"), "sm_1"),
        (("--wmmadiag-checks", "raecs"), "races"),
        (("--wmmadiag-diagnose", "perhaps"), "neither yes nor no"),
    ],
)
def test_options_that_make_no_sense(pytester, words, message):
    write_right(pytester.path)
    result = pytester.runpytest(*words)
    assert result.ret != 0 and message in result.stdout.str() + result.stderr.str()


def test_options_in_the_configuration_file(pytester):
    write_wrong(pytester.path)
    pytester.makeini(
        "[pytest]\nwmmadiag_arch = sm_80 sm_90\nwmmadiag_diagnose = no\n"
        "wmmadiag_reports = found\nwmmadiag_checks = none\n"
    )
    result = pytester.runpytest("-k", "one")
    result.assert_outcomes(failed=2, deselected=2)
    assert len(list((pytester.path / "found").glob("*.html"))) == 2
    pytester.runpytest("-k", "one", "--wmmadiag-arch", "sm_90").assert_outcomes(failed=1, deselected=1)


def test_markers(pytester):
    write_right(pytester.path)
    pytester.makepyfile("def test_other(): pass")
    pytester.runpytest("-m", "not wmmadiag", "--strict-markers").assert_outcomes(passed=1, deselected=2)


def test_the_fixture_checks_a_card_or_a_source(pytester):
    write_right(pytester.path)
    write_wrong(pytester.path)
    pytester.makepyfile(
        """
        def test_right(check_kernel):
            assert check_kernel("right.toml", cases=["two"]).arch == "sm_80"
            check_kernel("gemm.cu", computes="gemm")

        def test_wrong(check_kernel):
            check_kernel("wrong.toml", cases=["one"])

        def test_typo(check_kernel):
            check_kernel("worng.toml")
        """
    )
    result = pytester.runpytest("-m", "not wmmadiag", *OPTIONS)
    result.assert_outcomes(passed=1, failed=2, deselected=4)
    text = result.stdout.str()
    assert "WRONG" in text and "def check_or_fail" not in text and "did you mean wrong.toml?" in text
    assert len(list((pytester.path / "found").glob("*.html"))) == 1


@pytest.mark.subprocess
@pytest.mark.slow
def test_under_xdist(pytester):
    pytest.importorskip("xdist")
    write_right(pytester.path)
    write_wrong(pytester.path)
    result = pytester.runpytest(
        "-p", "xdist.plugin", "-n", "2", "--wmmadiag-diagnose=no", "--wmmadiag-reports", "found"
    )
    result.assert_outcomes(passed=2, failed=2)
    assert len(list((pytester.path / "found").glob("*.html"))) == 2
