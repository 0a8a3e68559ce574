//===- Abi.h - Binary interface of the CUDA driver --------------*- C++ -*-===//
//
// The part of cuda.h that is used, written out so that building needs no CUDA.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_CUDA_ABI_H
#define MOE_TEST_SOFTGPU_CUDA_ABI_H

#include <cstddef>
#include <cstdint>

using CUdeviceptr = unsigned long long;
using CUdevice = int;
using CUcontext = void *;
using CUstream = void *;
using CUevent = void *;
using CUmodule = void *;
using CUfunction = void *;
using CUgraph = void *;
using CUgraphNode = void *;
using CUgraphExec = void *;
using CUhostFn = void (*)(void *);

struct CUlaunchAttribute {
  unsigned id;
  alignas(8) char value[64];
};
inline constexpr unsigned kProgrammaticSerialization = 6;
struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  CUstream hStream;
  const CUlaunchAttribute *attrs;
  unsigned numAttrs;
};

struct CUDA_KERNEL_NODE_PARAMS_v2 {
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  void **kernelParams;
  void **extra;
  void *kern;
  CUcontext ctx;
};

struct CUgraphExecUpdateResultInfo {
  int result; ///< Result: 0 success, 2 topology, 4 function, 3 node kind, ...
  CUgraphNode errorNode, errorFromNode;
};

extern "C" {
// EntryDevice.cpp
int cuInit(unsigned);
int cuDriverGetVersion(int *version);
int cuGetErrorName(int result, const char **name);
int cuGetErrorString(int result, const char **text);
int cuDeviceGetCount(int *count);
int cuDeviceGet(CUdevice *device, int ordinal);
int cuDeviceGetName(char *name, int length, CUdevice device);
int cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
int cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
int cuDeviceGetPCIBusId(char *address, int length, CUdevice device);
int cuDeviceGetUuid_v2(unsigned char *uuid, CUdevice device);
int cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer);
int cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
int cuDevicePrimaryCtxRelease_v2(CUdevice device);
int cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned);
int cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active);
int cuCtxPushCurrent_v2(CUcontext context);
int cuCtxPopCurrent_v2(CUcontext *context);
int cuCtxSetCurrent(CUcontext context);
int cuCtxGetCurrent(CUcontext *context);
int cuCtxGetDevice(CUdevice *device);
int cuCtxSynchronize();
// EntryMemory.cpp
int cuMemGetInfo_v2(size_t *free, size_t *total);
int cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
int cuMemFree_v2(CUdeviceptr address);
int cuMemHostAlloc(void **pointer, size_t bytes, unsigned);
int cuMemFreeHost(void *pointer);
int cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags);
int cuMemHostUnregister(void *pointer);
int cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *pointer, unsigned);
int cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
int cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
int cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes);
int cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                         CUstream stream);
int cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes,
                         CUstream stream);
int cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                         CUstream stream);
int cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                  CUstream stream);
int cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count);
int cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count);
int cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                    CUstream stream);
int cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count,
                     CUstream stream);
// EntryModule.cpp
int cuModuleLoadData(CUmodule *module, const void *image);
int cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                       int *options, void **values);
int cuModuleUnload(CUmodule module);
int cuModuleGetFunction(CUfunction *function, CUmodule module,
                        const char *name);
int cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module,
                         const char *name);
int cuFuncGetAttribute(int *value, int attribute, CUfunction handle);
int cuFuncSetAttribute(CUfunction handle, int attribute, int value);
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction handle,
                                                int threads,
                                                size_t dynamicShared);
int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
                                                         CUfunction handle,
                                                         int threads,
                                                         size_t dynamicShared,
                                                         unsigned);
int cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY,
                   unsigned gridZ, unsigned blockX, unsigned blockY,
                   unsigned blockZ, unsigned sharedBytes, CUstream stream,
                   void **parameters, void **extra);
int cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction function,
                     void **parameters, void **extra);
// EntryStream.cpp
int cuStreamCreate(CUstream *stream, unsigned flags);
int cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int);
int cuCtxGetStreamPriorityRange(int *least, int *greatest);
int cuStreamDestroy_v2(CUstream handle);
int cuStreamSynchronize(CUstream handle);
int cuStreamQuery(CUstream handle);
int cuStreamWaitEvent(CUstream handle, CUevent event, unsigned);
int cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value,
                           unsigned flags);
int cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address,
                            uint32_t value, unsigned flags);
int cuLaunchHostFunc(CUstream handle, CUhostFn function, void *data);
int cuEventCreate(CUevent *out, unsigned);
int cuEventDestroy_v2(CUevent handle);
int cuEventRecord(CUevent handle, CUstream on);
int cuEventQuery(CUevent handle);
int cuEventSynchronize(CUevent handle);
int cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to);
// EntryGraph.cpp
int cuStreamBeginCapture_v2(CUstream handle, int mode);
int cuStreamEndCapture(CUstream handle, CUgraph *out);
int cuStreamIsCapturing(CUstream handle, int *status);
int cuGraphDestroy(CUgraph handle);
int cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *count);
int cuGraphNodeGetType(CUgraphNode handle, int *type);
int cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph handle,
                                unsigned long long);
int cuGraphExecDestroy(CUgraphExec handle);
int cuGraphUpload(CUgraphExec handle, CUstream);
int cuGraphLaunch(CUgraphExec handle, CUstream on);
int cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph from,
                         CUgraphExecUpdateResultInfo *info);
int cuGraphExecKernelNodeSetParams_v2(CUgraphExec handle, CUgraphNode node,
                                      const CUDA_KERNEL_NODE_PARAMS_v2 *p);
}

#endif // MOE_TEST_SOFTGPU_CUDA_ABI_H
