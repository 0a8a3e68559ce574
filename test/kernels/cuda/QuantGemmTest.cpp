//===- QuantGemmTest.cpp - Ops with packed weights and A8 activations -----===//
//
// GemmConformanceTest.cpp tests products of every format. This tests what ops
// add to them: biases, sums in place, gates, experts' slots.
//
//===----------------------------------------------------------------------===//

#include "kernels/Activation.h"
#include "test/kernels/GemmProblem.h"
#include "test/kernels/Routing.h"
#include "test/kernels/cuda/OnGpu.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <tuple>

using namespace moek;
using namespace moek::test;

namespace {

constexpr cuda::GemmForm kForm{Encoding::A8, Layout::Rows16};

/// Matrices in panels.
struct Panels {
  Panels(Format format, int64_t outer, int64_t rows, int64_t cols,
         Random &random)
      : weights(format, outer, rows, cols, random, 1) {
    if (rows16Shape(format).codeBits % 16 == 0)
      return; // Rows of this format exist only as in files.
    auto row = int64_t(rows16Bytes(format, uint64_t(cols)));
    int64_t stored = storedRows(Layout::Rows16, rows);
    bytes.resize(size_t(outer * stored * row));
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t r = 0; r < rows; r += kRows16)
        EXPECT_TRUE(
            packRows16(format,
                       weights.view.data + o * weights.view.outerStride +
                           r * weights.view.rowStride,
                       weights.view.rowStride, std::min(rows - r, kRows16),
                       cols, bytes.data() + (o * stored + r) * row));
    view = {bytes.data(), outer, rows, cols, stored * row, row, format};
  }
  Weights weights;
  std::vector<uint8_t> bytes;
  WeightView view;
};

/// Returns a number of columns of which the last block of few is beyond whole
/// super-blocks, after `cols` of these.
int64_t raggedCols(Format format, int64_t cols) {
  uint32_t block = formatInfo(format).blockElements;
  return block < 256 ? cols + block : cols;
}

/// Random A8 rows.
struct Acts {
  Acts(int64_t rows, int64_t cols, uint32_t seed)
      : memory(rows, a8RowBytes(cols), 64), cols(cols) {
    std::mt19937 random(seed);
    for (int64_t r = 0; r < rows; ++r) {
      randomA8Row(cols, kA8Block, random, memory.row(r));
      // Scales of similar size: gates of thousands would make sigmoids of 0 and
      // 1.
      auto *scales =
          reinterpret_cast<float *>(memory.row(r) + a8ScaleOffset(cols));
      for (int64_t i = 0; i < cols / kA8Block; ++i)
        scales[i] = 1 / 64.0f / float(1 + i % 3);
      values.push_back(decodeActivation(Encoding::A8, memory.row(r), cols));
    }
  }
  Matrix<uint8_t> memory;
  int64_t cols;
  std::vector<std::vector<double>> values;
};

/// A product, and its possible rounding error.
struct Product {
  double value = 0, error = 0;
};
Product product(const Panels &w, int64_t o, int64_t r, const Acts &acts,
                int64_t row) {
  Product p;
  double magnitude = 0, largest = w.weights.largest(o, r);
  for (int64_t c = 0; c < acts.cols; ++c) {
    double x = acts.values[size_t(row)][size_t(c)];
    p.value += w.weights.at(o, r, c) * x;
    magnitude += largest * std::fabs(x);
  }
  p.error = kEps * (16 + double(acts.cols) / 32) * 4 * magnitude;
  // The largest weight may be less than its offset, by half.
  if (acts.memory.rows > 2)
    p.error += 2 * panelRounding * magnitude;
  return p;
}

double silu(double x) { return x / (1 + std::exp(-x)); }
Wanted gated(const Product &g, const Product &u) {
  double value = silu(g.value) * u.value;
  return {value, 1.1 * g.error * (std::fabs(u.value) + u.error) +
                     u.error * std::fabs(silu(g.value)) +
                     16 * kEps * (std::fabs(value) + std::fabs(u.value))};
}

