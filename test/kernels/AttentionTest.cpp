#include "test/kernels/KernelTest.h"

#include <optional>

using namespace moek;
using namespace moek::test;

namespace {

MOE_KERNEL_SUITE(AbsorbQueryTest, AbsorbQuery);
MOE_KERNEL_SUITE(HeadLinearTest, HeadLinear);
MOE_KERNEL_SUITE(LatentAttentionTest, LatentAttention);
MOE_KERNEL_SUITE(LatentCombineTest, LatentCombine);
MOE_KERNEL_SUITE(MlaAttentionTest, MlaAttention);

/// A sum and the sum of its terms' magnitudes.
struct Sum {
  double value = 0, magnitude = 0;
  void add(double term, double size) {
    value += term;
    magnitude += size;
  }
  void add(double term) { add(term, std::fabs(term)); }
};

/// The gemm for rows of `format` as in a file and activations of `encoding`, of
/// the kernel's instruction set or the nearest one below it.
const GemmInfo &gemmFor(Format format, Encoding encoding, Isa isa) {
  const GemmInfo *best = nullptr;
  for (const GemmInfo &info : gemmTable())
    if (info.format == format && info.activation == encoding &&
        info.layout == Layout::Gguf && info.isa <= isa &&
        (!best || info.isa > best->isa))
      best = &info;
  return *best;
}

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

/// With activations encoded as A8 the wanted values are those of what
/// `quantize` makes of x.
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
    double step = 0; // What rounding to 8 bits may change.
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
    return; // Its gemms read floats.
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

/// Softmax attention of one query over `keys` rows, in float64. score(k) and
/// value(k, c) come with magnitudes; a score's error of d changes a weight by
/// a factor of about 1 + d.
struct Attention {
  std::vector<double> weights;
  double scoreError = 0;

  template <class Score>
  Attention(int64_t keys, double scale, double terms, Score score) {
    double most = -INFINITY, total = 0;
    for (int64_t k = 0; k < keys; ++k) {
      Sum s = score(k);
      weights.push_back(s.value * scale);
      most = std::fmax(most, s.value * scale);
      scoreError = std::fmax(scoreError,
                             sumTolerance(int64_t(terms), s.magnitude * scale));
    }
    for (double &w : weights)
      total += w = std::exp(w - most);
    for (double &w : weights)
      w /= total;
  }

  template <class Value> Wanted output(double valueTerms, Value value) const {
    Sum sum;
    double valueError = 0;
    for (size_t k = 0; k < weights.size(); ++k) {
      Sum v = value(int64_t(k));
      sum.add(weights[k] * v.value, weights[k] * std::fabs(v.value));
      valueError += weights[k] * sumTolerance(int64_t(valueTerms), v.magnitude);
    }
    return {sum.value,
            (2 * scoreError + kEps * 64) * sum.magnitude +
                sumTolerance(int64_t(weights.size()), sum.magnitude) +
                valueError};
  }
};

struct LatentCase {
  int32_t heads, latent, rope, tokens, position;
  /// A cache row, query token or neither that is NaN.
  int64_t nanRow = -1, nanQuery = -1;
  int32_t splits = 1;
  float scale = 0.3f;
};

/// Runs LatentAttention and, where it leaves spans, LatentCombine of its ISA.
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
  LatentCombineArgs combine{spans.data(), spans.stride, out.data(), out.stride,
                            args.heads,   args.latent,  args.splits};
  for (const KernelInfo &other : kernelsOf(OpCode::LatentCombine))
    if (other.isa == kernel.isa)
      runKernel(other, &combine, step, 0, {&out});
}

/// What a kernel that multiplies integers rounds.
struct Rounding {
  int query; ///< Largest number of a query's block.
  /// Weights above eight times their mean have fewer bits: the others are bytes
  /// in units of a 255th of that. Without it all are in units of a 32767th of
  /// the largest.
  bool bytes;
};

std::optional<Rounding> roundingOf(const KernelInfo &kernel, KvType type) {
  if (type == KvType::Q8_0 && kernel.isa == Isa::Avx512)
    return Rounding{127, true};
  if (type == KvType::Q8_0 && kernel.isa == Isa::Avx2)
    return Rounding{32767, false};
  return std::nullopt;
}

/// How far a head's weighted sum may be off where weights and scales of rows
/// are rounded: the arithmetic of cpu/*/Q8Latent.h for each group of rows.
struct WeightRounding {
  const Cache &cache;
  bool bytes;
  std::vector<double> weights;

