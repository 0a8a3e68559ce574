#include "test/kernels/cuda/Workload.h"

#include "kernels/Abi.h"
#include "kernels/Activation.h"
#include "kernels/cuda/Fuse.h"

#include <algorithm>
#include <random>

namespace moek::test {

uint64_t Workbench::random(int64_t bytes) {
  static const std::vector<uint8_t> pattern = [] {
    std::mt19937 engine(1);
    std::vector<uint8_t> p(1 << 24);
    for (uint8_t &b : p)
      b = uint8_t(engine()) & 0x37;
    return p;
  }();
  uint64_t address = empty(bytes);
  for (int64_t at = 0; at < bytes; at += int64_t(pattern.size()))
    gpu_.copyIn(address + uint64_t(at), pattern.data(),
                size_t(std::min<int64_t>(bytes - at, int64_t(pattern.size()))));
  return address;
}

uint64_t Workbench::empty(int64_t bytes) {
  allocated_.push_back(gpu_.allocate(size_t(bytes), "workload"));
  return allocated_.back();
}

template <class T> uint64_t Workbench::upload(const std::vector<T> &values) {
  uint64_t address = empty(int64_t(values.size() * sizeof(T)));
  gpu_.copyIn(address, values.data(), values.size() * sizeof(T));
  return address;
}
template uint64_t Workbench::upload(const std::vector<int32_t> &values);

void Workbench::freeAll() {
  for (uint64_t address : allocated_)
    gpu_.free(address);
  allocated_.clear();
}

void Workbench::add(Workload &to, OpCode op, const void *args,
                    const cuda::LaunchContext &context) {
  cuda::LaunchContext c = context;
  int64_t bytes = cuda::workspaceBytes(op, args, c);
  if (bytes && !c.workspace)
    c.workspace = at<std::byte>(empty(bytes));
  for (cuda::Launch &launch : launchesOf(op, args, c))
    to.launches.push_back(std::move(launch));
}

cuda::LaunchContext Workbench::context(int32_t tokens, int32_t position) {
  cuda::Step step{};
  step.tokens = tokens;
  step.sequences = 1;
  step.sequence[0] = {0, tokens, position, 0, nullptr};
  cuda::LaunchContext c;
  c.maxTokens = tokens;
  c.maxPositions = position + tokens;
  c.form = {Encoding::A8, Layout::Rows16};
  c.arch = gpu_.arch();
  c.multiprocessors = gpu_.multiprocessors();
  c.step = at<const cuda::Step>(upload(std::vector<cuda::Step>{step}));
  return c;
}

Workload Workbench::linear(Format format, int64_t rows, int64_t cols,
                           int32_t tokens, int64_t copies,
                           int multiprocessors) {
  auto row = int64_t(rows16Bytes(format, uint64_t(cols)));
  Workload work;
  work.copies = copies;
  work.weightBytes = row * rows;
  work.neededBytes = work.weightBytes + tokens * (a8RowBytes(cols) + rows * 4);
  work.operations = 2.0 * double(rows) * double(cols) * tokens;
  uint64_t w = random(work.weightBytes * copies);
  uint64_t act = random(tokens * a8RowBytes(cols));
  uint64_t out = empty(tokens * rows * 4);
  cuda::LaunchContext c = context(tokens, 0);
  if (multiprocessors > 0)
    c.multiprocessors = multiprocessors;
  for (int64_t i = 0; i < copies; ++i) {
    LinearArgs args{at<uint8_t>(act),
                    a8RowBytes(cols),
                    {at<uint8_t>(w + uint64_t(i * work.weightBytes)), 1, rows,
                     cols, work.weightBytes, row, format},
                    nullptr,
                    nullptr,
                    at<float>(out),
                    rows,
                    false};
    add(work, OpCode::Linear, &args, c);
  }
  return work;
}

Workload Workbench::ofFloats(Format format, int64_t rows, int64_t cols,
                             int32_t tokens, int64_t copies) {
  auto row = int64_t(rowBytes(format, uint64_t(cols)));
  Workload work;
  work.copies = copies;
  work.weightBytes = row * rows;
  work.neededBytes = work.weightBytes + tokens * (cols + rows) * 4;
  work.operations = 2.0 * double(rows) * double(cols) * tokens;
  cuda::LaunchContext c = context(tokens, 0);
  c.form = {Encoding::F32, Layout::Gguf};
  uint64_t w = random(work.weightBytes * copies);
  LinearArgs args{
      at<uint8_t>(random(tokens * cols * 4)),
      cols * 4,
      {at<uint8_t>(w), 1, rows, cols, work.weightBytes, row, format},
      nullptr,
      nullptr,
      at<float>(empty(tokens * rows * 4)),
      rows,
      false};
  if (int64_t bytes = cuda::workspaceBytes(OpCode::Linear, &args, c))
    c.workspace = at<std::byte>(empty(bytes));
  for (int64_t i = 0; i < copies; ++i) {
    args.w.data = at<uint8_t>(w + uint64_t(i * work.weightBytes));
    add(work, OpCode::Linear, &args, c);
  }
  return work;
}

Workload Workbench::experts(Format format, int32_t experts, int64_t rows,
                            int64_t cols, int32_t topK, int32_t tokens,
                            int64_t copies) {
  auto row = int64_t(rows16Bytes(format, uint64_t(cols)));
  int64_t each = row * rows;
  Workload work;
  work.copies = copies;
  work.weightBytes =
      2 * each * std::min<int64_t>(experts, int64_t(tokens) * topK);
  work.neededBytes =
      work.weightBytes + tokens * (a8RowBytes(cols) + topK * rows * 4);
  work.operations = 4.0 * double(rows) * double(cols) * tokens * topK;
  uint64_t gate = random(each * experts), up = random(each * experts);
  uint64_t act = random(tokens * a8RowBytes(cols));
  uint64_t out = empty(int64_t(tokens) * topK * rows * 4);
  cuda::LaunchContext c = context(tokens, 0);
  for (int64_t i = 0; i < copies; ++i) {
    std::vector<std::vector<int32_t>> lists(size_t(experts),
                                            std::vector<int32_t>{});
    for (int32_t t = 0; t < tokens; ++t)
      for (int32_t j = 0; j < topK;
           ++j) // A token's experts are distinct, and copies differ.
        lists[size_t((i * topK + t * 7 + j * 11) % experts)].push_back(
            t * topK + j);
    std::vector<int32_t> offsets{0}, slots;
    for (const auto &list : lists) {
      slots.insert(slots.end(), list.begin(), list.end());
      offsets.push_back(int32_t(slots.size()));
    }
    ExpertsGateUpArgs args{
        at<uint8_t>(act),
        a8RowBytes(cols),
        {at<uint8_t>(gate), experts, rows, cols, each, row, format},
        {at<uint8_t>(up), experts, rows, cols, each, row, format},
        nullptr,
        nullptr,
        nullptr,
        nullptr,
        at<int32_t>(upload(offsets)),
        at<int32_t>(upload(slots)),
        at<float>(out),
        rows,
        topK};
    add(work, OpCode::ExpertsGateUp, &args, c);
  }
  return work;
}

Workload Workbench::router(int32_t experts, int32_t topK, int32_t tokens) {
  Workload work;
  work.copies = 1;
  constexpr double kSoftmaxFlops = 4; // Same count as in dialects/moe.
  work.operations = double(tokens) * experts * kSoftmaxFlops;
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> logits(size_t(tokens) * size_t(experts));
  for (float &each : logits)
    each = normal(engine);
  RouterArgs args{at<float>(upload(logits)),
                  experts,
                  nullptr,
                  nullptr,
                  at<int32_t>(empty(int64_t(tokens) * topK * 4)),
                  at<float>(empty(int64_t(tokens) * topK * 4)),
                  experts,
                  topK,
                  1,
                  1,
                  1,
                  Scoring::Softmax,
                  true,
                  1};
  add(work, OpCode::Router, &args, context(tokens, 0));
  return work;
}

Workload Workbench::latent(KvType type, int32_t heads, int32_t positions,
                           int32_t splits, int64_t copies) {
  constexpr int32_t kLatent = 512, kRope = 64, kWidth = kLatent + kRope;
  int64_t capacity = (positions + 64) / 64 * 64;
  int64_t bytes = kvBytes(type, kWidth, capacity);
  int64_t outStride =
      splits > 1 ? int64_t(heads) * (kLatent + 2) : heads * kLatent;
  Workload work;
  work.copies = copies;
  work.weightBytes = kvRowBytes(type, kWidth) * positions;
  work.neededBytes = work.weightBytes + heads * (kWidth + kLatent) * 4;
  work.operations = 2.0 * heads * positions * (kWidth + kLatent);
  uint64_t cache = random(bytes * copies);
  uint64_t q = random(heads * kWidth * 4);
  uint64_t spans = empty(splits * outStride * 4);
  uint64_t out = empty(heads * kLatent * 4);
  cuda::LaunchContext c = context(1, positions - 1);
  for (int64_t i = 0; i < copies; ++i) {
    LatentAttentionArgs args{at<float>(q),
                             heads * kWidth,
                             {at<uint8_t>(cache + uint64_t(i * bytes)), kWidth,
                              capacity, kvRowBytes(type, kWidth), type},
                             at<float>(spans),
                             outStride,
                             heads,
                             kLatent,
                             kRope,
                             splits,
                             0.1f};
    add(work, OpCode::LatentAttention, &args, c);
    if (splits == 1)
      continue;
    CombineSplitsArgs combine{
        at<float>(spans), outStride, at<float>(out), heads * kLatent, heads,
        kLatent,          splits};
    add(work, OpCode::CombineSplits, &combine, c);
  }
  return work;
}

/// Returns the pairs of a query and a key that it sees: a token sees what is
/// before it, on average half of the last tokens.
static double pairsOf(int32_t positions, int32_t tokens) {
  return double(tokens) * (positions - (tokens - 1) / 2.0);
}

Workload Workbench::attention(KvType type, int32_t heads, int32_t kvHeads,
                              int32_t columns, int32_t positions,
                              int32_t splits, int32_t tokens, int64_t copies) {
  if (splits == 0) // One wave of blocks, as in a plan.
    splits = std::clamp(gpu_.multiprocessors() / kvHeads, 1, positions / 128);
  int64_t width = gqaKvWidth(kvHeads, columns, columns);
  int64_t capacity = (positions + 64) / 64 * 64;
  int64_t bytes = kvBytes(type, width, capacity);
  int64_t cols = int64_t(heads) * columns;
  int64_t outStride = splits > 1 ? int64_t(heads) * (columns + 2) : cols;
  Workload work;
  work.copies = copies;
  work.weightBytes = kvRowBytes(type, width) * positions;
  work.neededBytes = work.weightBytes + 2 * tokens * cols * 4;
  work.operations = 4.0 * double(cols) * pairsOf(positions, tokens);
  uint64_t cache = random(bytes * copies);
  uint64_t q = random(tokens * cols * 4);
  uint64_t spans = empty(tokens * splits * outStride * 4);
  uint64_t out = empty(tokens * cols * 4);
  cuda::LaunchContext c = context(tokens, positions - tokens);
  for (int64_t i = 0; i < copies; ++i) {
    AttentionArgs args{};
    args.q = at<float>(q), args.qStride = cols;
    args.kv = {at<uint8_t>(cache + uint64_t(i * bytes)), width, capacity,
               kvRowBytes(type, width), type};
    args.out = at<float>(splits > 1 ? spans : out), args.outStride = outStride;
    args.heads = heads, args.kvHeads = kvHeads;
    args.key = args.value = columns;
    args.splits = splits, args.scale = 0.1f;
    if (splits == 1) {
      add(work, OpCode::Attention, &args, c);
      continue;
    }
    CombineSplitsArgs combine{
        at<float>(spans), outStride, at<float>(out), cols, heads,
        columns,          splits};
    cuda::Launch parts[] = {launchesOf(OpCode::Attention, &args, c)[0],
                            launchesOf(OpCode::CombineSplits, &combine, c)[0]};
    // One launch does both, as in a plan.
    cuda::Fusible fusible[] = {{parts[0], {{0, 0, 1, true}}},
                               {parts[1], {{0, 0, 1, false}}}};
    if (auto both = cuda::fuse(fusible, c))
      work.launches.push_back(std::move(*both));
    else
      work.launches.insert(work.launches.end(), std::begin(parts),
                           std::end(parts));
  }
  return work;
}

Workload Workbench::decompressed(KvType type, int32_t heads, int32_t positions,
                                 int32_t tokens) {
  constexpr int32_t kLatent = 512, kRope = 64, kNope = 128, kValue = 128;
  constexpr int32_t kWidth = kLatent + kRope;
  auto weight = [&](int64_t cols) {
    int64_t row = kLatent * 2;
    return WeightView{at<uint8_t>(random(heads * cols * row)),
                      heads,
                      cols,
                      kLatent,
                      cols * row,
                      row,
                      Format::F16};
  };
  Workload work;
  work.copies = 1;
  work.weightBytes = kvRowBytes(type, kWidth) * positions;
  work.neededBytes = work.weightBytes + heads * (kNope + kValue) * kLatent * 2 +
                     tokens * heads * (kNope + kRope + kValue) * 4;
  work.weightOperations =
      2.0 * heads * double(positions) * kLatent * (kNope + kValue);
  work.operations = work.weightOperations + 2.0 * heads *
                                                pairsOf(positions, tokens) *
                                                (kNope + kRope + kValue);
  int64_t capacity = (positions + 63) / 64 * 64;
  MlaAttentionArgs args{};
  args.q = at<float>(random(tokens * heads * (kNope + kRope) * 4));
  args.qStride = heads * (kNope + kRope);
  args.kv = {at<uint8_t>(random(kvBytes(type, kWidth, capacity))), kWidth,
             capacity, kvRowBytes(type, kWidth), type};
  args.wk = weight(kNope), args.keyGemm = cuda::gemmOnGpu();
  args.wv = weight(kValue), args.valueGemm = cuda::gemmOnGpu();
  args.out = at<float>(empty(tokens * heads * kValue * 4));
  args.outStride = heads * kValue;
  args.heads = heads, args.nope = kNope, args.rope = kRope;
  args.latent = kLatent, args.value = kValue, args.scale = 0.1f;
  cuda::LaunchContext c = context(tokens, positions - tokens);
  c.workspace = at<std::byte>(
      empty(cuda::workspaceBytes(OpCode::MlaAttention, &args, c)));
  add(work, OpCode::MlaAttention, &args, c);
  return work;
}

Workload Workbench::sparse(KvType type, int32_t heads, int32_t chosen) {
  constexpr int32_t kLatent = 512, kWidth = kLatent + 64;
  int32_t positions = 4 * chosen;
  std::vector<int32_t> every(static_cast<size_t>(chosen));
  for (int32_t i = 0; i < chosen; ++i)
    every[size_t(i)] = 4 * i;
  Workload work;
  work.weightBytes = kvRowBytes(type, kWidth) * chosen;
  work.neededBytes =
      work.weightBytes + chosen * 4 + heads * (kWidth + kLatent) * 4;
  work.operations = 2.0 * heads * chosen * (kWidth + kLatent);
  moek::SparseAttentionArgs args{};
  args.q = at<float>(random(heads * kWidth * 4)), args.qStride = heads * kWidth;
  args.entries = {at<uint8_t>(random(kvBytes(type, kWidth, positions))), kWidth,
                  positions, kvRowBytes(type, kWidth), type};
  args.chosen = at<int32_t>(upload(every));
  args.out = at<float>(empty(heads * kLatent * 4));
  args.outStride = heads * kLatent;
  args.heads = heads, args.key = kWidth, args.value = kLatent;
  args.ratio = args.pool = 1, args.topK = chosen, args.scale = 0.1f;
  cuda::LaunchContext c = context(1, positions - 1);
  c.workspace = at<std::byte>(
      empty(cuda::workspaceBytes(OpCode::SparseAttention, &args, c)));
  add(work, OpCode::SparseAttention, &args, c);
  return work;
}

} // namespace moek::test