class QuantGemmTest : public testing::TestWithParam<Format> {};

TEST_P(QuantGemmTest, LinearAddsBiasAndWhatWasThere) {
  Random random(51);
  // An odd number of units, if blocks allow it.
  int64_t rows = 45, cols = raggedCols(GetParam(), 512);
  // The number of multiprocessors decides how many weight rows a block has.
  for (auto [tokens, sms] : {std::pair{1, 0},
                             {2, 0},
                             {3, 0},
                             {8, 0},
                             {8, 4},
                             {8, 1},
                             {11, 0},
                             {40, 0}})
    for (bool accumulate : {false, true}) {
      Panels w(GetParam(), 1, rows, cols, random);
      Acts acts(tokens, cols, 5);
      Matrix<float> bias(1, rows), out(tokens, rows, 3);
      bias.fill(random);
      out.fill(random);
      Matrix<float> before(tokens, rows);
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t r = 0; r < rows; ++r)
          before.at(t, r) = out.at(t, r);
      LinearArgs args{
          acts.memory.data(), acts.memory.stride, w.view,     nullptr,
          bias.data(),        out.data(),         out.stride, accumulate};
      runOnGpu(OpCode::Linear, &args, {tokens, 0}, kForm, 0, sms);
      out.expectOnlyPayloadWritten();
      expectClose(out, [&](int64_t t, int64_t r) {
        Product p = product(w, 0, r, acts, t);
        double old = accumulate ? before.at(t, r) : 0;
        double value = p.value + bias.at(0, r) + old;
        return Wanted{value, p.error + 4 * kEps *
                                           (std::fabs(p.value) +
                                            std::fabs(bias.at(0, r)) +
                                            std::fabs(old))};
      });
    }
}

// Tests each format briefly, for runs in which the whole file would take too
// long.
TEST_P(QuantGemmTest, OneTokenAFewAndMany) {
  Random random(55);
  // A GPU of few multiprocessors has blocks of more rows.
  for (auto [tokens, sms] : {std::pair{1, 0},
                             {1, 1},
                             {2, 0},
                             {2, 1},
                             {3, 0},
                             {3, 2},
                             {3, 1},
                             {11, 0}}) {
    int64_t rows = 19, cols = 256;
    Panels w(GetParam(), 1, rows, cols, random);
    Acts acts(tokens, cols, 5);
    Matrix<float> out(tokens, rows, 3);
    LinearArgs args{
        acts.memory.data(), acts.memory.stride, w.view, nullptr, nullptr,
        out.data(),         out.stride,         false};
    runOnGpu(OpCode::Linear, &args, {tokens, 0}, kForm, 0, sms);
    out.expectOnlyPayloadWritten();
    expectClose(out, [&](int64_t t, int64_t r) {
      Product p = product(w, 0, r, acts, t);
      return Wanted{p.value, p.error};
    });
  }
}

// Results must be exact for every combination of scale and code, as each token
// has only one non-zero column.
TEST_P(QuantGemmTest, AColumnAloneGivesItsWeights) {
  Random random(56);
  int64_t rows = 64, cols = 256;
  Panels w(GetParam(), 1, rows, cols, random);
  Acts acts(cols, cols, 5);
  auto factorOf = [](int64_t t) { return t % 2 ? -127 : 1; };
  for (int64_t t = 0; t < cols; ++t) {
    uint8_t *row = acts.memory.row(t);
    std::memset(row, 0, size_t(a8RowBytes(cols)));
    row[t] = uint8_t(factorOf(t));
    std::fill_n(reinterpret_cast<float *>(row + a8ScaleOffset(cols)), cols / 32,
                1.0f);
    reinterpret_cast<int16_t *>(row + a8SumOffset(cols))[t / 16] =
        int16_t(factorOf(t));
  }
  Matrix<float> out(cols, rows, 3);
  LinearArgs args{
      acts.memory.data(), acts.memory.stride, w.view, nullptr, nullptr,
      out.data(),         out.stride,         false};
  runOnGpu(OpCode::Linear, &args, {int32_t(cols), 0}, kForm);
  out.expectOnlyPayloadWritten();
  expectClose(out, [&](int64_t t, int64_t r) {
    double factor = factorOf(t);
    return Wanted{factor * w.weights.at(0, r, t),
                  (4 * kEps + 2 * panelRounding) * std::fabs(factor) *
                      w.weights.largest(0, r)};
  });
}

