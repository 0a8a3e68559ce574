//===- OnGpu.h - Arguments with device addresses ----------------*- C++ -*-===//

#ifndef MOE_TEST_KERNELS_CUDA_ONGPU_H
#define MOE_TEST_KERNELS_CUDA_ONGPU_H

#include "test/kernels/KernelTest.h"
#include "test/kernels/cuda/Mirror.h"

#include <functional>

namespace moek::test {

/// Rows as in files without gaps, as models have them.
struct Files {
  explicit Files(const WeightView &w);
  std::vector<uint8_t> bytes;
  WeightView view;
};

/// Runs an instruction whose arguments point into this process; of experts with
/// weights that are streamed in `parts`, unless 0, which launches copy if they
/// are `pinned`; with the launches for a GPU of so many `multiprocessors`,
/// unless 0.
void runOnGpu(OpCode op, const void *args, const Step &step,
              const cuda::GemmForm &form, int32_t parts = 0,
              int multiprocessors = 0, bool pinned = false);

/// How the launches for a step of `tokens` on a GPU of so many multiprocessors
/// divide a product's tiles by columns (kernels/cuda/Tail.cuh).
enum class Division { None, InPlace, SecondLaunch };
Division divisionOf(OpCode op, const void *args, int32_t tokens,
                    const cuda::GemmForm &form, int multiprocessors);

/// Runs under several orders of blocks and warps, with copies that arrive
/// early, late or in between, on the software GPU; on silicon once.
void underEverySchedule(const std::function<void()> &run);

/// The step as kernels read it, with pages on the GPU.
cuda::Step mirrorStep(const Step &step, Mirror &mirror);

/// The properties of a step that launches depend on.
cuda::LaunchContext contextOf(Gpu &gpu, const Step &step);

} // namespace moek::test

#endif // MOE_TEST_KERNELS_CUDA_ONGPU_H
