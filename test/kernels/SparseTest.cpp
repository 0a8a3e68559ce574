// Sparse attention compared with float64: every cache type, entries of one
// position and of several, windows, sinks, ties, sequences in arbitrary pages.
#include "kernels/Entries.h"
#include "test/kernels/AttentionModel.h"
#include "test/kernels/Paged.h"

#include <algorithm>
#include <numeric>

using namespace moek;
using namespace moek::test;

namespace {

MOE_KERNEL_SUITE(LayerNormTest, LayerNorm);
MOE_KERNEL_SUITE(RowStoreTest, RowStore);
MOE_KERNEL_SUITE(IndexScoresTest, IndexScores);
MOE_KERNEL_SUITE(IndexSelectTest, IndexSelect);
MOE_KERNEL_SUITE(SparseAttentionTest, SparseAttention);

TEST_P(LayerNormTest, HandlesMeansFarFromZero) {
  Random random(1);
  for (int64_t cols : {1, 7, 64, 301}) {
    const bool biased = cols != 64;
    Matrix<float> x(9, cols, 3), out(9, cols, 2), weight(1, cols),
        bias(1, cols);
    x.fill(random);
    weight.fill(random);
    bias.fill(random);
    for (int64_t c = 0; c < cols; ++c)
      x.at(3, c) += 1000;
    const float eps = 1e-3f;
    if (!biased)
      std::memset(bias.data(), 0, bias.bytes().size());
    LayerNormArgs args{
        x.data(),   x.stride,   weight.data(), biased ? bias.data() : nullptr,
        out.data(), out.stride, cols,          eps};
    runKernel(GetParam(), &args, {9, 0}, 0, {&out});
    expectClose(out, [&](int64_t t, int64_t c) {
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < cols; ++i)
        mean += double(x.at(t, i)) / double(cols);
      for (int64_t i = 0; i < cols; ++i)
        variance += std::pow(double(x.at(t, i)) - mean, 2) / double(cols);
      double scale =
          double(weight.at(0, c)) / std::sqrt(variance + double(eps));
      double want = (double(x.at(t, c)) - mean) * scale + double(bias.at(0, c));
      // The error of a mean is that of a float sum.
      double size = std::fabs(mean) + std::sqrt(variance);
      return Wanted{want, sumTolerance(cols, 4 * size) * std::fabs(scale) +
                              4 * kEps *
                                  (std::fabs(want) + std::fabs(bias.at(0, c)))};
    });
  }
}

void expectRowsStored(const KernelInfo &kernel, const Paged &paged,
                      int32_t ratio = 1) {
  Random random(2);
  for (KvType type : kKvTypes)
    for (int64_t width : {5, 64, 130}) {
      SCOPED_TRACE(testing::Message() << int(type) << " of " << width);
      Matrix<float> x(paged.tokens, width, 3);
      x.fill(random);
      Cache cache(type, width, paged.kRows, paged.kRows, random);
      Cache before = Cache(type, width, paged.kRows, 0, random);
      std::memcpy(before.memory.data(), cache.memory.data(),
                  cache.memory.bytes().size());
      RowStoreArgs args{x.data(), x.stride, cache.view, paged.ring, ratio};
      runKernel(kernel, &args, paged.step(), 0, {&cache.memory});
      std::vector<bool> written(size_t(paged.kRows), false);
      for (int64_t t = 0; t < paged.tokens; ++t) {
        if ((paged.position(t) + 1) % ratio != 0)
          continue;
        int64_t row = paged.row(t, paged.position(t));
        written[size_t(row)] = true;
        for (int64_t c = 0; c < width; ++c) {
          double step = type == KvType::F32    ? 0
                        : type == KvType::F16  ? 0x1p-11
                        : type == KvType::BF16 ? 0x1p-8
                                               : 0;
          double tolerance = step * std::fabs(x.at(t, c)) + 1e-7;
          if (type == KvType::Q8_0)
            tolerance = 0.51 * cache.scaleAt(row, c);
          ASSERT_NEAR(cache.at(row, c), x.at(t, c), tolerance);
        }
      }
      for (int64_t row = 0; row < paged.kRows; ++row)
        if (!written[size_t(row)]) {
          ASSERT_EQ(cache.rowBytes(row), before.rowBytes(row)) << row;
        }
    }
}

TEST_P(RowStoreTest, RowsOfSequences) { expectRowsStored(GetParam(), Paged()); }