// Rows of very different size, which F16 could not represent: each is scaled. A
// token with a NaN leaves the others alone.
TEST_P(QuantGemmTest, LargeAndSmallActivations) {
  Random random(57);
  int64_t rows = 40, cols = 256, broken = 3;
  int32_t tokens = 12;
  Panels w(GetParam(), 1, rows, cols, random);
  Acts acts(tokens, cols, 5);
  for (int64_t t = 0; t < tokens; ++t) {
    uint8_t *row = acts.memory.row(t);
    auto *scales = reinterpret_cast<float *>(row + a8ScaleOffset(cols));
    for (int64_t i = 0; i < cols / kA8Block; ++i)
      scales[i] *= std::exp2(float(t) * 12 - 70) * (i == 5 ? 500.0f : 1.0f);
    acts.values[size_t(t)] = decodeActivation(Encoding::A8, row, cols);
    if (t == broken)
      scales[2] = NAN;
  }
  Matrix<float> out(tokens, rows, 3);
  LinearArgs args{
      acts.memory.data(), acts.memory.stride, w.view, nullptr, nullptr,
      out.data(),         out.stride,         false};
  runOnGpu(OpCode::Linear, &args, {tokens, 0}, kForm);
  expectClose(out, [&](int64_t t, int64_t r) {
    Product p = product(w, 0, r, acts, t);
    return Wanted{t == broken ? double(NAN) : p.value, p.error};
  });
}

// More rounds of stages than there are stages, and a last one that is half.
TEST_P(QuantGemmTest, SameBitsUnderEverySchedule) {
  Random random(58);
  int64_t rows = 70, cols = raggedCols(GetParam(), 512);
  for (int32_t tokens : {27, 90}) {
    Panels w(GetParam(), 1, rows, cols, random);
    Acts acts(tokens, cols, 5);
    Matrix<float> out(tokens, rows, 3);
    LinearArgs args{
        acts.memory.data(), acts.memory.stride, w.view, nullptr, nullptr,
        out.data(),         out.stride,         false};
    std::vector<uint8_t> first;
    underEverySchedule([&] {
      out.reset();
      runOnGpu(OpCode::Linear, &args, {tokens, 0}, kForm);
      if (first.empty())
        first = out.bytes();
      EXPECT_EQ(out.bytes(), first) << tokens << " tokens";
    });
    out.expectOnlyPayloadWritten();
    expectClose(out, [&](int64_t t, int64_t r) {
      Product p = product(w, 0, r, acts, t);
      return Wanted{p.value, p.error};
    });
  }
}

// Each warp passes over its columns several times, and reuses its memory.
TEST_P(QuantGemmTest, FewRowsOfManyColumns) {
  Random random(60);
  int64_t rows = 37, cols = raggedCols(GetParam(), 2304);
  Panels w(GetParam(), 1, rows, cols, random);
  for (auto [tokens, sms] : {std::pair{1, 0}, {3, 0}, {3, 4}, {8, 1}}) {
    Acts acts(tokens, cols, 5);
    Matrix<float> out(tokens, rows, 3);
    LinearArgs args{
        acts.memory.data(), acts.memory.stride, w.view, nullptr, nullptr,
        out.data(),         out.stride,         false};
    std::vector<uint8_t> first;
    underEverySchedule([&] {
      out.reset();
      runOnGpu(OpCode::Linear, &args, {tokens, 0}, kForm, 0, sms);
      if (first.empty())
        first = out.bytes();
      EXPECT_EQ(out.bytes(), first);
    });
    out.expectOnlyPayloadWritten();
    expectClose(out, [&](int64_t t, int64_t r) {
      Product p = product(w, 0, r, acts, t);
      return Wanted{p.value, p.error};
    });
  }
}

