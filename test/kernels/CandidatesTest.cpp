// Blocks of entries that bound an indexer's choice, compared with their
// definition.
#include "kernels/Entries.h"
#include "test/kernels/Paged.h"

#include <algorithm>
#include <limits>

using namespace moek;
using namespace moek::test;

namespace {

MOE_KERNEL_SUITE(BlockMaximaTest, BlockMaxima);
MOE_KERNEL_SUITE(KeepBlocksTest, KeepBlocks);

struct Shape {
  int32_t each, size; ///< Positions of an entry; entries of a block.
  int32_t ratio() const { return each * size; }
};
constexpr Shape kShapes[] = {{1, 3}, {1, 8}, {1, 1}, {2, 5}};

/// Scores of the entries that each token sees; others are poison.
Matrix<float> scoresOf(const Paged &step, Shape shape) {
  Random random(uint32_t(shape.ratio()));
  Matrix<float> scores(step.tokens, Paged::kContext / shape.each, 2);
  for (int64_t t = 0; t < step.tokens; ++t)
    for (int64_t i = 0; i < entriesSeen(step.position(t), shape.each); ++i)
      scores.at(t, i) = random.normal();
  return scores;
}

TEST_P(BlockMaximaTest, LargestOfBlocksBeforeTheOwn) {
  for (bool alone : {false, true})
    for (Shape shape : kShapes) {
      Paged step(alone);
      Matrix<float> scores = scoresOf(step, shape);
      scores.at(0, 1) = NAN;
      Matrix<float> out(step.tokens, Paged::kContext / shape.ratio(), 3);
      BlockMaximaArgs args{scores.data(), scores.stride, out.data(),
                           out.stride,    shape.ratio(), shape.size};
      runKernel(GetParam(), &args, step.step(), 0, {&out});
      for (int64_t t = 0; t < step.tokens; ++t)
        for (int64_t b = 0; b < step.position(t) / shape.ratio(); ++b) {
          const float *first = scores.row(t) + b * shape.size;
          float want = *std::max_element(first, first + shape.size);
          if (std::any_of(first, first + shape.size,
                          [](float x) { return std::isnan(x); }))
            ASSERT_TRUE(std::isnan(out.at(t, b))) << t << ", " << b;
          else
            ASSERT_EQ(out.at(t, b), want) << t << ", " << b;
        }
    }
}

TEST_P(KeepBlocksTest, OthersBecomeMinusInfinity) {
  constexpr int32_t kTopK = 3;
  for (bool alone : {false, true})
    for (Shape shape : kShapes) {
      Paged step(alone);
      Matrix<float> scores = scoresOf(step, shape);
      Matrix<float> out(step.tokens, scores.cols, 2);
      Matrix<int32_t> chosen(step.tokens, kTopK);
      Random random(7);
      for (int64_t t = 0; t < step.tokens; ++t) {
        // Some of the blocks before the token's own, or all if they are few.
        auto blocks = int32_t(step.position(t) / shape.ratio());
        int32_t count = 0, next = 0;
        while (count < kTopK && next < blocks) {
          int32_t spare = blocks - next - (kTopK - count);
          next += spare > 0 ? random.below(spare + 1) : 0;
          chosen.at(t, count++) = next++;
        }
        for (; count < kTopK; ++count)
          chosen.at(t, count) = -1;
      }
      KeepBlocksArgs args{};
      args.scores = scores.data();
      args.scoresStride = scores.stride;
      args.chosen = chosen.data();
      args.out = out.data();
      args.topK = kTopK;
      args.ratio = shape.ratio();
      args.size = shape.size;
      runKernel(GetParam(), &args, step.step(), 0, {&out});
      for (int64_t t = 0; t < step.tokens; ++t)
        for (int64_t i = 0; i < entriesSeen(step.position(t), shape.each);
             ++i) {
          int64_t block = i / shape.size;
          const int32_t *first = chosen.row(t), *end = first + kTopK;
          bool isKept = block == step.position(t) / shape.ratio() ||
                        std::find(first, end, block) != end;
          ASSERT_EQ(out.at(t, i), isKept
                                      ? scores.at(t, i)
                                      : -std::numeric_limits<float>::infinity())
              << t << ", " << i;
        }
    }
}

} // namespace
