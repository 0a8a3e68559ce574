//===- SoftCuda.h - A libcuda of GPUs in software ---------------*- C++ -*-===//
//
// What a program opens instead of libcuda.so.1 (libmoe_softcuda.so), and what
// a test that links it asks for and looks at. Streams, events, flags and graphs
// order operations as CUDA does; those that nothing orders run when `Timing`
// says. Findings are mistakes that silicon forgives or answers with chance.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SOFTGPU_CUDA_SOFTCUDA_H
#define MOE_TEST_SOFTGPU_CUDA_SOFTCUDA_H

#include "test/softgpu/SoftGpu.h"

#include <map>
#include <string>
#include <vector>

namespace softcuda {

/// When an operation runs that may: as soon as it is enqueued; not before the
/// host waits for it (or does nothing for some time); at a random time.
enum class Timing : uint8_t { Early, Late, Seeded };

struct GpuOptions {
  std::string name = "Software GPU";
  std::string pciAddress = "0000:01:00.0";
  uint64_t memoryBytes = uint64_t(24) << 30;
  uint64_t usedBytes = uint64_t(1) << 29; ///< By other programs.
  int clockKhz = 2'520'000, memoryClockKhz = 10'501'000, memoryBusBits = 384;
  int multiprocessors = 128;
  int l2Bytes = 72 << 20;
  /// The interpreter's; `arch` is the compute capability. Its
  /// `multiprocessors` are the blocks under way at once.
  softgpu::SoftGpuOptions gpu{.arch = 90};
};

struct Options {
  std::vector<GpuOptions> gpus = std::vector<GpuOptions>(1);
  int driverVersion = 13000; ///< CUDA 13.0.
  Timing timing = Timing::Late;
  uint64_t seed = 1;
  /// Of a host that calls nothing, before Late runs what is not waited for.
  int idleMilliseconds = 2;
  /// Whether host memory may be registered CU_MEMHOSTREGISTER_READ_ONLY.
  bool registersReadOnly = false;
  /// What a call returns instead of working, by symbol.
  std::map<std::string, int> failures;
};

/// What a program did since `reset`.
struct Totals {
  std::map<std::string, uint64_t> calls; ///< By symbol.
  uint64_t launches = 0;                 ///< Kernels that ran, graphs' too.
  uint64_t graphLaunches = 0, graphNodes = 0; ///< Nodes that graphs ran.
  uint64_t captures = 0;
  /// Times that the host waited for the GPU, or the GPU for the host.
  uint64_t roundTrips = 0;
  uint64_t bytesToDevice = 0, bytesToHost = 0, bytesWithin = 0;
  uint64_t allocations = 0;
  /// Of all launches of a kernel, by name.
  std::map<std::string, softgpu::Counters> kernels;
  std::map<std::string, uint64_t> kernelLaunches;
};

/// Starts anew: no GPU is in use, handles and memory are gone. Returns what was
/// leaked until then.
std::vector<std::string> reset(Options options = {});

Options &options();
Totals totals();
/// Mistakes so far, each with the names of what is involved.
std::vector<std::string> findings();
/// What is alive: allocations, streams, events, modules, graphs, contexts,
/// registered memory.
std::vector<std::string> live();

/// What a cubin was compiled from: modules that are loaded as that cubin run
/// the PTX. Kept by `reset`.
void addCubin(std::string_view cubin, std::string ptx);

} // namespace softcuda

#endif // MOE_TEST_SOFTGPU_CUDA_SOFTCUDA_H
