// Recurrent layers compared with float64: odd shapes, states of several
// sequences in arbitrary rows, steps of any size.
#include "test/kernels/KernelTest.h"

#include <algorithm>
#include <numeric>

using namespace moek;
using namespace moek::test;

namespace {

MOE_KERNEL_SUITE(RegroupTest, Regroup);
MOE_KERNEL_SUITE(ShortConvTest, ShortConv);
MOE_KERNEL_SUITE(DeltaGatesTest, DeltaGates);
MOE_KERNEL_SUITE(DeltaRuleTest, DeltaRule);

KvView viewOf(const Matrix<float> &states) {
  return {reinterpret_cast<uint8_t *>(states.data()), states.cols, states.rows,
          states.stride * 4, KvType::F32};
}

/// Rows of a step for one sequence: count, position and row of the state.
struct Rows {
  int32_t count, position, state;
};

std::vector<SequenceRows> sequencesOf(const std::vector<Rows> &parts) {
  std::vector<SequenceRows> rows;
  int32_t begin = 0;
  for (const Rows &part : parts) {
    rows.push_back({begin, part.count, part.position, nullptr, part.state});
    begin += part.count;
  }
  return rows;
}

Step stepOf(const std::vector<SequenceRows> &rows) {
  return {rows.back().begin + rows.back().count, rows.front().position,
          rows.data(), int32_t(rows.size())};
}

/// The orders mix the start of a sequence, chunks and single rows; the states
/// have unused rows in between.
const std::vector<std::vector<Rows>> kSteps = {
    {{1, 0, 1}},
    {{1, 5, 0}},
    {{19, 0, 2}},
    {{33, 70, 1}},
    {{16, 3, 0}, {8, 0, 2}, {9, 1, 1}},
    {{1, 9, 3}, {7, 0, 1}, {1, 0, 4}, {12, 3, 0}},
};

/// The states before a step: NaN where a sequence begins, because the previous
/// user of the row may have left anything.
void fillStates(Matrix<float> &states, const std::vector<Rows> &parts) {
  Random random(77);
  states.fill(random, 0.5f);
  for (const Rows &part : parts)
    for (int64_t c = 0; c < states.cols && part.position == 0; ++c)
      states.at(part.state, c) = NAN;
  states.keepAsInitial();
}

/// Expects that rows of sequences that are not in the step are unchanged.
void expectOthersKept(const Matrix<float> &states, const Matrix<float> &before,
                      const std::vector<Rows> &parts) {
  for (int64_t row = 0; row < states.rows; ++row) {
    bool used = std::ranges::any_of(
        parts, [&](const Rows &part) { return part.state == row; });
    if (!used) {
      EXPECT_EQ(std::memcmp(states.row(row), before.row(row),
                            size_t(states.cols) * 4),
                0)
          << "state " << row;
    }
  }
}

TEST_P(RegroupTest, PartsOfGroups) {
  Random random(1);
  struct Case {
    int32_t groups, width, offset;
    int32_t parts[3];
  };
  for (const Case &c :
       {Case{3, 37, 0, {37, 0, 0}}, Case{4, 32, 16, {16, 0, 0}},
        Case{5, 61, 0, {17, 17, 20}}, Case{1, 7, 3, {1, 2, 0}}}) {
    int64_t all = c.parts[0] + c.parts[1] + c.parts[2];
    Matrix<float> x(5, c.groups * c.width, 3), out(5, c.groups * all, 2);
    x.fill(random);
    RegroupArgs args{x.data(), x.stride, out.data(), out.stride, c.width,
                     c.groups, c.offset, c.parts[0], c.parts[1], c.parts[2]};
    runKernel(GetParam(), &args, {5, 0}, 0, {&out});
    expectClose(out, [&](int64_t t, int64_t column) {
      int64_t from = c.offset;
      for (int64_t part : c.parts) {
        if (column < c.groups * part)
          return Wanted{x.at(t, column / part * c.width + from + column % part),
                        0};
        column -= c.groups * part;
        from += part;
      }
      return Wanted{NAN, 0};
    });
  }
}

struct Convolution {
  int32_t taps;
  int64_t cols; ///< Columns of each part.
  int32_t parts = 1;
  bool silu = true, biased = false;
  int32_t dilation = 1;

