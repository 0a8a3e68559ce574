//===- OpWork.cpp - Arguments used by several kernels ---------------------===//

#include "test/bench/OpWork.h"

namespace moek::bench {

const GemmInfo &gemmFor(Format format, Isa isa) {
  const GemmInfo *best = nullptr;
  for (const GemmInfo &gemm : gemmTable())
    if (gemm.format == format && gemm.isa == isa &&
        (!best || gemm.layout == Layout::Rows16))
      best = &gemm;
  return *best;
}

const uint8_t *activations(Arena &arena, const GemmInfo &gemm, int64_t rows,
                           int64_t cols, int64_t &stride) {
  stride = encodedRowBytes(gemm.activation, cols);
  auto *p = arena.make<uint8_t>(rows * stride);
  std::memset(p, 0, size_t(rows * stride));
  return p;
}

KvView cache(Arena &arena, Step step, KvType type, int64_t width) {
  int64_t rows = step.position + step.tokens;
  int64_t bytes = kvBytes(type, width, rows),
          rowBytes = kvRowBytes(type, width);
  auto *data = arena.make<uint8_t>(bytes);
  std::memset(data, 0x3d, size_t(bytes)); // As BF16 this is 0.046, as F16 1.31.
  int64_t tileBytes = kKvTile * rowBytes;
  std::mt19937 random(3);
  for (int64_t at = 0; type == KvType::Q8_0 && at < bytes; at += tileBytes)
    std::generate_n(data + at, kvScaleOffset(width),
                    [&] { return uint8_t(random()); });
  return {data, width, rows, rowBytes, type};
}

Slots routed(Arena &arena, Step step) {
  std::mt19937 random(2);
  std::vector<std::vector<int32_t>> lists(kExperts);
  std::vector<int32_t> experts(kExperts);
  for (int32_t e = 0; e < kExperts; ++e)
    experts[size_t(e)] = e;
  for (int32_t t = 0; t < step.tokens; ++t) {
    std::shuffle(experts.begin(), experts.end(), random);
    for (int32_t j = 0; j < kTopK; ++j)
      lists[size_t(experts[size_t(j)])].push_back(t * kTopK + j);
  }
  Slots s{arena.make<int32_t>(kExperts + 1),
          arena.make<int32_t>(step.tokens * kTopK)};
  int32_t at = 0;
  for (int32_t e = 0; e < kExperts; ++e) {
    s.offsets[e] = at;
    for (int32_t slot : lists[size_t(e)])
      s.slots[at++] = slot;
    s.touched += !lists[size_t(e)].empty();
  }
  s.offsets[kExperts] = at;
  return s;
}

} // namespace moek::bench
