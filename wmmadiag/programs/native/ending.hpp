// What the status that a program ends with can rest on: whether the host has been given anything that a kernel computed, and a call that
// it was refused last.
#pragma once

#include "runtime.hpp"

namespace wmmadiag {

void computed();                      // a kernel has run
void shown();                         // bytes are given to the host
void open_to_host();                  // memory lies where the host looks without a call
void was_refused(cudaError_t error);  // a call answers with an error that no kernel made
void went_on();                       // the program gives the device work, or asks for memory, and gets it

}  // namespace wmmadiag
