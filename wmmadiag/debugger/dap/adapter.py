"""Requests of an editor, answered on a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from wmmadiag.debugger.api import debug
from wmmadiag.debugger.dap.scopes import EditorScopes, Row
from wmmadiag.debugger.dap.wire import Message
from wmmadiag.debugger.interpreter import Interpreter
from wmmadiag.debugger.kept import kept
from wmmadiag.debugger.position import Moment
from wmmadiag.debugger.stepping import Unit
from wmmadiag.errors import ConfigurationError, WmmadiagError

_CAPABILITIES = {
    "supportsConfigurationDoneRequest": True,
    "supportsFunctionBreakpoints": True,
    "supportsDataBreakpoints": True,
    "supportsStepBack": True,
    "supportsEvaluateForHovers": True,
    "supportsExceptionInfoRequest": True,
    "supportsTerminateRequest": True,
    "supportsCompletionsRequest": True,
    "exceptionBreakpointFilters": [
        {"filter": "nan", "label": "The first NaN", "default": False},
        {"filter": "departure", "label": "Where it departs from its oracle", "default": False},
    ],
}
_OPTIONS = (
    "case", "variant", "arch", "seed", "inputs", "entry", "computes", "grid", "block", "shared", "symbols", "macros",
)  # fmt: skip
"""Of a launch configuration: those of `wmmadiag.debug` that JSON can hold."""
_ERRORS = ("fault", "nan", "stuck")


class Adapter:
    """One editor's session.

    Args:
        send: takes each message that goes to the editor.
    """

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self._number = 0
        self._interpreter: Interpreter | None = None
        self._scopes: EditorScopes | None = None
        self._configured: Message = {}
        self._owned: dict[str, list[int]] = {}
        self._departure = False
        self.ended = False

    def handle(self, request: Message) -> None:
        """Answer one request; what fails is told as the protocol wants it."""
        command = str(request.get("command", ""))
        method = getattr(self, f"_on_{command}", None)
        answer: Message = {
            "type": "response",
            "request_seq": request.get("seq", 0),
            "command": command,
            "success": True,
        }
        after: list[Callable[[], None]] = []
        try:
            if method is None:
                raise ConfigurationError(
                    f"'{command}' is not offered", hint="the requests of editors/vscode/README.md are"
                )
            body = method(request.get("arguments") or {}, after)
            if body is not None:
                answer["body"] = body
        except WmmadiagError as error:
            answer |= {"success": False, "message": str(error), "body": {"error": {"id": 1, "format": str(error)}}}
        self._post(answer)
        for act in after:
            try:
                act()
            except WmmadiagError as error:
                self._event("output", {"category": "stderr", "output": f"{error}\n"})
                self._stopped("pause", str(error))

    # Life

    def _on_initialize(self, _: Message, after: list[Callable[[], None]]) -> Message:
        del after
        return _CAPABILITIES

    def _on_launch(self, given: Message, after: list[Callable[[], None]]) -> None:
        program = given.get("program")
        if not isinstance(program, str) or not program:
            raise ConfigurationError("the launch names no program", hint='"program": a card, a .cu or a .ptx')
        options = {name: given[name] for name in _OPTIONS if given.get(name) not in (None, "")}
        session = debug(Path(program), **options)
        if given.get("keepVariables", True):
            try:
                session = kept(session)
            except WmmadiagError as why:  # as it was compiled, then
                words = f"local variables are not told: {why.message}\n"
                after.append(lambda: self._event("output", {"category": "console", "output": words}))
        self._interpreter = Interpreter(session, keeps=False)
        self._configured = given
        after.append(lambda: self._event("initialized", {}))

    def _on_configurationDone(self, _: Message, after: list[Callable[[], None]]) -> None:
        if self._configured.get("stopOnEntry", False):
            after.append(lambda: self._stopped("entry", "the launch begins"))
        else:
            after.append(self._go)

    def _on_disconnect(self, _: Message, after: list[Callable[[], None]]) -> None:
        del after
        self.ended = True

    def _on_terminate(self, _: Message, after: list[Callable[[], None]]) -> None:
        after.append(lambda: self._event("terminated", {}))

    # Where to stop

    def _on_setBreakpoints(self, given: Message, _: Any) -> Message:
        path = str(given.get("source", {}).get("path", ""))
        session = self._known.session
        rows: list[Row] = []
        self._forget(path)
        for one in given.get("breakpoints", []):
            try:
                file = session.lines.file(Path(path).name)
                line = session.lines.slid(int(one["line"]), file)
                number = self._add(path, f"line {line}", {"line": f"{file}:{line}"})
                rows.append({"verified": True, "line": line, "id": number})
            except WmmadiagError as why:
                rows.append({"verified": False, "line": one.get("line", 0), "message": str(why)})
        return {"breakpoints": rows}

    def _on_setFunctionBreakpoints(self, given: Message, _: Any) -> Message:
        return self._set("function", given, lambda one: {"function": str(one.get("name", ""))})

    def _on_dataBreakpointInfo(self, given: Message, _: Any) -> Message:
        name = str(given.get("name", ""))
        try:
            element = self._known.session.arrays.element(name)
        except WmmadiagError as why:
            return {"dataId": None, "description": str(why)}
        return {
            "dataId": element.text,
            "description": f"writes to {element.text}",
            "accessTypes": ["write", "readWrite"],
        }

    def _on_setDataBreakpoints(self, given: Message, _: Any) -> Message:
        def conditions(one: Message) -> dict[str, Any]:
            return {"watch": str(one.get("dataId", "")), "reads": one.get("accessType") == "readWrite"}

        return self._set("data", given, conditions)

    def _on_setExceptionBreakpoints(self, given: Message, _: Any) -> None:
        filters = given.get("filters", [])
        self._forget("exception")
        self._departure = "departure" in filters
        if "nan" in filters:
            self._add("exception", "a NaN", {"nan": True})

    def _set(self, owner: str, given: Message, conditions: Callable[[Message], dict[str, Any]]) -> Message:
        rows: list[Row] = []
        self._forget(owner)
        for one in given.get("breakpoints", []):
            try:
                wanted = conditions(one)
                rows.append({"verified": True, "id": self._add(owner, str(wanted), wanted)})
            except WmmadiagError as why:
                rows.append({"verified": False, "message": str(why)})
        return {"breakpoints": rows}

    def _add(self, owner: str, words: str, wanted: dict[str, Any]) -> int:
        number = self._known.breakpoints.add(words, lambda one: one.conditions(**wanted)).number
        self._owned.setdefault(owner, []).append(number)
        return number

    def _forget(self, owner: str) -> None:
        for number in self._owned.pop(owner, []):
            self._known.breakpoints.all.pop(number, None)

    # Going

    def _on_continue(self, _: Message, after: list[Callable[[], None]]) -> Message:
        after.append(self._go)
        return {"allThreadsContinued": True}

    def _on_reverseContinue(self, _: Message, after: list[Callable[[], None]]) -> None:
        after.append(lambda: self._tell(self._known.breakpoints.back()))

    def _on_next(self, given: Message, after: list[Callable[[], None]]) -> None:
        self._step(given, after, "next")

    def _on_stepIn(self, given: Message, after: list[Callable[[], None]]) -> None:
        self._step(given, after, "line")

    def _on_stepOut(self, given: Message, after: list[Callable[[], None]]) -> None:
        self._step(given, after, "barrier")  # functions are inlined: on to where the warp next waits for others

    def _on_stepBack(self, given: Message, after: list[Callable[[], None]]) -> None:
        self._step(given, after, "line", back=True)

    def _step(self, given: Message, after: list[Callable[[], None]], unit: Unit, *, back: bool = False) -> None:
        self._select(given)
        session = self._known.session
        fine: Unit = "instruction" if given.get("granularity") == "instruction" else unit
        after.append(lambda: self._tell(session.reverse_step(fine) if back else session.step(fine)))

    def _on_pause(self, _: Message, after: list[Callable[[], None]]) -> None:
        after.append(lambda: self._stopped("pause", "a run ends before the next request is read"))

    def _go(self) -> None:
        if self._departure:
            self._departure = False
            found = self._known.session.to_departure()
            self._stopped("exception", found.words)
            return
        moment, met = self._known.breakpoints.run()
        self._tell(moment, [] if met is None else [met.number])

    def _tell(self, moment: Moment, hit: list[int] | None = None) -> None:
        reasons = {"watch": "data breakpoint", "step": "step"}
        if moment.reason in _ERRORS:
            reason = "exception"
        else:
            reason = "breakpoint" if hit else reasons.get(moment.reason, "pause")
        self._stopped(reason, moment.words, hit or [])

    # Looking

    def _on_threads(self, _: Message, __: Any) -> Message:
        session = self._known.session
        return {
            "threads": [{"id": w + 1, "name": f"block {session.block}, warp {w}"} for w in range(session.machine.warps)]
        }

    def _on_stackTrace(self, given: Message, _: Any) -> Message:
        self._select(given)
        session = self._known.session
        moment = session.moment
        places = [place for place in session.where() if place.line]
        standing = session.standing()
        if standing is not None:  # headers, which the kernel's own line stands for, are left out
            own = session.lines.places[standing.pc]
            places = places[next((i for i, p in enumerate(places) if (p.file, p.line) == (own.file, own.line)), 0) :]
        if moment.place is not None and moment.warp == session.warp:
            places[:1] = [moment.place]
        frames: list[Row] = []
        for place in places:
            source = {"name": Path(place.file).name, "path": str(Path(place.file).resolve())}
            name = place.function or session.target.kernel.kernel.entry.name
            row = {"id": len(frames) + 1, "name": name, "line": place.line, "column": place.column or 1}
            frames.append(row | {"source": source})
        return {"stackFrames": frames, "totalFrames": len(frames)}

    def _on_scopes(self, _: Message, __: Any) -> Message:
        return {"scopes": self._seen.scopes()}

    def _on_variables(self, given: Message, _: Any) -> Message:
        return {"variables": self._seen.children(int(given.get("variablesReference", 0)))}

    def _on_evaluate(self, given: Message, after: list[Callable[[], None]]) -> Message:
        text = str(given.get("expression", ""))
        if given.get("context") in ("watch", "hover"):
            return {"result": self._known.run(f"print {text}").text, "variablesReference": 0}
        before = self._known.session.moment
        reply = self._known.run(text)
        if self._known.session.moment is not before:
            after.append(lambda: self._stopped("goto", self._known.session.moment.words))
        return {"result": reply.text, "variablesReference": 0}

    def _on_exceptionInfo(self, _: Message, __: Any) -> Message:
        moment = self._known.session.moment
        return {"exceptionId": moment.reason, "description": moment.words, "breakMode": "always"}

    def _on_completions(self, given: Message, _: Any) -> Message:
        text = str(given.get("text", ""))
        return {"targets": [{"label": word} for word in self._known.completions(text)]}

    # Inside

    @property
    def _known(self) -> Interpreter:
        if self._interpreter is None:
            raise ConfigurationError("nothing was launched", hint="the request `launch` comes first")
        return self._interpreter

    @property
    def _seen(self) -> EditorScopes:
        if self._scopes is None:
            self._scopes = EditorScopes(self._known.session)
        return self._scopes

    def _select(self, given: Message) -> None:
        warp = int(given.get("threadId", 0)) - 1
        session = self._known.session
        if 0 <= warp < session.machine.warps and warp != session.warp:
            session.warp = warp
            self._scopes = None

    def _stopped(self, reason: str, words: str, hit: list[int] | None = None) -> None:
        self._scopes = None
        session = self._known.session
        body: Message = {
            "reason": reason,
            "description": words,
            "threadId": session.warp + 1,
            "allThreadsStopped": True,
        }
        if reason == "exception":
            body["text"] = words
        if hit:
            body["hitBreakpointIds"] = hit
        self._event("stopped", body)

    def _event(self, name: str, body: Message) -> None:
        self._post({"type": "event", "event": name, "body": body})

    def _post(self, message: Message) -> None:
        self._number += 1
        self._send({"seq": self._number, **message})