  int64_t before() const { return int64_t(taps - 1) * dilation; }
};

void expectConvolution(const KernelInfo &kernel, const std::vector<Rows> &parts,
                       const Convolution &c) {
  SCOPED_TRACE(testing::Message()
               << c.taps << " taps " << c.dilation << " apart, " << c.parts
               << " x " << c.cols << " columns");
  const int32_t taps = c.taps;
  const int64_t cols = c.parts * c.cols;
  std::vector<SequenceRows> rows = sequencesOf(parts);
  Step step = stepOf(rows);
  Random random(uint32_t(taps * 100 + c.cols));
  std::vector<Matrix<float>> x, weight;
  for (int32_t part = 0; part < c.parts; ++part) {
    // The stride also says how wide each of several parts is.
    x.emplace_back(step.tokens, c.cols, c.parts > 1 ? 0 : 5).fill(random, 2);
    weight.emplace_back(c.cols, taps).fill(random);
  }
  Matrix<float> out(step.tokens, cols, 3), bias(1, cols);
  Matrix<float> states(5, std::max<int64_t>(1, c.before() * cols), 7);
  bias.fill(random);
  fillStates(states, parts);
  Matrix<float> before = Matrix<float>(5, states.cols, 7);
  std::memcpy(before.data(), states.data(), states.bytes().size());
  auto at = [&](std::vector<Matrix<float>> &all, size_t i) {
    return i < all.size() ? all[i].data() : nullptr;
  };
  ShortConvArgs args{at(x, 0),       at(x, 1),
                     at(x, 2),       x[0].stride,
                     at(weight, 0),  at(weight, 1),
                     at(weight, 2),  c.biased ? bias.data() : nullptr,
                     viewOf(states), out.data(),
                     out.stride,     cols,
                     taps,           c.silu,
                     c.dilation};
  runKernel(kernel, &args, step, 0, {&out, &states});
  // Returns input `t` of sequence i; before its first row, that of its state.
  auto input = [&](size_t i, int64_t t, int64_t column) -> double {
    if (t >= 0)
      return x[size_t(column / c.cols)].at(rows[i].begin + t, column % c.cols);
    return rows[i].position > 0
               ? before.at(rows[i].state, (t + c.before()) * cols + column)
               : 0;
  };
  for (size_t i = 0; i < rows.size(); ++i)
    for (int64_t column = 0; column < cols; ++column) {
      const Matrix<float> &w = weight[size_t(column / c.cols)];
      for (int64_t t = 0; t < rows[i].count; ++t) {
        double sum = c.biased ? double(bias.at(0, column)) : 0;
        double magnitude = std::fabs(sum);
        for (int64_t j = 0; j < taps; ++j) {
          double term = double(w.at(column % c.cols, j)) *
                        input(i, t - (taps - 1 - j) * c.dilation, column);
          sum += term, magnitude += std::fabs(term);
        }
        double want = c.silu ? sum / (1 + std::exp(-sum)) : sum;
        ASSERT_NEAR(out.at(rows[i].begin + t, column), want,
                    kEps * (16 * magnitude + 8 * std::fabs(want)) + 1e-37);
      }
      for (int64_t j = 0; j < c.before(); ++j)
        ASSERT_EQ(states.at(rows[i].state, j * cols + column),
                  float(input(i, rows[i].count - c.before() + j, column)));
    }
  if (taps > 1)
    expectOthersKept(states, before, parts);
}

TEST_P(ShortConvTest, AllSequencesAndTheirStates) {
  for (const std::vector<Rows> &parts : kSteps)
    for (const Convolution &c : {Convolution{4, 77},
                                 {2, 16},
                                 {1, 5},
                                 {8, 301},
                                 {4, 1043},
                                 {4, 77, 1, true, true},
                                 {3, 130, 1, false, false},
                                 {4, 77, 1, true, true, 3},
                                 {3, 130, 1, false, false, 16},
                                 {8, 33, 1, true, false, 4},
                                 {5, 33, 1, false, true}})
      expectConvolution(GetParam(), parts, c);
}

TEST_P(ShortConvTest, ThreePartsOfColumns) {
  for (const std::vector<Rows> &parts : kSteps)
    for (const Convolution &c :
         {Convolution{4, 60, 3}, {4, 515, 3, true, true}, {3, 7, 3, false}})
      expectConvolution(GetParam(), parts, c);
}

/// Compares with the definition; `each` is the number of decays of a head.
void expectGates(const KernelInfo &kernel, int64_t heads, int64_t each,
                 bool hasBeta, float floor) {
  Random random(3);
  const int64_t decays = heads * each;
  Matrix<float> beta(7, heads), alpha(7, decays), a(1, heads), dt(1, decays);
  Matrix<float> out(7, heads + decays);
  beta.fill(random, 5);
  alpha.fill(random, 20);
  dt.fill(random);
  for (int64_t h = 0; h < heads; ++h)
    a.at(0, h) = (floor < 0 && h % 2 ? 1 : -1) * std::fabs(random.normal(3));
  DeltaGatesArgs args{hasBeta ? beta.data() : nullptr,
                      alpha.data(),
                      a.data(),
                      dt.data(),
                      out.data(),
                      decays,
                      heads,
                      floor};
  runKernel(kernel, &args, {7, 0}, 0, {&out});
  auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  expectClose(out, [&](int64_t t, int64_t c) {
    const int64_t channel = c < heads ? c * each : c - heads;
    double x = double(alpha.at(t, channel)) + double(dt.at(0, channel));
    double softplus = std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x)));
    double rate = a.at(0, channel / each);
    double want = c < heads ? hasBeta ? sigmoid(beta.at(t, c)) : softplus
                  : floor < 0
                      ? std::exp(double(floor) * sigmoid(std::fabs(rate) * x))
                      : std::exp(rate * softplus);
    // Decays of channels are exponentials of floats, which are off by a few
    // epsilons.
    double off = c >= heads && each > 1 ? 8 * std::fabs(std::log(want)) : 0;
    return Wanted{want, (2 + off) * kEps * want + 1e-37};
  });
}

