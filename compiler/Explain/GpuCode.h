//===- GpuCode.h - The GPU kernels of a plan --------------------*- C++ -*-===//

#ifndef MOE_COMPILER_EXPLAIN_GPUCODE_H
#define MOE_COMPILER_EXPLAIN_GPUCODE_H

#include "runtime/schema/plan_generated.h"

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace moec {

/// A kernel on one GPU, with the code that this GPU runs.
struct KernelUse {
  const moert::fb::Module *module = nullptr;
  const moert::fb::Image *image = nullptr; ///< Null if it has none for the GPU.
  std::string_view device;
  int arch = 0;
  uint64_t launches = 0; ///< Instructions of all phases that launch it.
  uint32_t threads = 0;  ///< Threads of the largest block.
  uint64_t shared = 0;   ///< Most bytes of shared memory per block.
  /// Warps that are resident on a multiprocessor (the fewest of all launches),
  /// and the most that it supports.
  int warps = 0, mostWarps = 0;
};

/// The GPU code of a plan; empty for a plan without GPUs.
struct GpuCode {
  explicit GpuCode(const moert::fb::Plan &plan);

  std::string_view nvrtc; ///< Version of NVRTC.
  std::vector<int> archs; ///< Architectures of the code, ascending.
  uint64_t bytes = 0;     ///< Size of all images.
  std::vector<KernelUse> kernels;
  /// Launches by phase, without phases that have none.
  std::vector<std::pair<std::string_view, uint64_t>> launches;
};

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_GPUCODE_H
