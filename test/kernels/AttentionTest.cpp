#include "test/kernels/AttentionModel.h"

using namespace moek;
using namespace moek::test;

namespace {

MOE_KERNEL_SUITE(AbsorbQueryTest, AbsorbQuery);
MOE_KERNEL_SUITE(HeadLinearTest, HeadLinear);
MOE_KERNEL_SUITE(LatentAttentionTest, LatentAttention);
MOE_KERNEL_SUITE(CombineSplitsTest, CombineSplits);

void checkAbsorb(const KernelInfo &kernel, Format format, int32_t heads,
                 int32_t nope, int32_t rope, int32_t latent, int32_t tokens) {
  SCOPED_TRACE(testing::Message()
               << formatInfo(format).name << ", nope " << nope << ", latent "
               << latent << ", " << tokens << " tokens");
  Random random(31);
  Weights w(format, heads, nope, latent, random);
  Matrix<float> q(tokens, heads * (nope + rope), 5);
  Matrix<float> out(tokens, heads * (latent + rope), 3);
  q.fill(random);
  AbsorbQueryArgs args{q.data(), q.stride, w.view, out.data(), out.stride,
                       heads,    nope,     rope,   latent};
  runKernel(kernel, &args, {tokens, 2}, size_t(absorbQueryScratchBytes(latent)),
            {&out});
  expectClose(out, [&](int64_t t, int64_t c) {
    int64_t h = c / (latent + rope), i = c % (latent + rope);
    const float *head = q.row(t) + h * (nope + rope);
    if (i >= latent)
      return Wanted{head[nope + i - latent], 0};
    Sum sum;
    for (int64_t n = 0; n < nope; ++n)
      sum.add(double(head[n]) * w.at(h, n, i));
    return Wanted{sum.value, sumTolerance(nope, sum.magnitude)};
  });
}

TEST_P(AbsorbQueryTest, EveryFormat) {
  for (Format format : allFormats())
    checkAbsorb(GetParam(), format, 3, 21, 6, 512, 2);
}

TEST_P(AbsorbQueryTest, OddShapes) {
  checkAbsorb(GetParam(), Format::F32, 2, 19, 5, 33, 1);
  checkAbsorb(GetParam(), Format::F32, 1, 1, 1, 1, 3);
  checkAbsorb(GetParam(), Format::BF16, 5, 48, 64, 300, 7);
}

/// With A8 activations the expected values are computed from what `quantize`
/// makes of x.
void checkHeadLinear(const KernelInfo &kernel, Format format, Encoding encoding,
                     int32_t heads, int32_t rows, int32_t cols, int32_t tail,
                     int32_t tokens) {
  SCOPED_TRACE(testing::Message()
               << formatInfo(format).name << ", encoding " << int(encoding)
               << ", " << rows << " x " << cols << ", tail " << tail << ", "
               << tokens << " tokens");
  Random random(32);
  Weights w(format, heads, rows, cols, random);
  Matrix<float> x(tokens, heads * (cols + tail), 5);
  Matrix<float> out(tokens, heads * (rows + tail), 3);
  x.fill(random);
  const GemmInfo &gemm = gemmFor(
      format, encoding, encoding == Encoding::F32 ? Isa::Ref : kernel.isa);
  HeadLinearArgs args{x.data(), x.stride,   w.view,     resolveGemm(gemm.name),
                      encoding, out.data(), out.stride, tail};
  runKernel(kernel, &args, {tokens, 2}, size_t(headLinearScratchBytes(cols)),
            {&out});
  expectClose(out, [&](int64_t t, int64_t c) {
    int64_t h = c / (rows + tail), r = c % (rows + tail);
    const float *head = x.row(t) + h * (cols + tail);
    if (r >= rows)
      return Wanted{head[cols + r - rows], 0};
    Sum sum;
    double step = 0; // Possible effect of rounding to 8 bits.
    for (int64_t i = 0; i < cols; ++i) {
      sum.add(double(head[i]) * w.at(h, r, i));
      double most = 0;
      for (int64_t b = i / 32 * 32;
           b < std::min<int64_t>(cols, i / 32 * 32 + 32); ++b)
        most = std::fmax(most, std::fabs(head[b]));
      step += most / 254 * std::fabs(w.at(h, r, i));
    }
    double tolerance = sumTolerance(cols, sum.magnitude) +
                       double(cols) * kEps * w.largest(h, r) * 8;
    return Wanted{sum.value,
                  tolerance + (encoding == Encoding::A8 ? 1.001 * step : 0)};
  });
}

TEST_P(HeadLinearTest, EveryFormat) {
  for (Format format : allFormats())
    checkHeadLinear(GetParam(), format, Encoding::F32, 3, 37, 256, 7, 2);
}

TEST_P(HeadLinearTest, EncodesActivations) {
  if (GetParam().isa == Isa::Ref)
    return; // Gemms of this ISA read floats.
  for (int32_t tokens : {1, 3, 300})
    checkHeadLinear(GetParam(), Format::Q8_0, Encoding::A8, 3, 48, 128, 64,
                    tokens);
  checkHeadLinear(GetParam(), Format::Q4_K, Encoding::A8, 5, 33, 512, 0, 2);
}

TEST_P(HeadLinearTest, OddShapes) {
  checkHeadLinear(GetParam(), Format::F32, Encoding::F32, 2, 19, 33, 0, 1);
  checkHeadLinear(GetParam(), Format::F32, Encoding::F32, 1, 1, 1, 1, 3);
  checkHeadLinear(GetParam(), Format::F16, Encoding::F32, 5, 48, 130, 5, 7);
}

struct LatentCase {
  int32_t heads, latent, rope, tokens, position;
  /// A cache row and a query token that are NaN; -1: none.
  int64_t nanRow = -1, nanQuery = -1;
  int32_t splits = 1;
  float scale = 0.3f;
};

/// Runs LatentAttention and, if it leaves KV splits, CombineSplits of its ISA.
void runLatent(const KernelInfo &kernel, LatentAttentionArgs args, Step step,
               Matrix<float> &out) {
  size_t scratch =
      size_t(latentAttentionScratchBytes(args.heads, args.latent, args.rope));
  if (args.splits == 1)
    return runKernel(kernel, &args, step, scratch, {&out});
  Matrix<float> spans(step.tokens * args.splits, args.heads * (args.latent + 2),
                      3);
  args.out = spans.data();
  args.outStride = spans.stride;
  runKernel(kernel, &args, step, scratch, {&spans});
  CombineSplitsArgs combine{spans.data(), spans.stride, out.data(), out.stride,
                            args.heads,   args.latent,  args.splits};
  for (const KernelInfo &other : kernelsOf(OpCode::CombineSplits))
    if (other.isa == kernel.isa)
      runKernel(other, &combine, step, 0, {&out});
}

void checkLatent(const KernelInfo &kernel, KvType type, const LatentCase &s) {
  SCOPED_TRACE(testing::Message()
               << "type " << int(type) << ", " << s.heads << " heads, latent "
               << s.latent << ", rope " << s.rope << ", " << s.tokens
               << " tokens at " << s.position << ", " << s.splits << " splits");
  Random random(33);
  int64_t width = s.latent + s.rope;
  Matrix<float> q(s.tokens, s.heads * width, 5);
  Matrix<float> out(s.tokens, s.heads * s.latent, 3);
  q.fill(random);
  // Rows past the last token are NaN or large: no kernel may read them.
  Cache cache(type, width, s.position + s.tokens + 70, s.position + s.tokens,
              random);
  for (int64_t row = s.position + s.tokens; row < cache.view.capacity; row += 2)
    cache.fill(row, [](int64_t) { return 1e4f; });
  if (s.nanRow >= 0)
    cache.set(s.nanRow, 0, NAN);
  if (s.nanQuery >= 0)
    q.at(s.nanQuery, 1) = NAN; // The element belongs to head 0.
  LatentAttentionArgs args{q.data(),   q.stride, cache.view, out.data(),
                           out.stride, s.heads,  s.latent,   s.rope,
                           s.splits,   s.scale};
  runLatent(kernel, args, {s.tokens, s.position}, out);
  std::optional<Rounding> rounding = roundingOf(kernel, type);
  int64_t rows = s.position + s.tokens, spanLength = rows;
  if (s.splits > 1)
    spanLength =
        std::max((rows + s.splits - 1) / s.splits, leastSplitRows(s.splits));
  spanLength = (spanLength + kKvTile - 1) / kKvTile * kKvTile;
  std::vector<Attention> attentions;
  for (int64_t t = 0; t < s.tokens; ++t)
    for (int64_t h = 0; h < s.heads; ++h) {
      const float *head = q.row(t) + h * width;
      std::vector<double> query =
          rounding ? rounded(head, width, float(rounding->query))
                   : std::vector<double>(head, head + width);
      attentions.emplace_back(s.position + t + 1, double(s.scale), width,
                              [&](int64_t k) {
                                Sum sum;
                                for (int64_t c = 0; c < width; ++c)
                                  sum.add(query[size_t(c)] * cache.at(k, c));
                                return sum;
                              });
    }
  expectClose(out, [&](int64_t t, int64_t c) {
    const Attention &attention = attentions[size_t(t * s.heads + c / s.latent)];
    Wanted wanted = attention.output(0, [&](int64_t k) {
      Sum v;
      v.add(cache.at(k, c % s.latent), 0);
      return v;
    });
    if (rounding)
      wanted.tolerance +=
          WeightRounding{cache, rounding->bytes, attention.weights}.of(
              spanLength, c % s.latent);
    return wanted;
  });
}

TEST_P(LatentAttentionTest, DecodeAtAnyDepth) {
  for (KvType type : kKvTypes)
    for (int position : {0, 1, 63, 64, 200})
      checkLatent(GetParam(), type, {16, 64, 16, 1, position});
}

TEST_P(LatentAttentionTest, CausalOverSeveralTokens) {
  for (KvType type : kKvTypes) {
    checkLatent(GetParam(), type, {5, 33, 7, 9, 60});
    checkLatent(GetParam(), type, {4, 48, 16, 70, 0});
    checkLatent(GetParam(), type, {1, 1, 1, 3, 2});
  }
}

/// Kernels process four heads at a time, then the others.
TEST_P(LatentAttentionTest, AnyNumberOfHeads) {
  for (KvType type : {KvType::F32, KvType::Q8_0})
    for (int heads = 1; heads <= 9; ++heads)
      checkLatent(GetParam(), type, {heads, 32, 8, 2, 21});
}

TEST_P(LatentAttentionTest, RealHeadSize) {
  for (KvType type : {KvType::BF16, KvType::Q8_0})
    checkLatent(GetParam(), type, {3, 512, 64, 2, 130, -1, -1, 1, 0.02f});
}

TEST_P(LatentAttentionTest, SpansOfTheCache) {
  for (KvType type : kKvTypes) {
    // The first tokens see no row of the last splits.
    checkLatent(GetParam(), type, {17, 48, 6, 3, 300, -1, -1, 8});
    checkLatent(GetParam(), type, {9, 32, 4, 9, 124, -1, -1, 64});
    checkLatent(GetParam(), type, {16, 64, 64, 1, 1100, -1, -1, 3});
    checkLatent(GetParam(), type, {4, 16, 4, 1, 5, -1, -1, 2});
  }
}

TEST_P(LatentAttentionTest, AnyShape) {
  Random random(77);
  for (int i = 0; i < 40; ++i) {
    LatentCase s;
    s.heads = 1 + random.below(17);
    s.latent = 1 + random.below(150);
    s.rope = 2 + 2 * random.below(40);
    s.tokens = 1 + random.below(9);
    s.position = random.below(300);
    s.splits = 1 + random.below(4);
    s.scale = 0.05f * float(1 + random.below(10));
    checkLatent(GetParam(), kKvTypes[i % int(std::size(kKvTypes))], s);
  }
}

TEST_P(LatentAttentionTest, NaNStaysWhereItIsSeen) {
  // Row 12 is token 2's: tokens 0 and 1 do not see it.
  checkLatent(GetParam(), KvType::F32, {3, 16, 4, 5, 10, 12});
  checkLatent(GetParam(), KvType::BF16, {3, 16, 4, 5, 10, -1, 3});
  checkLatent(GetParam(), KvType::Q8_0, {3, 16, 4, 5, 10, 12});
  checkLatent(GetParam(), KvType::Q8_0, {3, 16, 4, 5, 10, -1, 3});
  checkLatent(GetParam(), KvType::Q8_0, {3, 96, 4, 5, 150, 152, -1, 2});
}

/// Row 3's score is `sink` above the others'. It and the rows before `counted`
/// have values of zero, so that the result shows what the weights of the others
/// became.
void checkSink(const KernelInfo &kernel, KvType type, float sink,
               int32_t position, int64_t counted) {
  SCOPED_TRACE(testing::Message() << "type " << int(type) << ", sink " << sink);
  Random random(35);
  int32_t heads = 5, latent = 64, rope = 64;
  int64_t width = latent + rope;
  Matrix<float> q(1, heads * width), out(1, heads * latent);
  Cache cache(type, width, position + 1, position + 1, random);
  // Scores depend on the rope part alone.
  for (int64_t c = 0; c < q.cols; ++c)
    q.at(0, c) = c % width < latent ? 0 : 1;
  auto counts = [&](int64_t row) { return row != 3 && row >= counted; };
  for (int64_t r = 0; r <= position; ++r)
    cache.fill(r, [&](int64_t c) {
      if (c >= latent)
        return (r == 3 ? sink : 0.0f) / float(rope) + 0.001f;
      return counts(r) ? 1 + 0.1f * random.normal() : 0.0f;
    });
  LatentAttentionArgs args{q.data(),   q.stride, cache.view, out.data(),
                           out.stride, heads,    latent,     rope,
                           1,          1};
  runLatent(kernel, args, {1, position}, out);
  double weight = 1 / (std::exp(sink) + position);
  for (int64_t c = 0; c < out.cols; ++c) {
    double sum = 0;
    for (int64_t r = 0; r <= position; ++r)
      sum += counts(r) ? weight * cache.at(r, c % latent) : 0;
    EXPECT_NEAR(out.at(0, c), sum, 0.03 * sum) << c;
  }
}

/// One row has most of the weight, up to 1800 times that of another; the other
/// weights must not be rounded to zero. (A coarse unit of weights may fit a
/// single sink by chance.)
TEST_P(LatentAttentionTest, RowsBesideASinkKeepTheirWeights) {
  for (KvType type : kKvTypes)
    for (float sink : {5.0f, 6.0f, 6.5f, 7.0f, 7.5f})
      checkSink(GetParam(), type, sink, 199, 0);
}

/// The unit of weights is chosen per group.
TEST_P(LatentAttentionTest, RowsFarFromASinkKeepTheirWeights) {
  for (KvType type : kKvTypes)
    checkSink(GetParam(), type, 12, 2 * kQ8Group + 40, kQ8Group);
}

/// `tokens` rows at `position`, whose KV splits begin at `base` and are
/// `length` long.
struct CombinedSpans {
  int32_t tokens, position, splits, window;
  int64_t base, length;
  float lastMost = 0; ///< Added to the maximum of each token's last split.
};

void checkCombine(const KernelInfo &kernel, const CombinedSpans &s) {
  SCOPED_TRACE(testing::Message() << s.tokens << " tokens at " << s.position
                                  << ", window " << s.window);
  Random random(36);
  int32_t heads = 3, latent = 37;
  auto firstOf = [&](int64_t t) {
    int64_t begin = s.window ? s.position + t + 1 - s.window : 0;
    return (std::max<int64_t>(begin, 0) - s.base) / s.length;
  };
  auto lastOf = [&](int64_t t) { return (s.position + t - s.base) / s.length; };
  // Splits that a token does not see may contain anything.
  Matrix<float> x(s.tokens * s.splits, heads * (latent + 2), 3);
  Matrix<float> out(s.tokens, heads * latent, 2);
  for (int64_t t = 0; t < s.tokens; ++t)
    for (int64_t i = firstOf(t); i <= lastOf(t); ++i)
      for (int64_t c = 0; c < heads * (latent + 2); ++c)
        x.at(t * s.splits + i, c) = c < heads * latent ? random.normal()
                                    : c < heads * (latent + 1)
                                        ? random.normal(20)
                                        : 1 + random.normal(0.1f);
  for (int64_t t = 0; t < s.tokens; ++t)
    for (int64_t h = 0; h < heads; ++h)
      x.at(t * s.splits + lastOf(t), heads * latent + h) += s.lastMost;
  int64_t last = s.tokens - 1; // The element is a sum of head 0.
  x.at(last * s.splits + lastOf(last), heads * (latent + 1)) = NAN;
  CombineSplitsArgs args{x.data(), x.stride, out.data(), out.stride,
                         heads,    latent,   s.splits,   s.window};
  runKernel(kernel, &args, {s.tokens, s.position}, 0, {&out});
  expectClose(out, [&](int64_t t, int64_t c) {
    int64_t head = c / latent;
    double most = -INFINITY, total = 0;
    auto at = [&](int64_t i, int64_t column) {
      return double(x.at(t * s.splits + i, column));
    };
    for (int64_t i = firstOf(t); i <= lastOf(t); ++i)
      most = std::fmax(most, at(i, heads * latent + head));
    Sum sum;
    for (int64_t i = firstOf(t); i <= lastOf(t); ++i) {
      double weight = std::exp(at(i, heads * latent + head) - most);
      total += weight * at(i, heads * (latent + 1) + head);
      sum.add(weight * at(i, c));
    }
    return Wanted{sum.value / total, 64 * kEps * (1 + sum.magnitude / total)};
  });
}

TEST_P(CombineSplitsTest, WeighsSplitsByTheirMaxima) {
  // 258 rows in 5 splits of at least 128: token 0 sees rows 0 ... 255.
  checkCombine(GetParam(), {3, 255, 5, 0, 0, 128});
  // More splits than a warp has lanes; exp(150) overflows a float.
  checkCombine(GetParam(), {1, 9000, 40, 0, 0, 240});
  checkCombine(GetParam(), {1, 9000, 40, 0, 0, 240, 150});
}

TEST_P(CombineSplitsTest, SplitsOfAWindowBeginAtATile) {
  // The token sees rows 175 ... 294, which is two splits because they begin at
  // 160.
  checkCombine(GetParam(), {1, 294, 5, 120, 160, 128});
  // The last tokens see nothing of the first split.
  checkCombine(GetParam(), {200, 100, 4, 130, 0, 128});
}

} // namespace