/// A product whose tiles may be divided, on a GPU of `sms` multiprocessors.
struct DividedProduct {
  OpCode op;
  int32_t tokens, sms;
};
/// Tests products of `cols` columns, and counts them by how their tiles are
/// divided. A row has the same bits wherever it is in the step, and whoever
/// ends first.
std::map<Division, int> checkDivisions(Format format, int64_t cols,
                                       std::span<const DividedProduct> all) {
  int64_t rows = 520, each = 5;
  Random random(59);
  Panels w(format, 1, rows, cols, random);
  Panels up(format, 1, rows, cols, random);
  Acts own(each, cols, 5);
  std::vector<Product> products, ups;
  for (int64_t i = 0; i < each * rows; ++i) {
    products.push_back(product(w, 0, i % rows, own, i / rows));
    ups.push_back(product(up, 0, i % rows, own, i / rows));
  }
  std::map<Division, int> divided;
  for (auto [op, tokens, sms] : all) {
    Matrix<uint8_t> acts(tokens, a8RowBytes(cols), 64);
    for (int64_t t = 0; t < tokens; ++t)
      std::memcpy(acts.row(t), own.memory.row(t % each),
                  size_t(a8RowBytes(cols)));
    Matrix<float> bias(1, rows), out(tokens, rows, 3);
    bias.fill(random);
    LinearArgs linear{acts.data(), acts.stride, w.view,     nullptr,
                      bias.data(), out.data(),  out.stride, false};
    GateUpArgs both{acts.data(), acts.stride, w.view,  up.view,    nullptr,
                    nullptr,     nullptr,     nullptr, out.data(), out.stride};
    const void *args = op == OpCode::Linear ? static_cast<const void *>(&linear)
                                            : static_cast<const void *>(&both);
    const Division division = divisionOf(op, args, tokens, kForm, sms);
    if (division == Division::None)
      continue;
    SCOPED_TRACE(testing::Message()
                 << tokens << " tokens, " << sms << " multiprocessors, op "
                 << int(op) << ", division " << int(division));
    ++divided[division];
    std::vector<uint8_t> first;
    underEverySchedule([&, op = op, tokens = tokens, sms = sms] {
      out.reset();
      runOnGpu(op, args, {tokens, 0}, kForm, 0, sms);
      if (first.empty())
        first = out.bytes();
      EXPECT_EQ(out.bytes(), first);
    });
    out.expectOnlyPayloadWritten();
    expectClose(out, [&, op = op](int64_t t, int64_t r) {
      auto at = size_t(t % each * rows + r);
      if (op == OpCode::GateUp)
        return gated(products[at], ups[at]);
      return Wanted{products[at].value + bias.at(0, r),
                    products[at].error + 4 * kEps * std::fabs(bias.at(0, r))};
    });
    for (int64_t t = each; t < tokens; ++t)
      EXPECT_EQ(std::memcmp(out.row(t), out.row(t % each), size_t(rows) * 4), 0)
          << "row " << t;
  }
  return divided;
}

// Tiles are divided by columns, all or some of them, and their parts added in
// place or by a second launch.
TEST_P(QuantGemmTest, LastTilesByColumns) {
  constexpr DividedProduct kProducts[] = {
      {OpCode::Linear, 70, 6},  {OpCode::Linear, 70, 2},
      {OpCode::Linear, 130, 5}, {OpCode::Linear, 130, 8},
      {OpCode::GateUp, 70, 6},  {OpCode::GateUp, 70, 8}};
  std::map<Division, int> divided =
      checkDivisions(GetParam(), raggedCols(GetParam(), 1792), kProducts);
  // LaunchGemm.cpp divides none of these formats there.
  bool isUndivided =
      (GetParam() == Format::Q5_1 || GetParam() == Format::Q5_K) &&
      GpuTest::get().gpu->arch() >= 120;
  EXPECT_GE(divided[Division::InPlace], isUndivided ? 0 : 1);
  EXPECT_GE(divided[Division::SecondLaunch], isUndivided ? 0 : 1);
}

