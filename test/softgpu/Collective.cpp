//===- Collective.cpp - shfl, vote, match, redux --------------------------===//

#include "test/softgpu/Decoder.h"
#include "test/softgpu/Lanes.h"

#include <algorithm>
#include <bit>

namespace softgpu {

/// Checks that the lanes named by the instruction's mask are all here; lanes
/// that have ended may be named. Returns the mask.
static Mask checkMembers(Warp &warp, const Op &op, Mask mask) {
  const uint32_t *members = warp.lanes<uint32_t>(op.members);
  Mask named = members[std::countr_zero(mask)];
  if (!warp.launch->isChecked)
    return named;
  for (Mask left = mask; left; left &= left - 1) {
    int lane = std::countr_zero(left);
    if (members[lane] != named)
      report(warp, op, lane, FindingKind::DivergentWarp,
             fmt::format("names lanes {:#x}, another lane names {:#x}",
                         members[lane], named));
    if (!(named >> lane & 1))
      report(warp, op, lane, FindingKind::DivergentWarp,
             fmt::format("names lanes {:#x}, which is not one of them", named));
  }
  if (Mask missing = named & warp.live & ~mask)
    report(warp, op, std::countr_zero(mask), FindingKind::DivergentWarp,
           fmt::format("names lanes {:#x}, of which {:#x} are elsewhere", named,
                       missing));
  return named;
}

/// r: d, [p], a, b, c, [members]. Kind: up, down, bfly, idx.
template <int Kind> static void shuffle(Warp &warp, const Op &op, Mask mask) {
  const Place *s = &op.r[op.results];
  checkMembers(warp, op, mask);
  const uint32_t *a = warp.lanes<uint32_t>(s[0]),
                 *b = warp.lanes<uint32_t>(s[1]);
  const uint32_t *c = warp.lanes<uint32_t>(s[2]);
  alignas(64) int32_t from[kLanes];
  alignas(64) uint8_t valid[kLanes], undefined[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    int distance = int(b[lane] & 31), clamp = int(c[lane] & 31),
        segment = int(c[lane] >> 8 & 31);
    int highest = (lane & segment) | (clamp & ~segment);
    int source = Kind == 0   ? lane - distance
                 : Kind == 1 ? lane + distance
                 : Kind == 2 ? lane ^ distance
                             : (lane & segment) | (distance & ~segment);
    bool inside = Kind == 0 ? source >= highest : source <= highest;
    from[lane] = inside ? source : lane;
    valid[lane] = inside;
  }
  // The lanes that are here and have written the register.
  Mask present = s[0] & kConstant ? mask : mask & warp.written[s[0] / kUnit];
  alignas(64) uint32_t out[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    out[lane] = a[from[lane]];
    undefined[lane] = ~present >> from[lane] & 1;
  }
  store(warp.lanes<uint32_t>(op.r[0]), out, mask);
  if (op.results == 2)
    storeMask(warp.predicate(op.r[1]), maskOf(valid), mask);
  warp.shuffleUndefined = maskOf(undefined) & mask;
}

void decodeShuffle(Decoder &decoder) {
  decoder.choose({"sync"});
  int mode = decoder.choose({"up", "down", "bfly", "idx"});
  decoder.choose({"b32"});
  decoder.needOperands(5, 6);
  size_t results = decoder.operandCount() - 4;
  constexpr Handler kHandlers[] = {shuffle<0>, shuffle<1>, shuffle<2>,
                                   shuffle<3>};
  Op &op = decoder.begin(kHandlers[mode], OpClass::Shuffle);
  op.isShuffle = true;
  decoder.result(size_t(0), 4);
  if (results == 2)
    decoder.result(1, 0);
  for (size_t i = 0; i < 4; ++i)
    decoder.source(results + i, 4);
  decoder.needNamedLanes();
}

/// r: d, predicate, members. kind: all, any, uni, ballot; 4: negated.
static void vote(Warp &warp, const Op &op, Mask mask) {
  Mask named = checkMembers(warp, op, mask) & mask;
  Mask set = warp.predicate(op.r[1]);
  set = (op.kind & 4 ? ~set : set) & named;
  if ((op.kind & 3) == 3) {
    uint32_t out[kLanes];
    std::fill_n(out, kLanes, set);
    return store(warp.lanes<uint32_t>(op.r[0]), out, mask);
  }
  bool holds = (op.kind & 3) == 0   ? set == named
               : (op.kind & 3) == 1 ? set != 0
                                    : set == named || set == 0;
  storeMask(warp.predicate(op.r[0]), holds ? ~Mask(0) : 0, mask);
}

void decodeVote(Decoder &decoder) {
  decoder.choose({"sync"});
  int kind = decoder.choose({"all", "any", "uni", "ballot"});
  decoder.choose({kind == 3 ? "b32" : "pred"});
  Op &op = decoder.simple(vote, OpClass::Vote, kind == 3 ? 4 : 0,
                          {Decoder::bits(0), Decoder::bits(4)});
  op.isStrict = true;
  op.kind = uint8_t(kind | (decoder.operand(1).negated ? 4 : 0));
  decoder.needNamedLanes();
}

/// r: d, [p], a, members. kind: any, all.
template <class T> static void match(Warp &warp, const Op &op, Mask mask) {
  const Place *s = &op.r[op.results];
  Mask named = checkMembers(warp, op, mask) & mask;
  const T *a = warp.lanes<T>(s[0]);
  uint32_t out[kLanes] = {};
  Mask all = 0;
  for (int lane = 0; lane < kLanes; ++lane)
    for (int other = 0; other < kLanes; ++other)
      if (named >> other & 1 && a[other] == a[lane])
        out[lane] |= Mask(1) << other;
  if (op.kind) {
    bool same = out[std::countr_zero(mask)] == named;
    all = same ? ~Mask(0) : 0;
    std::fill_n(out, kLanes, same ? named : 0);
  }
  store(warp.lanes<uint32_t>(op.r[0]), out, mask);
  if (op.results == 2)
    storeMask(warp.predicate(op.r[1]), all, mask);
}

void decodeMatch(Decoder &decoder) {
  int kind = decoder.choose({"any", "all"});
  decoder.choose({"sync"});
  int bytes = decoder.choose({"b32", "b64"}) ? 8 : 4;
  decoder.needOperands(3, kind ? 4 : 3);
  size_t results = decoder.operandCount() - 2;
  Op &op = decoder.begin(bytes == 4 ? match<uint32_t> : match<uint64_t>,
                         OpClass::Vote);
  op.isStrict = true;
  op.kind = uint8_t(kind);
  decoder.result(size_t(0), 4);
  if (results == 2)
    decoder.result(1, 0);
  decoder.source(results, bytes);
  decoder.source(results + 1, 4);
  decoder.needNamedLanes();
}

/// kind: add, min, max, and, or, xor.
template <class T> static void redux(Warp &warp, const Op &op, Mask mask) {
  Mask named = checkMembers(warp, op, mask) & mask;
  const T *a = warp.lanes<T>(op.r[1]);
  T value = a[std::countr_zero(named)];
  for (Mask left = named & (named - 1); left; left &= left - 1) {
    T x = a[std::countr_zero(left)];
    value = op.kind == 0   ? T(uint32_t(value) + uint32_t(x))
            : op.kind == 1 ? std::min(value, x)
            : op.kind == 2 ? std::max(value, x)
            : op.kind == 3 ? T(value & x)
            : op.kind == 4 ? T(value | x)
                           : T(value ^ x);
  }
  T out[kLanes];
  std::fill_n(out, kLanes, value);
  store(warp.lanes<T>(op.r[0]), out, mask);
}

void decodeRedux(Decoder &decoder) {
  decoder.choose({"sync"});
  int kind = decoder.choose({"add", "min", "max", "and", "or", "xor"});
  decoder.needArch(80);
  PtxType type = decoder.type();
  if (type.bytes() != 4 || !type.isInteger() ||
      (kind > 2) != (type.kind == PtxType::Bits))
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  Op &op = decoder.simple(type.isSigned() ? redux<int32_t> : redux<uint32_t>,
                          OpClass::Shuffle, 4, {type, Decoder::bits(4)});
  op.isStrict = true;
  op.kind = uint8_t(kind);
  decoder.needNamedLanes();
}

void decodeActiveMask(Decoder &decoder) {
  decoder.choose({"b32"});
  decoder.simple(
      [](Warp &warp, const Op &op, Mask mask) {
        uint32_t out[kLanes];
        std::fill_n(out, kLanes, mask);
        store(warp.lanes<uint32_t>(op.r[0]), out, mask);
      },
      OpClass::Vote, 4, {});
}

/// r: leader, p, members.
void decodeElect(Decoder &decoder) {
  decoder.needArch(90);
  decoder.choose({"sync"});
  decoder.needOperands(3, 3);
  Op &op = decoder.begin(
      [](Warp &warp, const Op &op, Mask mask) {
        Mask named = checkMembers(warp, op, mask) & mask;
        uint32_t out[kLanes];
        std::fill_n(out, kLanes, uint32_t(std::countr_zero(named)));
        store(warp.lanes<uint32_t>(op.r[0]), out, mask);
        storeMask(warp.predicate(op.r[1]), named & -named, mask);
      },
      OpClass::Vote);
  op.isStrict = true;
  decoder.result(size_t(0), 4);
  decoder.result(1, 0);
  decoder.source(2, 4);
  decoder.needNamedLanes();
}

} // namespace softgpu
