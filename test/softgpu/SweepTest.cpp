//===- SweepTest.cpp - Compares the software GPU with silicon -------------===//
//
// Compares every instruction over edge cases and random operands. The results
// of an NVIDIA H100 are recorded in silicon/sm_90.txt as one hash per case;
// with --driver they are compared with the GPU at hand. The command
//
//   moe_softgpu_tests --driver libcuda.so.1 --record test/softgpu/silicon
//     --gtest_filter='SweepTest.*'
//
// records a GPU: it writes sm_NN.txt there, and sm_NN.bits with all results,
// which --bits compares with on a machine without that GPU.
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/Sweep.h"

#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <map>

namespace softgpu {
namespace {

uint64_t hashOf(const std::vector<uint64_t> &values) {
  uint64_t hash = 0xCBF29CE484222325ull; // Offset basis of the hash FNV-1a.
  for (uint64_t value : values)
    for (int i = 0; i < 64; i += 8)
      hash = (hash ^ (value >> i & 255)) * 0x100000001B3ull;
  return hash;
}

/// Provides silicon's results from wherever they are known.
class SweepTest : public PtxTest {
protected:
  void SetUp() override {
    std::ifstream file(std::string(MOE_SOFTGPU_SILICON) + "/sm_90.txt");
    std::string hash, text;
    while (file >> hash && std::getline(file >> std::ws, text))
      recorded_[text] = std::stoull(hash, nullptr, 16);
    if (!silicon().bits.empty())
      readBits();
    if (!silicon().record.empty() && isOnDriver())
      stem_ =
          fmt::format("{}/sm_{}", silicon().record, TestGpu::driver()->arch());
  }

  /// Compares one case: `run` returns its results on the GPU that `gpu` is.
  template <class F>
  void compare(const std::string &name, F run,
               const std::function<std::string(size_t)> &inputs) {
    gpu.setSoftware(true);
    std::vector<uint64_t> soft = run(), hard;
    gpu.setSoftware(false);
    if (isOnDriver()) {
      hard = run();
      record(name, hard);
    } else if (auto it = bits_.find(name); it != bits_.end()) {
      hard = it->second;
    } else {
      auto known = recorded_.find(name);
      ASSERT_NE(known, recorded_.end()) << name << " is not recorded";
      EXPECT_EQ(fmt::format("{:016x}", hashOf(soft)),
                fmt::format("{:016x}", known->second))
          << name;
      return;
    }
    ASSERT_EQ(soft.size(), hard.size()) << name;
    size_t wrong = 0;
    std::string text;
    for (size_t i = 0; i < soft.size(); ++i)
      if (soft[i] != hard[i] && ++wrong <= 4)
        text += fmt::format("\n  {}: {:#x}, silicon {:#x}", inputs(i), soft[i],
                            hard[i]);
    if (wrong)
      ADD_FAILURE() << fmt::format("{}: {} of {} differ{}", name, wrong,
                                   soft.size(), text);
  }

  /// Returns silicon's results of a case if they are available; else none.
  template <class F>
  std::vector<uint64_t> known(const std::string &name, F run) {
    if (isOnDriver()) {
      std::vector<uint64_t> values = run();
      record(name, values);
      return values;
    }
    auto it = bits_.find(name);
    return it == bits_.end() ? std::vector<uint64_t>() : it->second;
  }

  static std::string rowText(const Operands &row) {
    return fmt::format("a={:#x} b={:#x} c={:#x} e={:#x}", row.a, row.b, row.c,
                       row.e);
  }

private:
  void record(const std::string &name, const std::vector<uint64_t> &values) {
    if (stem_.empty() || values.empty())
      return;
    std::ofstream(stem_ + ".txt", std::ios::app)
        << fmt::format("{:016x} {}\n", hashOf(values), name);
    std::ofstream bits(stem_ + ".bits", std::ios::app | std::ios::binary);
    bits << name << '\n' << values.size() << '\n';
    bits.write(reinterpret_cast<const char *>(values.data()),
               std::streamsize(values.size() * 8));
  }
  void readBits() {
    std::ifstream file(silicon().bits, std::ios::binary);
    std::string name, count;
    while (std::getline(file, name) && std::getline(file, count)) {
      std::vector<uint64_t> values(std::stoull(count));
      file.read(reinterpret_cast<char *>(values.data()),
                std::streamsize(values.size() * 8));
      bits_[name] = std::move(values);
    }
  }

