"""A variant that changes single arguments, and arrays that lie where a part of a larger tensor does."""

from __future__ import annotations

import pytest
from small_kernels import write_right

from wmmadiag.api import check
from wmmadiag.errors import ConfigurationError


def card(folder, extra):
    path = write_right(folder)
    path.write_text(path.read_text() + extra)
    return path


def test_a_layout_that_the_kernel_does_not_have_is_seen(tmp_path):
    path = card(tmp_path, "[variants]\nplain = {}\nturned = { arguments = { B = { layout = 'NK' } } }\n")
    report = check(path, cases=["two"])
    assert {one.variant: one.status for one in report.cases} == {"plain": "passed", "turned": "failed"}


def test_an_argument_that_is_not_there(tmp_path):
    path = card(tmp_path, "[variants.turned]\narguments = { Bt = { layout = 'NK' } }\n")
    with pytest.raises(ConfigurationError, match="no argument 'Bt'") as told:
        check(path)
    assert told.value.place is not None and told.value.place.line == path.read_text().count("\n")


@pytest.mark.parametrize(("displaced", "kind"), [(0, None), (32, None), (4, "misaligned")])
def test_arrays_that_lie_elsewhere(tmp_path, displaced, kind):
    """A fragment of halves is loaded by pairs of words: recorded from an H200 in `tests/vectors`."""
    (case,) = check(write_right(tmp_path), symbols={"displaced": displaced}, cases=["one"]).cases
    assert (case.problem and case.problem.kind) == kind and case.status == ("failed" if kind else "passed")
