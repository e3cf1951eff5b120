"""`assert_kernel_close`: a kernel's output, whoever ran it, against a reference and its rounding bound."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmmadiag.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wmmadiag.compare.observation import Observation

# Arrays of other libraries as NumPy arrays on the host: torch, CuPy, JAX, whatever speaks `__array__` or DLPack.
#
# None of these libraries is imported; what an object offers decides.


_NO_NUMPY_TYPE = {
    "torch.bfloat16": ("int16", "bfloat16"),
    "torch.float8_e4m3fn": ("uint8", "float8_e4m3fn"),
    "torch.float8_e5m2": ("uint8", "float8_e5m2"),
}
"""torch type → the type of the same width through which its bits travel, the ml_dtypes type."""
# DLPack's DLDeviceType: kDLCPU, kDLCUDAHost, kDLCUDAManaged.
_HOST_DEVICES = (1, 3, 13)


def is_array(value: object) -> bool:
    """Whether an object holds numbers, rather than being something to call."""
    return any(hasattr(value, name) for name in ("__array__", "__dlpack__", "__cuda_array_interface__"))


def host_array(value: Any, name: str = "the array") -> NDArray[Any]:
    """The numbers of an array of any library, on the host; a view of its memory where that is possible.

    bfloat16 and 8-bit floats of torch become ml_dtypes' types, bit for bit.

    Raises:
        ConfigurationError: it is no array, or cannot be brought to the host.
    """
    import numpy as np

    if isinstance(value, np.ndarray):
        return value
    kind = type(value)
    title = f"{name} ({kind.__module__.split('.')[0]} {kind.__name__})"
    try:
        if kind.__module__.split(".")[0] == "torch" and hasattr(value, "detach"):
            return _from_torch(value)
        if hasattr(value, "__cuda_array_interface__") and hasattr(value, "get"):
            return np.asarray(value.get())  # CuPy: copies on the current stream, and waits
        if hasattr(value, "__array__"):
            return np.asarray(value)
        if hasattr(value, "__dlpack__"):
            device = value.__dlpack_device__()[0] if hasattr(value, "__dlpack_device__") else 1
            if int(device) not in _HOST_DEVICES:
                raise ConfigurationError(f"{title} is in a device's memory", hint="copy it to the host first")
            return np.from_dlpack(value)
        if isinstance(value, list | tuple | int | float | np.generic):
            return np.asarray(value)
    except ConfigurationError:
        raise
    except Exception as error:  # whatever a foreign library raises
        raise ConfigurationError(
            f"{title} cannot be read as an array: {error}",
            hint="give NumPy, torch, CuPy or JAX arrays, or anything with __array__ or DLPack",
        ) from None
    raise ConfigurationError(
        f"{title} is no array", hint="arrays of NumPy, torch, CuPy, JAX, or with __array__ or DLPack can be compared"
    )


def _from_torch(tensor: Any) -> NDArray[Any]:
    import ml_dtypes
    import numpy as np

    dtype = str(tensor.dtype)
    host = tensor.detach().cpu()  # waits for the kernels before it on the current stream
    if dtype not in _NO_NUMPY_TYPE:
        return np.asarray(host.numpy())
    carrier, target = _NO_NUMPY_TYPE[dtype]
    # A view as another type of the same width takes any strides.
    same_width = {"int16": "torch.int16", "uint8": "torch.uint8"}[carrier]
    bits = host.view(_torch_type(tensor, same_width)).numpy()
    return np.asarray(bits).view(getattr(ml_dtypes, target))


def _torch_type(tensor: Any, name: str) -> Any:
    import sys

    return getattr(sys.modules[type(tensor).__module__.split(".")[0]], name.split(".")[1])


class KernelMismatch(AssertionError):
    """An output is not what it should be.

    Attributes:
        observation: how many elements are wrong, which, by how much; None where only an input was changed.
    """

    def __init__(self, text: str, observation: Observation | None, details: _Details | None) -> None:
        super().__init__(text)
        self.observation = observation
        self._details = details

    def wmmadiag_write(self, folder: Path, test: str) -> str:
        """Write a report with maps of the error; returns what to tell, for the pytest plugin."""
        if self._details is None or self.observation is None:
            return "there is no report: nothing to show as a map"
        from wmmadiag.testing.failure_files import write_reports

        try:
            return f"report: {write_reports(self._details.run(self.observation, test), folder, test)}"
        except ConfigurationError as error:
            return f"no report was written: {error}"


def assert_kernel_close(
    observed: Any,
    expected: Any = None,
    *,
    operation: str = "",
    out: Any = None,
    bound: Any = None,
    atol: float = 0.0,
    rtol: float = 0.0,
    dtype: str = "",
    name: str = "output",
    **given: Any,
) -> Observation:
    """Assert that a kernel's output is right, element by element.

    Args:
        observed: the output: an array of NumPy, torch, CuPy, JAX, or with `__array__` or DLPack. Or a callable (a
            Triton kernel's wrapper, a torch extension, …): it is called with the inputs in the order in which they
            are given here, with those parameters of the operation that it takes by name (causal=…), and what it
            returns is compared, or `out`, if that is given. It must leave its inputs alone.
        expected: an array of the same shape, or a `wmmadiag.Reference`; not with `operation`.
        operation: "attention", "qkt", "pv", "softmax" or "gemm": what should have been computed of the inputs that
            are given by role (q=…, k=…, v=…), with its parameters (causal=True, …), as `wmmadiag.reference` takes
            them. The reference is float64, and the bound the largest error that rounding can explain.
        out: the array into which a callable writes.
        bound: with an array `expected`: the largest difference allowed, a number or an array.
        atol, rtol: instead of `bound`: atol + rtol·|expected|. With none of them the outputs must be equal.
        dtype: with `operation`: in which type the kernel rounds its output; empty for the output's own.
        name: of the output, for the message.
        given: inputs by role, in the type in which the kernel reads them; parameters of the operation.

    Returns:
        What the comparison saw.

    Raises:
        KernelMismatch: elements are wrong, or a callable changed an input.
        ConfigurationError: arguments that make no sense.

    >>> import numpy as np
    >>> from wmmadiag.testing import assert_kernel_close
    >>> a, b = np.random.default_rng(0).standard_normal((2, 16, 16)).astype(np.float32)
    >>> assert_kernel_close(lambda a, b: a @ b, operation="gemm", a=a, b=b).wrong
    0
    """
    __tracebackhide__ = True
    import numpy as np

    from wmmadiag.api import judging
    from wmmadiag.report.terminal import observation_lines

    reference = operation or isinstance(expected, judging.Reference)
    if (expected is None) == (not operation):
        raise ConfigurationError(
            "give either what is expected or the operation", hint="assert_kernel_close(out, expected), or operation=…"
        )
    if bound is not None and (atol or rtol):
        raise ConfigurationError("give either bound or atol and rtol", hint="leave one of them out")
    if reference and (bound is not None or atol or rtol):
        raise ConfigurationError("a reference brings its own bound", hint="leave out bound, atol and rtol")
    parameters, foreign = _split(operation, given)
    inputs = {role: host_array(value, role) for role, value in foreign.items()}
    changed = []
    if callable(observed) and not is_array(observed):
        # Copies, since what is called may write to its inputs.
        inputs = {role: np.array(value) for role, value in inputs.items()}
        observed = _called(observed, list(foreign.values()), out, parameters)
        changed = [
            role
            for role, value in foreign.items()
            if value is not out and host_array(value).tobytes() != inputs[role].tobytes()
        ]
    elif out is not None:
        raise ConfigurationError(
            "out is for callables: an output that is there is compared as it is", hint="leave out= away"
        )
    values = host_array(observed, name)
    if operation:
        element = dtype or judging.element_of(values).name
        expected = judging.reference(operation, dtype=element, **inputs, **parameters)
    elif not reference:
        expected = host_array(expected, "expected")
        bound = atol + rtol * np.abs(np.asarray(expected, np.float64)) if bound is None else bound
    limit = 0.0 if bound is None else host_array(bound, "bound")
    seen = judging.compare_arrays(values, expected, limit, name=name)
    told = [f"the kernel changed its input {role}" for role in changed]
    if not seen.passed:
        lines = [f"{name} is wrong", *told, *observation_lines(seen)]
        raise KernelMismatch("\n".join(lines), seen, _Details(operation, values, expected, limit))
    if changed:
        raise KernelMismatch("\n".join(told), None, None)
    return seen


def _split(operation: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters of the operation, and inputs; without an operation all are inputs of a callable."""
    from wmmadiag.ops import OPERATIONS

    known = OPERATIONS[operation].parameters if operation in OPERATIONS else {}
    parameters = {name: value for name, value in given.items() if name in known}
    return parameters, {name: value for name, value in given.items() if name not in known}


def _called(kernel: Any, inputs: list[Any], out: Any, parameters: Mapping[str, Any]) -> Any:
    """What a black box computed, with those of the operation's parameters that it takes by name."""
    __tracebackhide__ = True
    result = kernel(*inputs, **_taken(kernel, len(inputs), parameters))
    if out is not None:
        return out
    if result is None or inspect.isawaitable(result):
        raise ConfigurationError("the callable returned nothing to compare", hint="name the array it writes to: out=…")
    if isinstance(result, tuple | list) and len(result) != 1:
        raise ConfigurationError(
            f"the callable returned {len(result)} things; one output is compared at a time",
            hint="pass lambda *inputs: kernel(*inputs)[0]",
        )
    return result[0] if isinstance(result, tuple | list) else result


def _taken(kernel: Any, inputs: int, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a callable names behind its inputs, or takes under any name."""
    try:
        names = list(inspect.signature(kernel).parameters.values())
    except (TypeError, ValueError):  # a built-in function does not say
        return {}
    positional = [one for one in names if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    named = {one.name for one in names if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    named -= {one.name for one in positional[:inputs]}
    anything = any(one.kind is one.VAR_KEYWORD for one in names)
    return {name: value for name, value in parameters.items() if anything or name in named}


class _Details:
    """What a report of a mismatch is made of."""

    def __init__(self, operation: str, values: Any, wanted: Any, limit: Any) -> None:
        self.operation, self.values, self.wanted, self.limit = operation, values, wanted, limit

    def run(self, seen: Observation, test: str) -> Run:
        """The comparison as a run of one case, with maps of the error."""
        import numpy as np

        from wmmadiag.api.judging import Reference, element_of
        from wmmadiag.compare.comparison import classify
        from wmmadiag.ops.parts.rounding import Judgement
        from wmmadiag.recording import run_of
        from wmmadiag.recording.error_maps import Room, error_codes, packed
        from wmmadiag.results.model import CaseResult, KernelReport
        from wmmadiag.results.run import KernelRun

        reference = isinstance(self.wanted, Reference)
        expected = self.wanted.value if reference else np.asarray(self.wanted, np.float64)
        limit = np.array(np.broadcast_to(self.wanted.bound if reference else self.limit, expected.shape), np.float64)
        judgement = Judgement(limit, self.wanted.nonfinite_ok if reference else None)
        classes = classify(self.values, expected, judgement, element=element_of(self.values))
        codes = error_codes(classes, judgement.bound)
        made = packed("test", test, seen.output, "", classes.values, expected, codes, classes.wrong, Room())
        case = CaseResult("test", test, "failed", {}, observations=(seen,))
        source = test.split("::")[0]
        report = KernelReport(test, source, source, self.operation or "comparison", "", "black box", (), (case,))
        return run_of([KernelRun(report, maps=(made,))])


if TYPE_CHECKING:
    from wmmadiag.results.run import Run