TEST_P(RowStoreTest, RingsOfSequences) {
  expectRowsStored(GetParam(), Paged(false, 2 * kKvPage));
}

TEST_P(RowStoreTest, OnlyRowsThatEndEntries) {
  for (int32_t ratio : {2, 4, 7})
    expectRowsStored(GetParam(), Paged(), ratio);
}

TEST_P(RowStoreTest, NonFiniteRowsBeginWithNaN) {
  Random random(3);
  for (KvType type : {KvType::F32, KvType::F16, KvType::BF16}) {
    Matrix<float> x(2, 70);
    x.fill(random);
    x.at(1, 66) = type == KvType::F16 ? 70000 : INFINITY;
    Cache cache(type, 70, kKvPage, 0, random);
    RowStoreArgs args{x.data(), x.stride, cache.view, {}, 1};
    runKernel(GetParam(), &args, {2, 0}, 0, {&cache.memory});
    EXPECT_FALSE(std::isnan(cache.at(0, 0)));
    EXPECT_TRUE(std::isnan(cache.at(1, 0)));
  }
}

TEST_P(IndexScoresTest, EntriesThatATokenSees) {
  Paged paged;
  Random random(4);
  for (KvType type : kKvTypes)
    for (auto [heads, key, ratio] : {std::tuple{12, 64, 1}, {3, 37, 4}}) {
      SCOPED_TRACE(testing::Message() << int(type) << ", ratio " << ratio);
      Matrix<float> q(paged.tokens, heads * key, 3);
      Matrix<float> weights(paged.tokens, heads, 2);
      Matrix<float> out(paged.tokens, paged.kContext / ratio);
      q.fill(random);
      weights.fill(random);
      Cache cache(type, key, paged.kRows, paged.kRows, random);
      const float scale = 0.3f;
      const bool weighs = ratio == 1;
      if (!weighs)
        std::fill_n(weights.data(), paged.tokens * weights.stride, 1.0f);
      IndexScoresArgs args{
          q.data(),       q.stride,   weighs ? weights.data() : nullptr,
          weights.stride, cache.view, out.data(),
          out.stride,     heads,      key,
          ratio,          scale};
      runKernel(GetParam(), &args, paged.step(),
                size_t(indexScoresScratchBytes(heads, key)), {&out});
      expectClose(out, [&, heads = heads, key = key, ratio = ratio](int64_t t,
                                                                    int64_t e) {
        if (e >= paged.entries(t, ratio))
          return Wanted{NAN, 0}; // These columns are not written.
        int64_t row = paged.entryRow(t, e, ratio);
        double sum = 0, magnitude = 0;
        for (int64_t h = 0; h < heads; ++h) {
          double dot = 0, terms = 0, w = weights.at(t, h);
          for (int64_t c = 0; c < key; ++c) {
            double term = q.at(t, h * key + c) * cache.at(row, c);
            dot += term, terms += std::fabs(term);
          }
          sum += w * std::fmax(dot, 0), magnitude += std::fabs(w) * terms;
        }
        return Wanted{scale * sum,
                      scale * sumTolerance(key + heads, magnitude)};
      });
    }
}

// A non-finite value is visible in the scores that depend on it.
TEST_P(IndexScoresTest, NonFiniteIsSeen) {
  Random random(10);
  constexpr int64_t kHeads = 5, kKey = 7;
  Matrix<float> q(2, kHeads * kKey), weights(2, kHeads), out(2, 40);
  q.fill(random);
  weights.fill(random);
  q.at(0, 2 * kKey + 3) = NAN;
  Cache cache(KvType::F32, kKey, kKvPage, 40, random);
  cache.set(9, 2, NAN);
  IndexScoresArgs args{
      q.data(),   q.stride,   weights.data(), weights.stride, cache.view,
      out.data(), out.stride, kHeads,         kKey,           1,
      1};
  runKernel(GetParam(), &args, {2, 30},
            size_t(indexScoresScratchBytes(kHeads, kKey)), {&out});
  for (int64_t e = 0; e < 32; ++e) {
    EXPECT_TRUE(std::isnan(out.at(0, e))) << e;
    EXPECT_EQ(std::isnan(out.at(1, e)), e == 9) << e;
  }
}

