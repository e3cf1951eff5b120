"""Arrays of other libraries as NumPy arrays on the host: torch, CuPy, JAX, whatever speaks `__array__` or DLPack.

None of these libraries is imported; what an object offers decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wmmadiag.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
