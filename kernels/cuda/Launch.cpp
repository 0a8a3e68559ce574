//===- Launch.cpp - From an instruction to CUDA launches ------------------===//

#include "kernels/cuda/Launch.h"

#include "kernels/Activation.h"
#include "kernels/KvCache.h"
#include "kernels/Scratch.h"
#include "kernels/cuda/LaunchGemm.h"
#include "kernels/cuda/Launches.h"

#include <algorithm>

namespace moek::cuda {

std::vector<Launch> launches(const moek::EmbedArgs &a,
                             const LaunchContext &context) {
  KernelSpec spec{"kernels/cuda/Embed.cu", "embed", {}};
  if (!addFormat(spec, a.table.format))
    return {};
  return {makeLaunch(std::move(spec), {uint32_t(context.maxTokens)}, kThreads,
                     0, deviceArgs(a, context.step), Fusion::blocks())};
}

std::vector<Launch> launches(const moek::RopeTableArgs &a,
                             const LaunchContext &context) {
  return {makeLaunch({"kernels/cuda/RopeTable.cu", "rope_table", {}},
                     {uint32_t(context.maxTokens)}, 32, 0,
                     deviceArgs(a, context.step), Fusion::blocks())};
}

std::vector<Launch> launches(const moek::RmsNormArgs &a,
                             const LaunchContext &context) {
  // With four columns a thread, and 1024 threads, a row of 7168 takes two
  // rounds of loads.
  auto threads =
      uint32_t(std::clamp<int64_t>((a.cols / 4 + 31) / 32 * 32, 32, 1024));
  return {makeLaunch({"kernels/cuda/RmsNorm.cu", "rms_norm", {}},
                     {uint32_t(context.maxTokens), uint32_t(a.groups)}, threads,
                     0, deviceArgs(a, context.step), Fusion::blocks())};
}

std::vector<Launch> launches(const moek::QuantizeArgs &a,
                             const LaunchContext &context) {
  KernelSpec spec{"kernels/cuda/Quantize.cu",
                  "quantize_" + std::to_string(a.blockCols),
                  {{"MOE_BLOCK_COLS", a.blockCols}}};
  // A thread has four columns. A short row needs fewer than eight warps.
  auto threads =
      uint32_t(std::clamp<int64_t>((a.cols / 4 + 31) / 32 * 32, 32, kThreads));
  return {makeLaunch(std::move(spec),
                     {blocksFor(a.cols, threads * 4),
                      uint32_t(context.maxTokens * a.rowsPerToken)},
                     threads, 0, deviceArgs(a, context.step),
                     Fusion::warpsOfTiles(a.cols, 128))};
}

static std::vector<Launch> pairs(std::string entry,
                                 std::vector<Definition> defines,
                                 const float *x, const float *y, float *out,
                                 int64_t perToken, const LaunchContext &context,
                                 int64_t share = 1) {
  return {makeLaunch({"kernels/cuda/Pair.cu", entry, std::move(defines)},
                     {blocksFor(context.maxTokens * perToken, kThreads)},
                     kThreads, 0,
                     PairArgs{context.step, x, y, out, perToken, share},
                     context.maxTokens == 1 ? Fusion::warpsOfTiles(perToken, 32)
                                            : Fusion::warps())};
}

std::vector<Launch> launches(const moek::ActivationMulArgs &a,
                             const LaunchContext &context) {
  return pairs(std::string("activation_mul") + activationSuffix(a.activation),
               {{"MOE_ACTIVATION", int(a.activation)}}, a.gate, a.up, a.out,
               a.cols * a.rowsPerToken, context);
}

std::vector<Launch> launches(const moek::GateMulArgs &a,
                             const LaunchContext &context) {
  static constexpr const char *kNames[kGateCount] = {"", "_softplus",
                                                     "_identity"};
  std::string entry = std::string("gate_mul") + kNames[size_t(a.function)];
  std::vector<Definition> defines{{"MOE_GATE", int(a.function)}};
  const int64_t share = a.gates > 0 ? a.cols / a.gates : 1;
  if (share > 1) {
    entry += "_shared";
    defines.push_back({"MOE_SHARED"});
  }
  return pairs(std::move(entry), std::move(defines), a.x, a.gate, a.out, a.cols,
               context, share);
}

std::vector<Launch> launches(const moek::ScaleArgs &a,
                             const LaunchContext &context) {
  return {makeLaunch({"kernels/cuda/Scale.cu", "scale", {}},
                     {blocksFor(context.maxTokens * a.cols, kThreads)},
                     kThreads, 0, deviceArgs(a, context.step),
                     Fusion::warps())};
}

std::vector<Launch> launches(const moek::PositionScaleArgs &a,
                             const LaunchContext &context) {
  auto threads =
      uint32_t(std::clamp<int64_t>((a.cols + 31) / 32 * 32, 32, kThreads));
  return {makeLaunch({"kernels/cuda/PositionScale.cu", "position_scale", {}},
                     {uint32_t(context.maxTokens)}, threads, 0,
                     deviceArgs(a, context.step), Fusion::blocks())};
}

std::vector<Launch> launches(const moek::EmbedPositionsArgs &a,
                             const LaunchContext &context) {
  KernelSpec spec{
      "kernels/cuda/Embed.cu", "embed_positions", {{"MOE_POSITIONS"}}};
  if (!addFormat(spec, a.table.format))
    return {};
  return {makeLaunch(std::move(spec), {uint32_t(context.maxTokens)}, kThreads,
                     0, deviceArgs(a, context.step), Fusion::blocks())};
}

std::vector<Launch> launches(const moek::AddArgs &a,
                             const LaunchContext &context) {
  return pairs("add", {}, a.x, a.y, a.out, a.cols, context);
}

std::vector<Launch> launches(const moek::CopyArgs &a,
                             const LaunchContext &context) {
  int64_t bytes = context.maxTokens * a.tokenBytes + a.fixedBytes;
  // A thread copies two words of sixteen bytes at a time. There are at most
  // eight blocks per multiprocessor, enough to keep loads in flight on each.
  uint32_t blocks = std::min(blocksFor(bytes, kThreads * 32),
                             uint32_t(context.multiprocessors * 8));
  return {makeLaunch({"kernels/cuda/Copy.cu", "copy", {}}, {blocks}, kThreads,
                     0, deviceArgs(a, context.step), Fusion::warps())};
}

std::vector<Launch> launches(const moek::RopeArgs &a,
                             const LaunchContext &context) {
  KernelSpec spec{"kernels/cuda/Rope.cu", "rope", {}};
  if (a.neox) {
    spec.entry += "_neox";
    spec.define("MOE_NEOX");
  }
  // A head of 64 elements has 32 pairs, so that one warp rotates it, as a tile
  // of the product before it.
  Fusion fusion =
      a.dim == 64
          ? Fusion::warpsOfTiles(int64_t(a.heads) * a.headStride, a.headStride)
          : Fusion::warps();
  fusion.axis = 1;
  fusion.isInPlace = true;
  return {makeLaunch(std::move(spec),
                     {uint32_t(context.maxTokens),
                      blocksFor(int64_t(a.heads) * a.dim / 2, kThreads)},
                     kThreads, 0, deviceArgs(a, context.step), fusion)};
}

std::vector<Launch> launches(const moek::MlaLatentArgs &a,
                             const LaunchContext &context) {
  KernelSpec spec{"kernels/cuda/MlaLatent.cu", "mla_latent", {}};
  addKv(spec, a.kv.type);
  return {makeLaunch(std::move(spec), {uint32_t(context.maxTokens)}, kThreads,
                     floatBytes(kvBlocks(a.latent + a.rope) * kKvBlock),
                     deviceArgs(a, context.step), Fusion::blocks())};
}

/// Launches Router.cu for Router or HashRouter. `groups` is the number of
/// expert groups that are ranked.
template <class Args>
static std::vector<Launch> route(const char *entry,
                                 std::vector<Definition> defines, const Args &a,
                                 int32_t groups, const LaunchContext &context) {
  Fusion fusion = Fusion::blocks();
  fusion.choosesExperts = true;
  constexpr int64_t kAtOnce = 8; // Must be kAtOnce of Router.cu.
  return {makeLaunch({"kernels/cuda/Router.cu", entry, std::move(defines)},
                     {uint32_t(context.maxTokens)},
                     uint32_t(std::clamp<int64_t>(blocksFor(a.experts, 32) * 32,
                                                  32, kThreads)),
                     2 * floatBytes(2 * a.experts + kAtOnce + groups) +
                         floatBytes(a.topK),
                     deviceArgs(a, context.step), fusion)};
}

std::vector<Launch> launches(const moek::RouterArgs &a,
                             const LaunchContext &context) {
  return route("router", {}, a, a.groups, context);
}

std::vector<Launch> launches(const moek::HashRouterArgs &a,
                             const LaunchContext &context) {
  return route("hash_router", {{"MOE_HASHED"}}, a, 0, context);
}

std::vector<Launch> launches(const moek::SplitChoicesArgs &a,
                             const LaunchContext &context) {
  return {makeLaunch({"kernels/cuda/SplitChoices.cu", "split_choices", {}},
                     {uint32_t(context.maxTokens)}, 32, 0,
                     deviceArgs(a, context.step), Fusion::blocks())};
}

std::vector<Launch> launches(const moek::ExpertGroupArgs &a,
                             const LaunchContext &context) {
  ExpertGroupArgs args = deviceArgs(a, context.step);
  args.slice.count = a.slice.count ? a.slice.count : a.experts;
  // A count for each warp and expert, within 32 KiB; and no warp without slots.
  int64_t warps =
      std::clamp<int64_t>(32 * 1024 / 4 / std::max(args.slice.count, 1), 1, 32);
  warps = std::min(warps, (int64_t(context.maxTokens) * a.topK + 31) / 32);
  Fusion fusion = Fusion::blocks();
  fusion.sharedByWarp = true;
  return {makeLaunch({"kernels/cuda/ExpertGroup.cu", "expert_group", {}}, {1},
                     uint32_t(warps * 32), floatBytes(warps * args.slice.count),
                     args, fusion)};
}

std::vector<Launch> launches(const moek::ExpertsActivationMulArgs &a,
                             const LaunchContext &context) {
  return {makeLaunch(
      {"kernels/cuda/ExpertsActivationMul.cu",
       std::string("experts_activation_mul") + activationSuffix(a.activation),
       {{"MOE_ACTIVATION", int(a.activation)}}},
      {blocksFor(a.cols, kThreads), uint32_t(context.maxTokens * a.topK)},
      kThreads, 0, deviceArgs(a, context.step))};
}

std::vector<Launch> launches(const moek::ExpertsCombineArgs &a,
                             const LaunchContext &context) {
  return {makeLaunch({"kernels/cuda/ExpertsCombine.cu", "experts_combine", {}},
                     {blocksFor(a.cols, kThreads), uint32_t(context.maxTokens)},
                     kThreads, 0, deviceArgs(a, context.step),
                     Fusion::warpsOfTiles(a.cols, 32))};
}

std::vector<Launch> launches(const moek::AbsorbQueryArgs &a,
                             const LaunchContext &context) {
  // Q4_K is decoded eight columns at a time (MOE_EIGHT of Gguf.cuh).
  const uint32_t kColumns = a.w.format == Format::Q4_K ? 256 : 64;
  const uint32_t kRows = context.maxTokens == 1 ? 1 : 4;
  KernelSpec spec{"kernels/cuda/AbsorbQuery.cu",
                  "absorb_query_" + std::to_string(kRows),
                  {{"MOE_ROWS", kRows}}};
  if (!addFormat(spec, a.w.format))
    return {};
  return {makeLaunch(std::move(spec),
                     {blocksFor(a.latent, kColumns),
                      blocksFor(context.maxTokens, kRows), uint32_t(a.heads)},
                     kThreads, 0, deviceArgs(a, context.step), Fusion::wide())};
}

LaunchContext contextOf(int32_t tokens, int32_t sequences, int64_t positions,
                        int arch, int multiprocessors) {
  LaunchContext context;
  context.maxTokens = tokens;
  // Each of a step's sequences has at least one token in it.
  context.maxSequences = std::min(sequences, tokens);
  // Each sequence sees all of a shared prefix, so this may be more than the
  // cache holds.
  context.maxPositions = context.maxSequences * positions;
  context.arch = arch;
  context.multiprocessors = multiprocessors;
  return context;
}

GemmFn gemmOnGpu() {
  return [](const uint8_t *, int64_t, int64_t, const uint8_t *const *, int64_t,
            int64_t, float *, int64_t) {};
}

template <OpCode Op>
static std::vector<Launch> typed(const void *args,
                                 const LaunchContext &context) {
  if constexpr (isProduct(Op))
    return gemmLaunches(Op, args, context);
  else
    return launches(*static_cast<const ArgsOf<Op> *>(args), context);
}

std::vector<Launch> launchesOf(OpCode op, const void *args,
                               const LaunchContext &context) {
  switch (op) {
#define MOE_CUDA_KERNEL(name, op)                                              \
  case OpCode::op:                                                             \
    return typed<OpCode::op>(args, context);
#include "kernels/Kernels.def"
  default:
    return {}; // Only the host has kernels for this op.
  }
}

int64_t workspaceBytes(OpCode op, const void *args,
                       const LaunchContext &context) {
  if (isProduct(op))
    return gemmBytes(op, args, context);
  if (op == OpCode::SparseAttention)
    return spanBytes(*static_cast<const moek::SparseAttentionArgs *>(args),
                     context);
  if (op == OpCode::BlockAttention)
    return spanBytes(*static_cast<const moek::BlockAttentionArgs *>(args),
                     context);
  if (op == OpCode::DeltaRule)
    return chunkBytes(*static_cast<const moek::DeltaRuleArgs *>(args), context);
  if (op == OpCode::Attention)
    return partBytes(*static_cast<const moek::AttentionArgs *>(args), context);
  if (op == OpCode::MlaAttention)
    return headRowsBytes(*static_cast<const moek::MlaAttentionArgs *>(args),
                         context);
  return 0;
}

} // namespace moek::cuda
