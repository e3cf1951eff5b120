// cuRAND in kernels, as device code reads it: states have one size on both sides.
#pragma once
#include "../../../compile/stubs/curand_kernel.h"
