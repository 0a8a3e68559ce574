//===- HostIsa.cpp - What this CPU and operating system can run -----------===//

#include "kernels/Registry.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace moek {

#if defined(__x86_64__)
namespace {
struct CpuId {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuId cpuid(uint32_t leaf) {
  CpuId r;
  __get_cpuid_count(leaf, 0, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

/// The register states that the operating system saves (XCR0). A CPU may have
/// AVX-512 while the system keeps no room for its registers.
uint64_t savedStates() {
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
}

constexpr bool hasAll(uint64_t value, uint64_t bits) {
  return (value & bits) == bits;
}
} // namespace

bool hostSupports(Isa isa) {
  if (isa == Isa::Ref)
    return true;
  if (isa == Isa::Cuda)
    return false;
  CpuId basic = cpuid(1), extended = cpuid(7);
  // FMA, OSXSAVE, AVX, F16C.
  if (!hasAll(basic.ecx, 1u << 12 | 1u << 27 | 1u << 28 | 1u << 29))
    return false;
  // AVX2; the system saves XMM and YMM registers.
  if (!hasAll(extended.ebx, 1u << 5) || !hasAll(savedStates(), 0x6))
    return false;
  if (isa == Isa::Avx2)
    return true;
  // F, DQ, BW, VL in EBX, VNNI in ECX; mask registers and both ZMM halves.
  return hasAll(extended.ebx, 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31) &&
         hasAll(extended.ecx, 1u << 11) && hasAll(savedStates(), 0xe6);
}
#else
bool hostSupports(Isa isa) { return isa == Isa::Ref; }
#endif

} // namespace moek
