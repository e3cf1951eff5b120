"""What one node of a Python function may become: the changes that operators make of CUDA sources, of Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from wmmadiag.diagnose.spec.trees import copied

_ARITHMETIC: Mapping[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mod,),
    ast.Mod: (ast.FloorDiv,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
}
_COMPARISONS: Mapping[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
}
_PREFIX = 3
"""Letters that the names of two functions share where one may be called for the other: exp and exp2, log and log10."""


def mutants(function: ast.FunctionDef, siblings: Sequence[str]) -> Iterator[tuple[ast.FunctionDef, str, str, int]]:
    """(changed copy, text before, text after, line) of each change of a function.

    Args:
        siblings: names of functions that it could call, as `np.exp` is called: "exp".
    """
    nodes = list(ast.walk(function))
    for number, node in enumerate(nodes):
        for new in _becomes(node, function, siblings):
            changed = copied(function)
            target = list(ast.walk(changed))[number]
            if _replaced(changed, target, new):
                before = ast.unparse(node)
                after = ast.unparse(ast.fix_missing_locations(copied(new))) if new is not None else ""
                yield ast.fix_missing_locations(changed), before, after, getattr(node, "lineno", function.lineno)


def _becomes(node: ast.AST, function: ast.FunctionDef, siblings: Sequence[str]) -> Iterator[ast.AST | None]:
    if isinstance(node, ast.BinOp):
        yield from (ast.BinOp(node.left, op(), node.right) for op in _ARITHMETIC.get(type(node.op), ()))
        yield from (node.left, node.right)
        if isinstance(node.op, (ast.Sub, ast.Div, ast.MatMult)):
            yield ast.BinOp(node.right, node.op, node.left)
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.BoolOp):
        for left_out in range(len(node.values)):
            rest = [one for number, one in enumerate(node.values) if number != left_out]
            yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        for op in _COMPARISONS.get(type(node.ops[0]), ()):
            yield ast.Compare(node.left, [op()], node.comparators)
        for step in (ast.Add(), ast.Sub()):
            yield ast.Compare(node.left, node.ops, [ast.BinOp(node.comparators[0], step, ast.Constant(1))])
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield from _numbers(node.value)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield from (ast.Name(name, ast.Load()) for name in _others(node.id, function))
    elif isinstance(node, ast.Call):
        yield from _of_call(node, siblings)
    elif isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    else:
        yield from _of_part(node)


def _of_part(node: ast.AST) -> Iterator[ast.AST | None]:
    """Of statements, and of what is no value by itself."""
    if isinstance(node, ast.If):
        yield ast.If(ast.Constant(True), node.body, node.orelse)
        yield ast.If(ast.Constant(False), node.body, node.orelse or [ast.Pass()])
    elif isinstance(node, ast.Slice):
        yield from _of_slice(node)
    elif isinstance(node, ast.AugAssign):
        yield ast.Assign([_stored(node.target)], node.value)
        yield None
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        yield None
    elif isinstance(node, ast.Attribute) and node.attr == "T":
        yield node.value


def _numbers(value: int | float) -> Iterator[ast.expr]:
    if isinstance(value, bool):
        yield ast.Constant(not value)
        return
    for other in dict.fromkeys(
        (value + 1, value - 1, value * 2, value / 2 if isinstance(value, float) else value // 2)
    ):
        if other != value:
            yield ast.UnaryOp(ast.USub(), ast.Constant(-other)) if other < 0 else ast.Constant(other)


def _of_call(node: ast.Call, siblings: Sequence[str]) -> Iterator[ast.expr]:
    called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    for name in siblings:
        if called and name != called and name[:_PREFIX] == called[:_PREFIX]:
            assert isinstance(node.func, ast.Attribute)
            yield ast.Call(ast.Attribute(node.func.value, name, ast.Load()), node.args, node.keywords)
    plain = [one for one in node.args if not isinstance(one, ast.Starred)]
    yield from plain[:3]
    for number in range(len(plain) - 1):
        exchanged = list(node.args)
        exchanged[number], exchanged[number + 1] = exchanged[number + 1], exchanged[number]
        yield ast.Call(node.func, exchanged, node.keywords)
    for number in range(len(node.keywords)):
        yield ast.Call(node.func, node.args, [one for at, one in enumerate(node.keywords) if at != number])


def _of_slice(node: ast.Slice) -> Iterator[ast.expr]:
    for step in (ast.Add(), ast.Sub()):
        if node.upper is not None:
            yield ast.Slice(node.lower, ast.BinOp(node.upper, step, ast.Constant(1)), node.step)
        if node.lower is not None:
            yield ast.Slice(ast.BinOp(node.lower, step, ast.Constant(1)), node.upper, node.step)
    if node.upper is not None:
        yield ast.Slice(node.lower, None, node.step)
    if node.lower is not None:
        yield ast.Slice(None, node.upper, node.step)


def _others(name: str, function: ast.FunctionDef) -> list[str]:
    """Further names that the function gives values to, or takes."""
    stored = {one.id for one in ast.walk(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    taken = {one.arg for one in ast.walk(function) if isinstance(one, ast.arg)}
    known = stored | taken
    return sorted(known - {name}) if name in known else []


def _stored(target: ast.expr) -> ast.expr:
    made = copied(target)
    made.ctx = ast.Store()  # type: ignore[attr-defined]
    return made


def _replaced(tree: ast.AST, target: ast.AST, new: ast.AST | None) -> bool:
    """Put `new` where `target` stands in the tree; None leaves a statement out. False where it stands nowhere."""
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is target and new is not None:
                setattr(parent, name, copied(new))
                return True
            if isinstance(value, list):
                for number, one in enumerate(value):
                    if one is target:
                        value[number] = copied(new) if new is not None else ast.Pass()
                        return True
    return False
