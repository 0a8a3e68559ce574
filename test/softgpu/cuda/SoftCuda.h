//===- SoftCuda.h - A libcuda with software GPUs ----------------*- C++ -*-===//
//
// libmoe_softcuda.so, which a program opens instead of libcuda.so.1, and its
// interface for tests that link it. Streams, events, flags and graphs order
// operations as CUDA defines; operations that nothing orders run when `Timing`
// says. Findings are errors that silicon may tolerate or turn into random
// results.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_CUDA_SOFTCUDA_H
#define MOE_TEST_SOFTGPU_CUDA_SOFTCUDA_H

#include "test/softgpu/Clock.h"
#include "test/softgpu/SoftGpu.h"

#include <map>
#include <string>
#include <vector>

namespace softcuda {

/// When an operation that may run does run: as soon as it is enqueued; not
/// before the host waits for it (or makes no call for some time); or at a
/// random time.
enum class Timing : uint8_t { Early, Late, Seeded };

struct GpuOptions {
  std::string name = "Software GPU";
  std::string pciAddress = "0000:01:00.0";
  uint64_t memoryBytes = uint64_t(24) << 30;
  uint64_t usedBytes = uint64_t(1) << 29; ///< Bytes that other programs use.
  int clockKhz = 2'520'000, memoryClockKhz = 10'501'000, memoryBusBits = 384;
  int multiprocessors = 128;
  int l2Bytes = 72 << 20;
  /// Whether kernels have a time limit, as on a GPU with a display.
  bool hasTimeLimit = false;
  /// Value of the attribute, whichever memory the GPU has.
  bool isIntegrated = false;
  /// Options of the interpreter; `arch` is the compute capability,
  /// `multiprocessors` the number of blocks that run interleaved.
  softgpu::SoftGpuOptions gpu{.arch = 90};
};

struct Options {
  std::vector<GpuOptions> gpus = std::vector<GpuOptions>(1);
  int driverVersion = 13000; ///< Stands for CUDA 13.0.
  Timing timing = Timing::Late;
  uint64_t seed = 1;
  /// How long the host must make no call before Late runs operations that are
  /// not waited for.
  int idleMilliseconds = 2;
  /// How many operations of a GPU may be enqueued and not have run. A call that
  /// would enqueue more waits until some have run, as a driver's does when its
  /// launch queue is full; a graph has an entry for each node.
  size_t queueDepth = 1024;
  /// Name of a GPU of softgpu::gpuModels(): launches take the time that the
  /// clock predicts (takeTimes()). Of large grids only some blocks run, so that
  /// results are wrong. "": no clock.
  std::string clock = {};
  /// With a clock: instructions of warps after which no further block of a
  /// launch runs.
  uint64_t clockBudget = 4'000'000;
  /// With a clock: addresses that are in L2 before a launch, besides what the
  /// launches before it have touched.
  std::vector<softgpu::Range> warm;
  /// The most host memory that may be pinned at a time: allocated by
  /// cuMemHostAlloc and registered.
  uint64_t mostPinnedBytes = UINT64_MAX;
  /// Whether host memory may be registered CU_MEMHOSTREGISTER_READ_ONLY.
  bool registersReadOnly = false;
  /// Results of calls that fail instead of working, by symbol.
  std::map<std::string, int> failures;
};

/// Statistics since `reset`.
struct Totals {
  std::map<std::string, uint64_t> calls; ///< Number of calls of each symbol.
  /// Number of kernels that ran, including those in graphs.
  uint64_t launches = 0;
  uint64_t overlappedLaunches = 0; ///< Launches that cuLaunchKernelEx enqueued.
  /// Graphs that ran, and the nodes in them.
  uint64_t graphLaunches = 0, graphNodes = 0;
  uint64_t captures = 0;
  /// Number of times that the host waited for the GPU, or the GPU for the host.
  uint64_t roundTrips = 0;
  /// Waits of the host that keep a core busy: all but those for events that
  /// were created for blocking.
  uint64_t busyWaits = 0;
  /// Graphs that were instantiated while another GPU had work to do, for which
  /// a driver may wait.
  uint64_t instantiatedBusy = 0;
  uint64_t bytesToDevice = 0, bytesToHost = 0, bytesWithin = 0;
  uint64_t allocations = 0;
  uint64_t mostPinnedBytes = 0; ///< The most host memory pinned at a time.
  /// Sums over all launches of a kernel, by name.
  std::map<std::string, softgpu::Counters> kernels;
  std::map<std::string, uint64_t> kernelLaunches;
};

/// Resets the driver: no GPU is in use, all handles and memory are gone.
/// Returns what was leaked before.
std::vector<std::string> reset(Options options = {});

Options &options();
Totals totals();
/// Errors found so far, each naming the objects involved.
std::vector<std::string> findings();
/// Objects that are alive: allocations, streams, events, modules, graphs,
/// contexts and registered memory.
std::vector<std::string> live();

/// Returns the predicted times of the launches since the last call.
std::vector<softgpu::LaunchTime> takeTimes();

/// Registers the PTX from which a cubin was compiled: modules loaded as that
/// cubin run this PTX. `reset` keeps it. The clock needs `resources`.
void addCubin(std::string_view cubin, std::string ptx,
              softgpu::Resources resources = {});

} // namespace softcuda

#endif // MOE_TEST_SOFTGPU_CUDA_SOFTCUDA_H
