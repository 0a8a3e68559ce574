//===- SoftGpu.h - A GPU in software ----------------------------*- C++ -*-===//
//
// Executes PTX, warp by warp, in this thread, and checks what silicon does not
// (README.md). Deterministic: the same launches give the same bits, findings
// and counters.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_SOFTGPU_H
#define MOE_TEST_SOFTGPU_SOFTGPU_H

#include "test/softgpu/Counters.h"
#include "test/softgpu/DeviceMemory.h"
#include "test/softgpu/Finding.h"
#include "test/softgpu/Program.h"
#include "test/softgpu/Ranges.h"

#include <optional>
#include <span>

namespace softgpu {

/// In which order blocks of a grid, and warps of a block, come.
enum class Schedule : uint8_t { Forward, Reversed, Shuffled };

/// When the bytes of cp.async land: at the wait, at once, or either by seed.
enum class AsyncLanding : uint8_t { Late, Early, Seeded };

/// How mma sums: as the tensor cores of the GPU's generation do, or as a chain
/// of F32 fused multiply-adds.
enum class MmaSum : uint8_t { Native, PlainF32 };

/// Results of ex2, lg2, sin, cos, tanh, rcp, rsqrt, sqrt and div .approx:
/// nearest, or as far from it as PTX documents.
enum class ApproxError : uint8_t { Nominal, Low, High };

struct SoftGpuOptions {
  int arch = 89;          ///< Compute capability: 75 to 121.
  bool isChecked = true;  ///< Shadows of memory and registers, races.
  bool isCounting = true; ///< Sectors, wavefronts, useful multiply-accumulates.
  Schedule schedule = Schedule::Forward;
  AsyncLanding asyncLanding = AsyncLanding::Late;
  MmaSum mmaSum = MmaSum::Native;
  ApproxError approxError = ApproxError::Nominal;
  uint64_t seed = 1;
  int multiprocessors =
      8; ///< What %nsmid says, and how many blocks are under way at once.
  /// Warp instructions after which a launch counts as endless.
  uint64_t instructionLimit = uint64_t(20) << 30;
};

struct LaunchShape {
  uint32_t grid[3] = {1, 1, 1};
  uint32_t threads[3] = {1, 1, 1};
  uint32_t dynamicSharedBytes = 0;
};

struct LaunchResult {
  std::optional<Finding> finding; ///< The launch ended there.
  Counters counters;
};

/// Bytes of shared memory that a block may have at most on this architecture.
uint64_t sharedLimit(int arch);

/// Whether this CPU has what the interpreter is built for (AVX2, FMA and F16C
/// on x86-64). Where it has not, nothing else here may be called.
bool isSoftGpuSupported();

class SoftGpu {
public:
  /// Its addresses begin `addressOffset` above DeviceMemory::kBase.
  explicit SoftGpu(SoftGpuOptions options = {}, uint64_t addressOffset = 0);

  SoftGpuOptions &options() { return options_; }
  DeviceMemory &memory() { return memory_; }

  /// Loads a module of PTX text: places its variables, decodes its kernels.
  moert::StatusOr<std::unique_ptr<Program>> load(std::string_view ptx);

  /// Runs a grid to its end. `arguments` are the kernel's, each of its
  /// parameter's size. `touched` gets what it read and wrote of global memory,
  /// if checks are on.
  LaunchResult launch(const Kernel &kernel, const LaunchShape &shape,
                      std::span<const void *const> arguments,
                      Touched *touched = nullptr);

  /// What is wrong with such a launch before it runs.
  std::optional<Finding> checkLimits(const Kernel &kernel,
                                     const LaunchShape &shape) const;

  template <class... Args>
  LaunchResult run(const Kernel &kernel, const LaunchShape &shape,
                   const Args &...args) {
    const void *pointers[] = {&args..., nullptr};
    return launch(kernel, shape, {pointers, sizeof...(Args)});
  }

private:
  SoftGpuOptions options_;
  DeviceMemory memory_;
};

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_SOFTGPU_H
