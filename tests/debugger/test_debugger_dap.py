"""The Debug Adapter Protocol, as an editor speaks it: a scripted session in a process of its own, and more."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from debugged import KERNELS

from wmmadiag.cli.main import main
from wmmadiag.debugger.dap import Adapter, messages, write
from wmmadiag.errors import ConfigurationError

WRONG = KERNELS / "attention" / "wrong" / "qk_not_transposed.toml"
SOURCE = WRONG.with_suffix(".cu")
VSCODE = Path(__file__).parents[2] / "editors" / "vscode"


class Client:
    """What an editor does, on an adapter in this process."""

    def __init__(self):
        self.sent = []
        self.adapter = Adapter(self.sent.append)

    def ask(self, command, **arguments):
        before = len(self.sent)
        self.adapter.handle({"seq": before + 1, "type": "request", "command": command, "arguments": arguments})
        json.dumps(self.sent[before:], allow_nan=False)
        answer, *self.events = self.sent[before:]
        assert answer["type"] == "response" and answer["command"] == command
        assert answer["success"], answer["message"]
        return answer.get("body")

    def stopped(self):
        return next(one["body"] for one in self.events if one["event"] == "stopped")

    def variables(self, scope):
        self.ask("stackTrace", threadId=self.thread)
        found = {one["name"]: one["variablesReference"] for one in self.ask("scopes", frameId=1)["scopes"]}
        return {one["name"]: one for one in self.ask("variables", variablesReference=found[scope])["variables"]}

    def line(self):
        return self.ask("stackTrace", threadId=self.thread)["stackFrames"][0]["line"]


@pytest.fixture(scope="module")
def client():
    one = Client()
    one.ask("initialize", adapterID="wmmadiag")
    one.ask("launch", program=str(WRONG), stopOnEntry=True)
    assert [event["event"] for event in one.events] == ["initialized"]
    points = one.ask(
        "setBreakpoints", source={"path": str(SOURCE)}, breakpoints=[{"line": 67}, {"line": 68}, {"line": 9999}]
    )
    assert [(p["verified"], p["line"]) for p in points["breakpoints"][:1]] == [(True, 67)]
    assert points["breakpoints"][1]["verified"] and points["breakpoints"][1]["line"] > 68  # a brace has no code
    assert not points["breakpoints"][2]["verified"]
    one.ask("setBreakpoints", source={"path": str(SOURCE)}, breakpoints=[{"line": 67}])
    one.ask("configurationDone")
    assert one.stopped()["reason"] == "entry"
    one.ask("continue", threadId=1)
    assert one.stopped()["reason"] == "breakpoint"
    one.thread = one.stopped()["threadId"]
    return one


def test_threads_are_the_warps_of_the_block(client):
    names = [one["name"] for one in client.ask("threads")["threads"]]
    assert names == ["block 0, warp 0", "block 0, warp 1", "block 0, warp 2", "block 0, warp 3"]


@pytest.mark.slow
def test_scopes_hold_fragments_shared_arrays_and_locals(client):
    assert client.line() == 67
    fragments = client.variables("Fragments")
    assert "16×16" in fragments["b"]["value"]
    rows = client.ask("variables", variablesReference=fragments["b"]["variablesReference"])["variables"]
    assert [row["name"] for row in rows][:2] == ["[0]", "[1]"] and len(rows) == 16
    assert {"sK", "sQ"} <= set(client.variables("Arrays"))
    local = client.variables("Locals")
    assert local["S"]["variablesReference"] == 0 and local["threadIdx.x"]["value"] == str(32 * (client.thread - 1))


def test_watches_are_expressions_of_the_source_s_scope(client):
    row = client.ask("evaluate", expression="b[0][1]", context="watch")["result"]
    fragment = client.adapter._known.session.fragment("b").values
    assert row.startswith("b[0][1] = ") and float(row.partition("= ")[2]) == pytest.approx(
        float(fragment[0, 1]), rel=1e-3
    )
    assert client.ask("evaluate", expression="warp * 32 + 7 / 2", context="watch")["result"].endswith(
        f"= {32 * (client.thread - 1) + 3}"
    )
    with pytest.raises(AssertionError, match="no variable 'nothing'"):
        client.ask("evaluate", expression="nothing + 1", context="watch")


def test_it_steps_forwards_and_back(client):
    assert client.line() == 67
    time = client.adapter._known.session.time
    client.ask("next", threadId=client.thread)
    assert client.stopped()["reason"] == "step" and client.adapter._known.session.time > time
    client.ask("stepBack", threadId=client.thread)
    assert client.adapter._known.session.time <= time
    client.ask("continue", threadId=client.thread)
    client.ask("continue", threadId=client.thread)
    later = client.adapter._known.session.time
    client.ask("reverseContinue", threadId=client.thread)
    assert client.adapter._known.session.time < later and client.line() == 67


def test_commands_of_the_prompt_work_in_the_console(client):
    assert "multiplies Q" in client.ask("evaluate", expression="departure", context="repl")["result"]
    assert client.stopped()["reason"] == "goto"
    client.thread = client.stopped()["threadId"]
    assert "where each warp" in client.ask("evaluate", expression="info", context="repl")["result"]
    threads = client.ask("evaluate", expression="info threads", context="repl")["result"]
    assert threads == client.ask("evaluate", expression="info warps", context="repl")["result"]


def test_a_write_to_an_element_and_the_end_stop_it(client):
    client.ask("setBreakpoints", source={"path": str(SOURCE)}, breakpoints=[])
    found = client.ask("dataBreakpointInfo", name="sK[3][5]")
    assert found["dataId"] == "sK[3][5]" and client.ask("dataBreakpointInfo", name="nobody[3]")["dataId"] is None
    client.ask("setDataBreakpoints", breakpoints=[{"dataId": found["dataId"]}])
    client.ask("evaluate", expression="run", context="repl")
    client.thread = client.stopped()["threadId"]
    assert client.line() == 52
    client.ask("setDataBreakpoints", breakpoints=[])
    client.ask("continue", threadId=1)
    assert "ended" in client.stopped()["description"]


def test_what_is_no_request_is_refused(client):
    with pytest.raises(AssertionError, match="'attach' is not offered"):
        client.ask("attach")
    with pytest.raises(AssertionError, match="nothing was launched"):
        Client().ask("threads")
    for text in (b"hello\r\n\r\n", b"Content-Length: 4\r\n\r\n{no}"):
        with pytest.raises(ConfigurationError):
            list(messages(io.BytesIO(text)))


@pytest.mark.subprocess
def test_an_editor_s_session_over_standard_streams():
    made = io.BytesIO()
    requests = [
        ("initialize", {}),
        ("launch", {"program": str(KERNELS / "gemm" / "wrong" / "blas_ldb_is_n.toml")}),
        ("setFunctionBreakpoints", {"breakpoints": [{"name": "step"}]}),
        ("configurationDone", {}),
        ("disconnect", {}),
    ]
    for number, (command, arguments) in enumerate(requests, 1):
        write(made, {"seq": number, "type": "request", "command": command, "arguments": arguments})
    command = [sys.executable, "-m", "wmmadiag", "dap"]
    done = subprocess.run(command, input=made.getvalue(), capture_output=True, env=os.environ, timeout=120)
    answers = list(messages(io.BytesIO(done.stdout)))
    assert done.returncode == 0, done.stderr
    assert [a["success"] for a in answers if a["type"] == "response"] == [True] * len(requests)
    assert [a["event"] for a in answers if a["type"] == "event"] == ["initialized", "stopped"]


@pytest.mark.subprocess
def test_an_editor_finds_what_the_manifest_starts(tmp_path):
    """By the editor's rules: a `program` would be looked for in the extension's folder, a `runtime` is on the PATH."""
    (debugger,) = json.loads((VSCODE / "package.json").read_text())["contributes"]["debuggers"]
    assert "program" not in debugger and not debugger["runtime"].startswith("./")
    (tmp_path / "wmmadiag").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m wmmadiag "$@"\n')
    (tmp_path / "wmmadiag").chmod(0o755)
    made = io.BytesIO()
    write(made, {"seq": 1, "type": "request", "command": "initialize", "arguments": {}})
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = [debugger["runtime"], *debugger["runtimeArgs"], *debugger.get("args", [])]
    done = subprocess.run(words, input=made.getvalue(), capture_output=True, env=environment, timeout=60)
    (answer,) = messages(io.BytesIO(done.stdout))
    assert answer["success"] and answer["body"]["supportsStepBack"]


def test_who_types_it_at_a_terminal_is_sent_to_the_debugger(monkeypatch, capsys):
    terminal = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    assert main(["dap"]) == 2 and "wmmadiag debug CARD" in capsys.readouterr().err


def test_the_editor_s_manifest_offers_what_there_is():
    manifest = json.loads((VSCODE / "package.json").read_text())
    # Without code of its own it may not wait to be activated, or the editor leaves it out.
    assert not {"main", "browser", "activationEvents"} & set(manifest)
    (debugger,) = manifest["contributes"]["debuggers"]
    from wmmadiag.debugger.dap import adapter

    known = {*adapter._OPTIONS, "program", "stopOnEntry", "keepVariables"}
    assert set(debugger["configurationAttributes"]["launch"]["properties"]) <= known
    for one in json.loads((VSCODE / ".vscode" / "launch.json").read_text())["configurations"]:
        assert set(one) <= known | {"type", "request", "name"}