/// Returns the best entries, by a stable sort.
std::vector<int32_t> bestOf(const Matrix<float> &scores, int64_t t, int64_t n,
                            int64_t k) {
  std::vector<int32_t> order(size_t(n), 0);
  std::iota(order.begin(), order.end(), 0);
  auto size = [&](int32_t i) {
    float x = scores.at(t, i);
    return std::isnan(x) ? INFINITY : x;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return size(a) > size(b); });
  order.resize(size_t(std::min(n, k)));
  std::sort(order.begin(), order.end());
  order.resize(size_t(k), -1);
  return order;
}

TEST_P(IndexSelectTest, SelectsTheLargestAndTheFirstOfTies) {
  Paged paged;
  Random random(5);
  for (auto [topK, ratio] : {std::pair{16, 1}, {1, 1}, {5, 4}, {200, 1}})
    for (bool coarse : {false, true}) {
      SCOPED_TRACE(testing::Message() << topK << " of " << ratio);
      Matrix<float> scores(paged.tokens, paged.kContext / ratio, 5);
      Matrix<int32_t> chosen(paged.tokens, topK);
      scores.fill(random);
      // Many ties, including zeros of both signs, and some infinities.
      for (int64_t t = 0; t < paged.tokens && coarse; ++t)
        for (int64_t e = 0; e < scores.cols; ++e) {
          float &score = scores.at(t, e);
          score =
              std::fabs(score) < 1 ? (e % 2 ? -0.0f : 0.0f) : std::trunc(score);
          if (t == 3 && e % 5 == 2)
            score = e % 2 ? INFINITY : -INFINITY;
        }
      IndexSelectArgs args{scores.data(), scores.stride, chosen.data(),
                           topK,          ratio,         1};
      runKernel(GetParam(), &args, paged.step(),
                size_t(indexSelectScratchBytes()), {&chosen});
      for (int64_t t = 0; t < paged.tokens; ++t) {
        std::vector<int32_t> want =
            bestOf(scores, t, paged.entries(t, ratio), topK);
        ASSERT_EQ(std::vector<int32_t>(chosen.row(t), chosen.row(t) + topK),
                  want)
            << "token " << t;
      }
    }
}

TEST_P(IndexSelectTest, ManyScores) {
  constexpr int32_t kScores = 5003;
  Random random(9);
  Matrix<float> scores(1, kScores);
  for (int64_t e = 0; e < kScores; ++e)
    scores.at(0, e) =
        std::round(random.normal(100)) / 8; // Rounding makes equal scores.
  for (int32_t topK : {1, 700, kScores - 1}) {
    Matrix<int32_t> chosen(1, topK);
    IndexSelectArgs args{scores.data(), kScores, chosen.data(), topK, 1, 1};
    runKernel(GetParam(), &args, {1, kScores - 1},
              size_t(indexSelectScratchBytes()), {&chosen});
    std::vector<int32_t> got(chosen.row(0), chosen.row(0) + topK);
    EXPECT_EQ(got, bestOf(scores, 0, kScores, topK)) << "top " << topK;
  }
}

TEST_P(IndexSelectTest, NaNsAreSelected) {
  Random random(6);
  Matrix<float> scores(1, 64);
  Matrix<int32_t> chosen(1, 4);
  scores.fill(random);
  scores.at(0, 9) = NAN;
  scores.at(0, 40) = -NAN;
  IndexSelectArgs args{scores.data(), 64, chosen.data(), 4, 1, 1};
  runKernel(GetParam(), &args, {1, 60}, size_t(indexSelectScratchBytes()),
            {&chosen});
  std::vector<int32_t> got(chosen.row(0), chosen.row(0) + 4);
  EXPECT_EQ(got, bestOf(scores, 0, 61, 4));
  EXPECT_TRUE(std::ranges::count(got, 9) && std::ranges::count(got, 40));
}

struct SparseShape {
  /// topK 0: all entries are seen.
  int32_t heads, key, value, window, ratio, topK;
  bool sinks;
  int32_t pool = 1; ///< Entries that are chosen together.
};

