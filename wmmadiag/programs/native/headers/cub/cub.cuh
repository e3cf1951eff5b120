// CUB in kernels: their bodies are the device's. What host code calls of it (cub::DeviceReduce, …) is not offered.
#pragma once
namespace cub {}