// Eight blocks at once multiply five tiles: some have three parts, whose sums
// the block that ends last adds in their order.
TEST_P(QuantGemmTest, TilesInThreeParts) {
  constexpr DividedProduct kProducts[] = {{OpCode::Linear, 20, 2}};
  checkDivisions(GetParam(), raggedCols(GetParam(), 5120), kProducts);
}

TEST_P(QuantGemmTest, GateUpIsSiluOfGateTimesUp) {
  Random random(52);
  for (auto [tokens, sms] :
       {std::pair{1, 0}, {2, 0}, {5, 0}, {5, 4}, {8, 1}, {23, 0}, {70, 0}}) {
    int64_t rows = 37, cols = 768;
    Panels gate(GetParam(), 1, rows, cols, random);
    Panels up(GetParam(), 1, rows, cols, random);
    Acts acts(tokens, cols, 6);
    Matrix<float> out(tokens, rows, 3);
    GateUpArgs args{acts.memory.data(),
                    acts.memory.stride,
                    gate.view,
                    up.view,
                    nullptr,
                    nullptr,
                    nullptr,
                    nullptr,
                    out.data(),
                    out.stride};
    runOnGpu(OpCode::GateUp, &args, {tokens, 0}, kForm, 0, sms);
    out.expectOnlyPayloadWritten();
    expectClose(out, [&](int64_t t, int64_t r) {
      return gated(product(gate, 0, r, acts, t), product(up, 0, r, acts, t));
    });
  }
}

TEST_P(QuantGemmTest, SlotsMeetTheirExperts) {
  Random random(53);
  int32_t experts = 9, topK = 3;
  for (int32_t tokens : {1, 6, 29, 131})
    for (bool perToken : {false, true}) {
      int64_t rows = 49, cols = 256;
      Panels w(GetParam(), experts, rows, cols, random);
      Routing routing(tokens, topK, experts, random);
      Acts acts(perToken ? tokens : tokens * topK, cols, 7);
      Matrix<float> out(int64_t(tokens) * topK, rows, 3);
      ExpertsLinearArgs args{acts.memory.data(),
                             acts.memory.stride,
                             w.view,
                             nullptr,
                             nullptr,
                             routing.offsets.data(),
                             routing.slots.data(),
                             out.data(),
                             out.stride,
                             topK,
                             perToken};
      runOnGpu(OpCode::ExpertsLinear, &args, {tokens, 0}, kForm);
      out.expectOnlyPayloadWritten();
      expectClose(out, [&](int64_t s, int64_t r) {
        Product p = product(w, routing.ids[size_t(s)], r, acts,
                            perToken ? s / topK : s);
        return Wanted{p.value, p.error + kEps * std::fabs(p.value)};
      });
    }
}

TEST_P(QuantGemmTest, SlotsMeetTheirExpertsGates) {
  Random random(54);
  int32_t experts = 7, topK = 2;
  for (int32_t tokens : {1, 7, 61}) {
    int64_t rows = 33, cols = 512;
    Panels gate(GetParam(), experts, rows, cols, random);
    Panels up(GetParam(), experts, rows, cols, random);
    Routing routing(tokens, topK, experts, random);
    Acts acts(tokens, cols, 8);
    Matrix<float> out(int64_t(tokens) * topK, rows, 3);
    ExpertsGateUpArgs args{acts.memory.data(),
                           acts.memory.stride,
                           gate.view,
                           up.view,
                           nullptr,
                           nullptr,
                           nullptr,
                           nullptr,
                           routing.offsets.data(),
                           routing.slots.data(),
                           out.data(),
                           out.stride,
                           topK};
    runOnGpu(OpCode::ExpertsGateUp, &args, {tokens, 0}, kForm);
    out.expectOnlyPayloadWritten();
    expectClose(out, [&](int64_t s, int64_t r) {
      int64_t e = routing.ids[size_t(s)];
      return gated(product(gate, e, r, acts, s / topK),
                   product(up, e, r, acts, s / topK));
    });
  }
}

