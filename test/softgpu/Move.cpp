//===- Move.cpp - mov, cvta, isspacep -------------------------------------===//

#include "test/softgpu/Decoder.h"
#include "test/softgpu/Lanes.h"

namespace softgpu {

template <class T> static constexpr auto kSame = [](T a) { return a; };

static void movePredicate(Warp &warp, const Op &op, Mask mask) {
  storeMask(warp.predicate(op.r[0]), warp.predicate(op.r[1]), mask);
}

/// %clock and the like: the launch's own instruction count, which increases.
static void readClock(Warp &warp, const Op &op, Mask mask) {
  uint64_t now = (warp.launch->instructions + warp.executed) * 4;
  uint32_t low[kLanes];
  uint64_t all[kLanes];
  std::fill_n(low, kLanes, uint32_t(op.kind ? now >> 32 : now));
  std::fill_n(all, kLanes, now);
  op.bytes == 4 ? store(warp.lanes<uint32_t>(op.r[0]), low, mask)
                : store(warp.lanes<uint64_t>(op.r[0]), all, mask);
}

/// Copies between a register and several smaller ones that are its parts, low
/// first.
static void packVector(Warp &warp, const Op &op, Mask mask) {
  int part = op.bytes / op.count;
  alignas(64) uint8_t out[kLanes * 8];
  for (int j = 0; j < op.count; ++j) {
    const uint8_t *from = warp.lanes<uint8_t>(op.r[1 + j]);
    for (int i = 0; i < kLanes; ++i)
      std::memcpy(out + i * op.bytes + j * part, from + i * part, part);
  }
  if (op.bytes == 2)
    store(warp.lanes<uint16_t>(op.r[0]), reinterpret_cast<uint16_t *>(out),
          mask);
  else if (op.bytes == 4)
    store(warp.lanes<uint32_t>(op.r[0]), reinterpret_cast<uint32_t *>(out),
          mask);
  else
    store(warp.lanes<uint64_t>(op.r[0]), reinterpret_cast<uint64_t *>(out),
          mask);
}

static void unpackVector(Warp &warp, const Op &op, Mask mask) {
  int part = op.bytes / op.count;
  alignas(64) uint8_t from[kLanes * 8];
  std::memcpy(from, warp.lanes<uint8_t>(op.r[op.results]),
              size_t(kLanes) * op.bytes);
  for (int j = 0; j < op.count; ++j) {
    alignas(64) uint8_t out[kLanes * 8];
    for (int i = 0; i < kLanes; ++i)
      std::memcpy(out + i * part, from + i * op.bytes + j * part, part);
    if (part == 1)
      store(warp.lanes<uint8_t>(op.r[j]), out, mask);
    else if (part == 2)
      store(warp.lanes<uint16_t>(op.r[j]), reinterpret_cast<uint16_t *>(out),
            mask);
    else
      store(warp.lanes<uint32_t>(op.r[j]), reinterpret_cast<uint32_t *>(out),
            mask);
  }
}

static bool decodeClock(Decoder &decoder) {
  const PtxOperand &from = decoder.operand(1);
  static constexpr struct {
    std::string_view name;
    uint8_t bytes, high;
  } kClocks[] = {{"%clock", 4, 0},          {"%clock_hi", 4, 1},
                 {"%clock64", 8, 0},        {"%globaltimer", 8, 0},
                 {"%globaltimer_lo", 4, 0}, {"%globaltimer_hi", 4, 1}};
  for (const auto &clock : kClocks)
    if (from.kind == PtxOperand::Name && from.name == clock.name) {
      Op &op = decoder.begin(readClock, OpClass::Move);
      op.bytes = clock.bytes;
      op.kind = clock.high;
      decoder.result(size_t(0), clock.bytes);
      return true;
    }
  return false;
}

void decodeMov(Decoder &decoder) {
  PtxType type = decoder.type();
  decoder.needOperands(2, 2);
  int bytes = type.bytes();
  if (bytes == 1 || type.pair)
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  const PtxOperand &to = decoder.operand(0), &from = decoder.operand(1);
  bool packs = from.kind == PtxOperand::Vector,
       unpacks = to.kind == PtxOperand::Vector;
  if (packs || unpacks) {
    const auto &parts = packs ? from.parts : to.parts;
    size_t count = parts.size();
    if ((count != 2 && count != 4) || bytes < int(count) || (packs && unpacks))
      decoder.fail(fmt::format("'{}' of {} elements",
                               decoder.instruction().text(), count));
    Op &op = decoder.begin(packs ? packVector : unpackVector, OpClass::Move);
    op.bytes = uint8_t(bytes);
    op.count = uint8_t(count);
    if (packs)
      decoder.result(to, bytes);
    for (const PtxOperand &part : parts)
      packs ? decoder.source(part, Decoder::bits(bytes / int(count)))
            : decoder.result(part, bytes / int(count));
    if (unpacks)
      decoder.source(from, type);
    return;
  }
  if (decodeClock(decoder))
    return;
  Handler handler = bytes == 0   ? movePredicate
                    : bytes == 2 ? unary<kSame<uint16_t>, uint16_t, uint16_t>
                    : bytes == 4 ? unary<kSame<uint32_t>, uint32_t, uint32_t>
                                 : unary<kSame<uint64_t>, uint64_t, uint64_t>;
  decoder.simple(handler, OpClass::Move, bytes, {type});
}

/// imm is the begin of the window; kind: 1 converts from generic to the space.
static void convertAddress(Warp &warp, const Op &op, Mask mask) {
  const uint64_t *a = warp.lanes<uint64_t>(op.r[1]);
  uint64_t out[kLanes];
  for (int i = 0; i < kLanes; ++i)
    out[i] = op.kind ? a[i] - uint64_t(op.imm) : a[i] + uint64_t(op.imm);
  store(warp.lanes<uint64_t>(op.r[0]), out, mask);
}

static uint64_t windowOf(Decoder &decoder) {
  switch (decoder.choose(
      {"global", "const", "shared", "shared::cta", "local", "param"})) {
  case 2:
  case 3:
    return DeviceMemory::kSharedWindow;
  case 4:
    return DeviceMemory::kLocalWindow;
  case 5:
    return DeviceMemory::kParamWindow;
  default:
    return 0;
  }
}

void decodeCvta(Decoder &decoder) {
  bool toSpace = decoder.accept("to");
  uint64_t window = windowOf(decoder);
  PtxType type = decoder.type();
  if (type.bytes() != 8)
    decoder.fail("cvta of 32-bit addresses");
  Op &op = decoder.simple(convertAddress, OpClass::Integer, 8, {type});
  op.imm = int64_t(window);
  op.kind = toSpace;
}

static void isInSpace(Warp &warp, const Op &op, Mask mask) {
  const uint64_t *a = warp.lanes<uint64_t>(op.r[1]);
  Mask out = 0;
  for (int i = 0; i < kLanes; ++i) {
    bool is = op.imm ? a[i] - uint64_t(op.imm) < DeviceMemory::kWindowBytes
                     : a[i] < DeviceMemory::kParamWindow;
    out |= Mask(is) << i;
  }
  storeMask(warp.predicate(op.r[0]), out, mask);
}

void decodeIsspacep(Decoder &decoder) {
  uint64_t window = windowOf(decoder);
  decoder.simple(isInSpace, OpClass::Predicate, 0, {Decoder::bits(8)}).imm =
      int64_t(window);
}

} // namespace softgpu
