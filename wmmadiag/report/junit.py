"""A run as JUnit XML: one suite per card and architecture, one test per case and variant, as CI services read it."""

from __future__ import annotations

from xml.etree import ElementTree

from wmmadiag.report.terminal import case_text
from wmmadiag.report.terminal_diagnosis import render as render_diagnosis
from wmmadiag.results.brief import brief
from wmmadiag.results.model import CaseResult, KernelReport
from wmmadiag.results.run import KernelRun, Run, Unchecked
from wmmadiag.results.text import one_line, visible


def render(run: Run) -> str:
    """XML text. `<failure>`: wrong; `<error>`: in error or undecided, which no CI may count as passed."""
    suites = [_suite(one) for one in run.kernels] + [_unchecked(one) for one in run.unchecked]
    root = ElementTree.Element("testsuites", name="wmmadiag", time=f"{run.seconds:.3f}")
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))
    root.extend(suites)
    ElementTree.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"


def _suite(kernel: KernelRun) -> ElementTree.Element:
    report = kernel.report
    suite = ElementTree.Element(
        "testsuite",
        name=one_line(f"{report.name} ({report.arch}, {report.backend})"),
        tests=str(len(report.cases)),
        failures=str(_count(report, "failed")),
        errors=str(_count(report, "error", "undecided")),
        skipped=str(sum(bool(case.accepted) for case in report.cases)),
        time=f"{report.seconds:.3f}",
    )
    suite.extend(_case(kernel, case) for case in report.cases)
    return suite


def _count(report: KernelReport, *statuses: str) -> int:
    """Cases with a status whose failure no baseline accepts."""
    return sum(case.status in statuses and not case.accepted for case in report.cases)


def _case(kernel: KernelRun, case: CaseResult) -> ElementTree.Element:
    report = kernel.report
    test = ElementTree.Element(
        "testcase",
        classname=one_line(f"{report.name}.{report.arch}"),
        name=one_line(case.title),
        file=one_line(report.source),
        time=f"{case.seconds:.6f}",
    )
    if case.status == "passed":
        return test
    if case.accepted:
        ElementTree.SubElement(test, "skipped", message=one_line(f"known failure: {case.accepted}"))
        return test
    tag = "failure" if case.status == "failed" else "error"
    outcome = ElementTree.SubElement(test, tag, message=one_line(_message(kernel, case)), type=_type(kernel, case))
    outcome.text = "\n" + visible(_text(kernel, report, case))
    return test


def _message(kernel: KernelRun, case: CaseResult) -> str:
    diagnosis = kernel.diagnosis(case.variant, case.case)
    return diagnosis.headline if diagnosis is not None and diagnosis.causes else brief(case)


def _type(kernel: KernelRun, case: CaseResult) -> str:
    diagnosis = kernel.diagnosis(case.variant, case.case)
    if diagnosis is not None and diagnosis.causes:
        return one_line(diagnosis.causes[0].name)
    if case.problem is not None:
        return one_line(case.problem.kind)
    return "wrong-output" if case.status == "failed" else case.status


def _text(kernel: KernelRun, report: KernelReport, case: CaseResult) -> str:
    diagnosis = kernel.diagnosis(case.variant, case.case)
    text = case_text(report, case)
    if diagnosis is None:
        return text

    return f"{render_diagnosis(diagnosis)}\n{text}"


def _unchecked(one: Unchecked) -> ElementTree.Element:
    name = one_line(f"{one.path} ({one.arch})" if one.arch else one.path)
    suite = ElementTree.Element("testsuite", name=name, tests="1", failures="0", errors="1", skipped="0", time="0.000")
    test = ElementTree.SubElement(suite, "testcase", classname=name, name="check", file=one_line(one.path), time="0")
    lines = visible(one.message).splitlines() or [""]
    ElementTree.SubElement(test, "error", message=lines[0], type=one.status).text = "\n".join(["", *lines, ""])
    return suite
