//===- NonFiniteTest.cpp - No kernel hides non-finite values --------------===//
//
// Each input of each op's kernel gets a NaN or an infinity, in one place at a
// time: results that depend on it must not be finite, all others must not
// change by a bit. GemmConformanceTest.cpp does the same for gemms.
//
//===----------------------------------------------------------------------===//

#include "test/kernels/AttentionModel.h"

#include <numeric>

using namespace moek;
using namespace moek::test;

namespace {

/// An input's elements, and the elements of the output that each affects.
struct Input {
  const char *name;
  int64_t rows, cols;
  std::function<float &(int64_t row, int64_t col)> at;
  std::function<bool(int64_t row, int64_t col, int64_t outRow, int64_t outCol)>
      reaches;
  bool withInfinity = true;
};

template <class Reaches>
Input inputOf(const char *name, const Matrix<float> &m, Reaches reaches) {
  return {name, m.rows, m.cols,
          [&m](int64_t r, int64_t c) -> float & { return m.at(r, c); },
          reaches};
}
/// F32; the rows of all matrices follow each other.
template <class Reaches>
Input inputOf(const char *name, const Weights &w, Reaches reaches) {
  const WeightView &view = w.view;
  auto at = [&w, view](int64_t r, int64_t c) -> float & {
    std::byte *row = w.memory->data() + r / view.rows * view.outerStride +
                     r % view.rows * view.rowStride;
    return reinterpret_cast<float *>(row)[c];
  };
  return {name, view.outer * view.rows, view.cols, at, reaches};
}

/// Tests kernels of `op` with inputs that the test names; see the top of this
/// file.
class NonFiniteTest : public testing::TestWithParam<KernelInfo> {
protected:
  void check(const void *args, Step step, int64_t scratch, Matrix<float> &out,
             const std::vector<Input> &inputs) {
    auto run = [&] {
      runKernel(GetParam(), args, step, size_t(scratch), {&out});
    };
    run();
    std::vector<uint8_t> clean = out.bytes();
    auto before = [&](int64_t r, int64_t c) {
      float value;
      std::memcpy(&value, clean.data() + (r * out.stride + c) * 4, 4);
      return value;
    };
    for (int64_t r = 0; r < out.rows; ++r)
      for (int64_t c = 0; c < out.cols; ++c)
        ASSERT_TRUE(std::isfinite(before(r, c))) << r << ", " << c;
    for (const Input &input : inputs)
      for (int64_t row : places(input.rows))
        for (int64_t col : places(input.cols))
          for (float bad : {NAN, INFINITY, -INFINITY}) {
            if (!std::isnan(bad) && !input.withInfinity)
              continue;
            SCOPED_TRACE(testing::Message() << bad << " in " << input.name
                                            << " at " << row << ", " << col);
            float &place = input.at(row, col);
            float kept = std::exchange(place, bad);
            run();
            place = kept;
            for (int64_t r = 0; r < out.rows; ++r)
              for (int64_t c = 0; c < out.cols; ++c) {
                if (input.reaches(row, col, r, c))
                  ASSERT_FALSE(std::isfinite(out.at(r, c)))
                      << "[" << r << ", " << c << "] is finite";
                else
                  ASSERT_EQ(out.at(r, c), before(r, c))
                      << "[" << r << ", " << c
                      << "] changed, but does not depend on it";
              }
          }
  }

  /// Returns the first place, some in the middle and the last.
  static std::vector<int64_t> places(int64_t count) {
    std::vector<int64_t> result{0};
    for (int64_t place : {count / 3, count * 3 / 4, count - 1})
      if (place != result.back())
        result.push_back(place);
    return result;
  }

