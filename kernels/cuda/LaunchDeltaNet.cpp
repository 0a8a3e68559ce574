//===- LaunchDeltaNet.cpp - Launches of recurrent layers ------------------===//

#include "kernels/cuda/Launches.h"
#include "kernels/cuda/MakeLaunch.h"

#include <algorithm>

namespace moek::cuda {

std::vector<Launch> launches(const moek::RegroupArgs &a,
                             const LaunchContext &context) {
  int64_t cols = int64_t(a.groups) * (a.first + a.second + a.third);
  return {makeLaunch({"kernels/cuda/Regroup.cu", "regroup", {}},
                     {blocksFor(cols, kThreads), uint32_t(context.maxTokens)},
                     kThreads, 0, deviceArgs(a, context.step),
                     Fusion::warps())};
}

std::vector<Launch> launches(const moek::ShortConvArgs &a,
                             const LaunchContext &context) {
  constexpr uint32_t kColumns = 128, kRows = kMaxConvRows;
  std::string dilation =
      a.dilation > 1 ? "_by_" + std::to_string(a.dilation) : "";
  return {makeLaunch({"kernels/cuda/ShortConv.cu",
                      "short_conv_" + std::to_string(a.taps) + dilation +
                          (a.silu ? "_silu" : ""),
                      {{"MOE_TAPS", a.taps},
                       {"MOE_SILU", a.silu},
                       {"MOE_DILATION", a.dilation}}},
                     {blocksFor(a.cols, kColumns), tilesFor(context, 1, kRows)},
                     kColumns, 0, deviceArgs(a, context.step),
                     Fusion::warps())};
}

std::vector<Launch> launches(const moek::DeltaGatesArgs &a,
                             const LaunchContext &context) {
  constexpr uint32_t kEach = 128;
  return {makeLaunch({"kernels/cuda/DeltaGates.cu", "delta_gates", {}},
                     {blocksFor(context.maxTokens * a.decays, kEach)}, kEach, 0,
                     deviceArgs(a, context.step), Fusion::warps())};
}

//===----------------------------------------------------------------------===//
// DeltaRule: row after row, or in chunks if steps have many rows
//===----------------------------------------------------------------------===//

namespace {
/// From this number of rows of a step on, chunks are less work than rows.
constexpr int32_t kManyRows = 9;
/// The largest key for which a block of DeltaApply.cu has shared memory.
constexpr int32_t kMostChunkKeys = 128;

bool isInChunks(const moek::DeltaRuleArgs &a, const LaunchContext &context) {
  return context.maxTokens >= kManyRows && a.key <= kMostChunkKeys &&
         !a.channels && !a.sums;
}

/// The number of floats that DeltaPrepare.cu computes from the keys and queries
/// of all chunks.
int64_t chunkKeyFloats(const moek::DeltaRuleArgs &a,
                       const LaunchContext &context) {
  int64_t keys = (a.key + 15) / 16 * 16; // Same as kAll in DeltaApply.cu.
  return tilesFor(context, 1, kDeltaRows) * a.keyHeads * keys * 2 * kDeltaRows;
}
} // namespace

int64_t chunkBytes(const moek::DeltaRuleArgs &a, const LaunchContext &context) {
  if (!isInChunks(a, context))
    return 0;
  int64_t mixes = int64_t(tilesFor(context, 1, kDeltaRows)) * a.heads;
  return (chunkKeyFloats(a, context) + mixes * kDeltaMixFloats) * 4;
}

std::vector<Launch> launches(const moek::DeltaRuleArgs &a,
                             const LaunchContext &context) {
  std::string key = std::to_string(a.key);
  auto spec = [&](const char *file, const char *entry) {
    return KernelSpec{file,
                      entry + key + (a.channels ? "_channels" : "") +
                          (a.sums ? "_sums" : ""),
                      {{"MOE_KEY", a.key},
                       {"MOE_CHANNELS", a.channels},
                       {"MOE_SUMS", a.sums}}};
  };
  uint32_t columns = blocksFor(a.value, 32);
  auto heads = uint32_t(a.heads), sequences = uint32_t(context.maxSequences);
  DeltaRuleArgs args = deviceArgs(a, context.step);
  if (!isInChunks(a, context)) {
    // Registers hold keys of up to kMostHeld; kWarps in the files is the same.
    constexpr int32_t kMostHeld = 512;
    bool isLong = a.key > kMostHeld;
    uint32_t warps = isLong ? 16 : std::max<uint32_t>(blocksFor(a.key, 32), 4);
    return {makeLaunch(spec(isLong ? "kernels/cuda/DeltaRuleLong.cu"
                                   : "kernels/cuda/DeltaRule.cu",
                            "delta_rule_"),
                       {columns, heads, sequences}, 32 * warps, 0, args)};
  }
  auto *keys = reinterpret_cast<float *>(context.workspace);
  DeltaChunkArgs chunks{args, keys, keys + chunkKeyFloats(a, context)};
  return {makeLaunch(spec("kernels/cuda/DeltaPrepare.cu", "delta_prepare_"),
                     {tilesFor(context, 1, kDeltaRows), uint32_t(a.keyHeads)},
                     128, 0, chunks),
          makeLaunch(spec("kernels/cuda/DeltaApply.cu", "delta_apply_"),
                     {columns, heads, sequences}, 128, 0, chunks)};
}

} // namespace moek::cuda
