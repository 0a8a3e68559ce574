//===- LoadStore.cpp - ld, st and hints about caches ----------------------===//

#include "test/softgpu/Access.h"
#include "test/softgpu/Decoder.h"

#include <bit>

namespace softgpu {

/// Whether an access is strong at system scope: the host sees a store at once,
/// and a load sees the host's stores at once.
static bool isStrong(const Op &op) {
  return op.isSystemScope && op.order != Order::Weak;
}

/// Takes over, for a strong load, what blocks that wrote to these addresses
/// have released.
static void acquireAll(Warp &warp, const Op &op, Mask mask,
                       const uint64_t *address) {
  if (!warp.launch->isChecked || !op.isGpuScope || op.order == Order::Weak)
    return;
  if (op.isSystemScope && op.order == Order::Acquire)
    warp.launch->host.acquire(warp);
  for (; mask; mask &= mask - 1)
    warp.launch->memory->races.acquire(address[std::countr_zero(mask)],
                                       warp.block->clock,
                                       op.order == Order::Acquire);
}

/// Publishes, by a strong store to these addresses, what the block has fenced
/// or, if the store releases, all that it has done.
static void releaseAll(Warp &warp, const Op &op, Mask mask,
                       const uint64_t *address) {
  if (!warp.launch->isChecked || !op.isGpuScope || op.order == Order::Weak)
    return;
  for (; mask; mask &= mask - 1)
    warp.launch->memory->races.release(address[std::countr_zero(mask)],
                                       warp.block->clock,
                                       op.order == Order::Release);
}

template <class T, class R, bool Signed>
static void widenInto(Warp &warp, Place place, const T *from, Mask mask) {
  alignas(64) R out[kLanes];
  for (int i = 0; i < kLanes; ++i)
    out[i] = Signed ? R(std::make_signed_t<R>(std::make_signed_t<T>(from[i])))
                    : R(from[i]);
  store(warp.lanes<R>(place), out, mask);
}

/// Writes a loaded element to its register, extended if that is wider.
template <class T>
static void intoRegister(Warp &warp, const Op &op, Place place, const T *from,
                         Mask mask) {
  if (op.registerBytes == sizeof(T))
    return store(warp.lanes<T>(place), from, mask);
  if (op.registerBytes == 2)
    return op.isSigned ? widenInto<T, uint16_t, true>(warp, place, from, mask)
                       : widenInto<T, uint16_t, false>(warp, place, from, mask);
  if (op.registerBytes == 4)
    return op.isSigned ? widenInto<T, uint32_t, true>(warp, place, from, mask)
                       : widenInto<T, uint32_t, false>(warp, place, from, mask);
  return op.isSigned ? widenInto<T, uint64_t, true>(warp, place, from, mask)
                     : widenInto<T, uint64_t, false>(warp, place, from, mask);
}

template <class T, int N>
static void load(Warp &warp, const Op &op, Mask mask) {
  Request request;
  addressesOf(warp, op, 0, request.address);
  resolve(warp, op, mask, sizeof(T) * N, AccessKind::Read, request);
  alignas(64) T values[N][kLanes];
  for (Mask left = mask; left; left &= left - 1) {
    int lane = std::countr_zero(left);
    T element[N];
    std::memcpy(element, request.host[lane], sizeof(element));
    if (request.isOfHost)
      warp.launch->host.load(warp, request.host[lane],
                             reinterpret_cast<uint8_t *>(element),
                             sizeof(element), isStrong(op));
    for (int j = 0; j < N; ++j)
      values[j][lane] = element[j];
  }
  for (int j = 0; j < N; ++j)
    intoRegister(warp, op, op.r[j], values[j], mask);
  acquireAll(warp, op, mask, request.address);
}

/// Loads a parameter at a fixed offset: the same for all lanes.
template <class T, int N>
static void loadParam(Warp &warp, const Op &op, Mask mask) {
  const uint8_t *from = warp.launch->params.data() + op.imm;
  for (int j = 0; j < N; ++j) {
    T element;
    std::memcpy(&element, from + j * sizeof(T), sizeof(T));
    alignas(64) T values[kLanes];
    std::fill_n(values, kLanes, element);
    intoRegister(warp, op, op.r[j], values, mask);
  }
}

/// r: address, then the elements.
template <class T, int N>
static void storeTo(Warp &warp, const Op &op, Mask mask) {
  Request request;
  addressesOf(warp, op, 0, request.address);
  int first = op.addressBytes ? 1 : 0;
  T values[kLanes][N];
  for (int j = 0; j < N; ++j) {
    // Stores the low bytes of a wider register.
    const uint8_t *from = warp.lanes<uint8_t>(op.r[first + j]);
    for (int i = 0; i < kLanes; ++i)
      std::memcpy(&values[i][j], from + i * op.registerBytes, sizeof(T));
  }
  Mask once =
      warp.launch->isChecked && op.space != Space::Local
          ? checkConflicts(warp, op, mask, sizeof(T) * N, request.address,
                           reinterpret_cast<const uint8_t *>(values))
          : mask;
  resolve(warp, op, once, sizeof(T) * N, AccessKind::Write, request);
  if (warp.launch->isChecked && op.isSystemScope && op.order == Order::Release)
    warp.launch->host.release(warp, mask);
  for (Mask left = once; left; left &= left - 1) {
    int lane = std::countr_zero(left);
    if (request.isOfHost)
      warp.launch->host.store(warp, lane, request.host[lane], values[lane],
                              sizeof(values[lane]), isStrong(op));
    else
      std::memcpy(request.host[lane], values[lane], sizeof(values[lane]));
  }
  releaseAll(warp, op, mask, request.address);
}

template <class T>
static Handler byCount(bool isLoad, bool isParam, int count) {
  switch (count) {
  case 1:
    return isParam ? loadParam<T, 1> : isLoad ? load<T, 1> : storeTo<T, 1>;
  case 2:
    return isParam ? loadParam<T, 2> : isLoad ? load<T, 2> : storeTo<T, 2>;
  case 4:
    return isParam ? loadParam<T, 4> : isLoad ? load<T, 4> : storeTo<T, 4>;
  default:
    if constexpr (sizeof(T) == 4)
      return isLoad ? load<T, 8> : storeTo<T, 8>;
    return nullptr;
  }
}

static Handler handlerOf(bool isLoad, bool isParam, int bytes, int count) {
  switch (bytes) {
  case 1:
    return byCount<uint8_t>(isLoad, isParam, count);
  case 2:
    return byCount<uint16_t>(isLoad, isParam, count);
  case 4:
    return byCount<uint32_t>(isLoad, isParam, count);
  default:
    return byCount<uint64_t>(isLoad, isParam, count);
  }
}

namespace {
struct Modifiers {
  Space space = Space::Generic;
  Order order = Order::Weak;
  bool isGpuScope = false, isSystemScope = false, hasHint = false;
  int count = 1;
};
} // namespace

/// Reads the modifiers between "ld" or "st" and the type, in any order that
/// ptxas accepts.
static Modifiers takeModifiers(Decoder &decoder) {
  Modifiers m;
  while (ptxType(decoder.peek()).kind == PtxType::None) {
    std::string_view name = decoder.peek();
    if (name == "volatile" || name == "mmio")
      m.order = Order::Relaxed, m.isGpuScope = m.isSystemScope = true;
    else if (name == "relaxed")
      m.order = Order::Relaxed;
    else if (name == "acquire")
      m.order = Order::Acquire;
    else if (name == "release")
      m.order = Order::Release;
    else if (name == "gpu" || name == "sys" || name == "cluster")
      m.isGpuScope = true, m.isSystemScope = name == "sys";
    else if (name == "global")
      m.space = Space::Global;
    else if (name == "shared" || name == "shared::cta")
      m.space = Space::Shared;
    else if (name == "local")
      m.space = Space::Local;
    else if (name == "param" || name == "param::entry" || name == "param::func")
      m.space = Space::Param;
    else if (name == "const")
      m.space = Space::Const;
    else if (name == "v2" || name == "v4" || name == "v8")
      m.count = name[1] - '0';
    else if (name == "L2::cache_hint")
      m.hasHint = true;
    else if (name != "weak" && name != "cta" && name != "nc" && name != "ca" &&
             name != "cg" && name != "cs" && name != "lu" && name != "cv" &&
             name != "wb" && name != "wt" && name != "L1::evict_normal" &&
             name != "L1::evict_unchanged" && name != "L1::evict_first" &&
             name != "L1::evict_last" && name != "L1::no_allocate" &&
             name != "L2::evict_first" && name != "L2::evict_last" &&
             name != "L2::evict_normal" && name != "L2::64B" &&
             name != "L2::128B" && name != "L2::256B")
      decoder.type(); // Reports the unknown modifier.
    decoder.skip();
  }
  return m;
}

static void decodeAccess(Decoder &decoder, bool isLoad) {
  Modifiers m = takeModifiers(decoder);
  PtxType type = decoder.type();
  if (type.pair || type.kind == PtxType::Pred || m.count * type.bytes() > 32)
    decoder.fail(
        fmt::format("'{}' is not supported", decoder.instruction().text()));
  decoder.needOperands(2, m.hasHint ? 3 : 2);
  const PtxOperand &address = decoder.operand(isLoad ? 1 : 0);
  const PtxOperand &data = decoder.operand(isLoad ? 0 : 1);
  bool isCall = decoder.isCallParam(address);
  Space space = m.space == Space::Param && isCall ? Space::Local : m.space;
  bool isParam = isLoad && space == Space::Param &&
                 decoder.spaceOf(address) == Space::Param;
  Handler handler = handlerOf(isLoad, isParam, type.bytes(), m.count);
  std::vector<PtxOperand> parts{data};
  if (data.kind == PtxOperand::Vector)
    parts = data.parts;
  if (!handler || parts.size() != size_t(m.count))
    decoder.fail(fmt::format("'{}' of {} elements",
                             decoder.instruction().text(), parts.size()));
  OpClass opClass = space == Space::Shared
                        ? (isLoad ? OpClass::SharedLoad : OpClass::SharedStore)
                    : space == Space::Local ? OpClass::LocalAccess
                    : space == Space::Param || space == Space::Const
                        ? OpClass::ConstLoad
                        : (isLoad ? OpClass::GlobalLoad : OpClass::GlobalStore);
  Op &op = decoder.begin(handler, opClass);
  op.space = space;
  op.order = m.order;
  op.isGpuScope = m.isGpuScope;
  op.isSystemScope = m.isSystemScope;
  op.isSigned = type.isSigned();
  op.bytes = uint8_t(type.bytes());
  op.count = uint8_t(m.count);
  op.isStrict = true;
  int registerBytes = 0;
  for (const PtxOperand &part : parts)
    registerBytes = std::max(registerBytes, decoder.registerBytes(part));
  registerBytes = registerBytes ? registerBytes : type.bytes();
  op.registerBytes = uint8_t(registerBytes);
  if (registerBytes < type.bytes() ||
      (type.isFloat() && registerBytes != type.bytes()))
    decoder.fail(fmt::format("'{}' with registers of {} bits",
                             decoder.instruction().text(), registerBytes * 8));
  if (isLoad)
    for (const PtxOperand &part : parts)
      decoder.result(part, registerBytes);
  decoder.address(op, address);
  if (isParam &&
      uint64_t(op.imm) + uint64_t(op.bytes * op.count) > decoder.paramBytes())
    decoder.fail(
        fmt::format("'{}' past the parameters", decoder.instruction().text()));
  PtxType source = type;
  source.bits = uint8_t(registerBytes * 8);
  if (!isLoad)
    for (const PtxOperand &part : parts)
      decoder.source(part, source);
}

void decodeLoad(Decoder &decoder) { decodeAccess(decoder, true); }
void decodeStore(Decoder &decoder) { decodeAccess(decoder, false); }

/// A prefetch has no result, but its address must be one of an allocation:
/// otherwise it is a mistake, though silicon does not say so.
static void prefetchGlobal(Warp &warp, const Op &op, Mask mask) {
  uint64_t address[kLanes];
  addressesOf(warp, op, 0, address);
  DeviceMemory &memory = *warp.launch->memory;
  for (; mask; mask &= mask - 1) {
    int lane = std::countr_zero(mask);
    Allocation *own = memory.find(address[lane]);
    if (!own || own->isFreed || address[lane] - own->base >= own->bytes)
      report(warp, op, lane, FindingKind::OutOfBounds,
             "prefetches " + memory.describe(address[lane]), address[lane]);
  }
}

/// prefetch{.global}.level [address]
void decodePrefetch(Decoder &decoder) {
  if (!decoder.accept("global"))
    return decodeHint(decoder);
  decoder.choose({"L1", "L2", "L2::evict_last", "L2::evict_normal"});
  decoder.needOperands(1, 1);
  decoder.address(decoder.begin(prefetchGlobal, OpClass::Other),
                  decoder.operand(0));
}

/// Cache hints do not change what is read.
void decodeHint(Decoder &decoder) {
  while (!decoder.peek().empty()) {
    std::string_view name = decoder.peek();
    if (name != "global" && name != "local" && name != "L1" && name != "L2" &&
        name != "L2::128B" && name != "L2::evict_normal" &&
        name != "L2::evict_last" && name != "uniform" &&
        name != "L2::evict_first")
      return; // Reports the unknown modifier.
    decoder.skip();
  }
  decoder.begin([](Warp &, const Op &, Mask) {}, OpClass::Other);
}

/// A cache policy is a number that loads ignore.
void decodeCreatePolicy(Decoder &decoder) {
  while (!decoder.peek().empty() && decoder.peek() != "b64")
    decoder.skip();
  decoder.choose({"b64"});
  decoder.begin(
      [](Warp &warp, const Op &op, Mask mask) {
        uint64_t policy[kLanes] = {};
        store(warp.lanes<uint64_t>(op.r[0]), policy, mask);
      },
      OpClass::Other);
  decoder.result(size_t(0), 8);
}

} // namespace softgpu
