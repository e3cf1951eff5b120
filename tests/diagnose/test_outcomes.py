"""What became of a change, by its trial's counts beside those of the program that it was tried in."""

from __future__ import annotations

from dataclasses import replace

from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.trials.outcomes import Outcome, faithful, outcome_of
from wmmadiag.emulator.trials import TrialResult

CHANGE = Change("test", (), "expression", "index", "")
# The kernel dies of 387 accesses that belong nowhere, where they do not pass.
KERNEL = TrialResult("finished", "none", True, 40, 0, 0, 0, 387, 0, 0, 3, 1000, 4.0, 64, 1)
# The compiler has made two accesses of each in a program of trials.
OWN = replace(KERNEL, strays=771)


def outcome(result: TrialResult) -> Outcome:
    return outcome_of(CHANGE, result, KERNEL, True, OWN)


def test_a_program_with_more_accesses_does_what_the_kernel_does() -> None:
    assert faithful(OWN, KERNEL)
    assert not faithful(replace(OWN, strays=0), KERNEL)
    assert not faithful(replace(OWN, broken=1), KERNEL)
    assert not faithful(replace(OWN, damaged=1), KERNEL)


def test_strays_are_counted_against_the_program_s_own() -> None:
    assert outcome(OWN).verdict == "same" and outcome(OWN).astray == 0
    fewer = outcome(replace(OWN, strays=400, fewer=371))
    assert fewer.verdict == "better" and 0.4 < fewer.astray < 0.5
    assert outcome(replace(OWN, strays=801, more=30)).verdict == "worse"
    assert outcome(replace(OWN, strays=0, fewer=771, wrong=0, mended=40)).verdict == "right"
