"""What preprocessor lines say about the shape of a file: its macros, and which branches of a conditional balance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wmmadiag.compile.lexer import Token, directive


def macro_words(tokens: Sequence[Token]) -> dict[str, frozenset[str]]:
    """Macro → the identifiers of its definitions' bodies, over all `#define` of one file."""
    found: dict[str, frozenset[str]] = {}
    for token in tokens:
        if token.kind != "directive":
            continue
        what, argument = directive(token)
        if what != "define":
            continue
        words = [word for word in _words(argument) if word]
        if words:
            found[words[0]] = found.get(words[0], frozenset()) | frozenset(words[1:])
    return found


def _words(text: str) -> list[str]:
    out, word = [], ""
    for letter in text:
        if letter.isalnum() or letter == "_":
            word += letter
            continue
        if word and not word[0].isdigit():
            out.append(word)
        word = ""
    if word and not word[0].isdigit():
        out.append(word)
    return out


def reaching(macros: Mapping[str, frozenset[str]], targets: frozenset[str]) -> frozenset[str]:
    """`targets` and every macro whose expansion can hold one of them, through other macros too."""
    found = set(targets)
    grew = True
    while grew:
        grew = False
        for name, words in macros.items():
            if name not in found and words & found:
                found.add(name)
                grew = True
    return frozenset(found)


def specifier_macros(tokens: Sequence[Token]) -> frozenset[str]:
    """Macros with parameters whose body is no whole declaration: `#define KERNEL(n) __global__ void …`.

    An invocation of one begins a declaration; that of any other macro is a declaration by itself.
    """
    found = set()
    for token in tokens:
        if token.kind != "directive":
            continue
        what, argument = directive(token)
        name = argument.split("(", 1)[0]
        if what == "define" and name.isidentifier() and "(" in argument:
            body = argument[argument.index(")") + 1 :].strip() if ")" in argument else ""
            if body and not body.endswith((";", "}")):
                found.add(name)
    return frozenset(found)


def structural(tokens: Sequence[Token]) -> list[Token]:
    """The tokens that shape the text: directives and `#if 0` dropped, and one branch kept of those that do not balance.

    Branches of a conditional that each close the brackets they open all stay. Otherwise (two heads of one function,
    each with its `{`) only the first branch does, so that brackets match.
    """
    position = 0

    def group(nested: bool) -> list[Token]:
        nonlocal position
        kept: list[Token] = []
        while position < len(tokens):
            token = tokens[position]
            if token.kind != "directive":
                kept.append(token)
                position += 1
                continue
            what, argument = directive(token)
            if what in ("elif", "else", "endif", "elifdef", "elifndef") and nested:
                return kept
            position += 1
            if what in ("if", "ifdef", "ifndef"):
                kept.extend(conditional(argument if what == "if" else ""))
        return kept

    def conditional(condition: str) -> list[Token]:
        nonlocal position
        branches: list[list[Token]] = []
        dead = condition in ("0", "false")
        while True:
            branch = group(True)
            if not dead:
                branches.append(branch)
            dead = False
            if position >= len(tokens):
                break
            what, argument = directive(tokens[position])
            position += 1
            if what == "endif":
                break
            dead = (what == "elif" and argument in ("0", "false")) or (what == "else" and condition in ("1", "true"))
        if len(branches) > 1 and any(_net_depth(branch) for branch in branches):
            return branches[0]
        return [token for branch in branches for token in branch]

    result: list[Token] = []
    while position < len(tokens):
        result.extend(group(False))
    return result


def _net_depth(tokens: Sequence[Token]) -> int:
    depth = 0
    for token in tokens:
        if token.kind == "punct":
            depth += (token.text in "({[") - (token.text in ")}]") if len(token.text) == 1 else 0
    return depth
