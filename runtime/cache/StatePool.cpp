#include "runtime/cache/StatePool.h"

#include "runtime/cache/KvPool.h"
#include "runtime/device/Devices.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/States.h"

#include <cassert>
#include <cstring>

namespace moert {

namespace {
DeviceRegion rowAt(uint64_t offset, uint64_t rowBytes, int32_t slot) {
  return {DeviceRegion::Memory::Kv, offset + uint64_t(slot) * rowBytes,
          rowBytes};
}
} // namespace

StatePool::StatePool(const fb::Plan &plan, const Devices &devices,
                     const KvPool &pages)
    : pages_(pages), slots_(size_t(stateRows(plan))) {
  bool onlyRings = true;
  for (uint32_t i = 0; i < count(plan.kv()); ++i) {
    const fb::Kv &kv = *plan.kv()->Get(i);
    if (!kv.row_per_sequence())
      continue;
    layers_.push_back(
        {&devices.device(kv.device()), kv.offset(),
         uint64_t(moek::kvRowBytes(moek::KvType(kv.type()), kv.width()))});
    bytes_ += layers_.back().rowBytes;
    onlyRings &= ringRowWidth(plan, i) > 0;
  }
  // Rings have room for a step's rows in addition to the window
  // (OpProof::cacheRows()).
  if (onlyRings)
    for (const fb::Phase *phase : *plan.phases())
      if (!has(kindOf(*phase), kIsHead))
        rewindable_ = std::max(rewindable_, phase->max_tokens());
}

bool StatePool::isStale(const Slot &slot) const {
  return slot.use == Use::Checkpoint &&
         pages_.generation(slot.page) != slot.generation;
}

int32_t StatePool::find(int32_t page) const {
  for (int32_t i = 0; i < slots(); ++i)
    if (const Slot &slot = slots_[size_t(i)];
        slot.use == Use::Checkpoint && slot.page == page && !isStale(slot))
      return i;
  return kNone;
}

int32_t StatePool::allocateExcept(int32_t kept) {
  int32_t best = kNone;
  for (int32_t i = 0; i < slots(); ++i) {
    const Slot &slot = slots_[size_t(i)];
    if (i == kept || slot.use == Use::Sequence)
      continue;
    if (slot.use == Use::Free || isStale(slot)) {
      best = i;
      break;
    }
    if (best == kNone || slot.used < slots_[size_t(best)].used)
      best = i;
  }
  if (best != kNone)
    slots_[size_t(best)] = {Use::Sequence};
  return best;
}

void StatePool::release(int32_t slot) {
  assert(slots_[size_t(slot)].use == Use::Sequence);
  slots_[size_t(slot)] = {};
}

int32_t StatePool::duplicate(int32_t slot) {
  int32_t other = allocate();
  if (other == kNone)
    return kNone;
  if (!copy(slot, other).isOk()) {
    release(other);
    return kNone;
  }
  slots_[size_t(other)].end = slots_[size_t(slot)].end;
  return other;
}

int32_t StatePool::take(int32_t page) {
  int32_t from = find(page);
  if (from == kNone)
    return kNone;
  slots_[size_t(from)].used = ++time_;
  int32_t own = allocateExcept(from);
  const int32_t end = slots_[size_t(from)].end;
  if (own == kNone)
    own = from;
  if (own != from && !copy(from, own).isOk()) {
    release(own);
    return kNone;
  }
  slots_[size_t(own)] = {.use = Use::Sequence, .end = end};
  return own;
}

Status StatePool::keep(int32_t slot, int32_t page) {
  if (int32_t known = find(page); known != kNone) {
    slots_[size_t(known)].used = ++time_;
    return Status::ok();
  }
  int32_t own = allocate();
  if (own == kNone)
    return Status::ok();
  if (Status copied = copy(slot, own); !copied.isOk()) {
    release(own);
    return copied;
  }
  slots_[size_t(own)] = {Use::Checkpoint, page, slots_[size_t(slot)].end,
                         pages_.generation(page), ++time_};
  return Status::ok();
}

Status StatePool::copy(int32_t from, int32_t to) const {
  for (const Layer &layer : layers_)
    MOE_RETURN_IF_ERROR(
        layer.device->copy(rowAt(layer.offset, layer.rowBytes, from),
                           rowAt(layer.offset, layer.rowBytes, to).offset));
  return Status::ok();
}

Status StatePool::read(int32_t slot, std::byte *out) const {
  for (const Layer &layer : layers_) {
    MOE_ASSIGN_OR_RETURN(
        std::span<const std::byte> bytes,
        layer.device->read(rowAt(layer.offset, layer.rowBytes, slot)));
    std::memcpy(out, bytes.data(), bytes.size());
    out += bytes.size();
  }
  return Status::ok();
}

Status StatePool::write(int32_t slot, const std::byte *from) const {
  for (const Layer &layer : layers_) {
    MOE_RETURN_IF_ERROR(layer.device->write(
        rowAt(layer.offset, layer.rowBytes, slot), {from, layer.rowBytes}));
    from += layer.rowBytes;
  }
  return Status::ok();
}

} // namespace moert
