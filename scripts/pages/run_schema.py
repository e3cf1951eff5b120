"""wmmadiag/report/schema.json, the JSON schema of a run, made of the dataclasses."""

from __future__ import annotations

import inspect
from typing import Any, get_args

import msgspec

from wmmadiag.results.diagnosis import Diagnosis
from wmmadiag.results.json_file import SCHEMA_ID
from wmmadiag.results.model import DERIVED, FORMAT_VERSION, KernelReport, Status
from wmmadiag.results.run import Run, Unchecked

_NOT_FINITE = ["nan", "inf", "-inf"]


def schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12. Numbers that JSON has not are strings: "nan", "inf", "-inf"."""
    made = _numbers(msgspec.json.schema(Run))
    for definition in made["$defs"].values():
        definition["description"] = inspect.cleandoc(definition.get("description", ""))
        if "properties" in definition:
            definition["additionalProperties"] = False
            definition["required"] = list(definition["properties"])  # the writer leaves nothing out
            for one in definition["properties"].values():
                one.pop("default", None)  # nor is one taken; which ones are told depends on msgspec's version
    for cls in (Run, KernelReport, Unchecked, Diagnosis):
        derived: dict[str, Any] = {"status": {"enum": list(get_args(Status))}, "exit_code": {"enum": [0, 1, 2, 3]}}
        definition = made["$defs"][cls.__name__]
        for name in DERIVED:
            if hasattr(cls, name) and name not in definition["properties"]:
                definition["properties"][name] = derived[name]
                definition["required"].append(name)
    made["$defs"]["Run"]["properties"]["format_version"] = {"const": FORMAT_VERSION}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "A run of wmmadiag check",
        **made,
    }


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get("type") == "number":
            rest = {key: item for key, item in value.items() if key != "type"}
            return {"anyOf": [{"type": "number"}, {"enum": _NOT_FINITE}], **rest}
        return {key: _numbers(item) for key, item in value.items()}
    return [_numbers(item) for item in value] if isinstance(value, list) else value


def page() -> str:
    """As the file holds it."""
    return msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode() + "\n"