  double unitOf(int64_t begin, int64_t end) const {
    double top = 0, bulk = 0, sum = 0;
    for (int64_t k = begin; k < end; ++k) {
      top = std::fmax(top, weights[size_t(k)]);
      bulk += weights[size_t(k)] * 8 / double(end - begin);
    }
    if (!bytes)
      return top / 32767;
    for (int64_t k = begin; k < end; ++k)
      sum += std::fmin(weights[size_t(k)], bulk);
    bulk = std::fmin(bulk, sum * 8 / double(end - begin));
    return std::fmax(std::fmin(top, bulk) / 255, top / 32767);
  }

  double of(int64_t begin, int64_t end, int64_t col) const {
    double scale = 0, error = 0, unit = unitOf(begin, end) * 1.001;
    for (int64_t k = begin; k < end; ++k)
      scale = std::fmax(scale, cache.scaleAt(k, col));
    for (int64_t k = begin; k < end; ++k) {
      double value = std::fabs(cache.at(k, col));
      double code = value / cache.scaleAt(k, col);
      error += unit / 2 * (value + code * scale) +
               weights[size_t(k)] * code * scale / 32767;
    }
    return error;
  }

  /// Of all groups; they begin anew in every span of `length` rows.
  double of(int64_t length, int64_t col) const {
    auto rows = int64_t(weights.size());
    double error = 0;
    for (int64_t span = 0; span < rows; span += length)
      for (int64_t at = span; at < std::min(rows, span + length);
           at += kLatentGroup)
        error +=
            of(at, std::min({rows, span + length, at + kLatentGroup}), col);
    return error;
  }
};