/// Tests experts in parts, some without slots, whose matrices are copied to two
/// alternating buffers: results must have the same bits.
void checkParts(Format format, const cuda::GemmForm &form, int32_t tokens,
                int64_t cols = 512) {
  SCOPED_TRACE(testing::Message()
               << formatInfo(format).name << ", " << tokens << " tokens");
  Random random(55);
  int32_t experts = 7, topK = 2;
  int64_t rows = 33;
  Panels gate(format, experts, rows, cols, random);
  Panels up(format, experts, rows, cols, random);
  Files gateFiles(gate.weights.view), upFiles(up.weights.view);
  bool isPacked = form.layout == Layout::Rows16;
  Routing routing(tokens, topK, experts, random);
  Acts acts(tokens, cols, 9);
  Matrix<float> floats(tokens, cols), biases(2 * experts, rows);
  floats.fill(random);
  biases.fill(random);
  const uint8_t *act = isPacked
                           ? acts.memory.data()
                           : reinterpret_cast<const uint8_t *>(floats.data());
  Matrix<float> whole(int64_t(tokens) * topK, rows, 3);
  Matrix<float> inParts(int64_t(tokens) * topK, rows, 3);
  auto run = [&](OpCode op, Matrix<float> &out, int32_t parts,
                 bool pinned = false) {
    ExpertsGateUpArgs both{act,
                           isPacked ? acts.memory.stride : floats.stride * 4,
                           isPacked ? gate.view : gateFiles.view,
                           isPacked ? up.view : upFiles.view,
                           nullptr,
                           nullptr,
                           biases.row(0),
                           biases.row(experts),
                           routing.offsets.data(),
                           routing.slots.data(),
                           out.data(),
                           out.stride,
                           topK,
                           Activation::Silu};
    ExpertsLinearArgs one{both.act,       both.actStride, both.gate,  nullptr,
                          both.gateBias,  both.offsets,   both.slots, both.out,
                          both.outStride, topK,           true};
    out.reset();
    if (op == OpCode::ExpertsGateUp)
      runOnGpu(op, &both, {tokens, 0}, form, parts, 0, pinned);
    else
      runOnGpu(op, &one, {tokens, 0}, form, parts, 0, pinned);
  };
  for (OpCode op : {OpCode::ExpertsGateUp, OpCode::ExpertsLinear}) {
    // Experts of floats that are not streamed are multiplied by tensor cores.
    run(op, whole, formatInfo(format).blockElements == 1 ? 1 : 0);
    for (int32_t parts : {1, 2, 3, 7})
      for (bool pinned : {false, true}) {
        run(op, inParts, parts, pinned);
        EXPECT_EQ(inParts.bytes(), whole.bytes()) << parts << " parts";
      }
  }
}

TEST(StreamedExpertsTest, AreTheSameBitsInAnyNumberOfParts) {
  for (int32_t tokens : {1, 9, 61}) {
    checkParts(Format::Q4_K, kForm, tokens);
    checkParts(Format::F32, {}, tokens);
    // A matrix has 3366 bytes, so that alignment varies.
    checkParts(Format::Q8_0, {}, tokens, 96);
  }
}

TEST_P(QuantGemmTest, PartsThatAreStreamed) {
  for (int32_t tokens : {1, 3, 61})
    checkParts(GetParam(), kForm, tokens);
}

std::vector<Format> packedFormats() {
  std::vector<Format> result;
  for (Format format : allFormats())
    if (rows16Shape(format).codeBits % 16 != 0)
      result.push_back(format);
  return result;
}

INSTANTIATE_TEST_SUITE_P(Formats, QuantGemmTest,
                         testing::ValuesIn(packedFormats()),
                         [](const auto &info) {
                           return std::string(formatInfo(info.param).name);
                         });

} // namespace
