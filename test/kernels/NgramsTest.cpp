// Rows of n-grams, and values gated into streams, compared with their
// definitions.
#include "kernels/Ngrams.h"

#include "test/kernels/Paged.h"

#include <array>

using namespace moek;
using namespace moek::test;

namespace {

MOE_KERNEL_SUITE(NgramEmbedTest, NgramEmbed);
MOE_KERNEL_SUITE(GateStreamsTest, GateStreams);

/// A table and the numbers of its hashes, and the tokens of a step.
struct Grams {
  Grams(Format format, int64_t cols, int32_t size, int32_t heads, int32_t pad,
        bool ends, bool mapped, const Paged &step)
      : size(size), heads(heads), columns(ngramColumns(size, heads)), pad(pad),
        ends(ends), table(format, 1, kRows, cols, random),
        history(Paged::kRows, 1), out(step.tokens, columns * cols, 3) {
    for (int64_t i = 0; i < size; ++i)
      multipliers.push_back(0x7fed'cba9'8765ull * uint64_t(2 * i + 1) +
                            uint64_t(random.below(1000)));
    for (int64_t i = 0; i < columns; ++i) {
      moduli.push_back(uint64_t(11 + i));
      offsets.push_back(uint64_t(random.below(kRows - 11 - int(columns))));
    }
    for (auto *numbers : {&multipliers, &moduli, &offsets})
      for (uint64_t number : *numbers)
        for (int i = 0; i < 4; ++i)
          hash.push_back(float(number >> 16 * i & 0xffff));
    for (int i = 0; i < kVocab; ++i)
      map.push_back(mapped ? float(i % 7) : float(i));
    for (int64_t r = 0; r < history.rows; ++r)
      history.at(r, 0) = float(random.below(kVocab));
    history.keepAsInitial();
    before.assign(history.data(), history.data() + history.rows);
    for (int64_t t = 0; t < step.tokens; ++t)
      // The token that ends n-grams comes often.
      tokens.push_back(random.below(3) ? random.below(kVocab) : pad);
    args.tokens = tokens.data();
    args.table = table.view;
    args.map = mapped ? map.data() : nullptr;
    args.hash = hash.data();
    args.history = {reinterpret_cast<uint8_t *>(history.data()), 1,
                    history.rows, history.stride * 4, KvType::F32};
    args.out = out.data();
    args.outStride = out.stride;
    args.size = size;
    args.heads = heads;
    args.pad = pad;
    args.ends = ends;
  }

  uint64_t standsFor(int64_t t) const {
    return uint64_t(map[size_t(tokens[size_t(t)])]);
  }
  /// What stood for the token `back` before token t; tokens before a sequence's
  /// first are `pad`.
  uint64_t earlier(const Paged &step, int64_t t, int64_t back) const {
    int64_t position = step.position(t) - back;
    if (position < 0)
      return uint64_t(pad);
    bool isOfStep = t - back >= 0 && step.position(t - back) == position &&
                    step.row(t - back, position) == step.row(t, position);
    return isOfStep ? standsFor(t - back)
                    : uint64_t(before[size_t(step.row(t, position))]);
  }
  /// The row of the table that column `column` of token t is.
  int64_t rowOf(const Paged &step, int64_t t, int64_t column) const {
    uint64_t mixed = standsFor(t) * multipliers[0];
    bool ended = false;
    for (int64_t back = 1; back <= column / heads + 1; ++back) {
      uint64_t token = ended ? uint64_t(pad) : earlier(step, t, back);
      ended = ended || (ends && token == uint64_t(pad));
      mixed ^= token * multipliers[size_t(back)];
    }
    return int64_t(mixed % moduli[size_t(column)] + offsets[size_t(column)]);
  }

