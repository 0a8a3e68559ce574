//===- GpuCode.h - What a plan's GPUs launch --------------------*- C++ -*-===//

#ifndef MOE_COMPILER_EXPLAIN_GPUCODE_H
#define MOE_COMPILER_EXPLAIN_GPUCODE_H

#include "runtime/schema/plan_generated.h"

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace moec {

/// A kernel on one GPU, with the code that this runs.
struct KernelUse {
  const moert::fb::Module *module = nullptr;
  const moert::fb::Image *image = nullptr; ///< Null if it has none for the GPU.
  std::string_view device;
  int arch = 0;
  uint64_t launches = 0; ///< Instructions of all phases that launch it.
  uint32_t threads = 0;  ///< Of its largest blocks.
  uint64_t shared = 0;   ///< Bytes of a block, at most.
  /// Warps that a multiprocessor has at once, of those blocks of which it has
  /// fewest, and how many it could have.
  int warps = 0, mostWarps = 0;
};

/// Nothing where a plan has no GPU.
struct GpuCode {
  explicit GpuCode(const moert::fb::Plan &plan);

  std::string_view nvrtc; ///< Its version.
  std::vector<int> archs; ///< That there is code for, ascending.
  uint64_t bytes = 0;     ///< Of all images.
  std::vector<KernelUse> kernels;
  /// By phase, where there are any.
  std::vector<std::pair<std::string_view, uint64_t>> launches;
};

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_GPUCODE_H
