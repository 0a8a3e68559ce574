//===- LatentMmaTest.cpp - Latent attention with tensor cores -------------===//
//
// AttentionTest.cpp's caches have gaps between rows and widths that this kernel
// does not support. Here rows are those of a real cache, in pages, of several
// sequences.
//
//===----------------------------------------------------------------------===//

#include "kernels/KvCache.h"
#include "kernels/quant/Half.h"
#include "test/kernels/AttentionModel.h"
#include "test/kernels/cuda/OnGpu.h"

using namespace moek;
using namespace moek::test;

namespace {

struct Shape {
  int32_t heads, latent, rope, splits;
  /// For each sequence: its rows in the step, and its rows in the cache before.
  std::vector<std::pair<int32_t, int32_t>> sequences;
  float scale = 0.1f, size = 1; ///< Factors of scores and of queries.
};

struct Problem {
  Problem(KvType type, const Shape &s, uint32_t seed)
      : type(type), shape(s), random(seed) {
    if (type == KvType::Q8_0) // Four warps need whole units of 32 columns.
      shape.latent = std::max(s.latent, 128);
    width = shape.latent + shape.rope;
    for (auto [count, position] : s.sequences) {
      tokens += count;
      pagesNeeded += (position + count + kKvPage - 1) / kKvPage;
    }
    // Pages of all sequences alternate, in descending order, so that none is
    // where it would be without a page table.
    int64_t next = pagesNeeded;
    for (auto [count, position] : s.sequences) {
      std::vector<int32_t> list;
      for (int64_t p = 0; p < position + count; p += kKvPage)
        list.push_back(int32_t(--next));
      pages.push_back(list);
    }
    capacity = pagesNeeded * kKvPage;
    if (type == KvType::Q8_0)
      codes = std::make_unique<Cache>(type, width, capacity, capacity, random);
    else
      rows.assign(size_t(capacity * width),
                  type == KvType::F16 ? 0x7e00 : 0x7fc0);
    q = std::make_unique<Matrix<float>>(tokens, s.heads * width, 4);
    q->fill(random, s.size);
    int32_t begin = 0;
    for (size_t i = 0; i < s.sequences.size(); ++i) {
      auto [count, position] = s.sequences[i];
      steps.push_back({begin, count, position, pages[i].data()});
      begin += count;
      for (int64_t p = 0; !codes && p < position + count; ++p)
        for (int64_t c = 0; c < width; ++c)
          set(i, p, c, random.normal());
    }
  }

  int64_t rowOf(size_t sequence, int64_t position) const {
    return pages[sequence][size_t(position / kKvPage)] * kKvPage +
           position % kKvPage;
  }
  uint16_t &bits(size_t sequence, int64_t position, int64_t col) {
    return rows[size_t(rowOf(sequence, position) * width + col)];
  }
  void set(size_t sequence, int64_t position, int64_t col, float value) {
    if (codes)
      return codes->set(rowOf(sequence, position), col, value);
    bits(sequence, position, col) =
        type == KvType::F16 ? floatToF16(value) : floatToBf16(value);
  }
  double at(size_t sequence, int64_t position, int64_t col) {
    if (codes)
      return codes->at(rowOf(sequence, position), col);
    uint16_t b = bits(sequence, position, col);
    return type == KvType::F16 ? f16ToFloat(b) : bf16ToFloat(b);
  }

  /// Runs attention and combines its KV splits.
  void run(Matrix<float> &out) {
    Step step{int32_t(tokens), 0, steps.data(), int32_t(steps.size())};
    KvView kv = codes ? codes->view
                      : KvView{reinterpret_cast<uint8_t *>(rows.data()), width,
                               capacity, width * 2, type};
    LatentAttentionArgs args{
        q->data(),   q->stride,    kv,         out.data(),   out.stride,
        shape.heads, shape.latent, shape.rope, shape.splits, shape.scale};
    cuda::LaunchContext context = contextOf(*GpuTest::get().gpu, step);
    LatentAttentionArgs aligned = args;
    aligned.kv.data = nullptr;
    ASSERT_NE(launchesOf(OpCode::LatentAttention, &aligned, context)[0]
                  .kernel.file.find("LatentMma"),
              std::string::npos);
    if (shape.splits == 1)
      return runOnGpu(OpCode::LatentAttention, &args, step, {});
    Matrix<float> spans(tokens * shape.splits, shape.heads * (shape.latent + 2),
                        3);
    args.out = spans.data();
    args.outStride = spans.stride;
    runOnGpu(OpCode::LatentAttention, &args, step, {});
    spans.expectOnlyPayloadWritten();
    CombineSplitsArgs combine{spans.data(), spans.stride, out.data(),
                              out.stride,   shape.heads,  shape.latent,
                              shape.splits};
    runOnGpu(OpCode::CombineSplits, &combine, step, {});
  }