  static Matrix<float> random(int64_t rows, int64_t cols, int64_t gap = 0) {
    Random source(uint32_t(rows * 100 + cols));
    Matrix<float> m(rows, cols, gap);
    m.fill(source);
    return m;
  }
  static GemmFn gemm() {
    return resolveGemm(gemmFor(Format::F32, Encoding::F32, Isa::Ref).name);
  }
  static const uint8_t *bytesOf(const Matrix<float> &m) {
    return reinterpret_cast<const uint8_t *>(m.data());
  }
  Random source_{41};
};

auto sameRow = [](int64_t row, int64_t, int64_t r, int64_t) {
  return r == row;
};
auto sameCol = [](int64_t, int64_t col, int64_t, int64_t c) {
  return c == col;
};
auto sameElement = [](int64_t row, int64_t col, int64_t r, int64_t c) {
  return r == row && c == col;
};
/// Row r of a weight affects column r of the output.
auto rowIsCol = [](int64_t row, int64_t, int64_t, int64_t c) {
  return c == row;
};

#define MOE_NON_FINITE_SUITE(op)                                               \
  class NonFinite##op : public NonFiniteTest {};                               \
  GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NonFinite##op);                \
  INSTANTIATE_TEST_SUITE_P(                                                    \
      Kernels, NonFinite##op,                                                  \
      testing::ValuesIn(moek::test::kernelsOf(OpCode::op)),                    \
      moek::test::kernelName);                                                 \
  TEST_P(NonFinite##op, IsSeenWhereItCounts)

MOE_NON_FINITE_SUITE(Embed) {
  std::vector<int32_t> tokens{2, 0, 4, 2};
  Weights table(Format::F32, 1, 5, 37, source_);
  Matrix<float> out(4, 37, 3);
  EmbedArgs args{tokens.data(), table.view, out.data(),
                 out.stride,    0,          out.cols};
  check(&args, {4, 0}, 0, out,
        {inputOf("table", table,
                 [&](int64_t row, int64_t col, int64_t r, int64_t c) {
                   return tokens[size_t(r)] == row && c == col;
                 })});
}

MOE_NON_FINITE_SUITE(EmbedPositions) {
  Weights table(Format::F32, 1, 9, 37, source_);
  Matrix<float> out(4, 37);
  EmbedPositionsArgs args{table.view, out.data(), out.cols};
  check(&args, {4, 3}, 0, out,
        {inputOf("table", table,
                 [&](int64_t row, int64_t col, int64_t r, int64_t c) {
                   return r + 3 == row && c == col;
                 })});
}

MOE_NON_FINITE_SUITE(NgramEmbed) {
  // Every number of tokens selects the same row for each of two heads.
  std::vector<int32_t> tokens{2, 0, 4, 2};
  Weights table(Format::F32, 1, 5, 37, source_);
  std::vector<float> hash(4 * (2 + 2 * 2));
  hash[4 * 2] = hash[4 * 3] = 1; // These elements are moduli.
  hash[4 * 5] = 3;               // This element is the second offset.
  Matrix<float> history(4, 1), out(4, 2 * 37, 3);
  NgramEmbedArgs args{};
  args.tokens = tokens.data();
  args.table = table.view;
  args.hash = hash.data();
  args.history = {reinterpret_cast<uint8_t *>(history.data()), 1, 4, 4,
                  KvType::F32};
  args.out = out.data();
  args.outStride = out.stride;
  args.size = 2;
  args.heads = 2;
  check(&args, {4, 0}, 0, out,
        {inputOf("table", table,
                 [](int64_t row, int64_t col, int64_t, int64_t c) {
                   return c % 37 == col && row == (c < 37 ? 0 : 3);
                 })});
}

MOE_NON_FINITE_SUITE(GateStreams) {
  constexpr int64_t kCols = 37;
  Matrix<float> q = random(3, 2 * kCols), k = random(3, 2 * kCols);
  Matrix<float> value = random(3, kCols), out(3, 2 * kCols);
  GateStreamsArgs args{q.data(), k.data(), value.data(), out.data(), kCols, 2};
  auto sameStream = [](int64_t row, int64_t col, int64_t r, int64_t c) {
    return r == row && c / kCols == col / kCols;
  };
  check(&args, {3, 0}, 0, out,
        {inputOf("q", q, sameStream), inputOf("k", k, sameStream),
         inputOf("value", value,
                 [](int64_t row, int64_t col, int64_t r, int64_t c) {
                   return r == row && c % kCols == col;
                 })});
}

MOE_NON_FINITE_SUITE(PositionScale) {
  Matrix<float> x = random(3, 37), out(3, 37);
  PositionScaleArgs args{x.data(), out.data(), 37, 4, 0, 0.5f};
  check(&args, {3, 7}, 0, out, {inputOf("x", x, sameElement)});
}

MOE_NON_FINITE_SUITE(RmsNorm) {
  int64_t cols = 37;
  Matrix<float> x = random(3, 2 * cols, 5), weight = random(1, cols);
  Matrix<float> out(3, 2 * cols, 1);
  RmsNormArgs args{x.data(), x.stride, weight.data(), out.data(), out.stride,
                   2,        false,    cols,          1e-6f};
  check(
      &args, {3, 0}, 0, out,
      {inputOf("x", x,
               [&](int64_t row, int64_t col, int64_t r, int64_t c) {
                 return r == row && c / cols == col / cols;
               }),
       inputOf("weight", weight, [&](int64_t, int64_t col, int64_t, int64_t c) {
         return c % cols == col;
       })});
}

MOE_NON_FINITE_SUITE(Linear) {
  Weights w(Format::F32, 1, 45, 19, source_);
  Matrix<float> act = random(3, 19, 5), bias = random(1, 45);
  Matrix<float> out = random(3, 45, 3);
  out.keepAsInitial();
  for (bool accumulate : {false, true}) {
    LinearArgs args{bytesOf(act), act.stride * 4, w.view,     gemm(),
                    bias.data(),  out.data(),     out.stride, accumulate};
    check(&args, {3, 0}, gemmScratchBytes(), out,
          {inputOf("act", act, sameRow), inputOf("w", w, rowIsCol),
           inputOf("bias", bias, sameCol)});
  }
}

MOE_NON_FINITE_SUITE(GateUp) {
  Weights gate(Format::F32, 1, 45, 19, source_);
  Weights up(Format::F32, 1, 45, 19, source_);
  Matrix<float> act = random(3, 19, 5), out(3, 45, 3);
  GateUpArgs args{bytesOf(act), act.stride * 4, gate.view, up.view,
                  gemm(),       gemm(),         nullptr,   nullptr,
                  out.data(),   out.stride};
  check(&args, {3, 0}, gateUpScratchBytes(), out,
        {inputOf("act", act, sameRow), inputOf("gate", gate, rowIsCol),
         inputOf("up", up, rowIsCol)});
}

MOE_NON_FINITE_SUITE(ActivationMul) {
  Matrix<float> gate = random(3, 37), up = random(3, 37), out(3, 37);
  ActivationMulArgs args{gate.data(), up.data(), out.data(), 37, 1};
  check(&args, {3, 0}, 0, out,
        {inputOf("gate", gate, sameElement), inputOf("up", up, sameElement)});
}

MOE_NON_FINITE_SUITE(ExpertsActivationMul) {
  Matrix<float> gate = random(3, 37), up = random(3, 37), out(3, 37);
  Matrix<float> scale = random(1, 2);
  int32_t offsets[] = {0, 1, 3}, slots[] = {2, 0, 1};
  ExpertsActivationMulArgs args{
      gate.data(), up.data(), nullptr, scale.data(), offsets, slots, out.data(),
      37,          2,         1};
  check(&args, {3, 0}, 0, out,
        {inputOf("gate", gate, sameElement), inputOf("up", up, sameElement)});
}

MOE_NON_FINITE_SUITE(Add) {
  Matrix<float> x = random(3, 37), y = random(3, 37), out(3, 37);
  AddArgs args{x.data(), y.data(), out.data(), 37};
  check(&args, {3, 0}, 0, out,
        {inputOf("x", x, sameElement), inputOf("y", y, sameElement)});
}

MOE_NON_FINITE_SUITE(Scale) {
  Matrix<float> x = random(3, 37), out(3, 37);
  for (float cap : {0.0f, 3.0f}) {
    ScaleArgs args{x.data(), out.data(), 37, 2, cap, 0};
    Input rows = inputOf("x", x, sameElement);
    rows.withInfinity = cap == 0; // A cap makes infinity finite.
    check(&args, {3, 0}, 0, out, {rows});
  }
}

MOE_NON_FINITE_SUITE(Rope) {
  // The op works in place, so the result is added to a copy: check() needs x.
  int32_t heads = 2, headStride = 40, offset = 8, dim = 32;
  for (bool neox : {false, true}) {
    Matrix<float> x = random(3, heads * headStride, 3), table = random(3, dim);
    Matrix<float> out = random(3, heads * headStride, 3);
    auto partner = [&](int64_t i) {
      return neox ? (i + dim / 2) % dim : i ^ 1;
    };
    auto pairOf = [&](int64_t i) { return neox ? i % (dim / 2) : i / 2; };
    for (int64_t row : {0, 2})
      for (int64_t col : {3, 8, 23, 39, 40, 79})
        for (float bad : {NAN, INFINITY}) {
          std::memcpy(out.data(), x.data(), x.bytes().size());
          out.at(row, col) = bad;
          out.keepAsInitial();
          RopeArgs args{out.data(), out.stride, table.data(), heads,
                        headStride, offset,     dim,          neox};
          runKernel(GetParam(), &args, {3, 0}, 0, {&out});
          int64_t at = col % headStride - offset;
          for (int64_t r = 0; r < 3; ++r)
            for (int64_t c = 0; c < out.cols; ++c) {
              int64_t i = c % headStride - offset;
              bool sees = r == row && c / headStride == col / headStride &&
                          (c == col || (at >= 0 && at < dim && i >= 0 &&
                                        i < dim && i == partner(at)));
              ASSERT_EQ(std::isfinite(out.at(r, c)), !sees) << r << ", " << c;
            }
        }
    table.at(1, dim / 2 + 3) = NAN; // The element is a sine.
    std::memcpy(out.data(), x.data(), x.bytes().size());
    out.keepAsInitial();
    RopeArgs args{out.data(), out.stride, table.data(), heads,
                  headStride, offset,     dim,          neox};
    runKernel(GetParam(), &args, {3, 0}, 0, {&out});
    for (int64_t r = 0; r < 3; ++r)
      for (int64_t c = 0; c < out.cols; ++c) {
        int64_t i = c % headStride - offset;
        bool sees = r == 1 && i >= 0 && i < dim && pairOf(i) == 3;
        ASSERT_EQ(std::isnan(out.at(r, c)), sees) << r << ", " << c;
      }
  }
}

/// If a row has a number that its cache cannot represent, queries must see a
/// NaN: in the first element, or in a block's scale.
MOE_NON_FINITE_SUITE(MlaLatent) {
  int32_t latent = 70, rope = 10, tokens = 3, position = 5;
  for (KvType type : kKvTypes)
    for (int64_t col : {0, 69, 70, 77, 79})
      for (float bad : {NAN, INFINITY, -INFINITY, -70000.0f, 3e38f}) {
        SCOPED_TRACE(testing::Message() << "type " << int(type) << ", " << bad
                                        << " in column " << col);
        Matrix<float> x = random(tokens, latent + rope, 3);
        Matrix<float> weight = random(1, latent);
        Matrix<float> table(tokens, rope);
        for (int64_t t = 0; t < tokens; ++t)
          for (int64_t i = 0; i < rope; ++i)
            table.at(t, i) = i < rope / 2 ? 1 : 0.5f;
        x.at(1, col) = bad;
        Cache cache(type, latent + rope, position + tokens + 2, position,
                    source_);
        MlaLatentArgs args{x.data(),   x.stride, weight.data(), table.data(),
                           cache.view, latent,   rope,          1e-6f};
        runKernel(GetParam(), &args, {tokens, position}, 0, {&cache.memory});
        auto isNumbers = [&](int64_t row) {
          for (int64_t c = 0; c < latent + rope; ++c)
            if (!std::isfinite(cache.at(row, c)))
              return false;
          return true;
        };
        EXPECT_TRUE(isNumbers(position));
        EXPECT_TRUE(isNumbers(position + 2));
        // The norm makes a large number small unless its square overflows,
        // which it does not in the reference.
        bool isRef = GetParam().isa == Isa::Ref;
        bool expected =
            std::isfinite(bad) &&
            (col < latent ? bad < 1e30f || isRef : type != KvType::F16);
        ASSERT_EQ(isNumbers(position + 1), expected);
        if (!expected && type != KvType::Q8_0) {
          EXPECT_TRUE(std::isnan(cache.at(position + 1, 0)));
        }
      }
}

MOE_NON_FINITE_SUITE(AbsorbQuery) {
  int32_t heads = 2, nope = 19, rope = 5, latent = 33;
  int64_t in = nope + rope, width = latent + rope;
  Weights w(Format::F32, heads, nope, latent, source_);
  Matrix<float> q = random(3, heads * in, 5), out(3, heads * width, 3);
  AbsorbQueryArgs args{q.data(), q.stride, w.view, out.data(), out.stride,
                       heads,    nope,     rope,   latent};
  check(&args, {3, 0}, absorbQueryScratchBytes(latent), out,
        {inputOf("q", q,
                 [&](int64_t row, int64_t col, int64_t r, int64_t c) {
                   int64_t from = col % in, to = c % width;
                   return r == row && c / width == col / in &&
                          (from < nope ? to < latent
                                       : to - latent == from - nope);
                 }),
         inputOf("w", w, [&](int64_t row, int64_t col, int64_t, int64_t c) {
           return c / width == row / nope && c % width == col;
         })});
}

MOE_NON_FINITE_SUITE(HeadLinear) {
  int32_t heads = 2, rows = 21, cols = 33, tail = 4;
  int64_t in = cols + tail, width = rows + tail;
  Weights w(Format::F32, heads, rows, cols, source_);
  Matrix<float> x = random(3, heads * in, 5), out(3, heads * width, 3);
  HeadLinearArgs args{x.data(),      x.stride,   w.view,     gemm(),
                      Encoding::F32, out.data(), out.stride, tail};
  check(&args, {3, 0}, headLinearScratchBytes(cols), out,
        {inputOf("x", x,
                 [&](int64_t row, int64_t col, int64_t r, int64_t c) {
                   int64_t from = col % in, to = c % width;
                   return r == row && c / width == col / in &&
                          (from < cols ? to < rows : to - rows == from - cols);
                 }),
         inputOf("w", w, [&](int64_t row, int64_t, int64_t, int64_t c) {
           return c / width == row / rows && c % width == row % rows;
         })});
}

/// Inputs for the rows of a cache. Q8_0 can only have NaN, in the scales of
/// blocks.
std::vector<Input> rowsOf(const Cache &cache, int64_t position) {
  auto seen = [position](int64_t row, int64_t, int64_t r, int64_t) {
    return row <= position + r;
  };
  int64_t width = cache.view.width, stride = cache.view.rowStride / 4;
  auto *data = reinterpret_cast<float *>(cache.view.data);
  if (cache.view.type == KvType::F32)
    return {
        {"kv", cache.view.capacity, width,
         [=](int64_t r, int64_t c) -> float & { return data[r * stride + c]; },
         seen, false}};
  float *scales = data + kvScaleOffset(width) / 4; // Indices: [block][row].
  return {
      {"kv scales", kKvTile, kvBlocks(width),
       [=](int64_t r, int64_t b) -> float & { return scales[b * kKvTile + r]; },
       seen, false}};
}

MOE_NON_FINITE_SUITE(LatentAttention) {
  int32_t heads = 5, latent = 70, rope = 10, tokens = 4, position = 11;
  int64_t width = latent + rope;
  for (KvType type : {KvType::F32, KvType::Q8_0}) {
    Cache cache(type, width, 16, 16, source_);
    Matrix<float> q = random(tokens, heads * width, 5);
    Matrix<float> out(tokens, heads * latent, 3);
    LatentAttentionArgs args{q.data(),   q.stride, cache.view, out.data(),
                             out.stride, heads,    latent,     rope,
                             1,          0.2f};
    std::vector<Input> inputs = rowsOf(cache, position);
    inputs.push_back(
        inputOf("q", q, [&](int64_t row, int64_t col, int64_t r, int64_t c) {
          return r == row && c / latent == col / width;
        }));
    check(&args, {tokens, position},
          latentAttentionScratchBytes(heads, latent, rope), out, inputs);
  }
}

MOE_NON_FINITE_SUITE(Attention) {
  int32_t heads = 4, kvHeads = 2, key = 20, value = 12, tokens = 4;
  int32_t position = 11, window = 7;
  for (KvType type : {KvType::F32, KvType::Q8_0}) {
    Cache cache(type, gqaKvWidth(kvHeads, key, value), 16, 16, source_);
    Matrix<float> q = random(tokens, heads * key, 5);
    Matrix<float> sinks = random(1, heads);
    Matrix<float> out(tokens, heads * value, 3);
    AttentionArgs args{};
    args.q = q.data(), args.qStride = q.stride;
    args.kv = cache.view;
    args.out = out.data(), args.outStride = out.stride;
    args.heads = heads, args.kvHeads = kvHeads;
    args.key = key, args.value = value;
    args.splits = 1, args.window = window, args.scale = 0.2f;
    // The input is the key of KV head 1, or the scale of its block in Q8_0.
    Input keys = rowsOf(cache, position).front();
    bool blocks = type == KvType::Q8_0;
    keys.at = [at = keys.at, blocks](int64_t r, int64_t c) -> float & {
      return at(r, blocks ? 1 : 64 + c);
    };
    keys.cols = blocks ? 1 : key;
    keys.reaches = [=](int64_t row, int64_t, int64_t r, int64_t c) {
      return row <= position + r && row > position + r - window &&
             c >= heads / 2 * value;
    };
    check(&args, {tokens, position},
          attentionScratchBytes(heads, kvHeads, key, value), out,
          {keys,
           inputOf("q", q, [&](int64_t row, int64_t col, int64_t r, int64_t c) {
             return r == row && c / value == col / key;
           })});
    args.sinks = sinks.data();
    check(&args, {tokens, position},
          attentionScratchBytes(heads, kvHeads, key, value), out, {keys});
  }
}

MOE_NON_FINITE_SUITE(GateMul) {
  for (bool ofRow : {false, true}) {
    Matrix<float> x = random(3, 37), gate = random(3, ofRow ? 1 : 37);
    Matrix<float> out(3, 37);
    GateMulArgs args{x.data(), gate.data(), out.data(),
                     37,       gate.cols,   Gate::Sigmoid};
    Input gates = inputOf("gate", gate,
                          [=](int64_t row, int64_t col, int64_t r, int64_t c) {
                            return r == row && (ofRow || c == col);
                          });
    // A gate multiplies by 0 to 1, so infinity stays finite.
    gates.withInfinity = false;
    check(&args, {3, 0}, 0, out, {inputOf("x", x, sameElement), gates});
  }
}

MOE_NON_FINITE_SUITE(CombineSplits) {
  // 300 rows in 3 splits, all of which every token sees.
  int32_t heads = 3, latent = 37, splits = 3, tokens = 3, position = 297;
  Matrix<float> x = random(tokens * splits, heads * (latent + 2), 3);
  for (int64_t row = 0; row < x.rows; ++row)
    for (int64_t h = 0; h < heads; ++h)
      x.at(row, heads * (latent + 1) + h) =
          2; // These elements are sums of weights.
  Matrix<float> out(tokens, heads * latent, 2);
  CombineSplitsArgs args{x.data(), x.stride, out.data(), out.stride,
                         heads,    latent,   splits};
  Input input =
      inputOf("x", x, [&](int64_t row, int64_t col, int64_t r, int64_t c) {
        if (col < heads * latent)
          return r == row / splits && c == col;
        return r == row / splits && c / latent == col % heads;
      });
  // A maximum of minus infinity means a split without rows.
  input.withInfinity = false;
  check(&args, {tokens, position}, 0, out, {input});
}

MOE_NON_FINITE_SUITE(MlaAttention) {
  int32_t heads = 2, nope = 12, rope = 4, latent = 10, value = 7;
  int32_t tokens = 5, position = 11;
  int64_t width = nope + rope;
  Weights wk(Format::F32, heads, nope, latent, source_);
  Weights wv(Format::F32, heads, value, latent, source_);
  for (KvType type : {KvType::F32, KvType::Q8_0}) {
    Cache cache(type, latent + rope, 16, 16, source_);
    Matrix<float> q = random(tokens, heads * width, 5);
    Matrix<float> out(tokens, heads * value, 3);
    MlaAttentionArgs args{q.data(),   q.stride,   cache.view, wk.view,
                          gemm(),     wv.view,    gemm(),     Encoding::F32,
                          out.data(), out.stride, heads,      nope,
                          rope,       latent,     value,      0.2f};
    bool integer = type == KvType::Q8_0 && GetParam().isa != Isa::Ref &&
                   GetParam().isa != Isa::Cuda;
    std::vector<Input> inputs = rowsOf(cache, position);
    inputs.push_back(
        inputOf("q", q, [&](int64_t row, int64_t col, int64_t r, int64_t c) {
          return r == row && c / value == col / width;
        }));
    inputs.push_back(
        inputOf("wk", wk, [&](int64_t row, int64_t, int64_t, int64_t c) {
          return c / value == row / nope;
        }));
    inputs.push_back(
        inputOf("wv", wv, [&](int64_t row, int64_t, int64_t, int64_t c) {
          // Integer products show a row's NaN in all its columns.
          return integer ? c / value == row / value : c == row;
        }));
    check(&args, {tokens, position},
          mlaAttentionScratchBytes(nope, rope, latent, value), out, inputs);
  }
}

MOE_NON_FINITE_SUITE(Router) {
  for (Scoring scoring :
       {Scoring::Softmax, Scoring::Sigmoid, Scoring::SoftmaxTopK})
    for (int32_t groups : {1, 4})
      for (bool normalize : {false, true}) {
        Matrix<float> logits = random(5, 32, 3), bias = random(1, 32);
        Matrix<int32_t> ids(5, 6);
        Matrix<float> weights(5, 6);
        RouterArgs args{logits.data(),
                        logits.stride,
                        bias.data(),
                        nullptr,
                        ids.data(),
                        weights.data(),
                        32,
                        6,
                        groups,
                        groups / 2 + 1,
                        /*groupBest=*/groups > 1 ? 2 : 1,
                        scoring,
                        normalize,
                        2};
        check(&args, {5, 0}, routerScratchBytes(32), weights,
              {inputOf("logits", logits, sameRow),
               inputOf("bias", bias, [](int64_t, int64_t, int64_t, int64_t) {
                 return true;
               })});
      }
}

/// Experts 1, 0 and 2 of three, two per token.
struct SmallRouting {
  int32_t topK = 2;
  std::vector<int32_t> ids{1, 0, 2, 1, 0, 2};
  std::vector<int32_t> offsets{0, 2, 4, 6}, slots{1, 4, 0, 3, 2, 5};
};

MOE_NON_FINITE_SUITE(ExpertsLinear) {
  SmallRouting routing;
  int64_t n = 45, k = 19;
  Weights w(Format::F32, 3, n, k, source_);
  for (bool perToken : {false, true}) {
    Matrix<float> act = random(perToken ? 3 : 6, k, 2), out(6, n, 3);
    ExpertsLinearArgs args{bytesOf(act),
                           act.stride * 4,
                           w.view,
                           gemm(),
                           nullptr,
                           routing.offsets.data(),
                           routing.slots.data(),
                           out.data(),
                           out.stride,
                           routing.topK,
                           perToken};
    check(&args, {3, 0}, gemmScratchBytes(), out,
          {inputOf("act", act,
                   [&](int64_t row, int64_t, int64_t r, int64_t) {
                     return (perToken ? r / routing.topK : r) == row;
                   }),
           inputOf("w", w, [&](int64_t row, int64_t, int64_t r, int64_t c) {
             return routing.ids[size_t(r)] == row / n && c == row % n;
           })});
  }
}

MOE_NON_FINITE_SUITE(ExpertsGateUp) {
  SmallRouting routing;
  int64_t f = 45, k = 19;
  Weights gate(Format::F32, 3, f, k, source_),
      up(Format::F32, 3, f, k, source_);
  Matrix<float> act = random(3, k, 2), out(6, f, 3);
  ExpertsGateUpArgs args{bytesOf(act),
                         act.stride * 4,
                         gate.view,
                         up.view,
                         gemm(),
                         gemm(),
                         nullptr,
                         nullptr,
                         routing.offsets.data(),
                         routing.slots.data(),
                         out.data(),
                         out.stride,
                         routing.topK};
  auto ofExpert = [&](int64_t row, int64_t, int64_t r, int64_t c) {
    return routing.ids[size_t(r)] == row / f && c == row % f;
  };
  check(&args, {3, 0}, gateUpScratchBytes(), out,
        {inputOf("act", act,
                 [&](int64_t row, int64_t, int64_t r, int64_t) {
                   return r / routing.topK == row;
                 }),
         inputOf("gate", gate, ofExpert), inputOf("up", up, ofExpert)});
}

MOE_NON_FINITE_SUITE(ExpertsCombine) {
  Matrix<float> y = random(9, 37), weights = random(3, 3), out = random(3, 37);
  out.keepAsInitial();
  for (bool accumulate : {false, true}) {
    ExpertsCombineArgs args{y.data(), weights.data(), out.data(), 37,
                            3,        accumulate};
    check(&args, {3, 0}, 0, out,
          {inputOf("y", y,
                   [](int64_t row, int64_t col, int64_t r, int64_t c) {
                     return r == row / 3 && c == col;
                   }),
           inputOf("weights", weights, sameRow)});
  }
}

/// Finite numbers whose squares overflow: the result must be correct or not
/// finite.
class NonFiniteSquares : public testing::TestWithParam<KernelInfo> {};
INSTANTIATE_TEST_SUITE_P(Kernels, NonFiniteSquares,
                         testing::ValuesIn(kernelsOf(OpCode::RmsNorm)),
                         kernelName);
TEST_P(NonFiniteSquares, AreNotZeros) {
  Matrix<float> x(1, 40), weight(1, 40), out(1, 40);
  for (int64_t c = 0; c < 40; ++c)
    x.at(0, c) = 1e30f, weight.at(0, c) = 1;
  RmsNormArgs args{x.data(), x.stride, weight.data(), out.data(), out.stride, 1,
                   false,    40,       1e-6f};
  runKernel(GetParam(), &args, {1, 0}, 0, {&out});
  for (int64_t c = 0; c < 40; ++c)
    EXPECT_TRUE(std::isnan(out.at(0, c)) || std::fabs(out.at(0, c) - 1) < 1e-5f)
        << out.at(0, c);
}

} // namespace
