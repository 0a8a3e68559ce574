//===- Registry.h - The kernel table ----------------------------*- C++ -*-===//
//
// Kernels.def and Gemms.def as data: what compiler and runtime know about every
// kernel. The tables with names and ranges (moe_kernel_table) have no code
// behind them and are what the compiler links; the functions are in moe_kernels.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_REGISTRY_H
#define MOE_KERNELS_REGISTRY_H

#include "kernels/Layout.h"
#include "kernels/OpCode.h"
#include "kernels/Types.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace moek {

/// Instruction sets that a kernel may need, best last. Avx512 stands for F,
/// BW, DQ, VL and VNNI together, Amx for TILE, INT8 and BF16 beside those.
enum class Isa : uint8_t { Ref = 0, Avx2 = 1, Avx512 = 2, Amx = 3, Cuda = 4 };

std::string_view isaName(Isa isa); ///< "ref", "avx2", "avx512", "amx", "cuda"
std::optional<Isa> isaFromName(std::string_view name);

std::string_view kvTypeName(KvType type); ///< "f32", "f16", "bf16", "q8_0"
std::optional<KvType> kvTypeFromName(std::string_view name);

struct KernelInfo {
  std::string_view name;
  OpCode op;
  Isa isa;
};

struct GemmInfo {
  std::string_view name;
  Format format;
  Encoding activation;
  Layout layout;
  Isa isa;
  /// What it is for. It multiplies any number, see Gemms.def.
  int32_t minTokens, maxTokens;
  int32_t panelTokens; ///< From so many on it expands weights, or kNever.
};

std::span<const KernelInfo> kernelTable();
std::span<const GemmInfo> gemmTable();
const KernelInfo *findKernel(std::string_view name);
const GemmInfo *findGemm(std::string_view name);

/// A driver with its argument type erased; the op tells the type.
using KernelFn = void (*)(const void *args, const Step &, const Worker &);

/// The code behind a name, or null if this build or this CPU has none: an
/// AVX-512 kernel resolves on a machine without AVX-512 too; the runtime
/// compares the plan's ISA with hostSupports() first.
KernelFn resolveKernel(std::string_view name);
GemmFn resolveGemm(std::string_view name);

/// Why this CPU and operating system do not run kernels of `isa`, as a clause
/// behind "needs a CPU with <isa>, "; "" where they do. Asking for Amx gets
/// this process the permission that it needs.
std::string_view hostRefusal(Isa isa);
inline bool hostSupports(Isa isa) { return hostRefusal(isa).empty(); }
/// Whether vdpbf16ps exists besides Isa::Avx512.
bool hostHasBf16Dot();

} // namespace moek

#endif // MOE_KERNELS_REGISTRY_H
