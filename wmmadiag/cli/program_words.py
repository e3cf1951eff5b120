"""What is said of a program's own run, after what its source alone led to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmmadiag.cli.check_program import ProgramCheck, guessed, settled
from wmmadiag.errors import UndecidedError
from wmmadiag.programs.own_words import says_wrong

if TYPE_CHECKING:
    from wmmadiag.gate.task import TaskOutcome


def lines(made: ProgramCheck, outcome: TaskOutcome, verbose: bool, *, again: bool = False) -> list[str]:
    """What to say of it, after what the source alone led to.

    Args:
        again: whether its run was told with another kernel of the source.
    """
    from wmmadiag.cli.run import found_lines, summary

    if made.result is None:
        return [f"its own main was not run: {made.why}"]
    shown = ["the program itself, run with its own launches under the checks:"]
    if made.otherwise:
        shown = [f"the program itself, {made.otherwise}, run with its own launches under the checks:"]
    if again and made.result is made.own:
        shown = [] if settled(outcome) and not outcome.code else ["the program itself, as above:"]
    else:
        shown += [f"  {one}" for one in found_lines(made.result, verbose)]
        said = [line.strip() for line in made.result.output.splitlines() if line.strip()]
        if said:
            shown.append(f"  it says at the end: {said[-1][:160]}")
        shown.append("  " + summary(made.result).removeprefix("wmmadiag: "))
    if settled(outcome) and not outcome.code and made.unset:
        shown.append("  its own main never fills these arrays, which says nothing of the kernel")
    # What a launch's numbers give no card for says nothing.
    judged = [(where, one) for where, one in made.judged if settled(one) and one.status != "error"]
    for where, one in judged:
        if one.report is not None:
            word = {"passed": "right", "failed": "WRONG"}.get(one.status, one.status)
            shown.append(f"  {where}: {word} as {one.report.operation}, with these numbers")
    if blamed := made.blames(outcome):
        guess = outcome.report.operation if outcome.report is not None else ""
        shown.append(f"WRONG: the program's own comparison says so, and {', '.join(blamed)} is not right as {guess}")
        shown.append(f"next: wmmadiag diagnose {made.path} --entry '{blamed[0]}' --computes {guess}")
    elif settled(outcome) and not outcome.code and made.failed and made.silent and made.silent.sure:
        shown.append(f"  that says nothing of the kernel: {made.silent.why}")
    elif settled(outcome) and not outcome.code and made.failed and guessed(outcome):
        why = f", and {made.silent.why}" if made.silent else ""
        shown.append(f"undecided: right by what was taken so, and wrong by the program's own comparison{why}")
        shown.append("next: --computes says what the kernel computes")
    if made.never_so(outcome):
        shown.append("undecided: wrong with numbers alone that its program never launches it with")
        shown.append("next: --entry and --computes together say that it is meant for them, -v shows them")
    if made.right_in_part(outcome):
        shown.append("undecided: at the sizes of the program itself nothing is wrong")
    elif not settled(outcome) and not (judged and made.code_with(outcome) != UndecidedError.exit_code):
        shown += _own_verdict(made, outcome)
    return shown


def _own_verdict(made: ProgramCheck, outcome: TaskOutcome) -> list[str]:
    """What the program's own run comes to, where nothing else says whether its kernels are right."""
    guess = outcome.report.operation if outcome.report is not None and guessed(outcome) else ""
    why = f"its kernel was taken for {guess}, which nobody said" if guess else "what its kernels compute is not known"
    if made.refuted:
        how = f"the program says so, {' and '.join(made.refuted)}, by lines that hang on this kernel alone"
        return [f"WRONG: {how}; {why}", f"next: wmmadiag diagnose {made.path} --entry {made.compared}"]
    if made.code == 1:
        says = "exit status says so" if made.failed else "words say so"
        how = "a check found an error" if made.errors else f"the program's own {says}; {why}"
        return [f"WRONG: {how}", f"next: wmmadiag diagnose {made.path}{'' if guess else ' --computes OPERATION'}"]
    if made.compares and made.passed:
        idle = "this kernel does" if made.compared else "its kernels do"
        return [f"ok by the program's own comparison, which fails where {idle} nothing; {why}"]
    if made.result is not None and not made.result.launches:
        return ["undecided: it launches no kernel"]
    if made.result is not None and not made.launches_it and not made.result.ended:
        return ["undecided: it does not launch this kernel, called so"]
    if made.result is not None and made.result.ended:
        why = f"it did not come to its end; {why}"
    if made.crashed:
        why = f"its host code crashed, which says nothing of its kernels; {why}"
    if made.silent:
        why = f"{made.silent.why}; {why}"
    elif made.backwards:
        why = f"it says that something is wrong, and no more where its kernels do nothing; {why}"
    elif made.passed:
        idle = "this kernel does" if made.compared else "its kernels do"
        less = "half of what it does" if made.compared else "half of what they do"
        why = f"its exit status is 0 where {idle} {less if made.partly else 'nothing'}, too; {why}"
        if says_wrong(made.result.output if made.result is not None else ""):
            why = f"its exit status is 0, and it prints that something is wrong; {why}"
    return [f"undecided: {why}", "next: --computes says what the kernel computes"]
