//===- Atomic.cpp - atom, red, fences -------------------------------------===//
//
// Lanes are processed in ascending order, or in descending order in a reversed
// schedule, so that float sums that depend on the order differ.
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/Access.h"
#include "test/softgpu/Decoder.h"
#include "test/softgpu/Numbers.h"

#include <bit>

namespace softgpu {

enum AtomicKind { Add, And, Or, Xor, Exch, Cas, Inc, Dec, Min, Max };

template <class T> static T updated(AtomicKind kind, T old, T b, T c) {
  switch (kind) {
  case Add:
    return T(std::make_unsigned_t<T>(old) + std::make_unsigned_t<T>(b));
  case And:
    return old & b;
  case Or:
    return old | b;
  case Xor:
    return old ^ b;
  case Cas:
    return old == b ? c : old;
  case Inc:
    return old >= b ? T(0) : T(old + 1);
  case Dec:
    return old == 0 || old > b ? b : T(old - 1);
  case Min:
    return std::min(old, b);
  case Max:
    return std::max(old, b);
  default:
    return b;
  }
}

/// Units of global memory flush subnormal f32 operands and sums, and pass an
/// f64 NaN on unchanged; those of shared memory do neither (PTX ISA, sm_90).
static double sum(double old, double b, bool isGlobal) {
  if (isGlobal && (old != old || b != b))
    return b != b ? b : old;
  return withNan(old + b, old, b, b);
}
static float sum(float old, float b, bool isGlobal) {
  return isGlobal ? canonical(flush(flush(old) + flush(b)))
                  : canonical(old + b);
}

namespace {
/// One or two elements of f16 or bf16.
template <bool IsBfloat, int N> struct HalfSum {
  uint16_t value[N];
  static HalfSum sum(HalfSum a, HalfSum b) {
    FloatFormat format = IsBfloat ? kBfloat : kHalf;
    for (int i = 0; i < N; ++i)
      a.value[i] =
          uint16_t(encodeFloat(addToOdd(decodeFloat(a.value[i], format),
                                        decodeFloat(b.value[i], format)),
                               format, Rounding::Nearest));
    return a;
  }
};
} // namespace

template <class T, bool IsHalf>
static void atomic(Warp &warp, const Op &op, Mask mask) {
  Request request;
  addressesOf(warp, op, 0, request.address);
  int first = op.results + (op.addressBytes ? 1 : 0);
  const T *b = warp.lanes<T>(op.r[first]);
  const T *c = op.kind == Cas ? warp.lanes<T>(op.r[first + 1]) : b;
  alignas(64) T olds[kLanes];
  // Lane after lane: each reads what the previous one wrote.
  bool down = warp.launch->options->schedule == Schedule::Reversed;
  resolve(warp, op, mask, sizeof(T), AccessKind::Atomic, request);
  bool acquires =
      op.order == Order::Acquire || op.order == Order::AcquireRelease;
  bool releases =
      op.order == Order::Release || op.order == Order::AcquireRelease;
  if (warp.launch->isChecked && op.isSystemScope && releases)
    warp.launch->host.release(warp, mask);
  for (Mask left = request.isOfHost ? mask : 0; left; left &= left - 1)
    warp.launch->host.publishAt(request.host[std::countr_zero(left)]);
  for (int i = 0; i < kLanes; ++i) {
    int lane = down ? kLanes - 1 - i : i;
    if (!(mask >> lane & 1))
      continue;
    T old, now;
    std::memcpy(&old, request.host[lane], sizeof(T));
    if constexpr (IsHalf)
      now = T::sum(old, b[lane]);
    else if constexpr (std::is_floating_point_v<T>)
      now = sum(old, b[lane],
                request.address[lane] < DeviceMemory::kParamWindow &&
                    op.space != Space::Shared);
    else
      now = updated<T>(AtomicKind(op.kind), old, b[lane], c[lane]);
    std::memcpy(request.host[lane], &now, sizeof(T));
    olds[lane] = old;
  }
  if (op.results)
    store(warp.lanes<T>(op.r[0]), olds, mask);
  if (!warp.launch->isChecked || !op.isGpuScope)
    return;
  if (op.isSystemScope && acquires)
    warp.launch->host.acquire(warp);
  BlockRaces &races = warp.launch->memory->races;
  for (Mask left = mask; left; left &= left - 1) {
    uint64_t address = request.address[std::countr_zero(left)];
    if (address >= DeviceMemory::kParamWindow)
      continue;
    races.acquire(address, warp.block->clock, acquires);
    races.release(address, warp.block->clock, releases);
  }
}

static Handler handlerOf(Decoder &decoder, PtxType type, AtomicKind kind) {
  bool isSum = kind == Add;
  if (type.kind == PtxType::Float && type.bits == 16 && isSum)
    return type.pair ? atomic<HalfSum<false, 2>, true>
                     : atomic<HalfSum<false, 1>, true>;
  if (type.kind == PtxType::Bfloat && isSum)
    return type.pair ? atomic<HalfSum<true, 2>, true>
                     : atomic<HalfSum<true, 1>, true>;
  if (type.kind == PtxType::Float && isSum)
    return type.bits == 32 ? atomic<float, false> : atomic<double, false>;
  bool isLogic =
      kind == And || kind == Or || kind == Xor || kind == Exch || kind == Cas;
  bool takes = type.kind == PtxType::Bits ? isLogic
               : type.kind == PtxType::Unsigned
                   ? !isLogic
                   : kind == Add || kind == Min || kind == Max;
  if (type.isInteger() && !type.pair && takes) {
    if (type.bits == 32)
      return type.isSigned() ? atomic<int32_t, false> : atomic<uint32_t, false>;
    if (type.bits == 64 && kind != Inc && kind != Dec)
      return type.isSigned() ? atomic<int64_t, false> : atomic<uint64_t, false>;
    if (type.bits == 16 && kind == Cas)
      return atomic<uint16_t, false>;
  }
  decoder.fail(
      fmt::format("'{}' is not supported", decoder.instruction().text()));
}

void decodeAtomic(Decoder &decoder) {
  bool returns = decoder.instruction().opcode == "atom";
  if (decoder.peek() == "async")
    decoder.fail(
        fmt::format("unknown opcode '{}'", decoder.instruction().text()));
  int order = decoder.chooseOr(0, {"relaxed", "acquire", "release", "acq_rel"});
  int scope = decoder.chooseOr(2, {"cta", "cluster", "gpu", "sys"});
  int space = decoder.chooseOr(-1, {"global", "shared", "shared::cta"});
  AtomicKind kind = AtomicKind(decoder.choose(
      {"add", "and", "or", "xor", "exch", "cas", "inc", "dec", "min", "max"}));
  if (!returns && (kind == Exch || kind == Cas))
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  decoder.accept("noftz");
  bool hasHint = decoder.accept("L2::cache_hint");
  PtxType type = decoder.type();
  Handler handler = handlerOf(decoder, type, kind);
  size_t operands = (returns ? 1 : 0) + 2 + (kind == Cas ? 1 : 0);
  decoder.needOperands(operands, operands + (hasHint ? 1 : 0));
  Op &op = decoder.begin(handler, OpClass::Atomic);
  op.isStrict = true;
  op.kind = uint8_t(kind);
  op.order = Order(order + 1);
  op.isGpuScope = scope > 0;
  op.isSystemScope = scope == 3;
  op.space = space < 0    ? Space::Generic
             : space == 0 ? Space::Global
                          : Space::Shared;
  size_t at = 0;
  if (returns)
    decoder.result(at++, type.bytes());
  decoder.address(op, decoder.operand(at++));
  decoder.source(at++, type);
  if (kind == Cas)
    decoder.source(at, type);
}

static void fence(Warp &warp, const Op &op, Mask mask) {
  if (!warp.launch->isChecked)
    return;
  if (op.isSystemScope) {
    warp.launch->host.release(warp, mask);
    warp.launch->host.acquire(warp);
  }
  if (op.isGpuScope)
    warp.launch->memory->races.fence(warp.block->clock);
}

/// Makes what the warp wrote to shared memory visible to wgmma.
static void fenceProxy(Warp &warp, const Op &, Mask mask) {
  if (mask == warp.live)
    ++warp.fences[size_t(warp.index)];
}

void decodeFence(Decoder &decoder) {
  if (decoder.accept("mbarrier_init")) {
    decoder.choose({"release"});
    decoder.choose({"cluster"});
    decoder.needArch(90);
    decoder.begin(fenceMbarriers, OpClass::Fence);
    return;
  }
  if (decoder.accept("proxy")) {
    decoder.choose({"async"});
    decoder.choose({"shared::cta"});
    decoder.needArch(90);
    decoder.begin(fenceProxy, OpClass::Fence);
    return;
  }
  bool isSystem = decoder.peek() == "sys";
  int scope;
  if (decoder.instruction().opcode == "membar") {
    scope = decoder.choose({"cta", "gl", "sys"});
  } else {
    decoder.chooseOr(-1, {"sc", "acq_rel", "acquire", "release"});
    isSystem = decoder.peek() == "sys";
    scope = decoder.choose({"cta", "cluster", "gpu", "sys"});
  }
  Op &op = decoder.begin(fence, OpClass::Fence);
  op.isGpuScope = scope > 0;
  op.isSystemScope = isSystem;
}

} // namespace softgpu