  static constexpr int kVocab = 40, kRows = 53;
  int64_t size, heads, columns;
  int32_t pad;
  bool ends;
  Random random{19};
  Weights table;
  std::vector<uint64_t> multipliers, moduli, offsets;
  std::vector<float> hash, map, before;
  std::vector<int32_t> tokens;
  Matrix<float> history, out;
  NgramEmbedArgs args{};
};

TEST_P(NgramEmbedTest, RowsOfHashes) {
  struct Case {
    Format format;
    int64_t cols;
    int32_t size, heads;
    bool ends, mapped;
  };
  for (bool alone : {false, true})
    for (const Case &c : {Case{Format::F32, 12, 3, 2, true, false},
                          {Format::F32, 7, 3, 4, false, true},
                          {Format::Q8_0, 64, 2, 1, true, true},
                          {Format::BF16, 33, 8, 3, false, false},
                          {Format::Q4_K, 256, 4, 2, true, false}}) {
      Paged step(alone);
      Grams g(c.format, c.cols, c.size, c.heads, 5, c.ends, c.mapped, step);
      runKernel(GetParam(), &g.args, step.step(), 0, {&g.out, &g.history});
      for (int64_t t = 0; t < step.tokens; ++t) {
        for (int64_t column = 0; column < g.columns; ++column) {
          const int64_t row = g.rowOf(step, t, column);
          for (int64_t i = 0; i < c.cols; ++i)
            ASSERT_NEAR(g.out.at(t, column * c.cols + i), g.table.at(0, row, i),
                        4 * kEps * g.table.largest(0, row))
                << t << ", row " << column << ", column " << i;
        }
        ASSERT_EQ(g.history.at(step.row(t, step.position(t)), 0),
                  float(g.standsFor(t)))
            << t;
      }
    }
}

TEST(NgramsTest, NumbersHave64Bits) {
  for (uint64_t number : {uint64_t(0), uint64_t(1), uint64_t(0xffff),
                          uint64_t(0x123456789abcdef0), UINT64_MAX}) {
    std::array<float, 8> digits{1, 2, 3, 4};
    for (int i = 0; i < 4; ++i)
      digits[size_t(4 + i)] = float(number >> 16 * i & 0xffff);
    EXPECT_EQ(wideNumber(digits.data(), 1), number);
  }
}

TEST_P(GateStreamsTest, SignedRootsOfProducts) {
  Random random(5);
  for (auto [streams, cols] :
       {std::pair{3, int64_t(48)}, {4, 1030}, {1, 1}, {8, 515}}) {
    Matrix<float> q(5, streams * cols), k(5, streams * cols), value(5, cols);
    Matrix<float> out(5, streams * cols);
    q.fill(random, 2);
    k.fill(random);
    value.fill(random);
    // A product below the least size, and one of zero.
    for (int64_t c = 0; c < cols; ++c) {
      q.at(1, c) = 1e-9f;
      k.at(2, c) = 0;
    }
    GateStreamsArgs args{q.data(),   k.data(), value.data(),
                         out.data(), cols,     streams};
    runKernel(GetParam(), &args, {5, 0}, 0, {&out});
    expectClose(out, [&, cols = cols](int64_t t, int64_t column) {
      int64_t first = column / cols * cols;
      double sum = 0, magnitude = 0;
      for (int64_t c = first; c < first + cols; ++c) {
        double term = double(q.at(t, c)) * double(k.at(t, c));
        sum += term, magnitude += std::fabs(term);
      }
      double score = sum / std::sqrt(double(cols));
      double root = std::sqrt(std::fmax(std::fabs(score), 1e-6));
      double gate = 1 / (1 + std::exp(-std::copysign(root, score)));
      double want = gate * double(value.at(t, column - first));
      // The root of a small score has a large slope; a gate's is at most 1/4.
      double off =
          sumTolerance(cols, magnitude) / std::sqrt(double(cols)) / root;
      return Wanted{want, std::fabs(want) * (4 * kEps) +
                              std::fabs(double(value.at(t, column - first))) *
                                  std::fmin(off, 1e-2)};
    });
  }
}

} // namespace
