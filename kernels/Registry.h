//===- Registry.h - The kernel table ----------------------------*- C++ -*-===//
//
// Kernels.def and Gemms.def as data: what compiler and runtime know about every
// kernel. The tables of names and ranges (library moe_kernel_table) contain no
// kernel code and are what the compiler links; the functions are in
// moe_kernels.
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

/// Instruction sets that a kernel may need, the best CPU set last. Avx512
/// stands for F, BW, DQ, VL and VNNI together; Amx adds TILE, INT8 and BF16.
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
  /// The numbers of activation rows that it is meant for. It computes any
  /// number of them correctly, see Gemms.def.
  int32_t minTokens, maxTokens;
  /// The number of rows from which the gemm expands weights into panels, or
  /// kNever.
  int32_t panelTokens;
};

std::span<const KernelInfo> kernelTable();
std::span<const GemmInfo> gemmTable();
const KernelInfo *findKernel(std::string_view name);
const GemmInfo *findGemm(std::string_view name);

/// An op's CPU kernel with its argument type erased; the op determines the
/// type.
using KernelFn = void (*)(const void *args, const Step &, const Worker &);

/// Return the function of that name, or null if this build has none for this
/// architecture. An AVX-512 kernel is found on a machine without AVX-512 too:
/// the runtime checks the plan's ISA with hostSupports() first.
KernelFn resolveKernel(std::string_view name);
GemmFn resolveGemm(std::string_view name);

/// Returns why this CPU and operating system cannot run kernels of `isa`, as a
/// clause that follows "needs a CPU with <isa>, ", or "" if they can. Asking
/// about Amx also requests the permission that this process needs for it.
std::string_view hostRefusal(Isa isa);
inline bool hostSupports(Isa isa) { return hostRefusal(isa).empty(); }
/// Whether the CPU has vdpbf16ps in addition to Isa::Avx512.
bool hostHasBf16Dot();

} // namespace moek

#endif // MOE_KERNELS_REGISTRY_H