/// A head's query as integers up to `largest` per block of kKvBlock represent
/// it.
std::vector<double> rounded(const float *q, int64_t width, float largest) {
  std::vector<double> result(static_cast<size_t>(width));
  for (int64_t begin = 0; begin < width; begin += kKvBlock) {
    int64_t end = std::min(width, begin + kKvBlock);
    float most = 0;
    for (int64_t c = begin; c < end; ++c)
      most = std::isnan(q[c]) ? NAN : std::fmax(most, std::fabs(q[c]));
    for (int64_t c = begin; c < end; ++c)
      result[size_t(c)] =
          std::nearbyint(q[c] * (largest / most)) * double(most / largest);
  }
  return result;
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
  // Rows past the last token are NaN or large: nobody may look at them.
  Cache cache(type, width, s.position + s.tokens + 70, s.position + s.tokens,
              random);
  for (int64_t row = s.position + s.tokens; row < cache.view.capacity; row += 2)
    cache.fill(row, [](int64_t) { return 1e4f; });
  if (s.nanRow >= 0)
    cache.set(s.nanRow, 0, NAN);
  if (s.nanQuery >= 0)
    q.at(s.nanQuery, 1) = NAN; // Of head 0.
  LatentAttentionArgs args{q.data(),   q.stride, cache.view, out.data(),
                           out.stride, s.heads,  s.latent,   s.rope,
                           s.splits,   s.scale};
  runLatent(kernel, args, {s.tokens, s.position}, out);
  std::optional<Rounding> rounding = roundingOf(kernel, type);
  int64_t rows = s.position + s.tokens, spanLength = rows;
  if (s.splits > 1)
    spanLength = std::max((rows + s.splits - 1) / s.splits, kLatentSpan);
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

TEST_P(LatentAttentionTest, RealHeadSize) {
  for (KvType type : {KvType::BF16, KvType::Q8_0})
    checkLatent(GetParam(), type, {3, 512, 64, 2, 130, -1, -1, 1, 0.02f});
}

TEST_P(LatentAttentionTest, SpansOfTheCache) {
  for (KvType type : kKvTypes) {
    // No row of the last spans is visible to the first tokens.
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
/// have values of zero, so what comes out is what the weights of the others
/// became.
void checkSink(const KernelInfo &kernel, KvType type, float sink,
               int32_t position, int64_t counted) {
  SCOPED_TRACE(testing::Message() << "type " << int(type) << ", sink " << sink);
  Random random(35);
  int32_t heads = 5, latent = 64, rope = 64;
  int64_t width = latent + rope;
  Matrix<float> q(1, heads * width), out(1, heads * latent);
  Cache cache(type, width, position + 1, position + 1, random);
  // Scores come from the rope part alone.
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

/// One row has most of the weight, a thousand times another's: the others' must
/// survive next to it.
TEST_P(LatentAttentionTest, RowsBesideASinkKeepTheirWeights) {
  for (KvType type : kKvTypes)
    checkSink(GetParam(), type, 7, 199, 0);
}

/// Units of weights are those of a group.
TEST_P(LatentAttentionTest, RowsFarFromASinkKeepTheirWeights) {
  for (KvType type : kKvTypes)
    checkSink(GetParam(), type, 12, 2 * kLatentGroup + 40, kLatentGroup);
}

TEST_P(LatentCombineTest, WeighsSpansByTheirMaxima) {
  Random random(36);
  // 300 rows in 3 spans of at least 128: token 0 of 3 sees rows 0 ... 255, so
  // no row of the last span; what is there may be anything.
  int32_t heads = 3, latent = 37, splits = 5, tokens = 3, position = 255;
  Matrix<float> x(tokens * splits, heads * (latent + 2), 3);
  Matrix<float> out(tokens, heads * latent, 2);
  for (int64_t row = 0; row < x.rows; ++row) {
    bool seen = row % splits < (row < splits ? 2 : 3);
    for (int64_t c = 0; seen && c < heads * (latent + 2); ++c)
      x.at(row, c) = c < heads * latent         ? random.normal()
                     : c < heads * (latent + 1) ? random.normal(20)
                                                : 1 + random.normal(0.1f);
  }
  x.at(2 * splits + 1, heads * (latent + 1)) = NAN; // Head 0 of token 2.
  LatentCombineArgs args{x.data(), x.stride, out.data(), out.stride,
                         heads,    latent,   splits};
  runKernel(GetParam(), &args, {tokens, position}, 0, {&out});
  expectClose(out, [&](int64_t t, int64_t c) {
    int64_t head = c / latent, spans = t == 0 ? 2 : 3;
    double most = -INFINITY, total = 0;
    auto at = [&](int64_t s, int64_t column) {
      return double(x.at(t * splits + s, column));
    };
    for (int64_t s = 0; s < spans; ++s)
      most = std::fmax(most, at(s, heads * latent + head));
    Sum sum;
    for (int64_t s = 0; s < spans; ++s) {
      double weight = std::exp(at(s, heads * latent + head) - most);
      total += weight * at(s, heads * (latent + 1) + head);
      sum.add(weight * at(s, c));
    }
    return Wanted{sum.value / total, 64 * kEps * (1 + sum.magnitude / total)};
  });
}

struct MlaCase {
  int32_t heads, nope, rope, latent, value, tokens, position;
  Format wk = Format::F32, wv = Format::F32;
  int64_t nanRow = -1, nanQuery = -1;
  Encoding encoding = Encoding::F32;
};

void checkMla(const KernelInfo &kernel, KvType type, bool transposed,
              const MlaCase &s) {
  SCOPED_TRACE(testing::Message()
               << "type " << int(type) << (transposed ? " transposed" : "")
               << ", " << s.tokens << " tokens at " << s.position << ", latent "
               << s.latent << ", weights " << formatInfo(s.wk).name);
  Random random(34);
  int64_t width = s.nope + s.rope;
  Matrix<float> q(s.tokens, s.heads * width, 5);
  Matrix<float> out(s.tokens, s.heads * s.value, 3);
  q.fill(random);
  float weightScale = 1 / std::sqrt(float(s.latent));
  Weights wk(s.wk, s.heads, transposed ? s.latent : s.nope,
             transposed ? s.nope : s.latent, random, weightScale);
  Weights wv(s.wv, s.heads, s.value, s.latent, random, weightScale);
  int64_t rows = s.position + s.tokens;
  Cache cache(type, s.latent + s.rope, rows + 70, rows, random);
  if (s.encoding == Encoding::A8)
    // Numbers that eight bits hold exactly: n / 64 with |n| up to 127.
    for (int64_t k = 0; k < rows; ++k)
      for (int64_t l = 0; l < s.latent; ++l)
        cache.set(k, l,
                  float(l % 32 == 0 ? 127 : random.below(255) - 127) / 64);
  if (s.nanRow >= 0)
    cache.set(s.nanRow, 0, NAN);
  if (s.nanQuery >= 0)
    q.at(s.nanQuery, 1) = NAN; // Of head 0.
  float scale = 1 / std::sqrt(float(width));
  auto gemm = [&](Format format) {
    return resolveGemm(
        gemmFor(format, s.encoding,
                s.encoding == Encoding::F32 ? Isa::Ref : kernel.isa)
            .name);
  };
  MlaAttentionArgs args{q.data(),
                        q.stride,
                        cache.view,
                        wk.view,
                        transposed ? nullptr : gemm(s.wk),
                        wv.view,
                        gemm(s.wv),
                        s.encoding,
                        out.data(),
                        out.stride,
                        s.heads,
                        s.nope,
                        s.rope,
                        s.latent,
                        s.value,
                        scale};
  runKernel(kernel, &args, {s.tokens, s.position},
            size_t(mlaAttentionScratchBytes(s.nope, s.rope, s.latent, s.value)),
            {&out});

  // Decompressed keys and values with the magnitudes of their sums.
  std::vector<Sum> keys, values;
  for (int64_t h = 0; h < s.heads; ++h)
    for (int64_t k = 0; k < rows; ++k) {
      for (int64_t n = 0; n < s.nope; ++n) {
        Sum &sum = keys.emplace_back();
        for (int64_t l = 0; l < s.latent; ++l)
          sum.add(cache.at(k, l) *
                  (transposed ? wk.at(h, l, n) : wk.at(h, n, l)));
      }
      for (int64_t v = 0; v < s.value; ++v) {
        Sum &sum = values.emplace_back();
        for (int64_t l = 0; l < s.latent; ++l)
          sum.add(cache.at(k, l) * wv.at(h, v, l));
      }
    }
  std::vector<Attention> attentions;
  for (int64_t t = 0; t < s.tokens; ++t)
    for (int64_t h = 0; h < s.heads; ++h)
      attentions.emplace_back(
          s.position + t + 1, double(scale), s.latent + width, [&](int64_t k) {
            Sum sum;
            const float *head = q.row(t) + h * width;
            for (int64_t n = 0; n < s.nope; ++n) {
              const Sum &key = keys[size_t((h * rows + k) * s.nope + n)];
              sum.add(head[n] * key.value, std::fabs(head[n]) * key.magnitude);
            }
            for (int64_t r = 0; r < s.rope; ++r)
              sum.add(double(head[s.nope + r]) * cache.at(k, s.latent + r));
            return sum;
          });
  expectClose(out, [&](int64_t t, int64_t c) {
    int64_t h = c / s.value;
    return attentions[size_t(t * s.heads + h)].output(
        double(s.latent), [&](int64_t k) {
          return values[size_t((h * rows + k) * s.value + c % s.value)];
        });
  });
}

TEST_P(MlaAttentionTest, CausalOverSeveralTokens) {
  for (KvType type : kKvTypes)
    for (bool transposed : {false, true}) {
      checkMla(GetParam(), type, transposed, {3, 19, 6, 33, 21, 70, 0});
      checkMla(GetParam(), type, transposed, {2, 16, 8, 48, 32, 35, 61});
    }
}

TEST_P(MlaAttentionTest, OneToken) {
  for (int position : {0, 63, 64, 130})
    checkMla(GetParam(), KvType::F32, false, {5, 16, 4, 16, 16, 1, position});
}

TEST_P(MlaAttentionTest, RealHeadSize) {
  checkMla(GetParam(), KvType::BF16, false,
           {1, 128, 64, 512, 128, 20, 50, Format::Q4_K, Format::Q6_K});
  checkMla(GetParam(), KvType::BF16, true,
           {1, 128, 64, 512, 128, 3, 50, Format::Q8_0, Format::Q5_0});
}

TEST_P(MlaAttentionTest, EncodesLatents) {
  if (GetParam().isa == Isa::Ref)
    return; // Its gemms read floats.
  MlaCase s{2, 32, 16, 256, 48, 40, 50, Format::Q4_K, Format::Q6_K};
  s.encoding = Encoding::A8;
  checkMla(GetParam(), KvType::F16, false, s);
  s.wk = s.wv = Format::Q8_0;
  checkMla(GetParam(), KvType::F16, true, s);
}

TEST_P(MlaAttentionTest, MoreTokensThanASpan) {
  checkMla(GetParam(), KvType::F32, false,
           {1, 1, 2, 2, 1, int32_t(kQuerySpan) + 19, 3});
}

TEST_P(MlaAttentionTest, NaNStaysWhereItIsSeen) {
  // Row 12 is token 2's: tokens 0 and 1 do not see it.
  checkMla(GetParam(), KvType::F32, false,
           {2, 16, 4, 16, 16, 5, 10, Format::F32, Format::F32, 12});
  checkMla(GetParam(), KvType::F32, true,
           {2, 16, 4, 16, 16, 5, 10, Format::F32, Format::F32, -1, 3});
}

} // namespace
