//===- Peak.h - Loops that run at a limit of the machine --------*- C++ -*-===//
//
// What a core can do at best, to report kernels as a fraction of it: register-
// only multiply loops and a streaming read. Single-threaded; the caller times
// them and runs one per core.
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

/// Runs `iterations` rounds of the loop and returns the operations done, a
/// multiply and an add counted as two; 0 if this CPU has no such instruction
/// among those of `isa` and its extensions. Needs hostSupports(isa).
double runPeakLoop(Isa isa, Peak kind, int64_t iterations);

/// Reads all of `bytes` once with the widest loads of `isa`; the returned
/// checksum keeps the loads alive.
uint64_t readAll(Isa isa, std::span<const std::byte> bytes);

} // namespace moek

#endif // MOE_KERNELS_PEAK_H
