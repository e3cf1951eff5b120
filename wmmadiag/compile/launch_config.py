"""What host code puts into a `cudaLaunchConfig_t` before `cudaLaunchKernelEx(&config, kernel, …)`."""

from __future__ import annotations

from collections.abc import Sequence

from wmmadiag.compile.lexer import Token, closing

# cuda_runtime_api.h, cudaLaunchConfig_t, in order.
_MEMBERS = ("gridDim", "blockDim", "dynamicSmemBytes", "stream")


def configuration(tokens: Sequence[Token], operand: Sequence[Token]) -> list[Sequence[Token]]:
    """Grid, block, dynamic shared memory and stream of the configuration that is passed; empty where not to be seen.

    Args:
        tokens: of the launching function.
        operand: of the launch, `&config`.
    """
    from wmmadiag.compile.host_code import split_arguments

    name = next((token.text for token in operand if token.kind == "id"), "")
    found: dict[str, Sequence[Token]] = {}
    for index in range(1, len(tokens) - 3):
        if tokens[index].text != name:
            continue
        after = index + 1
        if tokens[after].text in (".", "->") and tokens[after + 2].text == "=":
            end = after + 3
            while end < len(tokens) and tokens[end].text != ";":
                end = closing(tokens, end) + 1 if tokens[end].text in ("(", "{", "[") else end + 1
            found[tokens[after + 1].text] = tokens[after + 3 : end]
            continue
        after += tokens[after].text == "="
        if tokens[after].text == "{" and tokens[index - 1].text == "cudaLaunchConfig_t":
            parts = split_arguments(tokens[after + 1 : closing(tokens, after)])
            for member, part in zip(_MEMBERS, parts, strict=False):
                if part[0].text == "." and len(part) > 3:
                    found[part[1].text] = part[3:]
                elif [token.text for token in part] != ["0"]:
                    found[member] = part
    return [found.get(member, ()) for member in _MEMBERS]