TEST_P(DeltaGatesTest, StrengthsAndDecays) {
  for (int64_t heads : {1, 5, 32}) {
    expectGates(GetParam(), heads, 1, true, 0);
    expectGates(GetParam(), heads, 1, false, 0);
  }
}

TEST_P(DeltaGatesTest, DecaysOfChannelsMayHaveAFloor) {
  for (float floor : {0.0f, -5.0f, -0.5f}) {
    expectGates(GetParam(), 5, 12, true, floor);
    expectGates(GetParam(), 3, 33, true, floor);
  }
}

struct Shape {
  int32_t keyHeads, heads, key, value;
  bool tiled;
  float eps;
  bool channels = false, sums = false;
  /// Returns the decays of a head.
  int64_t decays() const { return channels ? key : 1; }
};
const Shape kShapes[] = {{2, 4, 16, 24, false, 1e-6f},
                         {2, 6, 24, 77, true, 1e-3f},
                         {1, 1, 7, 5, false, 1e-2f},
                         {3, 3, 33, 32, true, 1e-6f},
                         {1, 2, 128, 40, false, 1e-6f},
                         {4, 4, 12, 12, false, 1e-6f, true},
                         {2, 4, 33, 77, false, 1e-3f, true},
                         {1, 1, 128, 40, false, 1e-6f, true},
                         {3, 6, 12, 20, false, 1e-6f, false, true},
                         {1, 4, 33, 64, false, 1e-6f, false, true},
                         {2, 2, 128, 37, true, 1e-6f, false, true}};
constexpr int64_t kBegin = 11;

/// The inputs and outputs of a step of the delta rule.
struct Delta {
  Delta(const Shape &s, const std::vector<Rows> &parts)
      : s(s), rows(sequencesOf(parts)), step(stepOf(rows)),
        x(step.tokens, 2 * s.keyHeads * s.key + s.heads * s.value, 5),
        gates(step.tokens, s.heads * (1 + s.decays())), skip(1, s.heads),
        out(step.tokens, s.heads * s.value, 3),
        states(5, kBegin + int64_t(s.heads) * s.key * s.value, 9),
        before(5, states.cols, 9) {
    Random random(uint32_t(s.key * 100 + s.value));
    // Keys of a sum are not normalised.
    x.fill(random, s.sums ? float(1 / std::sqrt(double(s.key))) : 1);
    skip.fill(random);
    for (int64_t t = 0; t < step.tokens; ++t) {
      for (int64_t h = 0; h < s.heads; ++h)
        gates.at(t, h) = 1 / (1 + std::exp(random.normal(3)));
      // Some heads forget nothing, some almost everything.
      for (int64_t i = 0; i < s.heads * s.decays(); ++i)
        gates.at(t, s.heads + i) =
            std::exp(-std::exp(random.normal(i % 2 ? 1 : 5)));
    }
    fillStates(states, parts);
    std::memcpy(before.data(), states.data(), states.bytes().size());
  }

