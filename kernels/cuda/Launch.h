//===- Launch.h - From an instruction to CUDA launches ----------*- C++ -*-===//
//
// What compiler and runtime share about CUDA kernels. An instruction's
// arguments (kernels/Abi.h, with device addresses where it has pointers) become
// one or more launches: which file is compiled with which definitions, how
// large the grid is, and the bytes of the parameter. The compiler asks without
// addresses, compiles what is named and writes grids into the plan; the runtime
// asks again with addresses. Neither needs CUDA for it.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CUDA_LAUNCH_H
#define MOE_KERNELS_CUDA_LAUNCH_H

#include "kernels/Abi.h"
#include "kernels/CopyArgs.h"
#include "kernels/Layout.h"
#include "kernels/cuda/Abi.h"
#include "kernels/cuda/Limits.h"

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moek::cuda {

/// A file of this folder as kernels/cuda/<name>.
struct Source {
  std::string_view name, text;
};
/// All of them, headers included, by name.
std::span<const Source> sources();

/// What a kernel is compiled from.
struct KernelSpec {
  std::string file;                 ///< "kernels/cuda/Gemv.cu"
  std::string entry;                ///< "gemv_q4_k"
  std::vector<std::string> defines; ///< "MOE_FORMAT=12"
  auto operator<=>(const KernelSpec &) const = default;
};

inline constexpr size_t kMaxArgBytes = 2048;

struct Launch {
  KernelSpec kernel;
  uint32_t grid[3] = {1, 1, 1};
  uint32_t threads = 1;
  /// Besides what the code declares. More than 48 KiB of both together must be
  /// allowed before the launch (cuFuncSetAttribute).
  uint32_t sharedBytes = 0;
  alignas(8) std::array<std::byte, kMaxArgBytes> args = {};
  uint32_t argBytes = 0;
};

/// How a gemm weight lies, and the activations that meet it.
struct GemmForm {
  Encoding activation = Encoding::F32;
  Layout layout = Layout::Gguf;
};

/// What launches depend on besides the arguments.
struct LaunchContext {
  int32_t maxTokens = 1;    ///< Of a step.
  int32_t maxSequences = 1; ///< Of a step.
  int64_t maxPositions = 1; ///< That a step's sequences see together.
  GemmForm form;            ///< Of the gemm weights.
  int arch = 89;            ///< Compute capability * 10.
  int multiprocessors = 128;
  // Addresses on the device; null where nothing is launched yet.
  /// Above 0: an instruction of experts reads its gemm weights, which are in
  /// the host's memory, mapped, in so many parts that come to two slots of the
  /// workspace.
  int32_t parts = 0;
  const Step *step = nullptr;
  std::byte *workspace = nullptr; ///< workspaceBytes() of them.
};

/// Of steps of at most `tokens` tokens of at most `sequences` sequences, each
/// of at most `positions`: what a plan says of a phase and a GPU. Compiler and
/// runtime have to agree on it; who launches adds addresses, and `form` by
/// instruction.
LaunchContext contextOf(int32_t tokens, int32_t sequences, int64_t positions,
                        int arch, int multiprocessors);

/// Stands for an operand's gemm in an argument struct: here it only matters
/// that there is one.
GemmFn gemmOnGpu();

/// Launches of an instruction, in order, none of which needs another to be
/// under way. `args` is the op's struct of kernels/Abi.h. Empty where no kernel
/// does it: of an op or format without kernels, or a form that no gemm reads.
std::vector<Launch> launchesOf(OpCode op, const void *args,
                               const LaunchContext &context);

/// How many parts weights are streamed in of which all experts of an
/// instruction have `bytes`: slots are at most 256 MiB, of which 64 GB/s take 4
/// ms, beside which launches are little.
int32_t streamedParts(int64_t bytes, int64_t experts);

/// Of a slot that `count` matrices of `matrixBytes` each of a weight come to.
int64_t slotBytes(int64_t matrixBytes, int64_t count);

/// Device memory that these launches use and that nobody else may use
/// meanwhile; any content.
int64_t workspaceBytes(OpCode op, const void *args,
                       const LaunchContext &context);

} // namespace moek::cuda

#endif // MOE_KERNELS_CUDA_LAUNCH_H
