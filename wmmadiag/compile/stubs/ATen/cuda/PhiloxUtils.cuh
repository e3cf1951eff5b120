#include <ATen/cuda/detail/UnpackRaw.cuh>
