// What the status that a program ends with can rest on.
#include "ending.hpp"

#include <cuda_runtime_api.h>

#include <string>

namespace wmmadiag {

namespace {

bool ran = false, seen = false, open = false;
std::string last_refused;

}  // namespace

void computed() { ran = true; }
void shown() { seen = seen || ran; }
void open_to_host() { open = true; }
void was_refused(cudaError_t error) { last_refused = cudaGetErrorString(error); }
void went_on() { last_refused.clear(); }

}  // namespace wmmadiag

extern "C" {

// Whether the host may have looked at what a kernel computed.
int wmmadiag_shown() { return wmmadiag::seen || (wmmadiag::open && wmmadiag::ran) ? 1 : 0; }
// The error of a call behind which nothing was done any more; "" if there is none.
const char* wmmadiag_refused() { return wmmadiag::last_refused.c_str(); }

}  // extern "C"
