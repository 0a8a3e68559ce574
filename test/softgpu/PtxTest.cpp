//===- PtxTest.cpp --------------------------------------------------------===//

#include "test/softgpu/PtxTest.h"

#include <fmt/format.h>

namespace softgpu {

std::string PtxTest::kernelText(const std::string &body, int params, int arch,
                                const std::string &globals) {
  std::string list;
  for (int i = 0; i < params; ++i)
    list += fmt::format("{}.param .u64 p{}", i ? ", " : "", i);
  return fmt::format(
      ".version 9.0\n.target sm_{}\n.address_size 64\n{}\n"
      ".visible .entry k({})\n{{\n"
      ".reg .b32 %r<100>; .reg .b64 %rd<100>; .reg .f32 %f<100>;\n"
      ".reg .b16 %h<100>; .reg .pred %p<100>;\n{}\nret;\n}}\n",
      arch, globals, list, body);
}

const Kernel &PtxTest::loadText(const std::string &text,
                                const std::string &name) {
  auto program = gpu.load(text);
  EXPECT_TRUE(program.isOk()) << program.status().message() << "\n" << text;
  static const Kernel kNone;
  if (!program)
    return kNone;
  const Kernel *found = (*program)->find(name);
  EXPECT_TRUE(found) << name;
  return found ? *found : kNone;
}

const Kernel &PtxTest::kernel(const std::string &body, int params, int arch,
                              const std::string &globals) {
  return loadText(kernelText(body, params, arch, globals));
}

std::string PtxTest::loadError(const std::string &body, int arch) {
  return gpu.load(kernelText(body, 4, arch)).status().message();
}

std::vector<uint64_t> PtxTest::evaluate(const std::string &instructions,
                                        Widths widths,
                                        const std::vector<Operands> &rows) {
  std::string body;
  auto declare = [&](char name, int bits) {
    if (bits)
      body += bits == 1 ? fmt::format(".reg .pred %{};\n", name)
                        : fmt::format(".reg .b{} %{};\n", bits, name);
  };
  declare('d', widths.d);
  declare('a', widths.a);
  declare('b', widths.b);
  declare('c', widths.c);
  declare('e', widths.e);
  body +=
      "ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; ld.param.u32 %r0, "
      "[p2];\n"
      "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
      "mad.lo.u32 %r4, %r1, %r2, %r3;\n"
      "setp.ge.u32 %p0, %r4, %r0; @%p0 ret;\n"
      "mad.wide.u32 %rd2, %r4, 32, %rd0; mad.wide.u32 %rd3, %r4, 8, %rd1;\n";
  auto load = [&](char name, int bits, int offset) {
    if (!bits)
      return;
    if (bits == 1)
      body += fmt::format(
          "ld.global.u32 %r9, [%rd2+{}]; setp.ne.u32 %{}, %r9, 0;\n", offset,
          name);
    else
      body +=
          fmt::format("ld.global.b{} %{}, [%rd2+{}];\n", bits, name, offset);
  };
  load('a', widths.a, 0);
  load('b', widths.b, 8);
  load('c', widths.c, 16);
  load('e', widths.e, 24);
  body += instructions + "\n";
  if (widths.d == 1)
    body += "selp.u32 %r9, 1, 0, %d; st.global.u32 [%rd3], %r9;\n";
  else
    body += fmt::format("st.global.b{} [%rd3], %d;\n", widths.d);
  const Kernel &k = kernel(body, 3, 90);
  if (k.ops.empty())
    return {};
  uint64_t in = upload(rows), out = zeros(rows.size() * 8);
  uint64_t count = rows.size();
  LaunchShape shape;
  shape.threads[0] = 96; // The last warp is partial.
  shape.grid[0] = uint32_t((count + 95) / 96);
  LaunchResult result = gpu.run(k, shape, in, out, count);
  EXPECT_TRUE(isClean(result)) << instructions;
  std::vector<uint64_t> values = download<uint64_t>(out, rows.size());
  gpu.memory().free(in);
  gpu.memory().free(out);
  return values;
}

static const uint64_t kIntegers[] = {0,
                                     1,
                                     2,
                                     3,
                                     7,
                                     8,
                                     31,
                                     32,
                                     33,
                                     63,
                                     64,
                                     127,
                                     128,
                                     255,
                                     256,
                                     0x7FFF,
                                     0x8000,
                                     0xFFFF,
                                     0x7FFFFFFF,
                                     0x80000000,
                                     0xFFFFFFFF,
                                     0x12345678,
                                     0x7FFFFFFFFFFFFFFF,
                                     0x8000000000000000,
                                     0xFFFFFFFFFFFFFFFF,
                                     0xFFFFFFFFFFFF8000};

static const float kFloats[] = {
    0.0f,          -0.0f,         1.0f,          -1.0f,
    0.5f,          1.5f,          2.5f,          -2.5f,
    3.0f,          1e-45f,        -1e-40f,       1.17549435e-38f,
    3.4e38f,       -3.4e38f,      65504.0f,      65520.0f,
    6e-8f,         16777217.0f,   2147483648.0f, -2147483648.0f,
    4294967296.0f, 1.8446744e19f, INFINITY,      -INFINITY,
    NAN,           0.1f,          100.7f,        -7.3f};

static std::vector<Operands> operandRows(Widths widths, bool areFloats) {
  std::mt19937_64 random(7);
  auto random1 = [&](int bits) -> uint64_t {
    uint64_t value = random();
    if (areFloats && bits == 32 &&
        value &
            1) // The numbers have similar magnitudes, so that sums are rounded.
      return bitsOf(float(int64_t(random() % 2000001) - 1000000) / 1024.0f);
    if (areFloats && bits == 64 && value & 1)
      return bitsOf(double(int64_t(random() % 2000001) - 1000000) / 1024.0);
    if (!areFloats && value & 2)
      value >>= random() % 64;
    return bits >= 64 ? value : value & ((uint64_t(1) << bits) - 1);
  };
  std::vector<uint64_t> edges;
  auto edgesOf = [&](int bits) {
    std::vector<uint64_t> values;
    if (bits == 1)
      return std::vector<uint64_t>{0, 1};
    if (areFloats && bits >= 32)
      for (float x : kFloats)
        values.push_back(bits == 32 ? bitsOf(x) : bitsOf(double(x)));
    else if (areFloats)
      values = {0x0000, 0x8000, 0x3C00, 0xBC00, 0x7BFF, 0x7C00,
                0xFC00, 0x7E00, 0x0001, 0x83FF, 0x0400, 0x3F80,
                0x7F80, 0xFF80, 0x7FC0, 0x0080, 0x007F, 0x4248};
    else
      for (uint64_t x : kIntegers)
        values.push_back(bits >= 64 ? x : x & ((uint64_t(1) << bits) - 1));
    return values;
  };
  std::vector<Operands> rows;
  for (uint64_t a : edgesOf(widths.a))
    for (uint64_t b : widths.b ? edgesOf(widths.b) : std::vector<uint64_t>{0}) {
      Operands row{a, b, 0, 0};
      std::vector<uint64_t> c = edgesOf(widths.c ? widths.c : 32);
      std::vector<uint64_t> e = edgesOf(widths.e ? widths.e : 32);
      row.c = c[random() % c.size()];
      row.e = e[random() % e.size()];
      rows.push_back(row);
    }
  for (int i = 0; i < 600; ++i)
    rows.push_back({random1(widths.a), random1(widths.b ? widths.b : 32),
                    random1(widths.c ? widths.c : 32),
                    random1(widths.e ? widths.e : 32)});
  return rows;
}

void PtxTest::expectBits(
    const std::string &instructions, Widths widths,
    const std::function<uint64_t(const Operands &)> &expected, bool areFloats) {
  std::vector<Operands> rows = operandRows(widths, areFloats);
  std::vector<uint64_t> values = evaluate(instructions, widths, rows);
  int wrong = 0;
  for (size_t i = 0; i < rows.size() && wrong < 3; ++i) {
    uint64_t want = expected(rows[i]);
    if (widths.d < 64)
      want &= (uint64_t(1) << widths.d) - 1;
    if (values[i] == want)
      continue;
    ++wrong;
    ADD_FAILURE() << fmt::format(
        "{} of a={:#x} b={:#x} c={:#x} e={:#x}: {:#x}, expected {:#x}",
        instructions, rows[i].a, rows[i].b, rows[i].c, rows[i].e, values[i],
        want);
  }
}

::testing::AssertionResult
PtxTest::found(const LaunchResult &result, FindingKind kind,
               const std::vector<std::string> &parts) {
  if (!result.finding)
    return ::testing::AssertionFailure() << "nothing was found";
  if (result.finding->kind != kind)
    return ::testing::AssertionFailure() << result.finding->text;
  for (const std::string &part : parts)
    if (result.finding->text.find(part) == std::string::npos)
      return ::testing::AssertionFailure()
             << "no '" << part << "' in: " << result.finding->text;
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult PtxTest::isClean(const LaunchResult &result) {
  if (result.finding)
    return ::testing::AssertionFailure() << result.finding->text;
  return ::testing::AssertionSuccess();
}

} // namespace softgpu
