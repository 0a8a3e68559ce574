//===- HostIsa.cpp - What this CPU and operating system can run -----------===//

#include "kernels/HostAmx.h"
#include "kernels/Registry.h"

#include <algorithm>
#include <initializer_list>

#if defined(__x86_64__)
#include <cerrno>
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace moek {

/// Whether this CPU has the set of a row of Isas.def, by the row's machine.
#define MOE_HAS_Any(...) true
#define MOE_HAS_Gpu(...) false
#if defined(__x86_64__)
#define MOE_HAS_X86(states, ...) hasBits(states, {__VA_ARGS__})
#define MOE_HAS_Arm(...) false
#else
#define MOE_HAS_X86(...) false
#define MOE_HAS_Arm(states, ...) hasBits({__VA_ARGS__})
#endif

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

enum class Output : uint8_t { Eax, Ebx, Ecx, Edx };

/// A bit that cpuid reports.
struct CpuBit {
  uint32_t leaf, part;
  Output output;
  int bit;

  bool isSet() const {
    CpuId r = cpuid(leaf, part);
    uint32_t outputs[] = {r.eax, r.ebx, r.ecx, r.edx};
    return outputs[size_t(output)] >> bit & 1;
  }
};

/// The names of bits in Isas.def.
namespace bits {
constexpr CpuBit Fma{1, 0, Output::Ecx, 12}, OsXsave{1, 0, Output::Ecx, 27},
    Avx{1, 0, Output::Ecx, 28}, F16c{1, 0, Output::Ecx, 29},
    Avx2{7, 0, Output::Ebx, 5}, Avx512F{7, 0, Output::Ebx, 16},
    Avx512Dq{7, 0, Output::Ebx, 17}, Avx512Bw{7, 0, Output::Ebx, 30},
    Avx512Vl{7, 0, Output::Ebx, 31}, Avx512Vnni{7, 0, Output::Ecx, 11},
    AvxVnni{7, 1, Output::Eax, 4}, Avx512Bf16{7, 1, Output::Eax, 5};
} // namespace bits

/// The conditions are checked in this order: xgetbv is an instruction of CPUs
/// with OsXsave.
bool hasBits(uint64_t states, std::initializer_list<CpuBit> all) {
  return std::ranges::all_of(all, &CpuBit::isSet) &&
         hasAll(savedStates(), states);
}
} // namespace
#else
namespace {
/// A bit of getauxval(word).
struct CpuBit {
  unsigned long word;
  int bit;
};

/// The names of bits in Isas.def.
namespace bits {
constexpr unsigned long kHwcap = 16, kHwcap2 = 26;
constexpr CpuBit Asimd{kHwcap, 1}, AsimdDp{kHwcap, 20}, I8mm{kHwcap2, 13};
} // namespace bits

[[maybe_unused]] bool hasBits(std::initializer_list<CpuBit> all) {
#if defined(__aarch64__) && defined(__linux__)
  return std::ranges::all_of(all, [](const CpuBit &bit) {
    return ::getauxval(bit.word) >> bit.bit & 1;
  });
#else
  return false;
#endif
}
} // namespace
#endif

namespace {
/// Whether CPU and operating system have what a row of Isas.def names and what
/// its base needs.
bool supportsVectors(Isa isa) {
  Isa base = isaTable()[size_t(isa)].base;
  if (base != isa && !supportsVectors(base))
    return false;
  using namespace bits;
  switch (isa) {
#define MOE_INSTRUCTION_SET(id, name, base, bytes, panels, machine, ...)       \
  case Isa::id:                                                                \
    return MOE_HAS_##machine(__VA_ARGS__);
#include "kernels/Isas.def"
  }
  return false;
}
} // namespace

#if defined(__x86_64__)
bool hostHasBf16Dot() {
  return hostSupports(Isa::Avx512) && bits::Avx512Bf16.isSet();
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

namespace {
/// Set once, before threads start.
std::optional<Isa> mostIsa;
} // namespace

void limitHostIsa(std::optional<Isa> most) { mostIsa = most; }
std::optional<Isa> hostIsaLimit() { return mostIsa; }

std::string_view limitRefusal(Isa isa) {
  return mostIsa && !runsOn(isa, *mostIsa) ? "which --isa rules out"
                                           : std::string_view();
}

std::string_view vectorRefusal(Isa isa) {
  if (std::string_view refusal = limitRefusal(isa); !refusal.empty())
    return refusal;
  return supportsVectors(isa) ? std::string_view() : kCpuLacksIsa;
}

std::string_view hostRefusal(Isa isa) {
  std::string_view refusal = vectorRefusal(isa);
  return refusal.empty() && isa == Isa::Amx ? amxRefusal() : refusal;
}

} // namespace moek
