"""Run compiled PTX on a real GPU: the same launch as on the emulator, through the CUDA driver API.

Importing this package loads nothing of CUDA. A launch on NumPy arrays runs in a process of its own (see `workers`),
because a kernel that faults ends its whole process' use of the GPU.
"""

from wmmadiag.gpu.assemble import Assembly, assemble
from wmmadiag.gpu.devices import Device, device, devices
from wmmadiag.gpu.kernel import GpuKernel, GpuOptions, load

__all__ = ["Assembly", "Device", "GpuKernel", "GpuOptions", "assemble", "device", "devices", "load"]
