"""Arrays of other libraries as arguments: on the host as NumPy views, on a GPU by their address, never copied.

Sources: CUDA Array Interface, version 3; DLPack 1.0 (`dlpack.h`), "DLTensor".
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wmmadiag.errors import ConfigurationError
from wmmadiag.gpu.devices import api, call

_CPU_DEVICES = frozenset({1, 3, 11})  # kDLCPU, kDLCUDAHost, kDLROCMHost
_CUDA_DEVICES = frozenset({2, 13})  # kDLCUDA, kDLCUDAManaged


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """Memory on a GPU."""

    address: int  # of the first element
    nbytes: int  # size
    device: int  # number of the GPU
    owner: Any = field(repr=False, default=None)  # the array itself, kept alive


def adopt(value: Any, name: str) -> Any:
    """An argument as a launch takes it: NumPy array or scalar unchanged, anything else by the protocol that it speaks.

    Returns:
        A NumPy view of host memory, a `DeviceArray`, or the value itself if it is no array.

    Raises:
        ConfigurationError: an array that is not contiguous, or lives where no kernel can reach it.
    """
    if isinstance(value, (np.ndarray, np.generic, bytes, bool, int, float, DeviceArray)):
        return value
    if hasattr(value, "data_ptr") and hasattr(value, "is_cuda"):
        return _torch(value, name)
    if hasattr(value, "__cuda_array_interface__"):
        return _cuda_interface(value, name)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _dlpack(value, name)
    return value


def _torch(tensor: Any, name: str) -> Any:
    """A torch tensor; bfloat16 and others that NumPy lacks are seen as raw integers."""
    if not tensor.is_contiguous():
        raise _strided(name, "tensor.contiguous()")
    tensor = tensor.detach()
    if tensor.is_cuda:
        size = tensor.numel() * tensor.element_size()
        return DeviceArray(int(tensor.data_ptr()), int(size), int(tensor.device.index or 0), tensor)
    if tensor.device.type != "cpu":
        raise ConfigurationError(
            f"{name} lives on {tensor.device}, where no CUDA kernel can reach it", hint="move it: tensor.cuda()"
        )
    try:
        return tensor.numpy()
    except TypeError:
        count = tensor.numel() * tensor.element_size()
        memory = (ctypes.c_uint8 * count).from_address(tensor.data_ptr())
        memory.owner = tensor  # the view keeps `memory` alive, and that the tensor
        return np.ctypeslib.as_array(memory).view(f"u{tensor.element_size()}").reshape(tuple(tensor.shape))


def _cuda_interface(value: Any, name: str) -> DeviceArray:
    found = value.__cuda_array_interface__
    dtype = np.dtype(found["typestr"])
    shape = tuple(found["shape"])
    strides = found.get("strides")
    if strides is not None and tuple(strides) != _dense(shape, dtype.itemsize):
        raise _strided(name, "cupy.ascontiguousarray(…)")
    address = int(found["data"][0])
    return DeviceArray(address, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize, _device_of(value, address), value)


def _device_of(value: Any, address: int) -> int:
    device = getattr(getattr(value, "device", None), "id", None)
    if device is not None:
        return int(device)

    driver = api()
    ordinal = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return int(call(driver.cuPointerGetAttribute(ordinal, address), "ask where an array lives"))


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def _dlpack(value: Any, name: str) -> Any:
    kind, number = (int(part) for part in value.__dlpack_device__())
    if kind in _CPU_DEVICES:
        return np.from_dlpack(value)
    if kind not in _CUDA_DEVICES:
        raise ConfigurationError(
            f"{name} lives on a device (DLPack type {kind}) that no CUDA kernel can reach",
            hint="move it to a GPU, or to the host",
        )
    capsule = value.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = _DLTensor.from_address(pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    if tensor.strides and tuple(tensor.strides[axis] for axis in range(tensor.ndim)) != _dense(shape, 1):
        raise _strided(name, "a contiguous copy")
    size = int(np.prod(shape, dtype=np.int64)) * tensor.bits * tensor.lanes // 8
    # The capsule, not consumed, gives the memory back when it goes.
    return DeviceArray(int(tensor.data or 0) + int(tensor.byte_offset), size, number, (value, capsule))


def _dense(shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    strides = []
    for extent in reversed(shape):
        strides.append(item)
        item *= extent
    return tuple(reversed(strides))


def _strided(name: str, hint: str) -> ConfigurationError:
    return ConfigurationError(f"{name} is no C-contiguous array", hint=f"pass {hint}, or the padded storage itself")
