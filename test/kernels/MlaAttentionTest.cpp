#include "test/kernels/AttentionModel.h"

using namespace moek;
using namespace moek::test;

namespace {

MOE_KERNEL_SUITE(MlaAttentionTest, MlaAttention);

struct MlaCase {
  int32_t heads, nope, rope, latent, value, tokens, position;
  Format wk = Format::F32, wv = Format::F32;
  int64_t nanRow = -1, nanQuery = -1;
  Encoding encoding = Encoding::F32;
  int64_t hugeRow = -1;
};

/// The decompressed rows of a head [keys | rope keys | values], each in whole
/// blocks, rounded to the 8 bits of Q8_0 if the kernel does that.
class ModelRows {
public:
  ModelRows(const MlaCase &s, int64_t rows, bool rounds)
      : s(s), rounds(rounds), random(1),
        cache(KvType::Q8_0, valueBegin() + padded(s.value), rows, rows, random),
        sums(static_cast<size_t>(rows * cache.view.width)) {}

  static int64_t padded(int64_t count) { return kvBlocks(count) * kKvBlock; }
  int64_t ropeBegin() const { return padded(s.nope); }
  int64_t valueBegin() const { return ropeBegin() + padded(s.rope); }
  /// Returns the column of a key's element c of nope + rope.
  int64_t keyColumn(int64_t c) const {
    return c < s.nope ? c : ropeBegin() + c - s.nope;
  }

  /// Sums before round().
  Sum &at(int64_t row, int64_t col) {
    return sums[size_t(row * cache.view.width + col)];
  }
  /// A number that is within its float error of halfway between two codes may
  /// become either. A row with a NaN becomes NaN as a whole.
  void round(int64_t row) {
    if (!rounds)
      return;
    std::vector<float> x;
    for (int64_t c = 0; c < cache.view.width; ++c)
      x.push_back(float(at(row, c).value));
    for (float &number : x)
      if (std::isnan(number)) {
        for (int64_t c = 0; c < cache.view.width; ++c)
          at(row, c) = {NAN, NAN};
        x.assign(x.size(), 1.0f);
      }
    cache.fill(row, x);
    for (int64_t c = 0; c < cache.view.width && !std::isnan(at(row, c).value);
         ++c) {
      Sum &sum = at(row, c);
      double step = cache.scaleAt(row, c), codes = std::fabs(sum.value) / step;
      double off = 2 * sumTolerance(s.latent, sum.magnitude) / step + 0x1p-15;
      sum.error = std::fabs(codes - std::floor(codes) - 0.5) < off ? step : 0;
      sum.value = cache.at(row, c);
    }
  }

