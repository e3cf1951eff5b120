"""Copies of Python's syntax trees: a search makes a thousand, and `copy.deepcopy` takes five times as long."""

from __future__ import annotations

import ast
from typing import Any, TypeVar

Node = TypeVar("Node", bound=ast.AST)


def copied(node: Node) -> Node:
    """A tree like this one that shares no node with it."""
    values: dict[str, Any] = {}  # its fields, and where it stands
    for name, value in vars(node).items():
        if isinstance(value, list):
            values[name] = [copied(one) if isinstance(one, ast.AST) else one for one in value]
        else:
            values[name] = copied(value) if isinstance(value, ast.AST) else value
    return type(node)(**values)
