//===- KernelBench.h - Measures single kernels on all cores -----*- C++ -*-===//

#ifndef MOE_RUNTIME_DEVICE_CPU_KERNELBENCH_H
#define MOE_RUNTIME_DEVICE_CPU_KERNELBENCH_H

#include "kernels/Registry.h"
#include "runtime/device/cpu/KernelRates.h"

#include <memory>
#include <vector>

namespace moert {

/// Operations per second of the parts of MlaAttention.
struct MlaRates {
  double rows = 0; ///< Rows: decompression with a GEMM that reads W_UK.
  /// Floats: decompression with W_UK transposed in the file.
  double floats = 0;
  double pairs = 0;
};

/// Returns the (query, visible key) pairs in a step of one sequence.
double pairsOf(const moek::Step &step);

/// Scratch bytes per worker for kernels of states and of sparse attention.
int64_t statesScratchBytes();

/// A thread pool, weights and activations to run kernels on. Each function
/// returns units per second as KernelRate counts them. A call ends with a
/// barrier, whose time is subtracted.
class KernelBench {
public:
  static StatusOr<KernelBench> create(int threads,
                                      const KernelRateOptions &options);

  StepOverheads overheads();
  double gemm(const moek::GemmInfo &gemm, const moek::KernelInfo &linear,
              int32_t tokens, bool cached);
  double opKernel(const moek::KernelInfo &opKernel, int32_t tokens,
                  std::string_view variant = {});
  /// `combine` may be null: then attention does not use KV splits.
  double latent(const moek::KernelInfo &opKernel,
                const moek::KernelInfo *combine, moek::KvType type,
                int32_t tokens, int32_t depth);
  /// Measures attention whose heads share keys and values (GQA).
  double grouped(const moek::KernelInfo &opKernel,
                 const moek::KernelInfo *combine, moek::KvType type,
                 int32_t tokens, int32_t depth);
  /// Measures the scores of an indexer's keys.
  double indexScores(const moek::KernelInfo &opKernel, moek::KvType type,
                     int32_t tokens, int32_t depth);
  double sparse(const moek::KernelInfo &opKernel, moek::KvType type,
                int32_t tokens, int32_t depth);
  /// Measures the scores of blocks of keys, and attention to chosen blocks.
  double blockScores(const moek::KernelInfo &opKernel, moek::KvType type,
                     int32_t tokens, int32_t depth);
  double blockAttention(const moek::KernelInfo &opKernel, moek::KvType type,
                        int32_t tokens, int32_t depth);
  MlaRates mla(const moek::KernelInfo &opKernel, moek::KvType type,
               int32_t depth);

  /// The worst disturbance of all measurements so far.
  Disturbance disturbance();

private:
  /// A call of a kernel.
  struct Call {
    moek::KernelFn function;
    const void *args;
    moek::Step step;
  };

  KernelBench() = default;
  /// Returns the seconds per call. The calls are made in turn for as long as
  /// the options say; each `group` of consecutive calls stays together.
  double secondsOf(const std::vector<Call> &calls, size_t group = 1);
  double run(const std::vector<Call> &calls, size_t first, size_t count);
  /// Measures layers with states, and ops on chosen rows and entries.
  double stateful(const moek::KernelInfo &opKernel, int32_t tokens,
                  std::string_view variant);
  double deltaRule(const moek::KernelInfo &opKernel, int32_t tokens,
                   std::string_view variant);
  /// Runs `a` with a separate state of `width` elements for each layer.
  template <class Args>
  double secondsOfStates(const moek::KernelInfo &opKernel, Args a,
                         int64_t width, int32_t tokens);
  /// Runs `a` with a separate cache for each layer.
  template <class Args>
  double secondsOfCaches(const moek::KernelInfo &opKernel, const Args &a,
                         moek::KvView Args::*cache, moek::KvType type,
                         int64_t width, int64_t capacity, moek::Step step);
  /// Runs attention `a` on caches with rows of `width` elements, and the
  /// combination of its KV splits if `combine` is not null.
  template <class Args>
  double secondsOfLayers(const moek::KernelInfo &opKernel,
                         const moek::KernelInfo *combine, Args a, int64_t width,
                         int32_t value, moek::KvType type, moek::Step step);

  /// Releases the memory that input() and output() returned.
  void startOver() { inputsUsed_ = outputsUsed_ = 0; }
  /// Returns memory that no kernel writes. Results must not become the input of
  /// the next kernel, or all values would soon be denormal.
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
  /// KV caches are in large pages, as in plans; weights only if files are
  /// mapped so.
  HostMemory weights_, caches_, inputs_, outputs_, scratch_;
  uint64_t scratchEach_ = 0, inputsUsed_ = 0, outputsUsed_ = 0;
  std::vector<uint32_t> tickets_;
  double barrierSeconds_ = 0;
  double begin_ = 0, spread_ = 0, queuedBefore_ = 0;
  int64_t measured_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CPU_KERNELBENCH_H