/// Returns what a token attends to: rows of the first cache, then of the
/// second.
std::vector<std::pair<const Cache *, int64_t>>
seenBy(const Paged &paged, const SparseShape &s, int64_t t, const Cache &rows,
       const Cache &entries, const Matrix<int32_t> &chosen) {
  std::vector<std::pair<const Cache *, int64_t>> seen;
  int64_t position = paged.position(t);
  for (int64_t p = std::max<int64_t>(0, position + 1 - s.window);
       p <= position && s.window > 0; ++p)
    seen.emplace_back(&rows, paged.row(t, p));
  const int64_t n = s.ratio ? paged.entries(t, s.ratio) : 0;
  for (int64_t entry = 0; entry < n; ++entry) {
    const int64_t block = entry / s.pool, blocks = n / s.pool;
    const int32_t *begin = chosen.row(t);
    if (s.topK == 0 || block == blocks ||
        std::count(begin, begin + std::min<int64_t>(blocks, s.topK), block))
      seen.emplace_back(&entries, paged.entryRow(t, entry, s.ratio));
  }
  return seen;
}

/// A copy of the cache in which rows of F16 and BF16 follow each other without
/// gaps, as in plans, so that tensor-core kernels accept their addresses.
struct Packed {
  explicit Packed(const Cache &cache) : view(cache.view) {
    int64_t row = kvRowBytes(view.type, view.width);
    if (view.type == KvType::Q8_0 || row % 16 != 0)
      return;
    memory = std::make_unique<Guarded>(size_t(row * view.capacity));
    for (int64_t r = 0; r < view.capacity; ++r)
      std::memcpy(memory->data() + r * row,
                  cache.view.data + r * cache.view.rowStride, size_t(row));
    view.data = reinterpret_cast<uint8_t *>(memory->data());
    view.rowStride = row;
  }
  KvView view;
  std::unique_ptr<Guarded> memory;
};

/// Compares with float64, for the types of rows and of entries.
void expectSparse(const KernelInfo &kernel, const Paged &paged,
                  const SparseShape &s, const KvType (&types)[2]) {
  SCOPED_TRACE(testing::Message()
               << int(types[0]) << " and " << int(types[1]) << ", window "
               << s.window << ", ratio " << s.ratio << ", top " << s.topK
               << ", pool " << s.pool);
  Random random(7);
  Matrix<float> q(paged.tokens, s.heads * s.key, 3);
  Matrix<float> out(paged.tokens, s.heads * s.value, 2);
  Matrix<float> sinks(1, s.heads);
  Matrix<int32_t> chosen(paged.tokens, std::max(1, s.topK));
  q.fill(random);
  sinks.fill(random);
  Cache rows(types[0], s.key, paged.kRows, paged.kRows, random);
  Cache entries(types[1], s.key, paged.kRows, paged.kRows, random);
  // Any of the visible blocks of entries, in ascending order.
  for (int64_t t = 0; t < paged.tokens && s.topK; ++t) {
    int64_t n = paged.entries(t, s.ratio) / s.pool, first = 0;
    for (int64_t i = 0; i < std::min<int64_t>(n, s.topK); ++i) {
      int64_t spare = n - std::min<int64_t>(n, s.topK) - (first - i);
      first += random.below(int(std::min<int64_t>(spare, 3) + 1));
      chosen.at(t, i) = int32_t(first++);
    }
  }
  Packed packedRows(rows), packedEntries(entries);
  const double scale = 0.2;
  SparseAttentionArgs args{};
  args.q = q.data(), args.qStride = q.stride;
  args.kv = packedRows.view, args.entries = packedEntries.view;
  args.chosen = s.topK ? chosen.data() : nullptr;
  args.sinks = s.sinks ? sinks.data() : nullptr;
  args.out = out.data(), args.outStride = out.stride;
  args.heads = s.heads, args.key = s.key, args.value = s.value;
  args.window = s.window, args.ratio = s.ratio, args.topK = s.topK;
  args.pool = s.pool, args.scale = float(scale), args.ring = paged.ring;
  runKernel(kernel, &args, paged.step(),
            size_t(sparseAttentionScratchBytes(s.heads, s.key)), {&out});
  for (int64_t t = 0; t < paged.tokens; ++t) {
    auto seen = seenBy(paged, s, t, rows, entries, chosen);
    for (int64_t h = 0; h < s.heads; ++h) {
      AttentionRules rules;
      if (s.sinks)
        rules.sink = sinks.at(0, h);
      Attention attention(
          int64_t(seen.size()), double(args.scale), s.key,
          [&](int64_t k) {
            auto [cache, row] = seen[size_t(k)];
            Sum sum;
            for (int64_t c = 0; c < s.key; ++c)
              sum.add(q.at(t, h * s.key + c) * cache->at(row, c));
            return sum;
          },
          rules);
      for (int64_t c = 0; c < s.value; ++c) {
        Wanted want = attention.output(1, [&](int64_t k) {
          Sum sum;
          sum.add(seen[size_t(k)].first->at(seen[size_t(k)].second, c));
          return sum;
        });
        ASSERT_NEAR(out.at(t, h * s.value + c), want.value, want.tolerance)
            << "token " << t << ", head " << h << ", column " << c;
      }
    }
  }
}