  DeltaRuleArgs args() {
    return {x.data(),
            x.stride,
            gates.data(),
            gates.stride,
            s.sums ? skip.data() : nullptr,
            viewOf(states),
            out.data(),
            out.stride,
            s.keyHeads,
            s.heads,
            s.key,
            s.value,
            kBegin,
            s.tiled,
            s.channels,
            s.sums,
            s.eps};
  }
  int64_t scratch() const { return deltaRuleScratchBytes(s.key, s.value); }

  const Shape s;
  std::vector<SequenceRows> rows;
  Step step;
  Matrix<float> x, gates, skip, out, states, before;
};

/// Compares with the definition in float64.
void expectDelta(const Delta &d) {
  const Shape &s = d.s;
  std::vector<double> wanted(size_t(d.out.rows * d.out.cols), 0);
  std::vector<double> ends(size_t(d.states.rows * d.states.cols), 0);
  double most = 0, mostState = 0;
  for (const SequenceRows &rows : d.rows)
    for (int64_t h = 0; h < s.heads; ++h) {
      int64_t keyHead = s.tiled ? h % s.keyHeads : h / (s.heads / s.keyHeads);
      int64_t base = kBegin + h * s.key * s.value;
      std::vector<double> S(size_t(s.key * s.value), 0);
      // First columns of values, keys and queries.
      int64_t keys = s.keyHeads * s.key, values = s.heads * s.value;
      int64_t valueAt = h * s.value + (s.sums ? 0 : 2 * keys);
      int64_t keyAt = keyHead * s.key + (s.sums ? values : keys);
      int64_t queryAt = keyHead * s.key + (s.sums ? values + keys : 0);
      for (size_t i = 0; i < S.size() && rows.position > 0; ++i)
        S[i] = d.before.at(rows.state, base + int64_t(i));
      for (int64_t t = rows.begin; t < rows.begin + rows.count; ++t) {
        auto unit = [&](int64_t begin) {
          double squares = s.eps;
          for (int64_t i = 0; i < s.key; ++i)
            squares += std::pow(double(d.x.at(t, begin + i)), 2);
          std::vector<double> v;
          for (int64_t i = 0; i < s.key; ++i)
            v.push_back(d.x.at(t, begin + i) /
                        (s.sums ? 1 : std::sqrt(squares)));
          return v;
        };
        std::vector<double> q = unit(queryAt);
        std::vector<double> k = unit(keyAt);
        double strength = d.gates.at(t, h);
        auto decay = [&](int64_t i) -> double {
          return d.gates.at(t, s.heads + h * s.decays() + (s.channels ? i : 0));
        };
        for (int64_t c = 0; c < s.value; ++c) {
          double v = d.x.at(t, valueAt + c), found = 0;
          double answer = s.sums ? double(d.skip.at(0, h)) * v : 0;
          for (int64_t i = 0; i < s.key && !s.sums; ++i)
            found += decay(i) * S[size_t(i * s.value + c)] * k[size_t(i)];
          for (int64_t i = 0; i < s.key; ++i) {
            double &at = S[size_t(i * s.value + c)];
            at = decay(i) * at + k[size_t(i)] * strength * (v - found);
            answer +=
                at * q[size_t(i)] / (s.sums ? 1 : std::sqrt(double(s.key)));
          }
          wanted[size_t(t * d.out.cols + h * s.value + c)] = answer;
          most = std::fmax(most, std::fabs(answer));
        }
      }
      for (size_t i = 0; i < S.size(); ++i) {
        ends[size_t(rows.state * d.states.cols + base) + i] = S[i];
        mostState = std::fmax(mostState, std::fabs(S[i]));
      }
    }
  // No step increases an error: a decay is at most 1, and a write replaces what
  // was found. So errors add up over rows.
  double steps = kEps * (double(d.step.tokens) + 16) * 4;
  expectClose(d.out, [&](int64_t t, int64_t c) {
    return Wanted{wanted[size_t(t * d.out.cols + c)], steps * most};
  });
  for (const SequenceRows &rows : d.rows)
    for (int64_t c = 0; c < d.states.cols; ++c) {
      if (c < kBegin)
        ASSERT_EQ(std::memcmp(&d.states.at(rows.state, c),
                              &d.before.at(rows.state, c), 4),
                  0);
      else
        ASSERT_NEAR(d.states.at(rows.state, c),
                    ends[size_t(rows.state * d.states.cols + c)],
                    steps * mostState);
    }
}

