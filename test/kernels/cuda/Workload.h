//===- Workload.h - Launches to be timed or counted -------------*- C++ -*-===//
//
// cuda_bench times them on a GPU, and EfficiencyTest counts them on the
// software GPU.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_KERNELS_CUDA_WORKLOAD_H
#define MOE_TEST_KERNELS_CUDA_WORKLOAD_H

#include "kernels/KvCache.h"
#include "kernels/Registry.h"
#include "test/kernels/cuda/Gpu.h"

namespace moek::test {

/// The same work `copies` times, each time with its own memory.
struct Workload {
  std::vector<cuda::Launch> launches;
  int64_t copies = 1;
  // For one copy:
  int64_t weightBytes = 0; ///< Bytes of weights, or of cache rows.
  /// Bytes with activations, queries and results, each counted once.
  int64_t neededBytes = 0;
  double operations = 0; ///< A multiply and an add count as two.
  /// Part of `operations` that decompresses cache rows with weights.
  double weightOperations = 0;
};

/// What a recurrent layer is: a gated delta net, one whose channels have decays
/// of their own (KDA), or Mamba 2.
enum class Recurrence { Gated, Channels, Sums };

/// Makes workloads of random bytes on a GPU, and owns their memory.
class Workbench {
public:
  explicit Workbench(Gpu &gpu) : gpu_(gpu) {}
  ~Workbench() { freeAll(); }
  Workbench(const Workbench &) = delete;

  /// Products of `tokens` rows with a [rows, cols] weight, launched for so many
  /// `multiprocessors`; 0: those of the GPU.
  Workload linear(Format format, int64_t rows, int64_t cols, int32_t tokens,
                  int64_t copies, int multiprocessors = 0);
  /// A product with weights in the file's layout, and float activations.
  Workload ofFloats(Format format, int64_t rows, int64_t cols, int32_t tokens,
                    int64_t copies = 1);
  /// gate, up and SiLU of `topK` experts of each token.
  Workload experts(Format format, int32_t experts, int64_t rows, int64_t cols,
                   int32_t topK, int32_t tokens, int64_t copies);
  /// The choice of `topK` of `experts` by the softmax of their logits.
  Workload router(int32_t experts, int32_t topK, int32_t tokens);
  /// Attention of one token on a latent of 512 + 64 columns, with the
  /// combination of its KV splits.
  Workload latent(KvType type, int32_t heads, int32_t positions, int32_t splits,
                  int64_t copies);
  /// Attention of the last `tokens` of `positions` with `columns` of keys and
  /// of values for each of `kvHeads`, with the combination of its KV splits.
  /// `splits` 0: as many as a plan has.
  Workload attention(KvType type, int32_t heads, int32_t kvHeads,
                     int32_t columns, int32_t positions, int32_t splits,
                     int32_t tokens, int64_t copies);
  /// MlaAttention of DeepSeek's heads with F16 weights.
  Workload decompressed(KvType type, int32_t heads, int32_t positions,
                        int32_t tokens);
  /// SparseAttention of a token to `chosen` rows of such a latent.
  Workload sparse(KvType type, int32_t heads, int32_t chosen);
  /// DeltaRule of a sequence's next tokens; its bytes are the state that it
  /// reads and writes.
  Workload deltaRule(int32_t heads, int32_t key, int32_t value, int32_t tokens,
                     Recurrence kind = Recurrence::Gated);
  /// ShortConv of four taps with SiLU; its bytes are rows read and written, and
  /// the state.
  Workload shortConv(int32_t cols, int32_t tokens);
  /// Scores of blocks of 128 keys, for four heads of keys, by the last `tokens`
  /// of `positions`.
  Workload blockScores(KvType type, int32_t positions, int32_t tokens);
  /// Attention of 64 heads, of which 16 share keys, to `blocks` chosen blocks
  /// of 128 positions and the last one.
  Workload blockAttention(KvType type, int32_t blocks, int32_t tokens);
  /// The context of the step that such launches belong to.
  cuda::LaunchContext context(int32_t tokens, int32_t position);

  /// Random bytes, in which floats and halves have small exponents.
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
    Format::IQ3_S,  Format::IQ4_XS, Format::MXFP4, Format::NVFP4,
    Format::Q4_0,   Format::IQ4_NL, Format::Q4_K,  Format::Q4_1,
    Format::Q5_0,   Format::Q5_K,   Format::Q5_1,  Format::Q6_K,
    Format::Q8_0};

} // namespace moek::test

#endif // MOE_TEST_KERNELS_CUDA_WORKLOAD_H