  /// Quantised values of all columns.
  const Cache &codes() const { return cache; }

private:
  const MlaCase &s;
  bool rounds;
  Random random;
  Cache cache;
  std::vector<Sum> sums;
};

/// Rounds the two parts of a query separately, block by block.
std::vector<double> roundedQuery(const float *q, const MlaCase &s,
                                 const std::optional<Rounding> &rounding) {
  if (!rounding)
    return {q, q + s.nope + s.rope};
  std::vector<double> query = rounded(q, s.nope, float(rounding->query));
  std::vector<double> rope =
      rounded(q + s.nope, s.rope, float(rounding->query));
  query.insert(query.end(), rope.begin(), rope.end());
  return query;
}

void checkMla(const KernelInfo &kernel, KvType type, bool transposed,
              const MlaCase &s) {
  SCOPED_TRACE(testing::Message()
               << "type " << int(type) << (transposed ? " transposed" : "")
               << ", " << s.heads << " heads of " << s.nope << " + " << s.rope
               << " and " << s.value << ", " << s.tokens << " tokens at "
               << s.position << ", latent " << s.latent << ", weights "
               << formatInfo(s.wk).name);
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
    // Numbers that eight bits represent exactly: n / 64 with |n| up to 127.
    for (int64_t k = 0; k < rows; ++k)
      cache.fill(k, [&](int64_t l) {
        return float(l % 32 == 0 ? 127 : random.below(255) - 127) / 64;
      });
  if (s.hugeRow >= 0)
    cache.fill(s.hugeRow, [&](int64_t) { return random.normal(1e6f); });
  if (s.nanRow >= 0)
    cache.set(s.nanRow, 0, NAN);
  if (s.nanQuery >= 0)
    q.at(s.nanQuery, 1) = NAN; // The element belongs to head 0.
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

  std::optional<Rounding> rounding = roundingOf(kernel, type);
  // A GPU's tensor cores read latents, weights, keys and values that are
  // rounded to 16 bits.
  const double half = gpuRounding(kernel, type, kPrefillTokens);
  std::vector<std::unique_ptr<ModelRows>> heads;
  std::vector<Attention> attentions; // Indices: [head][token].
  for (int64_t h = 0; h < s.heads; ++h) {
    ModelRows &head = *heads.emplace_back(
        std::make_unique<ModelRows>(s, rows, rounding.has_value()));
    for (int64_t k = 0; k < rows; ++k) {
      for (int64_t l = 0; l < s.latent; ++l) {
        double x = cache.at(k, l);
        for (int64_t n = 0; n < s.nope; ++n)
          head.at(k, n).add(x * (transposed ? wk.at(h, l, n) : wk.at(h, n, l)));
        for (int64_t v = 0; v < s.value; ++v)
          head.at(k, head.valueBegin() + v).add(x * wv.at(h, v, l));
      }
      for (int64_t r = 0; r < s.rope; ++r)
        head.at(k, head.ropeBegin() + r).add(cache.at(k, s.latent + r), 0);
      for (int64_t c = 0; half && c < head.codes().view.width; ++c)
        head.at(k, c).error += half * (2 * head.at(k, c).magnitude +
                                       std::fabs(head.at(k, c).value));
      head.round(k);
    }
    for (int64_t t = 0; t < s.tokens; ++t) {
      std::vector<double> query =
          roundedQuery(q.row(t) + h * width, s, rounding);
      attentions.emplace_back(
          s.position + t + 1, double(scale), s.latent + width, [&](int64_t k) {
            Sum sum;
            for (int64_t c = 0; c < width; ++c) {
              const Sum &key = head.at(k, head.keyColumn(c));
              double x = query[size_t(c)], size = std::fabs(x);
              sum.add(x * key.value,
                      size * std::fmax(key.magnitude, std::fabs(key.value)));
              sum.error += size * (key.error + half * std::fabs(key.value));
            }
            return sum;
          });
    }
  }
  expectClose(out, [&](int64_t t, int64_t c) {
    int64_t h = c / s.value;
    ModelRows &head = *heads[size_t(h)];
    int64_t column = head.valueBegin() + c % s.value;
    const Attention &attention = attentions[size_t(h * s.tokens + t)];
    Wanted wanted = attention.output(double(s.latent), [&](int64_t k) {
      Sum v = head.at(k, column);
      v.error += half * std::fabs(v.value);
      return v;
    });
    if (rounding)
      wanted.tolerance +=
          WeightRounding{head.codes(), rounding->bytes, attention.weights}.of(
              rows, column);
    return wanted;
  });
}

TEST_P(MlaAttentionTest, CausalOverSeveralTokens) {
  for (KvType type : kKvTypes)
    for (bool transposed : {false, true}) {
      checkMla(GetParam(), type, transposed, {3, 19, 6, 33, 21, 70, 0});
      checkMla(GetParam(), type, transposed, {2, 16, 8, 48, 32, 35, 61});
    }
}

/// Kernels process four queries at a time, then the others.
TEST_P(MlaAttentionTest, AnyNumberOfTokens) {
  for (KvType type : {KvType::F32, KvType::Q8_0})
    for (int tokens = 1; tokens <= 17; ++tokens)
      checkMla(GetParam(), type, false, {1, 16, 4, 16, 20, tokens, 7});
}

TEST_P(MlaAttentionTest, OneToken) {
  for (KvType type : {KvType::F32, KvType::Q8_0})
    for (int position : {0, 63, 64, 130})
      checkMla(GetParam(), type, false, {5, 16, 4, 16, 16, 1, position});
}

TEST_P(MlaAttentionTest, RealHeadSize) {
  for (KvType type : {KvType::BF16, KvType::Q8_0}) {
    checkMla(GetParam(), type, false,
             {1, 128, 64, 512, 128, 20, 50, Format::Q4_K, Format::Q6_K});
    checkMla(GetParam(), type, true,
             {1, 128, 64, 512, 128, 3, 50, Format::Q8_0, Format::Q5_0});
  }
}

TEST_P(MlaAttentionTest, EncodesLatents) {
  if (GetParam().isa == Isa::Ref)
    return; // Gemms of this ISA read floats.
  for (KvType type : {KvType::F16, KvType::Q8_0}) {
    MlaCase s{2, 32, 16, 256, 48, 40, 50, Format::Q4_K, Format::Q6_K};
    s.encoding = Encoding::A8;
    checkMla(GetParam(), type, false, s);
    s.wk = s.wv = Format::Q8_0;
    checkMla(GetParam(), type, true, s);
  }
}

TEST_P(MlaAttentionTest, MoreTokensThanASpan) {
  for (KvType type : {KvType::F32, KvType::Q8_0})
    checkMla(GetParam(), type, false,
             {1, 1, 2, 2, 1, int32_t(kQuerySpan) + 19, 3});
}

/// Groups of a Q8_0 cache begin in the middle of a tile of queries, so that one
/// query of a tile sees nothing of a group, or only one sees all of it.
TEST_P(MlaAttentionTest, DiagonalCrossesGroups) {
  for (int before : {1, 15, 16, 17, 40})
    checkMla(GetParam(), KvType::Q8_0, false,
             {1, 64, 16, 24, 64, 66, int32_t(kQ8Group) - before});
}

TEST_P(MlaAttentionTest, AnyShape) {
  Random random(78);
  for (int i = 0; i < 32; ++i) {
    MlaCase s{1 + random.below(2),      1 + random.below(150),
              2 + 2 * random.below(40), 1 + random.below(60),
              1 + random.below(150),    1 + random.below(70),
              random.below(300)};
    checkMla(GetParam(), i % 4 ? KvType::Q8_0 : kKvTypes[i / 4 % 3],
             random.below(2) == 0, s);
  }
}

TEST_P(MlaAttentionTest, NaNStaysWhereItIsSeen) {
  // Row 12 belongs to token 2: tokens 0 and 1 do not see it.
  for (KvType type : {KvType::F32, KvType::Q8_0}) {
    checkMla(GetParam(), type, false,
             {2, 16, 4, 16, 16, 5, 10, Format::F32, Format::F32, 12});
    checkMla(GetParam(), type, true,
             {2, 16, 4, 16, 16, 5, 10, Format::F32, Format::F32, -1, 3});
    checkMla(GetParam(), type, false,
             {1, 70, 10, 16, 70, 40, 250, Format::F32, Format::F32, 262});
  }
}

/// A row that is a million times as large must not affect earlier queries.
TEST_P(MlaAttentionTest, LaterRowsDoNotReducePrecision) {
  for (int64_t row : {12, 27}) {
    MlaCase s{2, 16, 4, 16, 80, 21, 10};
    s.hugeRow = row;
    for (KvType type : {KvType::F32, KvType::Q8_0})
      checkMla(GetParam(), type, false, s);
  }
}

/// Row 12's values are infinite although its keys are not: queries that see the
/// row must get a NaN.
TEST_P(MlaAttentionTest, InfiniteValuesAreSeen) {
  Random random(37);
  int32_t latent = 8, tokens = 20, position = 10;
  for (int32_t value : {16, 80}) {
    Matrix<float> q(tokens, 12), out(tokens, value);
    q.fill(random);
    Cache cache(KvType::Q8_0, latent + 4, 30, 30, random);
    cache.fill(12, [](int64_t c) { return c == 0 ? 100.0f : 1.0f; });
    Weights wk(Format::F32, 1, 8, latent, random);
    Weights wv(Format::F32, 1, value, latent, random);
    for (int32_t v = 0; v < value; ++v) {
      float big = 1e37f; // Finite after multiplication by about 1.
      std::memcpy(wv.memory->data() + v * wv.view.rowStride, &big, 4);
    }
    GemmFn gemm =
        resolveGemm(gemmFor(Format::F32, Encoding::F32, Isa::Ref).name);
    MlaAttentionArgs args{q.data(),   q.stride,   cache.view, wk.view,
                          gemm,       wv.view,    gemm,       Encoding::F32,
                          out.data(), out.stride, 1,          8,
                          4,          latent,     value,      0.1f};
    runKernel(GetParam(), &args, {tokens, position},
              size_t(mlaAttentionScratchBytes(8, 4, latent, value)), {&out});
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t c = 0; c < value; ++c)
        EXPECT_EQ(std::isfinite(out.at(t, c)), position + t < 12)
            << t << ", " << c;
  }
}

} // namespace
