//===- StatePool.h - States of recurrent and windowed layers ----*- C++ -*-===//
//
// For each sequence a gated delta net keeps one state of fixed size instead of
// a row per token; every token changes it (kernels/KvCache.h). It cannot be
// rewound: the state after a longer text does not contain the state after a
// shorter one. A layer with windowed attention keeps a ring buffer with the
// last rows of the sequence. A ring can be rewound by as many rows as it has
// beyond the window. If a plan has rings but no other states, whole slots can
// be rewound that far.
//
// A plan has as many slots as sequences that run together, and some more. A
// slot has room for one state of every such layer. It is free, belongs to a
// sequence, or is a checkpoint: the state after the last token of a full page
// of the KV cache. The page, with its generation in KvPool, identifies the
// tokens, so a checkpoint stores no tokens of its own and becomes invalid with
// its page.
//
// * A sequence's slot has the state after all its tokens, or holds() enough to
//   continue from there; or the sequence has no slot. Kernels read no state at
//   position 0, so an empty sequence needs no reset.
// * A fork copies the slot. If no slot is free, the fork has none.
// * A step ends at the last page boundary before the last token of a prompt,
//   and the state there is kept as a checkpoint, in a free slot or the least
//   recently used checkpoint's. This costs a prompt one small step more. Plans
//   that have only rings need no such step: at the prompt's end, a slot still
//   holds the rows needed to continue from the boundary.
// * A sequence with the same prefix reuses pages up to the last one that has a
//   checkpoint, and gets a copy of that checkpoint.
// * Rewinding releases the slot unless its rings still hold() what is needed.
//   So does a step that fails or is cancelled, because it is unknown which
//   layers had already run.
// * Before a step, a sequence without a slot takes the last checkpoint among
//   its pages, or starts from zero, and evaluates the tokens after it again
//   (Engine::restoreState). States are made in no other way, so none can be
//   wrong.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CACHE_STATEPOOL_H
#define MOE_RUNTIME_CACHE_STATEPOOL_H

#include "kernels/KvCache.h"
#include "runtime/base/Status.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace moert {

class Device;
class Devices;
class KvPool;
namespace fb {
struct Plan;
} // namespace fb

class StatePool {
public:
  static constexpr int32_t kNone = -1;

  /// Slots for the states of `plan`, which lie in the memory of `devices`. All
  /// arguments must outlive the pool.
  StatePool(const fb::Plan &plan, const Devices &devices, const KvPool &pages);

  int32_t slots() const { return int32_t(slots_.size()); }
  /// Returns the bytes of one slot in all layers.
  size_t bytes() const { return bytes_; }

  /// Returns a slot with undefined contents for a sequence, possibly that of a
  /// checkpoint, or kNone if sequences hold all slots.
  int32_t allocate() { return allocateExcept(kNone); }
  void release(int32_t slot);
  /// Returns a slot with a copy of the state, or kNone.
  int32_t duplicate(int32_t slot);

  /// Records that a step may write positions up to `end` to a sequence's slot.
  void grow(int32_t slot, int32_t end) {
    int32_t &most = slots_[size_t(slot)].end;
    most = std::max(most, end);
  }
  /// Returns whether a sequence of `position` tokens can continue with the
  /// slot, which had its state after these tokens and has seen more of its text
  /// since.
  bool holds(int32_t slot, int32_t position) const {
    return slots_[size_t(slot)].end - position <= rewindable_;
  }
  /// Returns whether a slot at the end of a prompt holds() what is needed to
  /// continue from the last full page; no step then has to end there for a
  /// checkpoint.
  bool holdsWholePages() const { return rewindable_ >= moek::kKvPage; }
  /// Records that the slot was overwritten with the state after `position`
  /// tokens, and assumes that it holds no more than a sequence of this length
  /// needs.
  void assume(int32_t slot, int32_t position) {
    slots_[size_t(slot)].end = position + rewindable_;
  }

  bool hasCheckpoint(int32_t page) const { return find(page) != kNone; }
  /// Returns a slot with the state after `page`, for a sequence, or kNone if
  /// there is no such checkpoint. If no other slot is left, returns the
  /// checkpoint's own.
  int32_t take(int32_t page);
  /// Keeps a copy of a sequence's state as the checkpoint of `page`, if a slot
  /// is available.
  Status keep(int32_t slot, int32_t page);

  /// Copies the bytes() of a slot to `out`, one layer after another.
  Status read(int32_t slot, std::byte *out) const;
  Status write(int32_t slot, const std::byte *from) const;

private:
  enum class Use : uint8_t { Free, Sequence, Checkpoint };
  struct Slot {
    Use use = Use::Free;
    int32_t page = kNone; ///< The page of a checkpoint.
    int32_t end = 0; ///< The position after the last token that was written.
    uint64_t generation = 0, used = 0;
  };
  struct Layer {
    Device *device;
    uint64_t offset, rowBytes;
  };
  int32_t find(int32_t page) const;
  bool isStale(const Slot &slot) const;
  int32_t allocateExcept(int32_t kept);
  Status copy(int32_t from, int32_t to) const;

  const KvPool &pages_;
  std::vector<Layer> layers_;
  std::vector<Slot> slots_;
  size_t bytes_ = 0;
  /// Number of positions after a sequence's last token that may be written
  /// while its slot still has all rows that the sequence needs.
  int32_t rewindable_ = 0;
  uint64_t time_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_CACHE_STATEPOOL_H
