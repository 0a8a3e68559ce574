//===- SoftGpu.h - A software GPU (PTX emulator) ----------------*- C++ -*-===//
//
// Executes PTX warp by warp in the calling thread, and checks what silicon does
// not (README.md). It is deterministic: the same launches give the same bits,
// findings and counters.
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

/// Order in which blocks of a grid, and warps of a block, run.
enum class Schedule : uint8_t { Forward, Reversed, Shuffled };

/// The time at which the bytes of cp.async arrive: at the wait, at once, or
/// either by seed.
enum class AsyncLanding : uint8_t { Late, Early, Seeded };

/// How mma adds: like the tensor cores of the GPU's generation, or with a chain
/// of F32 fused multiply-adds.
enum class MmaSum : uint8_t { Native, PlainF32 };

/// Error of ex2, lg2, sin, cos, tanh, rcp, rsqrt, sqrt and div .approx: none,
/// or the largest that PTX documents, downward or upward.
enum class ApproxError : uint8_t { Nominal, Low, High };

struct SoftGpuOptions {
  int arch = 89;         ///< Compute capability * 10: 75 to 121.
  bool isChecked = true; ///< Whether memory, registers and races are checked.
  /// Whether sectors, wavefronts and useful MACs are counted.
  bool isCounting = true;
  Schedule schedule = Schedule::Forward;
  AsyncLanding asyncLanding = AsyncLanding::Late;
  MmaSum mmaSum = MmaSum::Native;
  ApproxError approxError = ApproxError::Nominal;
  uint64_t seed = 1;
  /// Value of %nsmid, and number of blocks that run interleaved.
  int multiprocessors = 8;
  /// Warp instructions after which a launch counts as endless.
  uint64_t instructionLimit = uint64_t(20) << 30;
};

struct LaunchShape {
  uint32_t grid[3] = {1, 1, 1};
  uint32_t threads[3] = {1, 1, 1};
  uint32_t dynamicSharedBytes = 0;
};

struct LaunchResult {
  std::optional<Finding> finding; ///< The finding at which the launch stopped.
  Counters counters;
};

/// Returns the most shared memory in bytes that a block may have.
uint64_t sharedLimit(int arch);

/// Whether this CPU has the instructions for which the interpreter is built
/// (AVX2, FMA and F16C on x86-64). If not, nothing else here may be called.
bool isSoftGpuSupported();

struct Recording;

class SoftGpu {
public:
  /// Addresses of its memory begin `addressOffset` above DeviceMemory::kBase.
  explicit SoftGpu(SoftGpuOptions options = {}, uint64_t addressOffset = 0);

  SoftGpuOptions &options() { return options_; }
  DeviceMemory &memory() { return memory_; }

  /// Loads a module of PTX text: assigns addresses to its variables and decodes
  /// its kernels.
  moert::StatusOr<std::unique_ptr<Program>> load(std::string_view ptx);

  /// Runs a grid to its end. `arguments` are the kernel's, each with its
  /// parameter's size. If checks are enabled, `touched` receives the global
  /// memory that it read and wrote; `recording`, if it is not null, what its
  /// warps did, for the clock. A recording may choose blocks; it needs
  /// counters.
  LaunchResult launch(const Kernel &kernel, const LaunchShape &shape,
                      std::span<const void *const> arguments,
                      AccessedRanges *touched = nullptr,
                      Recording *recording = nullptr);

  /// Returns the launch limit that such a launch exceeds, if any.
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
