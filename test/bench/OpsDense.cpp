//===- OpsDense.cpp - Benchmarks of kernels around attention and experts --===//
//
// `ops` counts additions, multiplications and comparisons, and an exponential
// or a sine as one operation.
//
//===----------------------------------------------------------------------===//

#include "kernels/Abi.h"
#include "kernels/Scratch.h"
#include "test/bench/OpWork.h"

namespace moek::bench {

Work embed(Arena &arena, Isa, Step step) {
  EmbedArgs a{};
  a.table = arena.weights(Format::Q4_K, 1, kVocab, kHidden);
  auto *tokens = arena.make<int32_t>(step.tokens);
  std::mt19937 random(1);
  std::generate_n(tokens, step.tokens,
                  [&] { return int32_t(random() % kVocab); });
  a.tokens = tokens, a.outStride = a.cols = kHidden;
  a.out = arena.make<float>(step.tokens * kHidden);
  double values = double(step.tokens) * kHidden;
  return {keep(a), 0, 2 * values, double(step.tokens * a.table.rowStride)};
}

/// Rows of learned positions.
Work embedPositions(Arena &arena, Isa, Step step) {
  EmbedPositionsArgs a{};
  a.table = arena.weights(Format::F32, 1, 8192, kHidden);
  a.cols = kHidden, a.out = arena.make<float>(step.tokens * kHidden);
  double values = double(step.tokens) * kHidden;
  return {keep(a), 0, 0, 8 * values};
}

/// Queries times a factor of their position.
Work positionScale(Arena &arena, Isa, Step step) {
  PositionScaleArgs a{};
  a.cols = int64_t(kHeads) * kRope, a.length = 8192, a.slope = 0.1f;
  a.x = arena.floats(step.tokens * a.cols);
  a.out = arena.make<float>(step.tokens * a.cols);
  double values = double(step.tokens) * double(a.cols);
  return {keep(a), 0, values, 8 * values};
}

/// Scales logits, which some models cap.
Work scale(Arena &arena, Isa, Step step) {
  ScaleArgs a{};
  a.cols = kVocab, a.factor = 1, a.softcap = 30;
  a.x = arena.floats(step.tokens * a.cols);
  a.out = arena.make<float>(step.tokens * a.cols);
  // The operations are: exponential, sum, quotient, product, difference,
  // product.
  double values = double(step.tokens) * kVocab;
  return {keep(a), 0, 6 * values, 8 * values};
}

Work ropeTable(Arena &arena, Isa, Step step) {
  RopeTableArgs a{};
  a.dim = kRope, a.invFreq = arena.floats(kRope / 2);
  a.out = arena.make<float>(step.tokens * kRope);
  double values = double(step.tokens) * kRope;
  return {keep(a), 0, 2 * values, 4 * values};
}

Work rmsNorm(Arena &arena, Isa, Step step) {
  RmsNormArgs a{};
  a.x = arena.floats(step.tokens * kHidden);
  a.weight = arena.floats(kHidden);
  a.out = arena.make<float>(step.tokens * kHidden);
  a.xStride = a.outStride = a.cols = kHidden;
  a.groups = 1, a.eps = 1e-6f;
  double values = double(step.tokens) * kHidden;
  return {keep(a), 0, 4 * values, 8 * values};
}

/// The head: maps hidden rows to logits.
Work linear(Arena &arena, Isa isa, Step step) {
  LinearArgs a{};
  const GemmInfo &gemm = gemmFor(Format::Q6_K, isa);
  a.act = activations(arena, gemm, step.tokens, kHidden, a.actStride);
  a.w = arena.weights(Format::Q6_K, 1, kVocab, kHidden);
  a.gemm = resolveGemm(gemm.name);
  a.outStride = kVocab;
  a.out = arena.make<float>(step.tokens * kVocab);
  return {keep(a), size_t(gemmScratchBytes()),
          2.0 * step.tokens * kVocab * kHidden, double(a.w.outerStride)};
}

/// The shared experts.
Work gateUp(Arena &arena, Isa isa, Step step) {
  GateUpArgs a{};
  const GemmInfo &gemm = gemmFor(Format::Q4_K, isa);
  a.act = activations(arena, gemm, step.tokens, kHidden, a.actStride);
  a.gate = arena.weights(Format::Q4_K, 1, kSharedSize, kHidden);
  a.up = arena.weights(Format::Q4_K, 1, kSharedSize, kHidden);
  a.gateGemm = a.upGemm = resolveGemm(gemm.name);
  a.outStride = kSharedSize;
  a.out = arena.make<float>(step.tokens * kSharedSize);
  return {keep(a), size_t(gateUpScratchBytes()),
          4.0 * step.tokens * kSharedSize * kHidden,
          2 * double(a.gate.outerStride)};
}

Work activationMul(Arena &arena, Isa, Step step) {
  ActivationMulArgs a{};
  int64_t count = int64_t(step.tokens) * kSharedSize;
  a.gate = arena.floats(count), a.up = arena.floats(count);
  a.out = arena.make<float>(count);
  a.cols = kSharedSize, a.rowsPerToken = 1;
  // silu(x) * y: exponential, sum, quotient, product.
  return {keep(a), 0, 4.0 * double(count), 12.0 * double(count)};
}

Work add(Arena &arena, Isa, Step step) {
  AddArgs a{};
  int64_t count = int64_t(step.tokens) * kHidden;
  a.x = arena.floats(count), a.y = arena.floats(count);
  a.out = arena.make<float>(count);
  a.cols = kHidden;
  return {keep(a), 0, double(count), 12.0 * double(count)};
}

Work rope(Arena &arena, Isa, Step step) {
  RopeArgs a{};
  a.heads = kHeads, a.headStride = kNope + kRope;
  a.offset = kNope, a.dim = kRope;
  a.stride = kHeads * a.headStride;
  a.x = arena.floats(step.tokens * a.stride);
  // Rotations are by an angle of 0, so that repeating them changes nothing.
  auto *table = arena.make<float>(step.tokens * kRope);
  for (int64_t i = 0; i < step.tokens * kRope; ++i)
    table[i] = i % kRope < kRope / 2 ? 1.0f : 0.0f;
  a.table = table;
  double values = double(step.tokens) * kHeads * kRope;
  return {keep(a), 0, 3 * values, 8 * values};
}

Work mlaLatent(Arena &arena, Isa, Step step) {
  MlaLatentArgs a{};
  int64_t rows = step.position + step.tokens, width = kLatent + kRope;
  a.latent = kLatent, a.rope = kRope, a.stride = width, a.eps = 1e-6f;
  a.x = arena.floats(step.tokens * width);
  a.weight = arena.floats(kLatent);
  a.table = arena.floats(step.tokens * kRope);
  a.kv = {arena.make<uint8_t>(rows * width * 2), width, rows, width * 2,
          KvType::F16};
  return {keep(a), 0, double(step.tokens) * (4 * kLatent + 3 * kRope),
          double(step.tokens * width) * (4 + 2)};
}

Work router(Arena &arena, Isa, Step step) {
  RouterArgs a{};
  a.logits = arena.floats(step.tokens * kExperts);
  a.stride = kExperts, a.experts = kExperts, a.topK = kTopK;
  a.groups = a.groupsUsed = a.groupBest = 1, a.scoring = Scoring::Softmax,
  a.scale = 1;
  a.ids = arena.make<int32_t>(step.tokens * kTopK);
  a.weights = arena.make<float>(step.tokens * kTopK);
  // Softmax: maximum, difference, exponential, sum, quotient; then a
  // comparison per expert and choice.
  double values = double(step.tokens) * kExperts;
  return {keep(a), size_t(routerScratchBytes(kExperts)), (5 + kTopK) * values,
          4 * values + 8.0 * step.tokens * kTopK};
}

Work expertGroup(Arena &arena, Isa, Step step) {
  ExpertGroupArgs a{};
  int64_t slots = int64_t(step.tokens) * kTopK;
  auto *ids = arena.make<int32_t>(slots);
  std::mt19937 random(2);
  std::generate_n(ids, slots, [&] { return int32_t(random() % kExperts); });
  a.ids = ids;
  a.offsets = arena.make<int32_t>(kExperts + 1);
  a.slots = arena.make<int32_t>(slots);
  a.experts = kExperts, a.topK = kTopK;
  // Each slot is counted and placed.
  return {keep(a), 0, 2.0 * double(slots) + kExperts, 8.0 * double(slots)};
}

Work expertsCombine(Arena &arena, Isa, Step step) {
  ExpertsCombineArgs a{};
  int64_t slots = int64_t(step.tokens) * kTopK;
  a.y = arena.floats(slots * kHidden);
  a.weights = arena.floats(slots);
  a.out = arena.make<float>(step.tokens * kHidden);
  a.cols = kHidden, a.topK = kTopK;
  double values = double(slots) * kHidden;
  return {keep(a), 0, 2 * values, 4 * values + 4.0 * step.tokens * kHidden};
}

/// Plans with some experts on another device split off the two experts with the
/// smallest weights of each token.
Work splitChoices(Arena &arena, Isa, Step step) {
  SplitChoicesArgs a{};
  a.topK = kTopK, a.last = 2;
  int64_t slots = int64_t(step.tokens) * kTopK;
  auto *ids = arena.make<int32_t>(slots);
  for (int64_t i = 0; i < slots; ++i)
    ids[i] = int32_t(i % kExperts);
  a.ids = ids, a.weights = arena.floats(slots);
  a.firstIds = arena.make<int32_t>(slots);
  a.firstWeights = arena.make<float>(slots);
  a.lastIds = arena.make<int32_t>(slots);
  a.lastWeights = arena.make<float>(slots);
  // Each weight is compared with each; weights and ids are read and written.
  return {keep(a), 0, kTopK * double(slots), 16.0 * double(slots)};
}

/// Uses scale factors of matrices, as in NVFP4 files.
Work expertsActivationMul(Arena &arena, Isa, Step step) {
  ExpertsActivationMulArgs a{};
  int64_t count = int64_t(step.tokens) * kTopK * kExpertSize;
  a.gate = arena.floats(count), a.up = arena.floats(count);
  a.gateScale = arena.floats(kExperts), a.upScale = arena.floats(kExperts);
  a.out = arena.make<float>(count);
  Slots s = routed(arena, step);
  a.offsets = s.offsets, a.slots = s.slots;
  a.cols = kExpertSize, a.experts = kExperts, a.topK = kTopK;
  // Operations of ActivationMul, and two products.
  return {keep(a), 0, 6.0 * double(count), 12.0 * double(count)};
}

/// Copies hidden rows, which go from device to device.
Work copy(Arena &arena, Isa, Step step) {
  CopyArgs a{};
  a.tokenBytes = kHidden * 4;
  int64_t bytes = step.tokens * a.tokenBytes;
  a.x = reinterpret_cast<const uint8_t *>(arena.floats(bytes / 4));
  a.out = arena.make<uint8_t>(bytes);
  return {keep(a), 0, 0, 2.0 * double(bytes)};
}

} // namespace moek::bench
