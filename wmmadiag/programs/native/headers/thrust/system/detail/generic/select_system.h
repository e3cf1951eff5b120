// What each algorithm includes: it runs on the host here, so the memory of cudaMalloc that a program may give it is open to the host.
#pragma once
#include_next <thrust/system/detail/generic/select_system.h>

#ifndef __CUDACC_RTC__
extern "C" void wmmadiag_open_memory();

THRUST_NAMESPACE_BEGIN
namespace system::cpp::detail {
inline const bool opened = (::wmmadiag_open_memory(), true);
}
THRUST_NAMESPACE_END
#endif
