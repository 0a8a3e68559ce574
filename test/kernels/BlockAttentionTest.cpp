// Attention to blocks of positions compared with float64: every cache type,
// blocks longer and shorter than a tile, with and without local ones, sequences
// in arbitrary pages.
#include "kernels/Entries.h"
#include "kernels/KvCache.h"
#include "test/kernels/AttentionModel.h"
#include "test/kernels/Paged.h"

#include <algorithm>
#include <numeric>

using namespace moek;
using namespace moek::test;

namespace {

MOE_KERNEL_SUITE(BlockScoresTest, BlockScores);
MOE_KERNEL_SUITE(BlockSelectTest, IndexSelect);
MOE_KERNEL_SUITE(BlockAttentionTest, BlockAttention);

/// The first position that the token at `position` sees whatever was chosen.
int64_t tailOf(int64_t position, int64_t ratio, int64_t local) {
  if (local == 0)
    return (position + 1) / ratio * ratio;
  return std::max<int64_t>(0, position / ratio - local + 1) * ratio;
}

TEST_P(BlockScoresTest, TheLargestProductOfABlock) {
  Paged paged;
  Random random(21);
  for (KvType type : kKvTypes)
    for (auto [groups, key, ratio, local] : {std::tuple{2, 64, 4, 1},
                                             {3, 37, 70, 1},
                                             {19, 20, 16, 3},
                                             {1, 33, 5, 0}}) {
      SCOPED_TRACE(testing::Message()
                   << int(type) << ", ratio " << ratio << ", local " << local);
      const int64_t blocks = paged.kContext / ratio + 1;
      Matrix<float> q(paged.tokens, groups * key, 3);
      Matrix<float> out(paged.tokens, groups * blocks);
      q.fill(random);
      Cache cache(type, key, paged.kRows, paged.kRows, random);
      BlockScoresArgs args{q.data(), q.stride, cache.view, out.data(), blocks,
                           groups,   key,      ratio,      local};
      runKernel(GetParam(), &args, paged.step(),
                size_t(indexScoresScratchBytes(groups, key)), {&out});
      expectClose(out, [&, key = key, ratio = ratio,
                        local = local](int64_t t, int64_t column) {
        const int64_t group = column / blocks, block = column % blocks;
        if (block * ratio >= tailOf(paged.position(t), ratio, local))
          return Wanted{NAN, 0}; // These columns are not written.
        double most = -INFINITY, tolerance = 0;
        for (int64_t p = block * ratio; p < (block + 1) * ratio; ++p) {
          double dot = 0, terms = 0;
          for (int64_t c = 0; c < key; ++c) {
            double term =
                q.at(t, group * key + c) * cache.at(paged.row(t, p), c);
            dot += term, terms += std::fabs(term);
          }
          most = std::max(most, dot);
          tolerance = std::max(tolerance, sumTolerance(key, terms));
        }
        return Wanted{most, tolerance};
      });
    }
}

// A non-finite key shows in the score of its block, and a non-finite query in
// all scores of its group.
TEST_P(BlockScoresTest, NonFiniteIsSeen) {
  Random random(22);
  constexpr int32_t kGroups = 3, kKey = 9, kRatio = 6;
  Matrix<float> q(2, kGroups * kKey), out(2, kGroups * 10);
  q.fill(random);
  q.at(0, 2 * kKey + 3) = NAN;
  Cache cache(KvType::F32, kKey, kKvPage, 50, random);
  cache.set(9, 2, NAN);
  BlockScoresArgs args{q.data(), q.stride, cache.view, out.data(), 10,
                       kGroups,  kKey,     kRatio,     1};
  runKernel(GetParam(), &args, {2, 40},
            size_t(indexScoresScratchBytes(kGroups, kKey)), {&out});
  for (int64_t t = 0; t < 2; ++t)
    for (int64_t group = 0; group < kGroups; ++group)
      for (int64_t block = 0; block < 6; ++block)
        EXPECT_EQ(std::isnan(out.at(t, group * 10 + block)),
                  block == 1 || (t == 0 && group == 2))
            << t << ", " << group << ", " << block;
}

TEST_P(BlockSelectTest, EachGroupChoosesBeforeTheLocalBlocks) {
  Paged paged;
  Random random(23);
  for (auto [topK, ratio, groups, local] :
       {std::tuple{2, 4, 3, 1}, {3, 16, 2, 2}, {1, 5, 4, 0}}) {
    SCOPED_TRACE(testing::Message() << topK << " of " << ratio);
    const int64_t blocks = paged.kContext / ratio;
    Matrix<float> scores(paged.tokens, groups * blocks);
    Matrix<int32_t> chosen(paged.tokens, groups * topK);
    scores.fill(random);
    IndexSelectArgs args{scores.data(), blocks, chosen.data(), topK,
                         ratio,         groups, local};
    runKernel(GetParam(), &args, paged.step(),
              size_t(indexSelectScratchBytes()), {&chosen});
    for (int64_t t = 0; t < paged.tokens; ++t)
      for (int64_t group = 0; group < groups; ++group) {
        int64_t n = tailOf(paged.position(t), ratio, local) / ratio;
        std::vector<int32_t> want(size_t(n), 0);
        std::iota(want.begin(), want.end(), 0);
        std::ranges::sort(want, [&](int32_t a, int32_t b) {
          return scores.at(t, group * blocks + a) >
                 scores.at(t, group * blocks + b);
        });
        want.resize(size_t(std::min<int64_t>(n, topK)));
        std::ranges::sort(want);
        want.resize(size_t(topK), -1);
        const int32_t *got = chosen.row(t) + group * topK;
        ASSERT_EQ(std::vector<int32_t>(got, got + topK), want)
            << "token " << t << ", group " << group;
      }
  }
}

struct BlockShape {
  int32_t heads, kvHeads, key, value, ratio, topK, groups, local;
};

void expectBlocks(const KernelInfo &kernel, const Paged &paged,
                  const BlockShape &s, KvType type) {
  SCOPED_TRACE(testing::Message()
               << int(type) << ", " << s.heads << " heads, ratio " << s.ratio
               << ", local " << s.local);
  Random random(24);
  Matrix<float> q(paged.tokens, s.heads * s.key, 3);
  Matrix<float> out(paged.tokens, s.heads * s.value, 2);
  Matrix<int32_t> chosen(paged.tokens, s.groups * s.topK);
  q.fill(random);
  Cache cache(type, gqaKvWidth(s.kvHeads, s.key, s.value), paged.kRows,
              paged.kRows, random);
  for (int64_t t = 0; t < paged.tokens; ++t)
    for (int64_t group = 0; group < s.groups; ++group) {
      int64_t n = tailOf(paged.position(t), s.ratio, s.local) / s.ratio;
      std::vector<int32_t> blocks(size_t(n), 0);
      std::iota(blocks.begin(), blocks.end(), 0);
      for (size_t i = blocks.size(); i > 1; --i)
        std::swap(blocks[i - 1], blocks[size_t(random.below(int(i)))]);
      blocks.resize(size_t(std::min<int64_t>(n, s.topK)));
      std::ranges::sort(blocks);
      blocks.resize(size_t(s.topK), -1);
      std::ranges::copy(blocks, chosen.row(t) + group * s.topK);
    }
  BlockAttentionArgs args{};
  args.q = q.data(), args.qStride = q.stride, args.kv = cache.view;
  args.chosen = chosen.data();
  args.out = out.data(), args.outStride = out.stride;
  args.heads = s.heads, args.kvHeads = s.kvHeads;
  args.key = s.key, args.value = s.value;
  args.topK = s.topK, args.ratio = s.ratio;
  args.groups = s.groups, args.local = s.local;
  args.scale = 0.2f;
  runKernel(kernel, &args, paged.step(),
            size_t(blockAttentionScratchBytes(s.heads, s.key, s.value)),
            {&out});
  const int64_t group = s.heads / s.kvHeads;
  for (int64_t t = 0; t < paged.tokens; ++t)
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t kvHead = h / group;
      const int64_t keyAt = kvHead * gqaPaddedWidth(s.key);
      const int64_t valueAt =
          s.kvHeads * gqaPaddedWidth(s.key) + kvHead * gqaPaddedWidth(s.value);
      std::vector<int64_t> seen;
      const int32_t *own =
          chosen.row(t) + (s.groups == 1 ? 0 : kvHead) * s.topK;
      for (int64_t i = 0; i < s.topK && own[i] >= 0; ++i)
        for (int64_t p = 0; p < s.ratio; ++p)
          seen.push_back(paged.row(t, own[i] * s.ratio + p));
      for (int64_t p = tailOf(paged.position(t), s.ratio, s.local);
           p <= paged.position(t); ++p)
        seen.push_back(paged.row(t, p));
      Attention attention(int64_t(seen.size()), double(args.scale), s.key,
                          [&](int64_t k) {
                            Sum sum;
                            for (int64_t c = 0; c < s.key; ++c)
                              sum.add(q.at(t, h * s.key + c) *
                                      cache.at(seen[size_t(k)], keyAt + c));
                            return sum;
                          });
      for (int64_t c = 0; c < s.value; ++c) {
        Wanted want = attention.output(1, [&](int64_t k) {
          Sum sum;
          sum.add(cache.at(seen[size_t(k)], valueAt + c));
          return sum;
        });
        ASSERT_NEAR(out.at(t, h * s.value + c), want.value, want.tolerance)
            << "token " << t << ", head " << h << ", column " << c;
      }
    }
}

const BlockShape kBlockShapes[] = {{6, 2, 24, 24, 4, 2, 2, 1},
                                   {36, 2, 64, 40, 16, 3, 2, 1},
                                   {5, 1, 37, 65, 70, 1, 1, 2},
                                   {6, 3, 20, 20, 4, 5, 1, 0},
                                   {4, 2, 128, 128, 7, 4, 2, 0}};

TEST_P(BlockAttentionTest, ChosenBlocksAndTheLastOnes) {
  for (const BlockShape &shape : kBlockShapes)
    for (KvType type : kKvTypes)
      expectBlocks(GetParam(), Paged(), shape, type);
}

// The list of such a token is divided among blocks of a grid.
TEST_P(BlockAttentionTest, OneTokenOfALongText) {
  for (const BlockShape &shape : kBlockShapes)
    expectBlocks(GetParam(), Paged(true), shape, KvType::F16);
  expectBlocks(GetParam(), Paged(true), {2, 2, 64, 64, 4, 40, 2, 1},
               KvType::BF16);
}

} // namespace