  /// Compares with float64, where queries and weights are sums of two 16-bit
  /// numbers.
  void check() {
    Matrix<float> out(tokens, shape.heads * shape.latent, 3);
    run(out);
    out.expectOnlyPayloadWritten();
    double part = type == KvType::F16 ? 0x1p-21 : 0x1p-16;
    std::vector<Attention> attentions;
    std::vector<size_t> sequenceOf;
    for (size_t i = 0; i < steps.size(); ++i)
      for (int32_t t = 0; t < steps[i].count; ++t)
        for (int32_t h = 0; h < shape.heads; ++h) {
          const float *head = q->row(steps[i].begin + t) + h * width;
          attentions.emplace_back(steps[i].position + t + 1,
                                  double(shape.scale), width, [&](int64_t k) {
                                    Sum sum;
                                    for (int64_t c = 0; c < width; ++c)
                                      sum.add(double(head[c]) * at(i, k, c));
                                    sum.error = part * sum.magnitude;
                                    return sum;
                                  });
          sequenceOf.push_back(i);
        }
    expectClose(out, [&](int64_t t, int64_t c) {
      size_t n = size_t(t * shape.heads + c / shape.latent);
      Wanted wanted = attentions[n].output(0, [&](int64_t k) {
        Sum v;
        v.add(at(sequenceOf[n], k, c % shape.latent), 0);
        return v;
      });
      double magnitude = 0;
      for (size_t k = 0; k < attentions[n].weights.size(); ++k)
        magnitude += attentions[n].weights[k] *
                     std::fabs(at(sequenceOf[n], int64_t(k), c % shape.latent));
      wanted.tolerance += part * magnitude;
      return wanted;
    });
  }

  KvType type;
  Shape shape;
  int64_t width = 0, tokens = 0, pagesNeeded = 0, capacity = 0;
  Random random;
  std::vector<std::vector<int32_t>> pages;
  std::vector<uint16_t> rows;   ///< Rows of an F16 or BF16 cache.
  std::unique_ptr<Cache> codes; ///< Rows of a Q8_0 cache.
  std::unique_ptr<Matrix<float>> q;
  std::vector<SequenceRows> steps;
};

constexpr KvType kTypes[] = {KvType::F16, KvType::BF16, KvType::Q8_0};

TEST(LatentMmaTest, DepthsAroundTiles) {
  for (KvType type : kTypes)
    for (int32_t position : {0, 30, 31, 32, 63, 64, 127, 200})
      Problem(type, {16, 64, 64, 1, {{1, position}}}, 1).check();
}

TEST(LatentMmaTest, AnyNumberOfHeads) {
  for (KvType type : kTypes)
    for (int32_t heads : {1, 7, 17, 40})
      Problem(type, {heads, 64, 64, 2, {{1, 150}}}, 2).check();
}

TEST(LatentMmaTest, SequencesAndSpans) {
  for (KvType type : kTypes)
    for (int32_t splits : {1, 3, 64})
      Problem(type, {5, 64, 64, splits, {{1, 0}, {3, 62}, {1, 400}, {2, 129}}},
              3)
          .check();
}

TEST(LatentMmaTest, DeepSeeksShape) {
  for (KvType type : kTypes)
    Problem(type, {16, 512, 64, 4, {{1, 872}}, 0.04f}, 4).check();
}

/// Queries that W_UK has made too large for F16.
TEST(LatentMmaTest, QueriesBeyondF16) {
  for (KvType type : kTypes)
    Problem(type, {16, 64, 64, 2, {{1, 140}}, 1e-6f, 6e4f * 20}, 5).check();
}

TEST(LatentMmaTest, NaNStaysWhereItIsSeen) {
  for (KvType type : kTypes) {
    // Row 12 of the second sequence belongs to its third token.
    Problem problem(type, {3, 64, 64, 1, {{1, 40}, {4, 10}}}, 6);
    problem.set(1, 12, 5, NAN);
    int64_t latent = problem.shape.latent;
    Matrix<float> out(5, 3 * latent);
    problem.run(out);
    for (int64_t t = 0; t < 5; ++t)
      for (int64_t c = 0; c < 3 * latent; ++c)
        ASSERT_EQ(std::isfinite(out.at(t, c)), t < 3) << t << ", " << c;
    Problem query(type, {3, 64, 64, 2, {{2, 200}}}, 7);
    // The element belongs to token 1 and head 1.
    query.q->at(1, latent + 64 + 9) = NAN;
    Matrix<float> second(2, 3 * latent);
    query.run(second);
    for (int64_t t = 0; t < 2; ++t)
      for (int64_t c = 0; c < 3 * latent; ++c)
        ASSERT_EQ(std::isfinite(second.at(t, c)), t != 1 || c / latent != 1);
  }
}

} // namespace