  std::map<std::string, uint64_t> recorded_;
  std::map<std::string, std::vector<uint64_t>> bits_;
  std::string stem_;
};

TEST_F(SweepTest, Instructions) {
  for (const SweepCase &sweep : sweepCases()) {
    std::vector<Operands> rows = sweepRows(sweep);
    // Registers may be wider than their values.
    std::string name =
        sweep.text + fmt::format(" ({}, {})", sweep.widths.d, sweep.widths.a);
    compare(
        name, [&] { return evaluate(sweep.text, sweep.widths, rows); },
        [&](size_t i) { return rowText(rows[i]); });
  }
}

double valueOf(uint64_t bits, const SweepCase &sweep) {
  if (sweep.values == Values::Floats)
    return floatOf(bits);
  if (sweep.values == Values::Bfloats)
    return floatOf(bits << 16);
  int exponent = int(bits >> 10 & 31);
  double mantissa = double(bits & 1023);
  double magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                     : exponent     ? std::ldexp(1024 + mantissa, exponent - 25)
                                    : std::ldexp(mantissa, -24);
  return bits & 0x8000 ? -magnitude : magnitude;
}

/// Where results are infinite, zero or NaN, the bits are the same. Elsewhere
/// silicon's results are between the ends of the documented error.
TEST_F(SweepTest, Approximations) {
  for (const SweepCase &sweep : approximateCases()) {
    std::vector<Operands> rows = sweepRows(sweep), special;
    int width = sweep.values == Values::Floats ? 32 : 16;
    std::vector<uint64_t> ends[3];
    gpu.setSoftware(true);
    for (ApproxError error :
         {ApproxError::Nominal, ApproxError::Low, ApproxError::High}) {
      gpu.options().approxError = error;
      ends[int(error)] = evaluate(sweep.text, sweep.widths, rows);
    }
    gpu.options().approxError = ApproxError::Nominal;
    auto isSpecial = [&](uint64_t bits) {
      double value = valueOf(bits & ((uint64_t(1) << width) - 1), sweep);
      return value == 0 || !std::isfinite(value);
    };
    for (size_t i = 0; i < rows.size(); ++i) {
      bool all = true;
      for (int at = 0; at < sweep.widths.d; at += width)
        all &= isSpecial(ends[0][i] >> at);
      if (all)
        special.push_back(rows[i]);
    }
    compare(
        sweep.text, [&] { return evaluate(sweep.text, sweep.widths, special); },
        [&](size_t i) { return rowText(special[i]); });
    gpu.setSoftware(false);
    // All results, for comparing with the ends: recorded too, but a hash cannot
    // be compared.
    std::string name = "all of " + sweep.text;
    std::vector<uint64_t> silicon =
        known(name, [&] { return evaluate(sweep.text, sweep.widths, rows); });
    int wrong = 0;
    double worst = 0;
    for (size_t i = 0; i < silicon.size(); ++i)
      for (int at = 0; at < sweep.widths.d; at += width) {
        auto part = [&](const std::vector<uint64_t> &values) {
          return valueOf(values[i] >> at & ((uint64_t(1) << width) - 1), sweep);
        };
        double exact = part(ends[0]), low = part(ends[1]), high = part(ends[2]),
               y = part(silicon);
        // Beyond 100 pi PTX guarantees nothing.
        bool isAngle =
            sweep.text.starts_with("sin") || sweep.text.starts_with("cos");
        if (isSpecial(ends[0][i] >> at) ||
            (isAngle && std::fabs(floatOf(rows[i].a)) > 314))
          continue;
        worst = std::max(worst, std::fabs((y - exact) / exact));
        if (!(y >= low && y <= high) && ++wrong <= 4)
          ADD_FAILURE() << fmt::format("{} of {}: silicon {:a}, not in {:a} to "
                                       "{:a}",
                                       sweep.text, rowText(rows[i]), y, low,
                                       high);
      }
    if (!silicon.empty())
      fmt::print("{:36} at most {:.3g} = 2^{:.2f} off\n", sweep.text, worst,
                 std::log2(worst));
  }
}

/// One mma in each of many warps; operands follow each other word by word: A,
/// B, C.
class MmaSweep {
public:
  std::string name;
  int d, a, b, bits; ///< Numbers of registers; bits of an element of A and B.
};

TEST_F(SweepTest, Mma) {
  std::vector<MmaSweep> cases;
  for (std::string type : {"f16", "bf16"})
    for (int depth : {8, 16})
      cases.push_back(
          {fmt::format("m16n8k{}.row.col.f32.{}.{}.f32", depth, type, type), 4,
           depth / 4, depth / 8, 16});
  for (std::string sat : {"", ".satfinite"})
    for (std::string a : {"s8", "u8"})
      for (std::string b : {"s8", "u8"}) {
        std::string types = fmt::format("{}.s32.{}.{}.s32", sat, a, b);
        cases.push_back({"m16n8k32.row.col" + types, 4, 4, 2, 8});
        cases.push_back({"m16n8k16.row.col" + types, 4, 2, 1, 8});
        cases.push_back({"m8n8k16.row.col" + types, 2, 1, 1, 8});
      }
  for (const MmaSweep &mma : cases)
    for (int kind = 0; kind < (mma.bits == 16 ? 6 : 2); ++kind) {
      constexpr size_t kTiles = 60;
      size_t words = size_t(mma.a + mma.b + mma.d), ab = size_t(mma.a + mma.b);
      bool isHalf = mma.bits == 16, isBfloat = mma.name.ends_with("bf16.f32");
      std::mt19937_64 random(uint64_t(kind) + 3);
      std::vector<uint32_t> in(kTiles * 32 * words);
      auto element = [&]() -> uint32_t {
        uint32_t r = uint32_t(random() >> 20);
        uint32_t one = isBfloat ? 0x3F80 : 0x3C00,
                 unit = isBfloat ? 0x80 : 0x400;
        uint32_t sign = r & 0x8000, mantissa = r & (unit - 1);
        switch (kind) {
        case 0: // Numbers of about 1.
          return sign | (one + mantissa);
        case 1: // Numbers from 2^-6 to 2^6.
          return sign | (one - 6 * unit + mantissa + (r >> 16) % 13 * unit);
        case 2: // Any numbers except infinity and NaN.
          r &= 0xFFFF;
          return (r & 0x7FFF) < (isBfloat ? 0x7F80u : 0x7C00u) ? r : sign;
        case 3: // Any numbers.
          return r & 0xFFFF;
        case 4: // Subnormal numbers, zero and the smallest normal one.
          return sign | (r >> 16) % (2 * unit);
        default: // Powers of two and many zeros, so that sums cancel.
          return (r >> 16) % 3 ? 0
                               : sign | (one - 4 * unit + (r >> 20) % 9 * unit);
        }
      };
      for (size_t i = 0; i < in.size(); ++i) {
        uint32_t r = uint32_t(random() >> 16);
        if (!isHalf)
          in[i] = kind == 0 && i % words >= ab ? r % 4001 - 2000 : r;
        else if (i % words < ab)
          in[i] = element() | element() << 16;
        else if (kind == 3)
          in[i] = r;
        else // C has the size of any product.
          in[i] = r % 5 == 0
                      ? 0
                      : (r & 0x807FFFFF) |
                            (127 - 30 + uint32_t(random() >> 40) % 50) << 23;
      }
      std::string body = "ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1];\n"
                         "mov.u32 %r90, %laneid; mov.u32 %r91, %ctaid.x;\n"
                         "mad.lo.u32 %r90, %r91, 32, %r90;\n";
      body += fmt::format("mad.wide.u32 %rd2, %r90, {}, %rd0;\n", 4 * words);
      body += fmt::format("mad.wide.u32 %rd3, %r90, {}, %rd1;\n", 4 * mma.d);
      for (size_t i = 0; i < words; ++i)
        body += fmt::format("ld.global.u32 %r{}, [%rd2+{}];\n", 10 + i, 4 * i);
      auto list = [](int from, int count) {
        std::string text;
        for (int i = 0; i < count; ++i)
          text += fmt::format("{}%r{}", i ? ", " : "{", from + i);
        return text + "}";
      };
      body +=
          fmt::format("mma.sync.aligned.{} {}, {}, {}, {};\n", mma.name,
                      list(0, mma.d), list(10, mma.a), list(10 + mma.a, mma.b),
                      list(10 + mma.a + mma.b, mma.d));
      for (int i = 0; i < mma.d; ++i)
        body += fmt::format("st.global.u32 [%rd3+{}], %r{};\n", 4 * i, i);
      compare(
          fmt::format("mma.{} kind {}", mma.name, kind),
          [&] {
            const Kernel &k = kernel(body, 2, 90);
            if (k.ops.empty())
              return std::vector<uint64_t>();
            size_t results = kTiles * 32 * size_t(mma.d);
            uint64_t from = upload(in), to = zeros(results * 4);
            EXPECT_TRUE(
                isClean(gpu.run(k, {{kTiles, 1, 1}, {32, 1, 1}, 0}, from, to)));
            std::vector<uint32_t> out = download<uint32_t>(to, results);
            return std::vector<uint64_t>(out.begin(), out.end());
          },
          [&](size_t i) {
            size_t count = size_t(mma.d);
            return fmt::format("tile {} lane {} register {}", i / count / 32,
                               i / count % 32, i % count);
          });
    }
}

} // namespace
} // namespace softgpu
