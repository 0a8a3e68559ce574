#include "kernels/cuda/LaunchDeltaNet.h"

#include "kernels/cuda/MakeLaunch.h"

#include <algorithm>

namespace moek::cuda {

std::vector<Launch> launches(const moek::RegroupArgs &a,
                             const LaunchContext &context) {
  int64_t cols = int64_t(a.groups) * (a.parts[0] + a.parts[1] + a.parts[2]);
  return {makeLaunch({"kernels/cuda/Regroup.cu", "regroup", {}},
                     {blocksFor(cols, kThreads), uint32_t(context.maxTokens)},
                     kThreads, 0,
                     RegroupArgs{context.step,
                                 a.x,
                                 a.out,
                                 a.xStride,
                                 a.outStride,
                                 a.width,
                                 a.groups,
                                 a.offset,
                                 {a.parts[0], a.parts[1], a.parts[2]}})};
}

std::vector<Launch> launches(const moek::ShortConvArgs &a,
                             const LaunchContext &context) {
  constexpr uint32_t kColumns = 128, kRows = 32;
  std::string taps = std::to_string(a.taps);
  return {makeLaunch(
      {"kernels/cuda/ShortConv.cu", "short_conv_" + taps, {"MOE_TAPS=" + taps}},
      {blocksFor(a.cols, kColumns), tilesFor(context, 1, kRows)}, kColumns, 0,
      ShortConvArgs{context.step, a.x, a.weight, a.out, a.xStride, a.outStride,
                    a.cols, kvOf(a.state)})};
}

std::vector<Launch> launches(const moek::DeltaGatesArgs &a,
                             const LaunchContext &context) {
  constexpr uint32_t kEach = 128;
  return {makeLaunch({"kernels/cuda/DeltaGates.cu", "delta_gates", {}},
                     {blocksFor(context.maxTokens * a.heads, kEach)}, kEach, 0,
                     DeltaGatesArgs{context.step, a.beta, a.alpha, a.a, a.dt,
                                    a.out, a.heads})};
}

std::vector<Launch> launches(const moek::DeltaRuleArgs &a,
                             const LaunchContext &context) {
  // Of keys that registers hold, as kWarps in the files.
  constexpr int32_t kMostHeld = 512;
  bool isLong = a.key > kMostHeld;
  uint32_t warps = isLong ? 16 : std::max<uint32_t>(blocksFor(a.key, 32), 4);
  std::string key = std::to_string(a.key);
  return {makeLaunch(
      {isLong ? "kernels/cuda/DeltaRuleLong.cu" : "kernels/cuda/DeltaRule.cu",
       "delta_rule_" + key,
       {"MOE_KEY=" + key}},
      {blocksFor(a.value, 32), uint32_t(a.heads),
       uint32_t(context.maxSequences)},
      32 * warps, 0,
      DeltaRuleArgs{context.step, a.x, a.gates, a.out, a.xStride, a.outStride,
                    a.begin, kvOf(a.state), a.keyHeads, a.heads, a.value,
                    a.tiled, a.eps})};
}

} // namespace moek::cuda