TEST_P(DeltaRuleTest, AllSequencesAndTheirStates) {
  for (const std::vector<Rows> &parts : kSteps)
    for (const Shape &shape : kShapes) {
      SCOPED_TRACE(testing::Message() << shape.key << " x " << shape.value);
      Delta d(shape, parts);
      DeltaRuleArgs args = d.args();
      runKernel(GetParam(), &args, d.step, size_t(d.scratch()),
                {&d.out, &d.states});
      expectDelta(d);
      expectOthersKept(d.states, d.before, parts);
    }
}

// Registers hold some of these keys, but not others.
TEST_P(DeltaRuleTest, LongKeys) {
  for (int32_t key : {300, 512, 513, 640})
    for (auto [channels, sums] :
         {std::pair{false, false}, {true, false}, {false, true}}) {
      Delta d({2, 4, key, 40, key % 2 == 1, 1e-6f, channels, sums},
              kSteps.back());
      DeltaRuleArgs args = d.args();
      runKernel(GetParam(), &args, d.step, size_t(d.scratch()),
                {&d.out, &d.states});
      expectDelta(d);
      expectOthersKept(d.states, d.before, kSteps.back());
    }
}

/// Runs a sequence's rows in steps of these sizes.
void runInSteps(const KernelInfo &kernel, Delta &d,
                const std::vector<int32_t> &counts) {
  int32_t position = 0;
  for (int32_t count : counts) {
    DeltaRuleArgs part = d.args();
    part.x += position * part.xStride;
    part.gates += position * d.gates.stride;
    part.out += position * part.outStride;
    SequenceRows rows{0, count, position, nullptr, d.rows[0].state};
    runOnce(kernel, &part, {count, position, &rows, 1}, size_t(d.scratch()));
    position += count;
  }
}

// A whole prompt gives the same as its tokens one after the other.
TEST_P(DeltaRuleTest, StepsOfAnySizeAgree) {
  for (const Shape &shape : kShapes) {
    Delta d(shape, {{45, 0, 2}});
    runInSteps(GetParam(), d, {1, 5, 1, 14, 17, 7});
    expectDelta(d);
  }
}

// Results are equal bit for bit if steps are whole chunks of rows, or a few
// rows.
TEST_P(DeltaRuleTest, StepsOfWholeChunksGiveTheSameBits) {
  using Counts = std::vector<int32_t>;
  for (const auto &[one, other] : {std::pair<Counts, Counts>{{45}, {16, 29}},
                                   {{16, 16, 13}, {32, 13}},
                                   {{5}, {1, 3, 1}}}) {
    int32_t all = std::accumulate(one.begin(), one.end(), 0);
    for (const Shape &shape : {kShapes[1], kShapes[6], kShapes[9],
                               Shape{1, 2, 513, 33, true, 1e-6f}}) {
      Delta a(shape, {{all, 0, 2}}), b(shape, {{all, 0, 2}});
      runInSteps(GetParam(), a, one);
      runInSteps(GetParam(), b, other);
      for (int64_t t = 0; t < all; ++t)
        ASSERT_EQ(
            std::memcmp(a.out.row(t), b.out.row(t), size_t(a.out.cols) * 4), 0)
            << t;
      EXPECT_EQ(std::memcmp(a.states.row(2) + kBegin, b.states.row(2) + kBegin,
                            size_t(a.states.cols - kBegin) * 4),
                0);
    }
  }
}

