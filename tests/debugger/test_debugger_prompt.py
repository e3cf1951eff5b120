"""The prompt: commands, abbreviations, typos, scripts, JSON; and real terminals."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from debugged import ATTENTION, KERNELS, line_of

import wmmadiag
from wmmadiag.cli.main import main
from wmmadiag.debugger.interpreter import Interpreter
from wmmadiag.debugger.prompt import Prompt
from wmmadiag.errors import ConfigurationError, WmmadiagError

WRONG = KERNELS / "attention" / "wrong"


@pytest.fixture
def interpreter() -> Interpreter:
    return Interpreter(wmmadiag.debug(ATTENTION, case="two_heads"))


def test_break_continue_print_and_back(interpreter: Interpreter) -> None:
    line = line_of(interpreter.session, "wmma::mma_sync(s,")
    assert "breakpoint 1: line" in interpreter.run(f"b {line}").text
    first = interpreter.run("c")
    assert first.data["line"] == line and "breakpoint 1" in first.text
    assert "accumulator 16×16 f32" in interpreter.run("p s").text
    second = interpreter.run("c")
    assert second.data["time"] > first.data["time"]
    assert interpreter.run("rc").data["time"] == first.data["time"]
    assert "met 2×" in interpreter.run("info breakpoints").text
    assert interpreter.run("delete").data == {"deleted": 1}
    assert interpreter.run("c").data["reason"] == "finished"


def test_watch_tells_old_and_new(interpreter: Interpreter) -> None:
    interpreter.run("watch o[0,0,3,3]")
    reply = interpreter.run("run")
    assert "was nan, is " in reply.text
    assert "written at" in interpreter.run("writer o[0,0,3,3]").text
    assert len(interpreter.run("x o[0,0,3,3] 4").data["elements"]) == 4


def test_filters_of_breakpoints(interpreter: Interpreter) -> None:
    interpreter.run("break tensor warp 3")
    interpreter.run("tbreak load_rows block 1")
    seen = [interpreter.run("c").data for _ in range(3)]
    assert [(one["block"], one["warp"]) for one in seen[:1]] == [(0, 3)]
    assert all(one["warp"] == 3 or one["block"] == 1 for one in seen)
    interpreter.run("disable 1")
    assert interpreter.run("c").data["block"] == 1
    assert list(interpreter.breakpoints.all) == [1]


@pytest.mark.parametrize("words", ["list", "where", "info warps", "info shared", "info registers", "info variables"])
def test_what_is_shown(interpreter: Interpreter, words: str) -> None:
    interpreter.run("tensor 3")
    reply = interpreter.run(words)
    assert len(reply.text) > 40
    json.dumps(reply.data)


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("prnt acc", "no command 'prnt'", "did you mean 'print'?"),
        ("re", "may be", "write more"),
        ("break", "breakpoint 1", ""),
        ("break 3", "(3 has no code)", ""),
        ("break 99999", "no instruction belongs to line 99999", "the last line"),
        ("break 86 87", "is no place", "break LINE"),
        ("watch", "watch what?", "watch sK"),
        ("print", "print what?", ""),
        ("print s.valeus", "a fragment has no 'valeus'", "did you mean 'values'?"),
        ("print first_qery", "no variable 'first_qery'", "did you mean 'first_query'?"),
        ("step x", "is not a count", ""),
        ("delete 7", "no breakpoint 7", "there are: none"),
        ("info barier", "info about 'barier'", "did you mean 'barriers'?"),
        ("lane 40", "lane 40", ""),
        ("explain", "explain which", ""),
        ("against", "nothing to compare with", "--against"),
        ("finding nosuch", "no check 'nosuch'", ""),
        ("seek never", "is no time", ""),
        ("list nosuch", "is no line", ""),
        ("mma e", "is no operand", ""),
    ],
)  # fmt: skip
def test_messages(interpreter: Interpreter, line: str, message: str, hint: str) -> None:
    interpreter.run("tensor")
    try:
        text = interpreter.run(line).text
    except ConfigurationError as error:
        text = str(error)
    assert message in text and hint in text


def test_help_knows_every_command(interpreter: Interpreter) -> None:
    text = interpreter.run("help").text
    for one in interpreter.commands:
        assert one.name in text
        assert one.summary in interpreter.run(f"help {one.name}").text
    assert interpreter.completions("wat") == ["watch"]
    assert "sKV" in interpreter.completions("watch sK")


def test_words_are_unambiguous(interpreter: Interpreter) -> None:
    words = [word for one in interpreter.commands for word in (one.name, *one.aliases)]
    assert len(words) == len(set(words))


def test_a_batch_of_commands_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.txt"
    script.write_text("# to the fault\ndeparture\nwhy\nmma d\n")
    words = ["-x", str(script), "-e", "info memory", "--batch", "--json-lines"]
    code = main(["debug", str(WRONG / "qk_not_transposed.toml"), *words])
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert code == 0 and [one["command"] for one in answers] == ["departure", "why", "mma d", "info memory"]
    assert all(one["ok"] for one in answers)
    assert answers[0]["data"]["line"] == 67 and answers[0]["data"]["kind"] == "provenance"
    assert answers[3]["data"]["bytes"] <= answers[3]["data"]["limit"]


def test_json_has_null_for_nan(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["debug", str(ATTENTION), "-e", "print sKV", "-e", "print o[0,0]", "--batch", "--json-lines"]
    assert main(words) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert answers[0]["data"]["values"][0] is None and answers[1]["data"]["values"][0][0] is None


def test_a_bug_in_a_command_does_not_end_a_typed_session(
    interpreter: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(interpreter.session), "behind", lambda *_: 1 / 0)
    written: list[str] = []
    prompt = Prompt(interpreter, written.append)
    assert prompt.run(["why", "lane", "quit"], survive=True) == 0
    assert "internal error" in written[0] and "ZeroDivisionError" in written[0] and written[1] == "lane 0"
    with pytest.raises(ZeroDivisionError):
        prompt.run(["why"])


def test_a_batch_ends_at_the_first_error(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["debug", str(ATTENTION), "-e", "nosuch", "-e", "step", "--batch"])
    out = capsys.readouterr().out
    assert code == 2 and "no command 'nosuch'" in out and "step" not in out.rpartition("nosuch")[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no/such.toml"], "no such file"),
        ([str(ATTENTION), "--case", "tial"], "tail"),
        ([str(ATTENTION), "-x", "no/script"], "cannot be read"),
        ([str(ATTENTION), "--against", "nosuch"], "is no variant"),
    ],
)
def test_a_session_that_cannot_begin(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["debug", *words, "--batch"]) == 2
    captured = capsys.readouterr()
    assert message in captured.err and "Traceback" not in captured.err


def test_why_goes_on_when_it_is_asked_again(interpreter: Interpreter) -> None:
    interpreter.run("until 143")
    first = interpreter.run("why").data["lines"]
    further = interpreter.run("").data["lines"]
    assert {one["distance"] for one in first} == {1, 2} and {one["distance"] for one in further} == {3}
    assert interpreter.run("why 3").data["lines"] == first + further
    interpreter.run("tensor")
    assert {one["distance"] for one in interpreter.run("why").data["lines"]} == {1, 2}


def test_another_card_and_another_case(interpreter: Interpreter) -> None:
    interpreter.run("break tensor")
    assert "* two_heads" in interpreter.run("case").text
    assert "its breakpoints are gone" in interpreter.run("case tail").text
    assert interpreter.session.target.case.name == "tail"
    assert interpreter.run("info breakpoints").text == "no breakpoints"
    interpreter.run("case two_heads")
    assert interpreter.run(f"card {WRONG / 'qk_not_transposed.toml'} tail").data["title"].endswith("tail, sm_90")
    line = interpreter.run("departure").data["line"]
    assert line in (66, 67)
    before = interpreter.session
    for words, message in (
        ("card no/such.toml", "no such file"), ("case tial", "tail"), ("case a b", "takes no 'b'"),
        (f"card {WRONG / 'pipe_static_over_48k.toml'}", "half ks[2][BN][LD];"),
    ):  # fmt: skip
        with pytest.raises(WmmadiagError, match=re.escape(message)):
            interpreter.run(words)
    assert interpreter.session is before and interpreter.session.moment.line == line


# In a terminal


def _spawn(*words: str, term: str = "dumb") -> object:
    pexpect = pytest.importorskip("pexpect")
    environment = dict(os.environ, TERM=term, PROMPT_TOOLKIT_NO_CPR="1", PYTHONPATH=str(KERNELS.parent))
    return pexpect.spawn(
        sys.executable, ["-m", "wmmadiag", "debug", *words], env=environment, encoding="utf-8", timeout=20,
        dimensions=(40, 200),
    )  # fmt: skip


def _eof() -> object:
    import pexpect

    return pexpect.EOF


@pytest.mark.subprocess
@pytest.mark.slow
def test_control_c_comes_back_to_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "spin.cu").write_text(
        'extern "C" __global__ void spin(const float* x, float* out) {\n'
        "    for (long i = 0; i < 1L << 40; ++i)\n        ((volatile float*)out)[0] = x[0] + i;\n}\n"
    )
    (tmp_path / "reference.py").write_text("def reference(inputs, symbols):\n    return {'out': inputs['x']}\n")
    (tmp_path / "spin.toml").write_text(
        """format = 1