const SparseShape kSparseShapes[] = {{5, 48, 40, 0, 1, 16, false},
                                     {6, 32, 32, 9, 0, 0, true},
                                     {12, 37, 37, 9, 4, 14, true},
                                     {3, 70, 65, 70, 8, 0, false},
                                     {17, 128, 64, 40, 2, 45, true}};

TEST_P(SparseAttentionTest, WindowsEntriesAndSinks) {
  for (const SparseShape &shape : kSparseShapes)
    for (KvType type : kKvTypes)
      expectSparse(GetParam(), Paged(), shape, {type, type});
}

TEST_P(SparseAttentionTest, EntriesChosenInBlocks) {
  for (const SparseShape &shape :
       {SparseShape{5, 48, 40, 0, 1, 3, false, 4},
        SparseShape{6, 32, 32, 9, 2, 1, true, 3},
        SparseShape{17, 192, 128, 0, 1, 30, false, 5}})
    for (KvType type : kKvTypes)
      expectSparse(GetParam(), Paged(), shape, {type, type});
  for (const SparseShape &shape :
       {SparseShape{17, 48, 40, 0, 1, 40, false, 4},
        SparseShape{20, 192, 128, 0, 1, 33, false, 3}})
    expectSparse(GetParam(), Paged(true), shape, {KvType::F16, KvType::F16});
}

TEST_P(SparseAttentionTest, RowsAndEntriesOfOtherTypes) {
  expectSparse(GetParam(), Paged(), kSparseShapes[2],
               {KvType::BF16, KvType::Q8_0});
  expectSparse(GetParam(), Paged(), kSparseShapes[3],
               {KvType::Q8_0, KvType::F16});
}

TEST_P(SparseAttentionTest, RowsInRings) {
  for (const SparseShape &shape : kSparseShapes)
    if (shape.window)
      expectSparse(GetParam(), Paged(false, 2 * kKvPage), shape,
                   {KvType::BF16, KvType::BF16});
}

// The list of such a token is divided among workers, if there are more of them.
TEST_P(SparseAttentionTest, OneTokenOfALongText) {
  for (const SparseShape &shape : {SparseShape{17, 48, 40, 0, 1, 150, false},
                                   SparseShape{2, 130, 129, 99, 1, 77, true},
                                   SparseShape{1, 16, 16, 64, 2, 0, true},
                                   SparseShape{20, 192, 128, 0, 1, 150, false},
                                   SparseShape{3, 64, 64, 99, 1, 77, true}})
    expectSparse(GetParam(), Paged(true), shape, {KvType::F16, KvType::F16});
}

// A non-finite row affects the tokens that see it, and no others.
TEST_P(SparseAttentionTest, NonFiniteIsSeenWhereItCounts) {
  for (auto [type, width] : {std::pair(KvType::F32, 8), {KvType::F16, 64}}) {
    SCOPED_TRACE(width);
    Random random(8);
    Matrix<float> q(3, 2 * width), out(3, 2 * width);
    Matrix<int32_t> chosen(3, 2);
    q.fill(random);
    Cache cache(type, width, kKvPage, 20, random);
    cache.set(4, 0, NAN);
    Packed packed(cache);
    for (int64_t t = 0; t < 3; ++t)
      chosen.at(t, 0) = t == 1 ? 4 : 3, chosen.at(t, 1) = 6;
    SparseAttentionArgs args{};
    args.q = q.data(), args.qStride = q.stride;
    args.entries = packed.view, args.chosen = chosen.data();
    args.out = out.data(), args.outStride = out.stride;
    args.heads = 2, args.key = args.value = width, args.ratio = 1;
    args.topK = 2, args.pool = 1, args.scale = 1;
    runKernel(GetParam(), &args, {3, 10},
              size_t(sparseAttentionScratchBytes(2, width)), {&out});
    for (int64_t t = 0; t < 3; ++t)
      for (int64_t c = 0; c < 2 * width; ++c)
        EXPECT_EQ(std::isnan(out.at(t, c)), t == 1) << t << ", " << c;
  }
}

} // namespace
