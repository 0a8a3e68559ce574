//===- Sweep.cpp ----------------------------------------------------------===//

#include "test/softgpu/Sweep.h"

#include <algorithm>

namespace softgpu {

namespace {

/// Expands a pattern: "a{b,c}{,d}" is ab, abd, ac, acd.
void expand(const std::string &pattern, std::vector<std::string> &out) {
  size_t open = pattern.find('{');
  if (open == std::string::npos) {
    out.push_back(pattern);
    return;
  }
  size_t close = pattern.find('}', open), from = open + 1;
  while (from <= close) {
    size_t to = std::min(pattern.find(',', from), close);
    expand(pattern.substr(0, open) + pattern.substr(from, to - from) +
               pattern.substr(close + 1),
           out);
    from = to + 1;
  }
}

class Cases {
public:
  void add(const std::string &pattern, Widths widths,
           Values values = Values::Integers) {
    std::vector<std::string> texts;
    expand(pattern, texts);
    for (std::string &text : texts)
      cases.push_back({std::move(text), widths, values});
  }
  std::vector<SweepCase> cases;
};

constexpr Values kFloat = Values::Floats, kDouble = Values::Doubles,
                 kHalf = Values::Halves, kBfloat = Values::Bfloats;

void addIntegers(Cases &out) {
  for (int bits : {16, 32, 64}) {
    std::string t = "{u" + std::to_string(bits) + ",s" + std::to_string(bits) +
                    "} %d, %a, %b";
    Widths three{bits, bits, bits}, four{bits, bits, bits, bits};
    out.add("{add,sub,mul.lo,mul.hi,div,rem,min,max}." + t + ";", three);
    out.add("{mad.lo,mad.hi,sad}." + t + ", %c;", four);
    if (bits < 64) {
      out.add("mul.wide." + t + ";", {2 * bits, bits, bits});
      out.add("mad.wide." + t + ", %c;", {2 * bits, bits, bits, 2 * bits});
    }
    std::string n = std::to_string(bits);
    out.add("{abs,neg}.s" + n + " %d, %a;", {bits, bits});
    out.add("{and,or,xor}.b" + n + " %d, %a, %b;", three);
    out.add("{not,cnot}.b" + n + " %d, %a;", {bits, bits});
    out.add("shl.b" + n + " %d, %a, %b;", {bits, bits, 32});
    out.add("shr.{b,u,s}" + n + " %d, %a, %b;", {bits, bits, 32});
    out.add("selp.{b,u,s}" + n + " %d, %a, %b, %c;", {bits, bits, bits, 1});
    out.add("slct.{b,u,s}" + n + ".s32 %d, %a, %b, %c;",
            {bits, bits, bits, 32});
    for (const char *sign : {"u", "s"}) {
      std::string type = sign + n;
      out.add("setp.{eq,ne,lt,le,gt,ge}." + type + " %d, %a, %b;",
              {1, bits, bits});
      out.add("set.{eq,lt,ge}.{u32,s32,f32}." + type + " %d, %a, %b;",
              {32, bits, bits});
      out.add("setp.{lt,eq}.{and,or,xor}." + type + " %d|%p9, %a, %b, %c;",
              {1, bits, bits, 1});
      out.add("setp.{lt,eq}.{and,or,xor}." + type + " %p9|%d, %a, %b, !%c;",
              {1, bits, bits, 1});
    }
    out.add("setp.{lo,ls,hi,hs}.u" + n + " %d, %a, %b;", {1, bits, bits});
    out.add("setp.{eq,ne}.b" + n + " %d, %a, %b;", {1, bits, bits});
  }
  Widths two{32, 32}, three{32, 32, 32}, four{32, 32, 32, 32};
  Widths wide{64, 64, 64, 64, 64}, five{32, 32, 32, 32, 32};
  out.add("{add,sub}.sat.s32 %d, %a, %b;", three);
  out.add("mad.hi.sat.s32 %d, %a, %b, %c;", four);
  out.add("{add,min,max}.{u16x2,s16x2} %d, %a, %b;", three);
  out.add("{min,max}.relu.s32 %d, %a, %b;", three);
  out.add("mul24.{lo,hi}.{u32,s32} %d, %a, %b;", three);
  out.add("mad24.{lo,hi}.{u32,s32} %d, %a, %b, %c;", four);
  out.add("mad24.hi.sat.s32 %d, %a, %b, %c;", four);
  for (std::string t : {"u32", "s32", "u64", "s64"}) {
    Widths w = t.ends_with("64") ? wide : five;
    out.add("add.cc." + t + " %d, %b, %e; addc." + t + " %d, %a, %c;", w);
    out.add("sub.cc." + t + " %d, %b, %e; subc." + t + " %d, %a, %c;", w);
    out.add("add.cc." + t + " %d, %b, %e; addc.cc." + t + " %d, %a, %c; addc." +
                t + " %d, %d, 0;",
            w);
    out.add("sub.cc." + t + " %d, %b, %e; subc.cc." + t + " %d, %a, %c; subc." +
                t + " %d, %d, 0;",
            w);
    out.add("mad.lo.cc." + t + " %d, %a, %b, %c; madc.hi." + t +
                " %d, %a, %b, %e;",
            w);
    out.add("mad.hi.cc." + t + " %d, %a, %b, %c; madc.lo.cc." + t +
                " %d, %a, %b, %e; addc." + t + " %d, %d, %d;",
            w);
  }
  out.add("dp4a.{u32,s32}.{u32,s32} %d, %a, %b, %c;", four);
  out.add("dp2a.{lo,hi}.{u32,s32}.{u32,s32} %d, %a, %b, %c;", four);
  out.add("{and,or,xor}.pred %d, %a, %b;", {1, 1, 1});
  out.add("not.pred %d, %a;", {1, 1});
  out.add("shf.{l,r}.{clamp,wrap}.b32 %d, %a, %b, %c;", four);
  for (int table : {0, 1, 0x1B, 0x80, 0x96, 0xCA, 0xE8, 0xFE, 0xFF})
    out.add("lop3.b32 %d, %a, %b, %c, " + std::to_string(table) + ";", four);
  out.add("prmt.b32{,.f4e,.b4e,.rc8,.ecl,.ecr,.rc16} %d, %a, %b, %c;", four);
  out.add("{popc,clz,brev}.b32 %d, %a;", two);
  out.add("{popc,clz}.b64 %d, %a;", {32, 64});
  out.add("brev.b64 %d, %a;", {64, 64});
  out.add("bfind{,.shiftamt}.{u32,s32} %d, %a;", two);
  out.add("bfind{,.shiftamt}.{u64,s64} %d, %a;", {32, 64});
  out.add("and.b32 %b, %b, 31; shr.s32 %c, %c, 27; fns.b32 %d, %a, %b, %c;",
          four);
  for (int n : {-3, -1, 0, 1, 2, 5}) // Larger numbers rarely find a bit.
    out.add("and.b32 %b, %b, 31; fns.b32 %d, %a, %b, " + std::to_string(n) +
                ";",
            three);
  out.add("bfe.{u32,s32} %d, %a, %b, %c;", four);
  // Positions and lengths above 255 are not defined.
  out.add("and.b32 %b, %b, 255; and.b32 %c, %c, 255; "
          "bfe.{u64,s64} %d, %a, %b, %c;",
          {64, 64, 32, 32});
  out.add("bfi.b32 %d, %a, %b, %c, %e;", five);
  out.add("and.b32 %c, %c, 255; and.b32 %e, %e, 255; "
          "bfi.b64 %d, %a, %b, %c, %e;",
          {64, 64, 64, 32, 32});
  out.add("bmsk.{clamp,wrap}.b32 %d, %a, %b;", three);
  out.add("szext.{clamp,wrap}.{u32,s32} %d, %a, %b;", three);
}

void addFloats(Cases &out) {
  Widths three{32, 32, 32}, four{32, 32, 32, 32};
  out.add("{add,sub,mul}{,.rn,.rz,.rm,.rp}{,.ftz}{,.sat}.f32 %d, %a, %b;",
          three, kFloat);
  out.add("fma.{rn,rz,rm,rp}{,.ftz}{,.sat}.f32 %d, %a, %b, %c;", four, kFloat);
  out.add("mad.{rn,rz,rm,rp}{,.ftz}{,.sat}.f32 %d, %a, %b, %c;", four, kFloat);
  out.add("div.rn{,.ftz}.f32 %d, %a, %b;", three, kFloat);
  out.add("{rcp,sqrt}.rn{,.ftz}.f32 %d, %a;", {32, 32}, kFloat);
  out.add("{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f32 %d, %a, %b;", three,
          kFloat);
  out.add("{abs,neg}{,.ftz}.f32 %d, %a;", {32, 32}, kFloat);
  out.add("copysign.f32 %d, %a, %b;", three, kFloat);
  out.add("testp.{finite,infinite,number,notanumber,normal,subnormal}.f32 %d, "
          "%a;",
          {1, 32}, kFloat);
  std::string compare = "{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}";
  out.add("setp." + compare + "{,.ftz}.f32 %d, %a, %b;", {1, 32, 32}, kFloat);
  out.add("setp.{lt,geu,nan}.{and,or,xor}.f32 %p9|%d, %a, %b, %c;",
          {1, 32, 32, 1}, kFloat);
  out.add("set." + compare + "{,.ftz}.{u32,s32,f32}.f32 %d, %a, %b;", three,
          kFloat);
  out.add("selp.f32 %d, %a, %b, %c;", {32, 32, 32, 1}, kFloat);
  out.add("slct{,.ftz}.{b32,f32,s32}.f32 %d, %a, %b, %c;", four, kFloat);
  Widths wide{64, 64, 64};
  out.add("{add,sub,mul}{,.rn}.f64 %d, %a, %b;", wide, kDouble);
  out.add("{fma,mad}.rn.f64 %d, %a, %b, %c;", {64, 64, 64, 64}, kDouble);
  out.add("div.rn.f64 %d, %a, %b;", wide, kDouble);
  out.add("{rcp,sqrt}.rn.f64 %d, %a;", {64, 64}, kDouble);
  out.add("{min,max}.f64 %d, %a, %b;", wide, kDouble);
  out.add("{abs,neg}.f64 %d, %a;", {64, 64}, kDouble);
  out.add("copysign.f64 %d, %a, %b;", wide, kDouble);
  out.add("testp.{finite,infinite,number,notanumber,normal,subnormal}.f64 %d, "
          "%a;",
          {1, 64}, kDouble);
  out.add("setp." + compare + ".f64 %d, %a, %b;", {1, 64, 64}, kDouble);
  out.add("set.{lt,geu}.u32.f64 %d, %a, %b;", {32, 64, 64}, kDouble);
}

void addHalves(Cases &out) {
  std::string compare = "{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}";
  for (bool pair : {false, true}) {
    int bits = pair ? 32 : 16;
    std::string x = pair ? "x2" : "";
    Widths two{bits, bits}, three{bits, bits, bits},
        four{bits, bits, bits, bits};
    out.add("{add,sub,mul}{,.rn}{,.ftz}{,.sat}.f16" + x + " %d, %a, %b;", three,
            kHalf);
    out.add("fma.rn{,.ftz}{,.sat,.relu}.f16" + x + " %d, %a, %b, %c;", four,
            kHalf);
    out.add("{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f16" + x + " %d, %a, %b;",
            three, kHalf);
    out.add("{abs,neg}.f16" + x + " %d, %a;", two, kHalf);
    out.add("{add,sub,mul}{,.rn}.bf16" + x + " %d, %a, %b;", three, kBfloat);
    out.add("fma.rn{,.relu}.bf16" + x + " %d, %a, %b, %c;", four, kBfloat);
    out.add("{min,max}{,.NaN}{,.xorsign.abs}.bf16" + x + " %d, %a, %b;", three,
            kBfloat);
    out.add("{abs,neg}.bf16" + x + " %d, %a;", two, kBfloat);
  }
  out.add("setp." + compare + "{,.ftz}.f16 %d, %a, %b;", {1, 16, 16}, kHalf);
  out.add("setp." + compare + ".bf16 %d, %a, %b;", {1, 16, 16}, kBfloat);
  out.add("setp." + compare + "{,.ftz}.f16x2 %d|%p9, %a, %b;", {1, 32, 32},
          kHalf);
  out.add("setp." + compare + ".f16x2 %p9|%d, %a, %b;", {1, 32, 32}, kHalf);
  out.add("setp." + compare + ".bf16x2 %p9|%d, %a, %b;", {1, 32, 32}, kBfloat);
  out.add("set." + compare + "{,.ftz}.f16x2.f16x2 %d, %a, %b;", {32, 32, 32},
          kHalf);
  out.add("set." + compare + ".bf16x2.bf16x2 %d, %a, %b;", {32, 32, 32},
          kBfloat);
  out.add("set.{lt,geu}.u32.f16 %d, %a, %b;", {32, 16, 16}, kHalf);
}

void addConverts(Cases &out) {
  struct Type {
    const char *name;
    int bits; ///< Width of its register.
    Values values;
    int valueBits() const { return std::atoi(name + 1); }
    bool holds(const Type &other) const {
      bool isSigned = name[0] == 's', otherSigned = other.name[0] == 's';
      return (isSigned || !otherSigned) &&
             valueBits() - isSigned >= other.valueBits() - otherSigned;
    }
  };
  const Type integers[] = {
      {"u8", 16, Values::Integers},  {"s8", 16, Values::Integers},
      {"u16", 16, Values::Integers}, {"s16", 16, Values::Integers},
      {"u32", 32, Values::Integers}, {"s32", 32, Values::Integers},
      {"u64", 64, Values::Integers}, {"s64", 64, Values::Integers}};
  const Type floats[] = {{"f16", 16, kHalf},
                         {"bf16", 16, kBfloat},
                         {"f32", 32, kFloat},
                         {"f64", 64, kDouble}};
  auto types = [](const Type &to, const Type &from) {
    return std::string(".") + to.name + "." + from.name + " %d, %a;";
  };
  for (const Type &to : integers) {
    for (const Type &from : integers) {
      if (std::string(to.name) == from.name)
        continue;
      out.add("cvt" + types(to, from), {to.bits, from.bits});
      if (!to.holds(from))
        out.add("cvt.sat" + types(to, from), {to.bits, from.bits});
    }
    // From and to registers that are wider than the types.
    out.add(std::string("cvt.") + to.name + ".u32 %d, %a;", {64, 32});
    out.add(std::string("cvt.") + to.name + ".s64 %d, %a;", {64, 64});
    for (const Type &from : floats) {
      bool isSingle = from.bits == 32;
      if (from.values == kBfloat && to.valueBits() == 8)
        continue; // PTX does not have this conversion.
      out.add(std::string("cvt.{rni,rzi,rmi,rpi}") +
                  (isSingle ? "{,.ftz}" : "") + types(to, from),
              {to.bits, from.bits}, from.values);
      out.add(std::string("cvt.{rn,rz,rm,rp}") + types(from, to),
              {from.bits, to.bits});
    }
  }
  out.add("cvt{,.sat}.f32.f16 %d, %a;", {32, 16}, kHalf);
  out.add("cvt.f64.f16 %d, %a;", {64, 16}, kHalf);
  out.add("cvt.f32.bf16 %d, %a;", {32, 16}, kBfloat);
  out.add("cvt.f64.bf16 %d, %a;", {64, 16}, kBfloat);
  out.add("cvt{,.ftz}{,.sat}.f64.f32 %d, %a;", {64, 32}, kFloat);
  out.add("cvt.{rn,rz,rm,rp}{,.ftz}{,.sat}.f32.f64 %d, %a;", {32, 64}, kDouble);
  out.add("cvt.{rn,rz,rm,rp}{,.ftz}{,.sat}.f16.f32 %d, %a;", {16, 32}, kFloat);
  out.add("cvt.{rn,rz,rm,rp}.f16.f64 %d, %a;", {16, 64}, kDouble);
  out.add("cvt.{rn,rz,rm,rp}.bf16.f64 %d, %a;", {16, 64}, kDouble);
  out.add("cvt.{rn,rz}{,.relu}.f16.f32 %d, %a;", {16, 32}, kFloat);
  out.add("cvt.{rn,rz,rm,rp}.bf16.f32 %d, %a;", {16, 32}, kFloat);
  out.add("cvt.{rn,rz}.relu.bf16.f32 %d, %a;", {16, 32}, kFloat);
  out.add("cvt.{rn,rz}{,.relu}.{f16x2,bf16x2}.f32 %d, %a, %b;", {32, 32, 32},
          kFloat);
  out.add("cvt.rna.tf32.f32 %d, %a;", {32, 32}, kFloat);
  out.add("cvt.{rn,rz}{,.relu}.tf32.f32 %d, %a;", {32, 32}, kFloat);
  out.add("cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.f32 %d, %a, %b;",
          {16, 32, 32}, kFloat);
  out.add("cvt.rn{,.relu}.f16x2.{e4m3x2,e5m2x2} %d, %a;", {32, 16},
          Values::Bytes);
  out.add("cvt.{rni,rzi,rmi,rpi}{,.ftz}{,.sat}.f32.f32 %d, %a;", {32, 32},
          kFloat);
  out.add("cvt{,.ftz}.sat.f32.f32 %d, %a;", {32, 32}, kFloat);
  out.add("cvt.{rni,rzi,rmi,rpi}.f16.f16 %d, %a;", {16, 16}, kHalf);
  out.add("cvt.{rni,rzi,rmi,rpi}.f64.f64 %d, %a;", {64, 64}, kDouble);
  out.add("cvt.rn.f16.bf16 %d, %a;", {16, 16}, kBfloat);
}

/// Adds cases in which all lanes of 96 threads take part.
void addCollectives(Cases &out) {
  Widths four{32, 32, 32, 32};
  out.add("shfl.sync.{up,down,bfly,idx}.b32 %d|%p9, %a, %b, %c, -1;", four);
  out.add("shfl.sync.{up,down,bfly,idx}.b32 %r20|%d, %a, %b, %c, -1;",
          {1, 32, 32, 32});
  for (int clamp : {0x1F, 0x101F, 0x181F, 0x1C1F, 0x1E1F, 0, 0x1000, 0x1800})
    out.add("shfl.sync.{up,down,bfly,idx}.b32 %d, %a, %b, " +
                std::to_string(clamp) + ", -1;",
            {32, 32, 32});
  out.add("vote.sync.{all,any,uni}.pred %d, %a, -1;", {1, 1});
  out.add("vote.sync.{all,any,uni}.pred %d, !%a, -1;", {1, 1});
  out.add("vote.sync.ballot.b32 %d, %a, -1;", {32, 1});
  out.add("and.b32 %a, %a, 3; match.any.sync.b32 %d, %a, -1;", {32, 32});
  out.add("match.any.sync.b64 %d, %a, -1;", {32, 64});
  out.add("match.all.sync.b32 %d|%p9, %a, -1;", {32, 32});
  out.add("mov.u32 %a, %ctaid.x; match.all.sync.b32 %d|%p9, %a, -1;", {32, 32});
  out.add("redux.sync.{add,min,max}.{u32,s32} %d, %a, -1;", {32, 32});
  out.add("redux.sync.{and,or,xor}.b32 %d, %a, -1;", {32, 32});
  // Only the lanes that a predicate selects take part.
  std::string some = "vote.sync.ballot.b32 %r20, %c, -1; mov.b32 %d, %b; @%c ";
  Widths chosen{32, 32, 32, 1};
  out.add(some + "redux.sync.{add,min,max}.s32 %d, %a, %r20;", chosen);
  out.add(some + "match.any.sync.b32 %d, %b, %r20;", chosen);
  out.add(some + "activemask.b32 %d;", chosen);
  out.add(some + "vote.sync.ballot.b32 %d, %c, %r20;", chosen);
}

/// Each thread updates its own cell, which initially holds %a; then %d is the
/// old or the new value of the cell.
void addAtomics(Cases &out) {
  struct Type {
    std::string operations, type;
    int bits;
    Values values;
  };
  const Type types[] = {
      {"{add,min,max,inc,dec}", "u32", 32, Values::Integers},
      {"{add,min,max}", "s32", 32, Values::Integers},
      {"{and,or,xor,exch}", "b32", 32, Values::Integers},
      {"{add,min,max}", "u64", 64, Values::Integers},
      {"{min,max}", "s64", 64, Values::Integers},
      {"{and,or,xor,exch}", "b64", 64, Values::Integers},
      {"add", "f32", 32, Values::Floats},
      {"add", "f64", 64, Values::Doubles},
      {"add.noftz", "f16", 16, Values::Halves},
      {"add.noftz", "f16x2", 32, Values::Halves},
      {"add.noftz", "bf16", 16, Values::Bfloats},
      {"add.noftz", "bf16x2", 32, Values::Bfloats},
  };
  std::string cell = ".shared .align 8 .b64 cells[96]; mov.u32 %r20, cells; "
                     "mov.u32 %r21, %tid.x; mad.lo.u32 %r20, %r21, 8, %r20; ";
  for (const Type &t : types) {
    std::string n = std::to_string(t.bits);
    Widths w{t.bits, t.bits, t.bits};
    std::string end = "." + t.type + " %d, [%rd2], %b;";
    out.add("atom.global." + t.operations + end, w, t.values);
    out.add("atom.global." + t.operations + end + " ld.global.b" + n +
                " %d, [%rd2];",
            w, t.values);
    std::string reductions = t.operations;
    if (size_t at = reductions.find(",exch"); at != std::string::npos)
      reductions.erase(at, 5);
    out.add("red.global." + reductions + "." + t.type +
                " [%rd2], %b; ld.global.b" + n + " %d, [%rd2];",
            w, t.values);
    out.add(cell + "st.shared.b" + n + " [%r20], %a; atom.shared." +
                t.operations + "." + t.type + " %d, [%r20], %b; ld.shared.b" +
                n + " %d, [%r20];",
            w, t.values);
  }
  for (std::string n : {"16", "32", "64"}) {
    int bits = std::stoi(n);
    Widths w{bits, bits, bits, bits};
    // Operands are equal half of the time.
    std::string half = "setp.lt.u32 %p8, %r3, 48; @%p8 mov.b" + n + " %b, %a; ";
    out.add(half + "atom.global.cas.b" + n + " %d, [%rd2], %b, %c;", w);
    out.add(half + "atom.global.cas.b" + n +
                " %d, [%rd2], %b, %c; ld.global.b" + n + " %d, [%rd2];",
            w);
  }
  out.add(
      "atom{.relaxed,.acquire,.release,.acq_rel}{.cta,.gpu,.sys}.global.add."
      "u32 %d, [%rd2], %b;",
      {32, 32, 32});
}

} // namespace

std::vector<SweepCase> sweepCases() {
  Cases out;
  addIntegers(out);
  addFloats(out);
  addHalves(out);
  addConverts(out);
  addCollectives(out);
  addAtomics(out);
  return std::move(out.cases);
}

std::vector<SweepCase> approximateCases() {
  Cases out;
  Widths two{32, 32};
  out.add("{rcp,sqrt,rsqrt,ex2,lg2,sin,cos}.approx{,.ftz}.f32 %d, %a;", two,
          kFloat);
  out.add("tanh.approx.f32 %d, %a;", two, kFloat);
  out.add("div.{full,approx}{,.ftz}.f32 %d, %a, %b;", {32, 32, 32}, kFloat);
  out.add("ex2.approx.f16 %d, %a;", {16, 16}, kHalf);
  out.add("tanh.approx.f16 %d, %a;", {16, 16}, kHalf);
  out.add("ex2.approx.ftz.bf16 %d, %a;", {16, 16}, kBfloat);
  out.add("tanh.approx.bf16 %d, %a;", {16, 16}, kBfloat);
  out.add("{ex2,tanh}.approx.f16x2 %d, %a;", two, kHalf);
  return std::move(out.cases);
}

// -- Operands.

static std::vector<uint64_t> edges(Values values, int bits) {
  if (bits == 1)
    return {0, 1};
  std::vector<uint64_t> out;
  switch (values) {
  case Values::Integers:
    for (uint64_t x : {0ull,
                       1ull,
                       2ull,
                       3ull,
                       7ull,
                       8ull,
                       15ull,
                       16ull,
                       31ull,
                       32ull,
                       33ull,
                       63ull,
                       64ull,
                       127ull,
                       128ull,
                       255ull,
                       256ull,
                       0x7FFFull,
                       0x8000ull,
                       0xFFFFull,
                       0x7FFFFFull,
                       0x800000ull,
                       0x1000001ull,
                       0x7FFFFFFFull,
                       0x80000000ull,
                       0xFFFFFFFFull,
                       0x12345678ull,
                       0x7FFFFFFFFFFFFFFFull,
                       0x8000000000000000ull,
                       0xFFFFFFFFFFFFFFFFull,
                       0xFFFFFFFFFFFF8000ull,
                       0xFFFFFFFF80000000ull})
      out.push_back(x);
    break;
  case Values::Floats:
  case Values::Doubles:
    for (double x : {0.0,
                     0x1.fffffep-1,
                     0x1.8p125,
                     0x1.8p126,
                     0.5,
                     1.0,
                     1.5,
                     2.5,
                     3.0,
                     3.5,
                     0x1p-149,
                     0x1p-133,
                     0x1.8p-127,
                     0x1p-126,
                     0x1p-24,
                     0x1p-14,
                     0x1p-25,
                     127.5,
                     255.5,
                     448.0,
                     464.0,
                     465.0,
                     65504.0,
                     65519.0,
                     65520.0,
                     57344.0,
                     61440.0,
                     32767.5,
                     16777217.0,
                     2147483647.0,
                     2147483648.0,
                     4294967295.0,
                     0x1p63,
                     0x1p64,
                     0x1.fffffep127,
                     0x1.ffffffp127,
                     0.1,
                     100.7}) {
      for (double y : {x, -x})
        out.push_back(values == Values::Floats ? bitsOf(float(y)) : bitsOf(y));
    }
    if (values == Values::Floats)
      for (uint64_t x : {0x7F800000u, 0xFF800000u, 0x7FC00000u, 0xFFC00001u,
                         0x7F800001u, 0x7FFFFFFFu, 0x3F808000u, 0x3F818000u,
                         0x3F801000u, 0x3F803000u, 0x3F801001u, 0x477FE000u})
        out.push_back(x);
    else
      for (uint64_t x :
           {0x7FF0000000000000ull, 0xFFF0000000000000ull, 0x7FF8000000000000ull,
            0xFFF8000000000001ull, 0x7FF0000000000001ull, 1ull,
            0x800FFFFFFFFFFFFFull, 0x0010000000000000ull, 0x7FEFFFFFFFFFFFFFull,
            0x3FF0000010000000ull, 0x3FF0000030000000ull,
            0x3FF0000010000001ull})
        out.push_back(x);
    break;
  case Values::Halves:
    for (uint64_t x :
         {0x0000, 0x0001, 0x0002, 0x03FF, 0x0400, 0x0401, 0x1400, 0x3800,
          0x3BFF, 0x3C00, 0x3C01, 0x3E00, 0x4100, 0x4248, 0x5BFF, 0x63D0,
          0x6400, 0x7800, 0x7BFF, 0x7C00, 0x7C01, 0x7E00, 0x7FFF})
      out.push_back(x), out.push_back(x | 0x8000);
    break;
  case Values::Bfloats:
    for (uint64_t x :
         {0x0000, 0x0001, 0x0002, 0x007F, 0x0080, 0x0081, 0x3F00, 0x3F7F,
          0x3F80, 0x3F81, 0x3FC0, 0x4020, 0x4049, 0x42FF, 0x437F, 0x4B00,
          0x7F00, 0x7F7F, 0x7F80, 0x7F81, 0x7FC0, 0x7FFF})
      out.push_back(x), out.push_back(x | 0x8000);
    break;
  case Values::Bytes:
    for (uint64_t x = 0; x < 256; ++x)
      out.push_back(x << 8 | (x * 37 & 255));
    break;
  }
  for (uint64_t &x : out)
    x = bits < 64 ? x & ((uint64_t(1) << bits) - 1) : x;
  return out;
}

std::vector<Operands> sweepRows(const SweepCase &sweep) {
  std::mt19937_64 random(7);
  Values values = sweep.values;
  bool isSmall = values == Values::Halves || values == Values::Bfloats;
  auto pick = [&](int bits) {
    // For a pair, choose both elements.
    if (isSmall && bits == 32) {
      std::vector<uint64_t> some = edges(values, 16);
      uint64_t low = some[random() % some.size()];
      return some[random() % some.size()] << 16 | low;
    }
    std::vector<uint64_t> some = edges(values, bits);
    return some[random() % some.size()];
  };
  auto draw = [&](int bits) -> uint64_t {
    if (!bits)
      return 0;
    uint64_t value = random();
    if (bits == 1)
      return value & 1;
    if (value % 8 == 0)
      return pick(bits);
    // The numbers have similar magnitudes, so that sums are rounded.
    if (value % 2) {
      double like = double(int64_t(random() % 2000001) - 1000000) / 1024;
      if (values == Values::Floats && bits == 32)
        return bitsOf(float(like));
      if (values == Values::Doubles && bits == 64)
        return bitsOf(like);
      if (isSmall) {
        uint64_t lead = values == Values::Halves ? 0x8FFF : 0x81FF;
        uint64_t add = values == Values::Halves ? 0x3000 : 0x3E00;
        uint64_t out = 0;
        for (int i = 0; i < bits; i += 16)
          out |= ((random() & lead) + add) << i;
        return out;
      }
    }
    if (values == Values::Integers && value & 2)
      value >>= random() % 64;
    return bits >= 64 ? value : value & ((uint64_t(1) << bits) - 1);
  };
  std::vector<Operands> rows;
  const Widths &w = sweep.widths;
  if (!(isSmall && w.a == 32))
    for (uint64_t a : edges(values, w.a))
      for (uint64_t b : w.b ? edges(values, w.b) : std::vector<uint64_t>{0}) {
        // Tests only some of many pairs.
        if (w.b && rows.size() > 200 && random() % 3)
          continue;
        rows.push_back({a, b, w.c ? pick(w.c) : 0, w.e ? pick(w.e) : 0});
      }
  size_t count = (std::max<size_t>(rows.size() + 500, 960) + 95) / 96 * 96;
  while (rows.size() < count) {
    uint64_t a = draw(w.a), b = draw(w.b), c = draw(w.c);
    rows.push_back({a, b, c, draw(w.e)});
  }
  return rows;
}

} // namespace softgpu