name = "spin"
source = "spin.cu"
entry = "spin"
arguments = [
    { name = "x", role = "x", dtype = "f32", direction = "in", shape = [1] },
    { name = "out", role = "out", dtype = "f32", direction = "out", shape = [1] },
]
launch = { grid = 1, block = 32 }
computes = { operation = "python", python = "reference.py:reference" }
tolerance = { atol = 1e-6, rtol = 0 }
cases = [{ name = "one" }]
"""
    )
    terminal = _spawn(str(tmp_path / "spin.toml"), term="xterm")
    terminal.expect(r"\(wmmadiag\)")  # type: ignore[attr-defined]
    terminal.sendline("continue")  # type: ignore[attr-defined]
    terminal.expect("continue")  # type: ignore[attr-defined]
    import time

    time.sleep(1.0)
    terminal.sendintr()  # type: ignore[attr-defined]
    terminal.expect("interrupted")  # type: ignore[attr-defined]
    terminal.expect(r"\(wmmadiag\)")  # type: ignore[attr-defined]
    terminal.sendline("reverse-stepi")  # type: ignore[attr-defined]
    terminal.expect(r"spin.cu:[23]")  # type: ignore[attr-defined]
    terminal.sendline("q")  # type: ignore[attr-defined]
    terminal.expect(_eof())  # type: ignore[attr-defined]
