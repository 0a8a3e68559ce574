//===- HostIsa.cpp - What this CPU and operating system can run -----------===//

#include "kernels/HostAmx.h"
#include "kernels/Registry.h"

#if defined(__x86_64__)
#include <cerrno>
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace moek {

#if defined(__x86_64__)
namespace {
struct CpuId {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuId cpuid(uint32_t leaf, uint32_t part = 0) {
  CpuId r;
  __get_cpuid_count(leaf, part, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

/// Returns the register states that the operating system saves (XCR0). A CPU
/// may have AVX-512 while the system does not save its registers.
uint64_t savedStates() {
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
}

constexpr bool hasAll(uint64_t value, uint64_t bits) {
  return (value & bits) == bits;
}

/// Asks for permission to use the tile registers, once for all threads of the
/// process: without it their first use raises SIGILL. Returns errno, or 0.
int requestTileData() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0 ? 0
                                                                       : errno;
#else
  return ENOSYS;
#endif
}

bool supportsVectors(Isa isa) {
  CpuId basic = cpuid(1), extended = cpuid(7);
  // Bits of FMA, OSXSAVE, AVX and F16C.
  if (!hasAll(basic.ecx, 1u << 12 | 1u << 27 | 1u << 28 | 1u << 29))
    return false;
  // AVX2, and the system saves the XMM and YMM registers.
  if (!hasAll(extended.ebx, 1u << 5) || !hasAll(savedStates(), 0x6))
    return false;
  if (isa == Isa::Avx2)
    return true;
  // AVX-512 F, DQ, BW, VL in EBX and VNNI in ECX; the system saves the mask
  // registers and both halves of the ZMM registers.
  return hasAll(extended.ebx, 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31) &&
         hasAll(extended.ecx, 1u << 11) && hasAll(savedStates(), 0xe6);
}
} // namespace

bool hostHasBf16Dot() {
  return hostSupports(Isa::Avx512) && hasAll(cpuid(7, 1).eax, 1u << 5);
}

AmxSupport hostAmxSupport() {
  AmxSupport facts;
  // BF16, TILE and INT8 in EDX; XCR0 bits of tile configuration and tile data.
  facts.cpu = hasAll(cpuid(7).edx, 1u << 22 | 1u << 24 | 1u << 25);
  facts.saved = supportsVectors(Isa::Avx2) && hasAll(savedStates(), 3u << 17);
  if (facts.cpu && facts.saved)
    facts.permissionError = requestTileData();
  return facts;
}
#else
namespace {
bool supportsVectors(Isa) { return false; }
} // namespace
bool hostHasBf16Dot() { return false; }
AmxSupport hostAmxSupport() { return {}; }
#endif

std::string_view amxRefusalFor(const AmxSupport &facts) {
  if (!facts.cpu)
    return kCpuLacksIsa;
  if (!facts.saved)
    return "whose tile registers this operating system does not save (Linux "
           "does from 5.16 on)";
  if (facts.permissionError != 0)
    return "whose tile registers this operating system forbids to this "
           "process (arch_prctl ARCH_REQ_XCOMP_PERM failed)";
  return {};
}

std::string_view hostRefusal(Isa isa) {
  if (isa == Isa::Ref)
    return {};
  if (isa == Isa::Cuda || !supportsVectors(isa))
    return kCpuLacksIsa;
  return isa == Isa::Amx ? amxRefusal() : std::string_view();
}

} // namespace moek
