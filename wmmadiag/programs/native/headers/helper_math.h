// One text for both halves.
#pragma once
#include "../../../compile/stubs/helper_math.h"
