//===- WorkloadStates.cpp - Recurrent layers and attention to blocks ------===//

#include "kernels/Entries.h"
#include "kernels/KvCache.h"
#include "test/kernels/cuda/Workload.h"

namespace moek::test {

Workload Workbench::deltaRule(int32_t heads, int32_t key, int32_t value,
                              int32_t tokens, Recurrence kind) {
  const bool channels = kind == Recurrence::Channels;
  const bool sums = kind == Recurrence::Sums;
  const int32_t keyHeads = sums ? heads / 8 : heads;
  int64_t matrices = int64_t(heads) * key * value;
  int64_t cols = 2 * int64_t(keyHeads) * key + int64_t(heads) * value;
  int64_t gates = int64_t(heads) * (1 + (channels ? key : 1));
  Workload work;
  work.copies = 1;
  work.weightBytes = 2 * matrices * 4;
  work.neededBytes =
      work.weightBytes + tokens * (cols + gates + heads * value) * 4;
  work.operations = (sums ? 5.0 : 7.0) * double(matrices) * tokens;
  DeltaRuleArgs args{};
  args.x = at<float>(random(tokens * cols * 4)), args.xStride = cols;
  args.gates = at<float>(random(tokens * gates * 4));
  args.gatesStride = gates;
  args.state = {at<uint8_t>(random(matrices * 4)), matrices, 1, matrices * 4,
                KvType::F32};
  args.out = at<float>(empty(int64_t(tokens) * heads * value * 4));
  args.outStride = int64_t(heads) * value;
  args.keyHeads = keyHeads, args.heads = heads;
  args.key = key, args.value = value, args.eps = 1e-6f;
  args.channels = channels, args.sums = sums;
  cuda::LaunchContext c = context(tokens, 1);
  if (int64_t bytes = cuda::workspaceBytes(OpCode::DeltaRule, &args, c))
    c.workspace = at<std::byte>(empty(bytes));
  add(work, OpCode::DeltaRule, &args, c);
  return work;
}

Workload Workbench::shortConv(int32_t cols, int32_t tokens) {
  constexpr int32_t kTaps = 4;
  const int64_t width = (kTaps - 1) * int64_t(cols);
  Workload work;
  work.weightBytes = 8 * (int64_t(tokens) * cols + width);
  work.neededBytes = work.weightBytes + int64_t(cols) * kTaps * 4;
  ShortConvArgs args{};
  args.x = at<float>(random(int64_t(tokens) * cols * 4));
  args.weight = at<float>(random(int64_t(cols) * kTaps * 4));
  args.state = {at<uint8_t>(random(width * 4)), width, 1, width * 4,
                KvType::F32};
  args.out = at<float>(empty(int64_t(tokens) * cols * 4));
  args.xStride = args.outStride = args.cols = cols;
  args.taps = kTaps, args.silu = true;
  add(work, OpCode::ShortConv, &args, context(tokens, 1));
  return work;
}

namespace {
constexpr int32_t kGroups = 4, kHeads = 64, kKey = 128, kBlock = 128;
} // namespace

Workload Workbench::blockScores(KvType type, int32_t positions,
                                int32_t tokens) {
  const double pairs = double(tokens) * (positions - (tokens - 1) / 2.0);
  Workload work;
  work.weightBytes = kvRowBytes(type, kKey) * positions;
  work.neededBytes = work.weightBytes;
  work.operations = pairs * kGroups * (2 * kKey + 1);
  BlockScoresArgs args{};
  args.groups = kGroups, args.key = kKey, args.ratio = kBlock, args.local = 1;
  args.qStride = kGroups * kKey, args.outStride = positions / kBlock + 1;
  args.q = at<float>(random(tokens * args.qStride * 4));
  args.kv = {at<uint8_t>(random(kvBytes(type, kKey, positions))), kKey,
             positions, kvRowBytes(type, kKey), type};
  args.out = at<float>(empty(tokens * kGroups * args.outStride * 4));
  add(work, OpCode::BlockScores, &args, context(tokens, positions - tokens));
  return work;
}

Workload Workbench::blockAttention(KvType type, int32_t blocks,
                                   int32_t tokens) {
  const int32_t before = 2 * blocks * kBlock, positions = before + kBlock;
  const int64_t width = gqaKvWidth(kGroups, kKey, kKey);
  const double pairs = double(tokens) * (blocks * kBlock + (tokens + 1) / 2.0);
  std::vector<int32_t> chosen(size_t(tokens) * size_t(blocks));
  for (size_t i = 0; i < chosen.size(); ++i)
    chosen[i] = 2 * int32_t(i % size_t(blocks));
  Workload work;
  work.weightBytes = kvRowBytes(type, width) * (blocks * kBlock + tokens);
  work.neededBytes = work.weightBytes;
  work.operations = pairs * kHeads * 4 * kKey;
  BlockAttentionArgs args{};
  args.heads = kHeads, args.kvHeads = kGroups, args.key = args.value = kKey;
  args.groups = 1, args.ratio = kBlock, args.local = 1, args.topK = blocks;
  args.qStride = args.outStride = kHeads * kKey, args.scale = 0.1f;
  args.q = at<float>(random(tokens * args.qStride * 4));
  args.out = at<float>(empty(tokens * args.outStride * 4));
  args.chosen = at<int32_t>(upload(chosen));
  args.kv = {at<uint8_t>(random(kvBytes(type, width, positions))), width,
             positions, kvRowBytes(type, width), type};
  cuda::LaunchContext c = context(tokens, before);
  if (int64_t bytes = cuda::workspaceBytes(OpCode::BlockAttention, &args, c))
    c.workspace = at<std::byte>(empty(bytes));
  add(work, OpCode::BlockAttention, &args, c);
  return work;
}

} // namespace moek::test