// Decays of zero and as small as floats can be: the state after them is what
// remains, not a quotient of two underflowed products.
TEST_P(DeltaRuleTest, ForgetsEverything) {
  for (float decay : {0.0f, 1e-38f, 1e-44f, 1e-20f}) {
    SCOPED_TRACE(decay);
    for (const Shape &shape : {kShapes[0], kShapes[5], kShapes[8]}) {
      Delta d(shape, {{37, 5, 1}});
      for (int64_t t = 0; t < d.step.tokens; ++t)
        for (int64_t i = 0; i < d.s.heads * d.s.decays(); ++i)
          d.gates.at(t, d.s.heads + i) =
              i == 0 || t % (3 * i) == 0 ? decay : 0.99f;
      DeltaRuleArgs args = d.args();
      runKernel(GetParam(), &args, d.step, size_t(d.scratch()),
                {&d.out, &d.states});
      expectDelta(d);
    }
  }
}

/// Runs `count` rows, of which `token` has a non-finite value.
void expectNonFiniteWhereItCounts(const KernelInfo &kernel, const Shape &shape,
                                  int32_t count, int64_t token) {
  Delta clean(shape, {{count, 0, 1}});
  DeltaRuleArgs args = clean.args();
  runKernel(kernel, &args, clean.step, size_t(clean.scratch()),
            {&clean.out, &clean.states});
  int64_t keys = shape.keyHeads * shape.key;
  int64_t valuesAt = shape.sums ? 0 : 2 * keys;
  int64_t keysAt = shape.sums ? int64_t(shape.heads) * shape.value : keys;
  int64_t queriesAt = shape.sums ? keysAt + keys : 0;
  struct Place {
    const char *name;
    int64_t column;
    bool isGate, later;
    /// Whether the place affects a column.
    std::function<bool(int64_t)> reaches;
  };
  auto head = [&](int64_t c) { return c / shape.value; };
  int64_t each = shape.heads / shape.keyHeads;
  for (const Place &place : std::vector<Place>{
           {"query", queriesAt + shape.key + 3, false, false,
            [&](int64_t c) { return head(c) / each == 1; }},
           {"key", keysAt + 1, false, true,
            [&](int64_t c) { return head(c) / each == 0; }},
           {"value", valuesAt + shape.value + 7, false, true,
            [&](int64_t c) { return c == shape.value + 7; }},
           {"strength", 1, true, true, [&](int64_t c) { return head(c) == 1; }},
           {"decay", shape.heads + 2 * shape.decays(), true, true,
            [&](int64_t c) { return head(c) == 2; }}})
    for (float bad : {NAN, INFINITY, -INFINITY, 1e25f}) {
      SCOPED_TRACE(testing::Message()
                   << bad << " in " << place.name << " of row " << token);
      // The square of this number is infinite in float; a scale of zero would
      // hide it.
      bool isSquared = !shape.sums && place.column < 2 * keys && !place.isGate;
      if (std::isfinite(bad) && (!isSquared || kernel.isa == Isa::Ref))
        continue;
      Delta d(shape, {{count, 0, 1}});
      (place.isGate ? d.gates : d.x).at(token, place.column) = bad;
      DeltaRuleArgs own = d.args();
      runKernel(kernel, &own, d.step, size_t(d.scratch()), {&d.out, &d.states});
      for (int64_t t = 0; t < d.out.rows; ++t)
        for (int64_t c = 0; c < d.out.cols; ++c) {
          bool seen =
              place.reaches(c) && (place.later ? t >= token : t == token);
          if (seen)
            ASSERT_FALSE(std::isfinite(d.out.at(t, c))) << t << ", " << c;
          else
            ASSERT_EQ(d.out.at(t, c), clean.out.at(t, c)) << t << ", " << c;
        }
    }
}

// A non-finite value is visible in everything that depends on it, and nowhere
// else.
TEST_P(DeltaRuleTest, NonFiniteIsSeenWhereItCounts) {
  for (auto [count, token] :
       {std::pair<int32_t, int64_t>{6, 2}, {37, 2}, {37, 21}})
    for (const Shape &shape : {kShapes[0], kShapes[5], kShapes[8]})
      expectNonFiniteWhereItCounts(GetParam(), shape, count, token);
}

} // namespace
