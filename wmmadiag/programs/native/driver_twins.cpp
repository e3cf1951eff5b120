// Functions of the driver that do what one of the runtime does, with the same arguments: handles and addresses are one, errors and
// attributes are numbered alike (cuda.h, driver_types.h).
#include "driver.hpp"

#define TWIN(DRIVER, RUNTIME) decltype(DRIVER) DRIVER __attribute__((alias(#RUNTIME)));

// clang-format off: it would have each on a line of its own
extern "C" {
TWIN(cuCtxGetLimit, cudaDeviceGetLimit) TWIN(cuCtxGetStreamPriorityRange, cudaDeviceGetStreamPriorityRange) TWIN(cuCtxSetLimit, cudaDeviceSetLimit)
TWIN(cuCtxSynchronize, cudaDeviceSynchronize) TWIN(cuDeviceGetCount, cudaGetDeviceCount)
TWIN(cuDeviceGetDefaultMemPool, cudaDeviceGetDefaultMemPool) TWIN(cuDeviceGetMemPool, cudaDeviceGetMemPool)
TWIN(cuDeviceGetPCIBusId, cudaDeviceGetPCIBusId) TWIN(cuDeviceSetMemPool, cudaDeviceSetMemPool) TWIN(cuDriverGetVersion, cudaDriverGetVersion)
TWIN(cuEventCreate, cudaEventCreateWithFlags) TWIN(cuEventDestroy, cudaEventDestroy) TWIN(cuEventElapsedTime, cudaEventElapsedTime)
TWIN(cuEventQuery, cudaEventQuery) TWIN(cuEventRecord, cudaEventRecord) TWIN(cuEventRecordWithFlags, cudaEventRecordWithFlags)
TWIN(cuEventSynchronize, cudaEventSynchronize) TWIN(cuGraphDestroy, cudaGraphDestroy) TWIN(cuGraphExecDestroy, cudaGraphExecDestroy)
TWIN(cuGraphInstantiateWithFlags, cudaGraphInstantiate) TWIN(cuGraphLaunch, cudaGraphLaunch) TWIN(cuLaunchHostFunc, cudaLaunchHostFunc)
TWIN(cuMemAllocAsync, cudaMallocAsync) TWIN(cuMemAllocFromPoolAsync, cudaMallocFromPoolAsync) TWIN(cuMemAllocHost, cudaMallocHost)
TWIN(cuMemFreeAsync, cudaFreeAsync) TWIN(cuMemFreeHost, cudaFreeHost) TWIN(cuMemFree, cudaFree) TWIN(cuMemGetInfo, cudaMemGetInfo)
TWIN(cuMemHostAlloc, cudaHostAlloc) TWIN(cuMemHostGetDevicePointer, cudaHostGetDevicePointer) TWIN(cuMemHostGetFlags, cudaHostGetFlags)
TWIN(cuMemHostRegister, cudaHostRegister) TWIN(cuMemHostUnregister, cudaHostUnregister) TWIN(cuMemPoolDestroy, cudaMemPoolDestroy)
TWIN(cuMemPoolGetAttribute, cudaMemPoolGetAttribute) TWIN(cuMemPoolSetAttribute, cudaMemPoolSetAttribute) TWIN(cuMemPoolTrimTo, cudaMemPoolTrimTo)
TWIN(cuMemRangeGetAttribute, cudaMemRangeGetAttribute) TWIN(cuStreamAddCallback, cudaStreamAddCallback)
TWIN(cuStreamAttachMemAsync, cudaStreamAttachMemAsync) TWIN(cuStreamBeginCapture, cudaStreamBeginCapture)
TWIN(cuStreamCreate, cudaStreamCreateWithFlags) TWIN(cuStreamCreateWithPriority, cudaStreamCreateWithPriority)
TWIN(cuStreamDestroy, cudaStreamDestroy) TWIN(cuStreamEndCapture, cudaStreamEndCapture) TWIN(cuStreamGetFlags, cudaStreamGetFlags)
TWIN(cuStreamGetId, cudaStreamGetId) TWIN(cuStreamGetPriority, cudaStreamGetPriority) TWIN(cuStreamQuery, cudaStreamQuery)
TWIN(cuDeviceGetByPCIBusId, cudaDeviceGetByPCIBusId) TWIN(cuDeviceGetP2PAttribute, cudaDeviceGetP2PAttribute) TWIN(cuCtxResetPersistingL2Cache, cudaCtxResetPersistingL2Cache)
TWIN(cuMemRangeGetAttributes, cudaMemRangeGetAttributes) TWIN(cuMemPoolSetAccess, cudaMemPoolSetAccess) TWIN(cuMemPoolGetAccess, cudaMemPoolGetAccess)
TWIN(cuStreamSetAttribute, cudaStreamSetAttribute) TWIN(cuStreamGetAttribute, cudaStreamGetAttribute)
TWIN(cuStreamCopyAttributes, cudaStreamCopyAttributes) TWIN(cuStreamGetDevice, cudaStreamGetDevice)
TWIN(cuStreamSynchronize, cudaStreamSynchronize) TWIN(cuStreamWaitEvent, cudaStreamWaitEvent)
}  // extern "C"
// clang-format on

#undef TWIN
