//===- IntegerTest.cpp - Integer instructions against pseudo-code ---------===//

#include "test/softgpu/PtxTest.h"

#include <algorithm>

namespace softgpu {
namespace {

using I = int32_t;
using U = uint32_t;
using L = int64_t;

class IntegerTest : public PtxTest {};

TEST_F(IntegerTest, AddSubMul) {
  Widths three{32, 32, 32};
  expectBits("add.s32 %d, %a, %b;", three, [](auto &x) { return x.a + x.b; });
  expectBits("sub.u32 %d, %a, %b;", three, [](auto &x) { return x.a - x.b; });
  expectBits("add.u64 %d, %a, %b;", {64, 64, 64},
             [](auto &x) { return x.a + x.b; });
  expectBits("sub.s16 %d, %a, %b;", {16, 16, 16},
             [](auto &x) { return x.a - x.b; });
  expectBits("mul.lo.s32 %d, %a, %b;", three,
             [](auto &x) { return x.a * x.b; });
  expectBits("mul.hi.s32 %d, %a, %b;", three,
             [](auto &x) { return uint64_t((L(I(x.a)) * L(I(x.b))) >> 32); });
  expectBits("mul.hi.u32 %d, %a, %b;", three,
             [](auto &x) { return x.a * x.b >> 32; });
  expectBits("mul.hi.u64 %d, %a, %b;", {64, 64, 64}, [](auto &x) {
    uint64_t al = U(x.a), ah = x.a >> 32, bl = U(x.b), bh = x.b >> 32;
    uint64_t mid = ah * bl + (al * bl >> 32), mid2 = al * bh + U(mid);
    return ah * bh + (mid >> 32) + (mid2 >> 32);
  });
  expectBits("mul.wide.s32 %d, %a, %b;", {64, 32, 32},
             [](auto &x) { return uint64_t(L(I(x.a)) * I(x.b)); });
  expectBits("mul.wide.u16 %d, %a, %b;", {32, 16, 16},
             [](auto &x) { return x.a * x.b; });
  expectBits("mul.wide.s16 %d, %a, %b;", {32, 16, 16},
             [](auto &x) { return uint64_t(int16_t(x.a) * int16_t(x.b)); });
  expectBits("add.sat.s32 %d, %a, %b;", three, [](auto &x) {
    return uint64_t(std::clamp<L>(L(I(x.a)) + I(x.b), INT32_MIN, INT32_MAX));
  });
  expectBits("sub.sat.s32 %d, %a, %b;", three, [](auto &x) {
    return uint64_t(std::clamp<L>(L(I(x.a)) - I(x.b), INT32_MIN, INT32_MAX));
  });
}

TEST_F(IntegerTest, MadAnd24) {
  Widths four{32, 32, 32, 32};
  expectBits("mad.lo.s32 %d, %a, %b, %c;", four,
             [](auto &x) { return x.a * x.b + x.c; });
  expectBits("mad.hi.u32 %d, %a, %b, %c;", four,
             [](auto &x) { return (x.a * x.b >> 32) + x.c; });
  expectBits("mad.wide.u32 %d, %a, %b, %c;", {64, 32, 32, 64},
             [](auto &x) { return x.a * x.b + x.c; });
  expectBits("mad.wide.s32 %d, %a, %b, %c;", {64, 32, 32, 64},
             [](auto &x) { return uint64_t(L(I(x.a)) * I(x.b)) + x.c; });
  expectBits("mad.hi.sat.s32 %d, %a, %b, %c;", four, [](auto &x) {
    return uint64_t(std::clamp<L>((L(I(x.a)) * I(x.b) >> 32) + I(x.c),
                                  INT32_MIN, INT32_MAX));
  });
  auto low24 = [](uint64_t x) { return L(I(U(x) << 8) >> 8); };
  expectBits("mul24.lo.s32 %d, %a, %b;", {32, 32, 32},
             [=](auto &x) { return uint64_t(low24(x.a) * low24(x.b)); });
  expectBits("mul24.hi.u32 %d, %a, %b;", {32, 32, 32},
             [](auto &x) { return (x.a & 0xFFFFFF) * (x.b & 0xFFFFFF) >> 16; });
  expectBits("mad24.lo.u32 %d, %a, %b, %c;", four,
             [](auto &x) { return (x.a & 0xFFFFFF) * (x.b & 0xFFFFFF) + x.c; });
}

TEST_F(IntegerTest, Carries) {
  // The upper half of the 128-bit sum a:b + c:e.
  Widths five{64, 64, 64, 64, 64};
  expectBits("add.cc.u64 %d, %b, %e; addc.u64 %d, %a, %c;", five,
             [](auto &x) { return x.a + x.c + (x.b + x.e < x.b ? 1 : 0); });
  expectBits("sub.cc.u64 %d, %b, %e; subc.u64 %d, %a, %c;", five,
             [](auto &x) { return x.a - x.c - (x.b < x.e ? 1 : 0); });
  expectBits(
      "add.cc.u32 %d, %b, %e; addc.cc.u32 %d, %a, %c; addc.u32 %d, 0, 0;",
      {32, 32, 32, 32, 32},
      [](auto &x) { return (x.a + x.c + ((x.b + x.e) >> 32)) >> 32; });
  expectBits("mad.lo.cc.u32 %d, %a, %b, %c; madc.hi.u32 %d, %a, %b, %e;",
             {32, 32, 32, 32, 32}, [](auto &x) {
               return (x.a * x.b >> 32) + x.e +
                      ((uint64_t(U(x.a * x.b)) + x.c) >> 32);
             });
}

TEST_F(IntegerTest, DivRem) {
  expectBits("div.s32 %d, %a, %b;", {32, 32, 32}, [](auto &x) -> uint64_t {
    return I(x.b) == 0 ? ~0ull : uint64_t(L(I(x.a)) / I(x.b));
  });
  expectBits("div.u32 %d, %a, %b;", {32, 32, 32},
             [](auto &x) { return x.b == 0 ? ~0ull : x.a / x.b; });
  expectBits("rem.s32 %d, %a, %b;", {32, 32, 32}, [](auto &x) -> uint64_t {
    return I(x.b) == 0 ? ~0ull : uint64_t(L(I(x.a)) % I(x.b));
  });
  expectBits("rem.u64 %d, %a, %b;", {64, 64, 64},
             [](auto &x) { return x.b == 0 ? ~0ull : x.a % x.b; });
  expectBits("div.s64 %d, %a, %b;", {64, 64, 64}, [](auto &x) -> uint64_t {
    if (!x.b)
      return ~0ull;
    return L(x.b) == -1 ? -x.a : uint64_t(L(x.a) / L(x.b));
  });
  expectBits("rem.s16 %d, %a, %b;", {16, 16, 16}, [](auto &x) -> uint64_t {
    return int16_t(x.b) == 0 ? ~0ull : uint64_t(int16_t(x.a) % int16_t(x.b));
  });
}

TEST_F(IntegerTest, MinMaxAbsNegSad) {
  expectBits("min.s32 %d, %a, %b;", {32, 32, 32},
             [](auto &x) { return uint64_t(std::min(I(x.a), I(x.b))); });
  expectBits("max.u32 %d, %a, %b;", {32, 32, 32},
             [](auto &x) { return std::max(x.a, x.b); });
  expectBits("max.s64 %d, %a, %b;", {64, 64, 64},
             [](auto &x) { return uint64_t(std::max(L(x.a), L(x.b))); });
  expectBits("min.u16 %d, %a, %b;", {16, 16, 16},
             [](auto &x) { return std::min(x.a, x.b); });
  expectBits("max.relu.s32 %d, %a, %b;", {32, 32, 32}, [](auto &x) {
    return uint64_t(std::max({I(x.a), I(x.b), 0}));
  });
  expectBits("min.s16x2 %d, %a, %b;", {32, 32, 32}, [](auto &x) {
    U low = uint16_t(std::min(int16_t(x.a), int16_t(x.b)));
    return low | U(uint16_t(std::min(int16_t(x.a >> 16), int16_t(x.b >> 16))))
                     << 16;
  });
  expectBits("add.u16x2 %d, %a, %b;", {32, 32, 32}, [](auto &x) {
    return uint64_t(uint16_t(x.a + x.b)) |
           uint64_t(uint16_t((x.a >> 16) + (x.b >> 16))) << 16;
  });
  expectBits("abs.s32 %d, %a;", {32, 32},
             [](auto &x) { return I(x.a) < 0 ? -x.a : x.a; });
  expectBits("neg.s64 %d, %a;", {64, 64}, [](auto &x) { return -x.a; });
  expectBits("sad.s32 %d, %a, %b, %c;", {32, 32, 32, 32}, [](auto &x) {
    L distance = L(I(x.a)) - I(x.b);
    return x.c + uint64_t(distance < 0 ? -distance : distance);
  });
  expectBits("sad.u32 %d, %a, %b, %c;", {32, 32, 32, 32},
             [](auto &x) { return x.c + (x.a < x.b ? x.b - x.a : x.a - x.b); });
}

TEST_F(IntegerTest, DotProducts) {
  auto byte = [](uint64_t word, int i) { return uint8_t(word >> 8 * i); };
  Widths four{32, 32, 32, 32};
  expectBits("dp4a.s32.s32 %d, %a, %b, %c;", four, [=](auto &x) {
    L sum = I(x.c);
    for (int i = 0; i < 4; ++i)
      sum += int8_t(byte(x.a, i)) * int8_t(byte(x.b, i));
    return uint64_t(sum);
  });
  expectBits("dp4a.u32.s32 %d, %a, %b, %c;", four, [=](auto &x) {
    L sum = I(x.c);
    for (int i = 0; i < 4; ++i)
      sum += byte(x.a, i) * int8_t(byte(x.b, i));
    return uint64_t(sum);
  });
  expectBits("dp4a.u32.u32 %d, %a, %b, %c;", four, [=](auto &x) {
    uint64_t sum = x.c;
    for (int i = 0; i < 4; ++i)
      sum += uint64_t(byte(x.a, i)) * byte(x.b, i);
    return sum;
  });
  expectBits("dp2a.lo.s32.u32 %d, %a, %b, %c;", four, [=](auto &x) {
    return x.c + uint64_t(L(int16_t(x.a)) * byte(x.b, 0) +
                          L(int16_t(x.a >> 16)) * byte(x.b, 1));
  });
  expectBits("dp2a.hi.u32.s32 %d, %a, %b, %c;", four, [=](auto &x) {
    return x.c + uint64_t(L(uint16_t(x.a)) * int8_t(byte(x.b, 2)) +
                          L(uint16_t(x.a >> 16)) * int8_t(byte(x.b, 3)));
  });
}

TEST_F(IntegerTest, LogicAndShifts) {
  expectBits("and.b32 %d, %a, %b;", {32, 32, 32},
             [](auto &x) { return x.a & x.b; });
  expectBits("or.b64 %d, %a, %b;", {64, 64, 64},
             [](auto &x) { return x.a | x.b; });
  expectBits("xor.b16 %d, %a, %b;", {16, 16, 16},
             [](auto &x) { return x.a ^ x.b; });
  expectBits("not.b32 %d, %a;", {32, 32}, [](auto &x) { return ~x.a; });
  expectBits("cnot.b32 %d, %a;", {32, 32},
             [](auto &x) { return uint64_t(x.a == 0); });
  expectBits("and.pred %d, %a, %b;", {1, 1, 1},
             [](auto &x) { return x.a && x.b; });
  expectBits("xor.pred %d, %a, %b;", {1, 1, 1},
             [](auto &x) { return uint64_t((x.a != 0) != (x.b != 0)); });
  expectBits("not.pred %d, %a;", {1, 1},
             [](auto &x) { return uint64_t(!x.a); });
  expectBits("shl.b32 %d, %a, %b;", {32, 32, 32},
             [](auto &x) { return x.b > 31 ? 0 : x.a << x.b; });
  expectBits("shr.u32 %d, %a, %b;", {32, 32, 32},
             [](auto &x) { return x.b > 31 ? 0 : x.a >> x.b; });
  expectBits("shr.s32 %d, %a, %b;", {32, 32, 32}, [](auto &x) {
    return uint64_t(I(x.a) >> std::min<uint64_t>(x.b, 31));
  });
  expectBits("shr.s64 %d, %a, %b;", {64, 64, 32}, [](auto &x) {
    return uint64_t(L(x.a) >> std::min<uint64_t>(x.b, 63));
  });
  expectBits("shl.b16 %d, %a, %b;", {16, 16, 32},
             [](auto &x) { return x.b > 15 ? 0 : x.a << x.b; });
  expectBits("shf.l.wrap.b32 %d, %a, %b, %c;", {32, 32, 32, 32},
             [](auto &x) { return ((x.b << 32 | x.a) << (x.c & 31)) >> 32; });
  expectBits("shf.r.wrap.b32 %d, %a, %b, %c;", {32, 32, 32, 32},
             [](auto &x) { return (x.b << 32 | x.a) >> (x.c & 31); });
  expectBits("shf.r.clamp.b32 %d, %a, %b, %c;", {32, 32, 32, 32}, [](auto &x) {
    return (x.b << 32 | x.a) >> std::min<uint64_t>(x.c, 32);
  });
  expectBits("shf.l.clamp.b32 %d, %a, %b, %c;", {32, 32, 32, 32}, [](auto &x) {
    return x.c >= 32 ? x.a : ((x.b << 32 | x.a) << x.c) >> 32;
  });
}

TEST_F(IntegerTest, Lop3AndPrmt) {
  for (int table : {0x00, 0x96, 0xE8, 0xCA, 0x1B, 0xFF})
    expectBits("lop3.b32 %d, %a, %b, %c, " + std::to_string(table) + ";",
               {32, 32, 32, 32}, [=](auto &x) {
                 uint64_t out = 0;
                 for (int bit = 0; bit < 32; ++bit) {
                   int index = int((x.a >> bit & 1) << 2 |
                                   (x.b >> bit & 1) << 1 | (x.c >> bit & 1));
                   out |= uint64_t(table >> index & 1) << bit;
                 }
                 return out;
               });
  expectBits("prmt.b32 %d, %a, %b, %c;", {32, 32, 32, 32}, [](auto &x) {
    uint8_t bytes[8];
    for (int i = 0; i < 4; ++i)
      bytes[i] = uint8_t(x.a >> 8 * i), bytes[4 + i] = uint8_t(x.b >> 8 * i);
    uint64_t out = 0;
    for (int i = 0; i < 4; ++i) {
      int nibble = int(x.c >> 4 * i & 15);
      uint8_t byte = bytes[nibble & 7];
      out |= uint64_t(nibble & 8 ? (byte >= 128 ? 255 : 0) : byte) << 8 * i;
    }
    return out;
  });
  // f4e: four bytes from c on; rc16: a half, repeated.
  expectBits("prmt.b32.f4e %d, %a, %b, %c;", {32, 32, 32, 32},
             [](auto &x) { return (x.b << 32 | x.a) >> 8 * (x.c & 3); });
  expectBits("prmt.b32.rc16 %d, %a, %b, %c;", {32, 32, 32, 32}, [](auto &x) {
    return (x.c & 1 ? x.a >> 16 : x.a & 0xFFFF) * 0x10001;
  });
}

TEST_F(IntegerTest, PacksLowFirst) {
  expectBits("mov.b64 {%r5, %r6}, %a; sub.u32 %d, %r5, %r6;", {32, 64},
             [](auto &x) { return x.a - (x.a >> 32); });
  expectBits("mov.b64 {%h5, %h6, %h7, %h8}, %a; mov.b32 %d, {%h8, %h5};",
             {32, 64},
             [](auto &x) { return x.a >> 48 | (x.a & 0xFFFF) << 16; });
  expectBits("mov.b64 %d, {%a, %b};", {64, 32, 32},
             [](auto &x) { return x.a | x.b << 32; });
}

TEST_F(IntegerTest, CountsAndFields) {
  auto bits = [](uint64_t x, int n) {
    int count = 0;
    for (int i = 0; i < n; ++i)
      count += int(x >> i & 1);
    return uint64_t(count);
  };
  auto leading = [](uint64_t x, int n) {
    int count = 0;
    while (count < n && !(x >> (n - 1 - count) & 1))
      ++count;
    return uint64_t(count);
  };
  expectBits("popc.b32 %d, %a;", {32, 32},
             [=](auto &x) { return bits(x.a, 32); });
  expectBits("popc.b64 %d, %a;", {32, 64},
             [=](auto &x) { return bits(x.a, 64); });
  expectBits("clz.b32 %d, %a;", {32, 32},
             [=](auto &x) { return leading(x.a, 32); });
  expectBits("clz.b64 %d, %a;", {32, 64},
             [=](auto &x) { return leading(x.a, 64); });
  expectBits("brev.b32 %d, %a;", {32, 32}, [](auto &x) {
    uint64_t out = 0;
    for (int i = 0; i < 32; ++i)
      out = out << 1 | (x.a >> i & 1);
    return out;
  });
  expectBits("bfind.u32 %d, %a;", {32, 32},
             [=](auto &x) { return x.a ? 31 - leading(x.a, 32) : ~0ull; });
  expectBits("bfind.s32 %d, %a;", {32, 32}, [=](auto &x) {
    uint64_t y = I(x.a) < 0 ? U(~x.a) : x.a;
    return y ? 31 - leading(y, 32) : ~0ull;
  });
  expectBits("bfind.shiftamt.u64 %d, %a;", {32, 64},
             [=](auto &x) { return x.a ? leading(x.a, 64) : ~0ull; });
  auto field = [](uint64_t a, uint64_t from, uint64_t count, int width,
                  bool isSigned) {
    // The ISA's own loop: bits beyond the top are the sign.
    from &= 255, count &= 255;
    int top = width - 1;
    bool sign =
        isSigned && count && a >> std::min<uint64_t>(from + count - 1, top) & 1;
    uint64_t out = 0;
    for (int i = 0; i <= top; ++i) {
      bool bit = uint64_t(i) < count && from + i <= uint64_t(top)
                     ? a >> (from + i) & 1
                     : sign;
      out |= uint64_t(bit) << i;
    }
    return out;
  };
  expectBits("bfe.u32 %d, %a, %b, %c;", {32, 32, 32, 32},
             [=](auto &x) { return field(x.a, x.b, x.c, 32, false); });
  expectBits("bfe.s32 %d, %a, %b, %c;", {32, 32, 32, 32},
             [=](auto &x) { return field(x.a, x.b, x.c, 32, true); });
  // Values of b and c above 255 are undefined; with 64 bits GPUs clamp them.
  std::string eight = "and.b32 %b, %b, 255; and.b32 %c, %c, 255; ";
  expectBits(eight + "bfe.s64 %d, %a, %b, %c;", {64, 64, 32, 32},
             [=](auto &x) { return field(x.a, x.b, x.c, 64, true); });
  auto insert = [](uint64_t a, uint64_t b, uint64_t from, uint64_t count,
                   int width) {
    from &= 255, count &= 255;
    for (uint64_t i = 0; i < count && from + i < uint64_t(width); ++i)
      b = (b & ~(1ull << (from + i))) | (a >> i & 1) << (from + i);
    return b;
  };
  expectBits("bfi.b32 %d, %a, %b, %c, %e;", {32, 32, 32, 32, 32},
             [=](auto &x) { return insert(x.a, x.b, x.c, x.e, 32); });
  expectBits("and.b32 %c, %c, 255; and.b32 %e, %e, 255;"
             "bfi.b64 %d, %a, %b, %c, %e;",
             {64, 64, 64, 32, 32},
             [=](auto &x) { return insert(x.a, x.b, x.c, x.e, 64); });
  expectBits("bmsk.clamp.b32 %d, %a, %b;", {32, 32, 32}, [](auto &x) {
    uint64_t out = 0;
    for (uint64_t i = 0; i < 32; ++i)
      out |= uint64_t(i >= x.a && i - x.a < x.b) << i;
    return out;
  });
  expectBits(
      "szext.clamp.s32 %d, %a, %b;", {32, 32, 32}, [](auto &x) -> uint64_t {
        if (!x.b)
          return 0;
        return x.b > 31 ? x.a : uint64_t(L(x.a << (64 - x.b)) >> (64 - x.b));
      });
  expectBits("fns.b32 %d, %a, %b, 1;", {32, 32, 32}, [](auto &x) -> uint64_t {
    for (uint64_t i = x.b; i < 32; ++i)
      if (x.a >> i & 1)
        return i;
    return ~0ull;
  });
}

TEST_F(IntegerTest, ComparesAndSelects) {
  struct {
    const char *name;
    bool (*holds)(L, L);
  } kSigned[] = {{"eq", [](L a, L b) { return a == b; }},
                 {"ne", [](L a, L b) { return a != b; }},
                 {"lt", [](L a, L b) { return a < b; }},
                 {"le", [](L a, L b) { return a <= b; }},
                 {"gt", [](L a, L b) { return a > b; }},
                 {"ge", [](L a, L b) { return a >= b; }}};
  for (auto &c : kSigned) {
    std::string name = c.name;
    expectBits("setp." + name + ".s32 %d, %a, %b;", {1, 32, 32},
               [&](auto &x) { return uint64_t(c.holds(I(x.a), I(x.b))); });
    expectBits("setp." + name + ".u32 %d, %a, %b;", {1, 32, 32},
               [&](auto &x) { return uint64_t(c.holds(L(x.a), L(x.b))); });
    expectBits("setp." + name + ".s64 %d, %a, %b;", {1, 64, 64},
               [&](auto &x) { return uint64_t(c.holds(L(x.a), L(x.b))); });
    expectBits("setp." + name + ".s16 %d, %a, %b;", {1, 16, 16}, [&](auto &x) {
      return uint64_t(c.holds(int16_t(x.a), int16_t(x.b)));
    });
  }
  expectBits("setp.hi.u32 %d, %a, %b;", {1, 32, 32},
             [](auto &x) { return uint64_t(x.a > x.b); });
  expectBits("setp.ls.u64 %d, %a, %b;", {1, 64, 64},
             [](auto &x) { return uint64_t(x.a <= x.b); });
  expectBits("setp.lt.and.s32 %d, %a, %b, %c;", {1, 32, 32, 1},
             [](auto &x) { return uint64_t(I(x.a) < I(x.b) && x.c); });
  expectBits("setp.eq.or.u32 %d|%p9, %a, %b, !%c;", {1, 32, 32, 1},
             [](auto &x) { return uint64_t(x.a == x.b || !x.c); });
  // The second result is the opposite comparison, combined the same way.
  expectBits("setp.lt.xor.u32 %p9|%d, %a, %b, %c;", {1, 32, 32, 1},
             [](auto &x) { return uint64_t((x.a >= x.b) != (x.c != 0)); });
  expectBits("set.le.u32.s32 %d, %a, %b;", {32, 32, 32},
             [](auto &x) { return I(x.a) <= I(x.b) ? ~0ull : 0; });
  expectBits("selp.b64 %d, %a, %b, %c;", {64, 64, 64, 1},
             [](auto &x) { return x.c ? x.a : x.b; });
  expectBits("slct.u32.s32 %d, %a, %b, %c;", {32, 32, 32, 32},
             [](auto &x) { return I(x.c) >= 0 ? x.a : x.b; });
}

} // namespace
} // namespace softgpu
