//===- Machine.cpp - Whether this CPU can run the software GPU ------------===//
//
// Compiled without the vector instructions that it asks about.
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/SoftGpu.h"

namespace softgpu {

bool isSoftGpuSupported() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
#else
  return true;
#endif
}

} // namespace softgpu
