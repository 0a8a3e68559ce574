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

/// Instruction sets that a kernel may need. Of two sets whose kernels one
/// device runs, the later is the better; two others cannot be compared.
enum class Isa : uint8_t {
#define MOE_INSTRUCTION_SET(id, ...) id,
#include "kernels/Isas.def"
};

/// A row of Isas.def, without what a CPU needs for it.
struct IsaInfo {
  std::string_view name;
  Isa isa, base;
  int vectorBytes;
  Layout panels;
};

std::span<const IsaInfo> isaTable(); ///< Entry i describes Isa(i).
std::string_view isaName(Isa isa);
std::optional<Isa> isaFromName(std::string_view name);
/// Returns the names of the sets of CPUs, as in "ref, avx2 or amx".
std::string cpuIsaNames();

/// Returns whether a device whose set is `device` runs kernels of `kernel`:
/// those of its own set, of that one's base, and so on.
bool runsOn(Isa kernel, Isa device);

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
/// architecture. A kernel is found on a machine that lacks its set, too: the
/// runtime checks the plan's ISA with hostSupports() first.
KernelFn resolveKernel(std::string_view name);
GemmFn resolveGemm(std::string_view name);

/// Returns why this CPU and operating system cannot run kernels of `isa`, as a
/// clause that follows "needs a CPU with <isa>, ", or "" if they can. Asking
/// about Amx also requests the permission that this process needs for it.
std::string_view hostRefusal(Isa isa);
inline bool hostSupports(Isa isa) { return hostRefusal(isa).empty(); }
/// Returns hostRefusal() without what tiles need. Tests that execute kernels in
/// software replace hostRefusal(), but not this: code that is not looked up by
/// name asks it.
std::string_view vectorRefusal(Isa isa);
/// Returns the last set of Isas.def that hostSupports().
Isa bestHostIsa();

/// From now on this process behaves as if its CPU had no set but `most` and
/// those whose kernels `most` runs; without `most`, has all of them. Called
/// before threads start.
void limitHostIsa(std::optional<Isa> most);
/// The argument of limitHostIsa(), if it was called.
std::optional<Isa> hostIsaLimit();
/// Returns hostRefusal() as far as limitHostIsa() is its reason.
std::string_view limitRefusal(Isa isa);

/// Whether the CPU has vdpbf16ps in addition to Isa::Avx512.
bool hostHasBf16Dot();

} // namespace moek

#endif // MOE_KERNELS_REGISTRY_H
