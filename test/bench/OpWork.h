//===- OpWork.h - The work of each benchmark in bench_ops -------*- C++ -*-===//
//
// Arguments for kernels in DeepSeek-V2-Lite's shapes, or in those of another
// model for kernels that it does not use.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_BENCH_OPWORK_H
#define MOE_TEST_BENCH_OPWORK_H

#include "kernels/Abi.h"
#include "kernels/Activation.h"
#include "kernels/KvCache.h"
#include "kernels/Registry.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace moek::bench {

inline constexpr int32_t kHidden = 2048, kHeads = 16, kNope = 128, kRope = 64;
inline constexpr int32_t kLatent = 512, kValue = 128;
inline constexpr int32_t kExperts = 64, kTopK = 6, kExpertSize = 1408;
/// Sizes of two shared experts side by side, and of the head.
inline constexpr int32_t kSharedSize = 2816, kVocab = 102400;

/// Zeroed, 64-byte aligned memory that lives as long as the benchmark.
class Arena {
public:
  std::byte *bytes(size_t size) {
    blocks.push_back(std::make_unique<std::byte[]>(size + 64));
    auto address = reinterpret_cast<uintptr_t>(blocks.back().get());
    return blocks.back().get() + (64 - address % 64) % 64;
  }
  template <class T> T *make(int64_t count) {
    return reinterpret_cast<T *>(bytes(size_t(count) * sizeof(T)));
  }
  float *floats(int64_t count) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    float *p = make<float>(count);
    std::generate_n(p, count, [&] { return normal(random); });
    return p;
  }
  WeightView weights(Format format, int64_t outer, int64_t rows, int64_t cols) {
    int64_t stride = int64_t(rowBytes(format, uint64_t(cols)));
    auto *data = make<uint8_t>(outer * rows * stride);
    // Every byte is 0x2b: scales of about 0.05 and mixed quantised values.
    std::memset(data, 0x2b, size_t(outer * rows * stride));
    return {data, outer, rows, cols, rows * stride, stride, format};
  }

private:
  std::vector<std::unique_ptr<std::byte[]>> blocks;
};

/// Returns the GEMM that plans use with a kernel of `isa`.
const GemmInfo &gemmFor(Format format, Isa isa);

/// Returns `rows` zero rows in the activation encoding of `gemm`.
const uint8_t *activations(Arena &arena, const GemmInfo &gemm, int64_t rows,
                           int64_t cols, int64_t &stride);

/// Returns a cache for all tokens of a step's sequence, with random quantised
/// values if the type has blocks.
KvView cache(Arena &arena, Step step, KvType type,
             int64_t width = kLatent + kRope);

/// Expert slots of uniformly routed tokens.
struct Slots {
  int32_t *offsets, *slots;
  double touched = 0; ///< Number of experts that have tokens.
};
Slots routed(Arena &arena, Step step);

/// Arguments of a benchmark and its amount of work.
struct Work {
  std::shared_ptr<const void> args;
  size_t scratchBytes = 0;
  double ops = 0, bytes = 0;
};

using MakeWork = Work (*)(Arena &, Isa, Step);

template <class Args> std::shared_ptr<const void> keep(const Args &args) {
  return std::make_shared<Args>(args);
}

/// Kernels around attention and experts.
Work embed(Arena &, Isa, Step);
Work embedPositions(Arena &, Isa, Step);
Work positionScale(Arena &, Isa, Step);
Work scale(Arena &, Isa, Step);
Work ropeTable(Arena &, Isa, Step);
Work rmsNorm(Arena &, Isa, Step);
Work linear(Arena &, Isa, Step);
Work gateUp(Arena &, Isa, Step);
Work activationMul(Arena &, Isa, Step);
Work add(Arena &, Isa, Step);
Work rope(Arena &, Isa, Step);
Work mlaLatent(Arena &, Isa, Step);
Work router(Arena &, Isa, Step);
Work expertGroup(Arena &, Isa, Step);
Work expertsCombine(Arena &, Isa, Step);
Work splitChoices(Arena &, Isa, Step);
Work expertsActivationMul(Arena &, Isa, Step);
Work copy(Arena &, Isa, Step);

/// Kernels with states.
Work regroup(Arena &, Isa, Step);
Work shortConv(Arena &, Isa, Step);
Work shortConvPlain(Arena &, Isa, Step);
Work deltaGates(Arena &, Isa, Step);
Work deltaGatesOfChannels(Arena &, Isa, Step);
Work deltaRule(Arena &, Isa, Step);
Work deltaRuleOfChannels(Arena &, Isa, Step);
Work deltaRuleOfSums(Arena &, Isa, Step);
Work compressBy4(Arena &, Isa, Step);
Work compressBy128(Arena &, Isa, Step);

/// Kernels for chosen rows and compressed entries.
Work layerNorm(Arena &, Isa, Step);
Work rowStore(Arena &, Isa, Step);
Work entryStore(Arena &, Isa, Step);
Work indexScoresOfRows(Arena &, Isa, Step);
Work indexScoresOfEntries(Arena &, Isa, Step);
Work indexSelect(Arena &, Isa, Step);
Work blockMaxima(Arena &, Isa, Step);
Work keepBlocks(Arena &, Isa, Step);
Work blockScores(Arena &, Isa, Step);
Work blockAttention(Arena &, Isa, Step);
Work latentOfChosenF16(Arena &, Isa, Step);
Work latentOfChosenQ8(Arena &, Isa, Step);
Work windowAndChosen(Arena &, Isa, Step);
Work windowAndEntries(Arena &, Isa, Step);

/// Kernels for several residual streams and for the experts of models with
/// them.
Work hyperWeights(Arena &, Isa, Step);
Work hyperCollapse(Arena &, Isa, Step);
Work residualMix(Arena &, Isa, Step);
Work concat(Arena &, Isa, Step);
Work hyperSpread(Arena &, Isa, Step);
Work clampedMul(Arena &, Isa, Step);
Work gateStreams(Arena &, Isa, Step);
Work ngramEmbed(Arena &, Isa, Step);
Work hashRouter(Arena &, Isa, Step);

} // namespace moek::bench

#endif // MOE_TEST_BENCH_OPWORK_H
