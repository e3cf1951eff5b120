"""The one question that decides, where several things are open."""

from __future__ import annotations

import pytest

from wmmadiag.errors import ConfigurationError, QuestionError
from wmmadiag.subject.open_subject import SubjectOptions, open_subject

_BODY = "{ if (x[threadIdx.x] > most) y[blockIdx.x] = x[threadIdx.x] * bias[0]; }"


@pytest.mark.parametrize(
    ("text", "question", "option"),
    [
        # What numbers mean is tried once a launch is known.
        ("void k(const float* x, const float* bias, float* y, int most)", "how is it launched?", "--grid … --block …"),
        (
            "template <class Traits> __global__ void k(const Traits::T* x, const float* bias, float* y, int most)",
            "what are the template arguments Traits?",
            "--entry",
        ),
        ("void k(const float* x, float* y, int most, float* bias, S s)", "what is the value of 's'?", "write a card"),
    ],
)
def test_one_thing_is_asked_for(tmp_path, text, question, option):
    path = tmp_path / "k.cu"
    head = "struct S { int a; unknown* b; };\n" if "S s" in text else ""
    path.write_text(head + (text if "template" in text else f"__global__ {text}") + _BODY)
    with pytest.raises(QuestionError) as raised:
        open_subject(path, SubjectOptions(computes="elementwise"))
    assert raised.value.message == f"{path}: the kernel 'k': {question}"
    assert raised.value.hint.count("--grid") == option.count("--grid") and option in raised.value.hint


def test_sizes_made_of_names_that_nothing_has_are_refused(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text("__global__ void k(const float* x, float* y, int n) { y[threadIdx.x] = x[threadIdx.x]; }")
    with pytest.raises(ConfigurationError, match="--symbol N=abc: nothing is called 'abc'"):
        open_subject(path, SubjectOptions(symbols={"N": "abc"}))
