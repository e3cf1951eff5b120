// torch's atomics, which device code alone calls: named here, and never run on the host.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

template <class T>
T gpuAtomicAdd(T* address, T value);
template <class T>
void gpuAtomicAddNoReturn(T* address, T value);
template <class T>
T gpuAtomicMul(T* address, T value);
template <class T>
T gpuAtomicMax(T* address, T value);
template <class T>
T gpuAtomicMin(T* address, T value);
