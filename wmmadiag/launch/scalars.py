"""Scalar arguments as the bytes that a kernel's parameter wants."""

from __future__ import annotations

import numpy as np

from wmmadiag.errors import ConfigurationError
from wmmadiag.launch import Argument
from wmmadiag.ptx.ir import PtxParameter


def scalar_bytes(argument: Argument, parameter: PtxParameter, name: str) -> bytes:
    """The bytes of a scalar argument as the kernel's parameter wants them.

    Raises:
        ConfigurationError: a Python number does not fit the parameter's type.
    """
    if isinstance(argument, bytes):
        return argument
    if isinstance(argument, np.generic):
        return bytes(argument.tobytes())
    if isinstance(argument, (int, float)):
        numpy_type = {"f32": np.float32, "f64": np.float64, "f16": np.float16}.get(parameter.type)
        if isinstance(argument, float) and numpy_type is None:
            raise ConfigurationError(
                f"{name}: {argument!r} was given for an integer parameter (.{parameter.type})", hint="pass an int"
            )
        if numpy_type is not None:
            try:
                with np.errstate(over="raise"):
                    return np.array(argument, numpy_type).tobytes()
            except (OverflowError, FloatingPointError):
                raise ConfigurationError(
                    f"{name}: the number is too large for .{parameter.type}",
                    hint="give a smaller number, or let the kernel take a wider type",
                ) from None
        bits = 8 * parameter.size
        value = int(argument)
        if not -(1 << (bits - 1)) <= value < 1 << bits:
            raise ConfigurationError(
                f"{name}: {value} does not fit {bits} bits",
                hint="give a smaller number, or let the kernel take a wider type",
            )
        return (value % (1 << bits)).to_bytes(parameter.size, "little")
    raise ConfigurationError(
        f"{name}: cannot pass a {type(argument).__name__}", hint="pass a NumPy array, a number, or a struct's bytes"
    )
