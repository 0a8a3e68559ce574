//===- Workload.h - Launches whose speed is measured or bounded -*- C++ -*-===//
//
// What cuda_bench times on a GPU, and EfficiencyTest counts in software.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_KERNELS_CUDA_WORKLOAD_H
#define MOE_TEST_KERNELS_CUDA_WORKLOAD_H

#include "kernels/KvCache.h"
#include "kernels/Registry.h"
#include "test/kernels/cuda/Gpu.h"

namespace moek::test {

/// The same work `copies` times, each on memory of its own.
struct Workload {
  std::vector<cuda::Launch> launches;
  int64_t copies = 1;
  // Of one copy.
  int64_t weightBytes = 0; ///< Or those of the cache.
  int64_t neededBytes = 0; ///< With activations, queries and results, once.
  double operations = 0;   ///< A multiply and an add are two.
};

/// Makes workloads of random bytes on a GPU, and holds their memory.
class Workbench {
public:
  explicit Workbench(Gpu &gpu) : gpu_(gpu) {}
  ~Workbench() { freeAll(); }
  Workbench(const Workbench &) = delete;

  /// Products of `tokens` rows with [rows, cols].
  Workload linear(Format format, int64_t rows, int64_t cols, int32_t tokens,
                  int64_t copies);
  /// The same of weights as files have them, and rows of floats.
  Workload ofFloats(Format format, int64_t rows, int64_t cols, int32_t tokens);
  /// gate, up and SiLU of `topK` experts of each token.
  Workload experts(Format format, int32_t experts, int64_t rows, int64_t cols,
                   int32_t topK, int32_t tokens, int64_t copies);
  /// Attention on a latent of 512 + 64 columns with the combination of its
  /// spans, one token.
  Workload latent(KvType type, int32_t heads, int32_t positions, int32_t splits,
                  int64_t copies);
  /// SparseAttention of a token to so many chosen rows of such a latent.
  Workload sparse(KvType type, int32_t heads, int32_t chosen);
  /// DeltaRule of a sequence's next tokens; a state is what it reads and
  /// writes.
  Workload deltaRule(int32_t heads, int32_t key, int32_t value, int32_t tokens);
  /// The step that such launches are of.
  cuda::LaunchContext context(int32_t tokens, int32_t position);

  /// Random bytes; of floats and halves the exponents are small.
  uint64_t random(int64_t bytes);
  uint64_t empty(int64_t bytes);
  void freeAll();

private:
  template <class T> uint64_t upload(const std::vector<T> &values);
  void add(Workload &to, OpCode op, const void *args,
           const cuda::LaunchContext &context);

  Gpu &gpu_;
  std::vector<uint64_t> allocated_;
};

/// A device address as an argument.
template <class T> T *at(uint64_t address) {
  return reinterpret_cast<T *>(address);
}

/// The formats that kernels read in panels.
inline constexpr Format kPackedFormats[] = {
    Format::IQ1_S,  Format::IQ1_M,  Format::Q2_K,  Format::IQ2_XXS,
    Format::IQ2_XS, Format::IQ2_S,  Format::Q3_K,  Format::IQ3_XXS,
    Format::IQ3_S,  Format::IQ4_XS, Format::MXFP4, Format::Q4_0,
    Format::IQ4_NL, Format::Q4_K,   Format::Q4_1,  Format::Q5_0,
    Format::Q5_K,   Format::Q5_1,   Format::Q6_K,  Format::Q8_0};

} // namespace moek::test

#endif // MOE_TEST_KERNELS_CUDA_WORKLOAD_H
