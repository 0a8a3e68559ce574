//===- KernelBench.h - Runs one kernel at a time on all cores ---*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CPU_KERNELBENCH_H
#define MOE_RUNTIME_DEVICE_CPU_KERNELBENCH_H

#include "kernels/Registry.h"
#include "runtime/device/cpu/KernelRates.h"

#include <memory>
#include <vector>

namespace moert {

/// Operations per second of MlaAttention's parts.
struct MlaRates {
  double rows = 0;   ///< Decompressing, W_UK read by a gemm.
  double floats = 0; ///< Decompressing, W_UK transposed in the file.
  double pairs = 0;
};

/// (query, visible row) pairs of a step of one sequence.
double pairsOf(const moek::Step &step);

/// What drivers of states and of chosen rows need of each worker.
int64_t statesScratchBytes();

/// A team, weights and activations to run drivers on. Each function returns
/// units per second as KernelRate counts them. A call of a driver ends with a
/// meeting, which is not counted.
class KernelBench {
public:
  static StatusOr<KernelBench> create(int threads,
                                      const KernelRateOptions &options);

  StepOverheads overheads();
  double gemm(const moek::GemmInfo &gemm, const moek::KernelInfo &linear,
              int32_t tokens, bool cached);
  double driver(const moek::KernelInfo &driver, int32_t tokens);
  /// `combine` may be null: then the cache is not cut into spans.
  double latent(const moek::KernelInfo &driver, const moek::KernelInfo *combine,
                moek::KvType type, int32_t tokens, int32_t depth);
  /// Likewise of heads that share keys and values.
  double grouped(const moek::KernelInfo &driver,
                 const moek::KernelInfo *combine, moek::KvType type,
                 int32_t tokens, int32_t depth);
  /// Of an indexer's keys, and of attention to `depth` chosen rows.
  double indexScores(const moek::KernelInfo &driver, moek::KvType type,
                     int32_t tokens, int32_t depth);
  double sparse(const moek::KernelInfo &driver, moek::KvType type,
                int32_t tokens, int32_t depth);
  MlaRates mla(const moek::KernelInfo &driver, moek::KvType type,
               int32_t depth);

  /// Of all measurements so far.
  Disturbance disturbance();

private:
  /// A call of a driver.
  struct Call {
    moek::KernelFn function;
    const void *args;
    moek::Step step;
  };

  KernelBench() = default;
  /// Seconds of one of a list of calls, made in turn for as long as the options
  /// say. `group` neighbours, of which each does something else, stay together.
  double secondsOf(const std::vector<Call> &calls, size_t group = 1);
  double run(const std::vector<Call> &calls, size_t first, size_t count);
  /// Of layers with states, and of what belongs to chosen rows and entries.
  double stateful(const moek::KernelInfo &driver, int32_t tokens);
  /// `a` with a state of `width` of its own for each layer.
  template <class Args>
  double secondsOfStates(const moek::KernelInfo &driver, Args a, int64_t width,
                         int32_t tokens);
  /// Likewise with a cache.
  template <class Args>
  double secondsOfCaches(const moek::KernelInfo &driver, const Args &a,
                         moek::KvView Args::*cache, moek::KvType type,
                         int64_t width, int64_t capacity, moek::Step step);
  /// Of attention of `a`'s kind, on caches of rows of `width`, and of adding up
  /// its spans where `combine` is not null.
  template <class Args>
  double secondsOfLayers(const moek::KernelInfo &driver,
                         const moek::KernelInfo *combine, Args a, int64_t width,
                         int32_t value, moek::KvType type, moek::Step step);

  /// Forgets what input() and output() gave.
  void startOver() { inputsUsed_ = outputsUsed_ = 0; }
  /// Room whose content no kernel writes: what becomes of results must not be
  /// what the next kernel reads, or soon all are denormal.
  template <class T> T *input(int64_t count) {
    return take<T>(inputs_, inputsUsed_, count);
  }
  template <class T> T *output(int64_t count) {
    return take<T>(outputs_, outputsUsed_, count);
  }
  template <class T>
  T *take(const HostMemory &memory, uint64_t &used, int64_t count) {
    auto *at = reinterpret_cast<T *>(memory.data() + used);
    used += (uint64_t(count) * sizeof(T) + 63) / 64 * 64;
    return at;
  }

  KernelRateOptions options_;
  std::unique_ptr<WorkerPool> pool_;
  /// Caches of keys and values are in large pages as plans' are, weights only
  /// where files are mapped so.
  HostMemory weights_, caches_, inputs_, outputs_, scratch_;
  uint64_t scratchEach_ = 0, inputsUsed_ = 0, outputsUsed_ = 0;
  std::vector<uint32_t> tickets_;
  double meeting_ = 0;
  double begin_ = 0, spread_ = 0, queuedBefore_ = 0;
  int64_t measured_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_KERNELBENCH_H
