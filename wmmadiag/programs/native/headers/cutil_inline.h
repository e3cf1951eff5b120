// The same for programs of later SDKs.
#pragma once
#include "cutil.h"
