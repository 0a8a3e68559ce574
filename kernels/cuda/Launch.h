//===- Launch.h - From an instruction to CUDA launches ----------*- C++ -*-===//
//
// Compiler and runtime share this. An instruction's arguments (kernels/Abi.h,
// with device addresses where it has pointers) become one or more launches: the
// file that is compiled and its definitions, the size of the grid, and the
// bytes of the kernel's parameter. The compiler asks without addresses,
// compiles the kernels and writes grids into the plan; the runtime asks again
// with addresses. Neither needs CUDA for it.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_LAUNCH_H
#define MOE_KERNELS_CUDA_LAUNCH_H

#include "kernels/Abi.h"
#include "kernels/Layout.h"
#include "kernels/cuda/Abi.h"
#include "kernels/cuda/Fusion.h"
#include "kernels/cuda/KernelSpec.h"
#include "kernels/cuda/Limits.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moek::cuda {

/// A file that kernels are compiled from.
struct Source {
  std::string_view name, text; ///< "kernels/cuda/Gemv.cu"
};
/// All sources, headers included, by name.
std::span<const Source> sources();

inline constexpr size_t kMaxArgBytes = 2048;

/// A copy of `bytes` bytes from the host's memory to a GPU's.
struct HostCopy {
  const uint8_t *from;
  uint8_t *to;
  int64_t bytes;
};

struct Launch {
  KernelSpec kernel;
  uint32_t grid[3] = {1, 1, 1};
  uint32_t threads = 1;
  /// Dynamic shared memory. More than 48 KiB of static and dynamic memory
  /// together must be allowed before the launch (cuFuncSetAttribute).
  uint32_t sharedBytes = 0;
  alignas(8) std::array<std::byte, kMaxArgBytes> args = {};
  uint32_t argBytes = 0;
  Fusion fusion = {}; ///< How the kernel can be fused with others.
  /// What has to be copied from the host's memory before the launch.
  std::vector<HostCopy> copies = {};
  /// Whether these are the instruction's first copies. They may begin when all
  /// launches before this one have ended; further copies may begin when those
  /// have ended that are before the last launch with copies.
  bool copiesFirst = false;
};

/// The layout of a gemm weight, and the encoding of its activations.
struct GemmForm {
  Encoding activation = Encoding::F32;
  Layout layout = Layout::Gguf;
};

/// The properties of a phase and a device that launches depend on, besides the
/// arguments.
struct LaunchContext {
  int32_t maxTokens = 1;    ///< The most tokens of a step.
  int32_t maxSequences = 1; ///< The most sequences of a step.
  /// The most positions that a step's sequences see together.
  int64_t maxPositions = 1;
  GemmForm form; ///< Form of the instruction's gemm weights.
  int arch = 89; ///< Compute capability * 10.
  int multiprocessors = 128;
  /// If above 0, an instruction of experts streams its gemm weights from the
  /// host's memory, in this number of parts, through two slots of the
  /// workspace.
  int32_t parts = 0;
  /// Whether the launches read that memory, which is mapped, and copy the
  /// experts that have rows (Bring.cuh). Otherwise all are copied before the
  /// launches (Launch::copies).
  bool pinned = false;
  // Addresses on the device; null if nothing is launched yet.
  const Step *step = nullptr;
  std::byte *workspace = nullptr; ///< Memory of workspaceBytes().
};

/// Returns the context for steps of at most `tokens` tokens of at most
/// `sequences` sequences, each of at most `positions`: the numbers that a plan
/// has for a phase and a GPU, so that compiler and runtime agree on it. The
/// caller adds addresses, and the `form` of each instruction.
LaunchContext contextOf(int32_t tokens, int32_t sequences, int64_t positions,
                        int arch, int multiprocessors);

/// Stands for an operand's gemm in an argument struct, for which launches only
/// check whether there is one.
GemmFn gemmOnGpu();

/// Returns the launches of an instruction, which run in this order. `args` is
/// the op's struct of kernels/Abi.h. Empty if no kernel does it: there is none
/// for the op or the format, or no gemm reads the form.
std::vector<Launch> launchesOf(OpCode op, const void *args,
                               const LaunchContext &context);

/// Returns the number of parts in which an instruction's experts, which have
/// `bytes` together, are streamed. A slot has at most 256 MiB: at 64 GB/s they
/// take 4 ms, much longer than launches.
int32_t streamedParts(int64_t bytes, int64_t experts);

/// Returns the bytes of a slot for `count` matrices of `matrixBytes` each.
int64_t slotBytes(int64_t matrixBytes, int64_t count);

/// Returns the bytes of device memory that these launches use, of any content.
/// Nothing else may use it meanwhile.
int64_t workspaceBytes(OpCode op, const void *args,
                       const LaunchContext &context);

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_LAUNCH_H
