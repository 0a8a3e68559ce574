//===- Peak.h - Loops that run at a limit of the machine --------*- C++ -*-===//
//
// Measure what a core can do at best, so that a kernel's speed can be reported
// as a fraction of it: multiply loops that use only registers, and a streaming
// read. They are single-threaded; the caller times them and runs one per core.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_PEAK_H
#define MOE_KERNELS_PEAK_H

#include "kernels/Registry.h"

#include <cstdint>
#include <span>

namespace moek {

enum class Peak {
  Int8,  ///< u8 x s8 dot products: vpdpbusd, or vpmaddubsw and additions; with
         ///< AMX s8 x s8, tdpbssd.
  Float, ///< F32 fused multiply-adds.
  Bf16,  ///< Pairs of BF16 products added to F32: vdpbf16ps or tdpbf16ps.
};

/// Runs `iterations` rounds of the loop and returns the number of operations (a
/// multiply and an add count as two), or 0 if this CPU has no such instruction
/// in `isa` and its extensions. Needs hostSupports(isa).
double runPeakLoop(Isa isa, Peak kind, int64_t iterations);

/// Runs `iterations` rounds of the instructions that a panel's products of
/// `format` take in `isa`, with registers only, and returns the number of
/// operations. AVX2's products are added in 16 bits, and signed or wide codes
/// have to be widened to 32 bits after few of them; where products take no more
/// than Peak::Int8's, the loop is that one's.
double runProductLoop(Isa isa, Format format, int64_t iterations);

/// Reads all `bytes` once with the widest loads of `isa`. The returned checksum
/// keeps the compiler from removing the loads.
uint64_t readAll(Isa isa, std::span<const std::byte> bytes);

} // namespace moek

#endif // MOE_KERNELS_PEAK_H
