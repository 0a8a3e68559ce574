//===- StatePool.h - States of layers that do not cache rows ----*- C++ -*-===//
//
// Gated delta nets keep of a sequence not a row per token but a state of one
// size, which every token changes (kernels/KvCache.h). It cannot be rewound:
// the state after a shorter text is not in the one after a longer text. Layers
// whose tokens see a window keep a ring of rows, the sequence's last ones: that
// can be rewound by as many rows as the ring has more than the window. Where a
// plan has no other states, this is so for all of a slot.
//
// A plan has as many slots as sequences that run together, and some more. A
// slot is a row of every such layer, and is free, a sequence's, or a
// checkpoint: the state behind a full page of the KV cache. The page, with the
// generation that KvPool gives its rows, says after which tokens that is, so
// that a checkpoint needs no tokens of its own, and is worth nothing as soon as
// the page is.
//
// * A sequence's slot has the state after all its tokens, or holds() one that
//   goes on from there, or it has none.
//   Kernels read no state at position 0: an empty sequence needs no reset.
// * A fork copies the slot; where none is free it has none.
// * A prompt stops at the last page boundary before its last token, where a
//   checkpoint is kept in a slot that is free or was used longest ago. That is
//   one small step more for a prompt, which plans with rings alone need not
//   take: at the prompt's end a slot still holds what is needed from there on.
// * Who begins with the same tokens takes pages up to the last that has a
//   checkpoint, and a copy of that.
// * Rewinding gives the slot back, unless its rings still hold() what is
// needed.
//   So does a step that fails or is cancelled: nobody knows how far its layers
//   came.
// * Before a step, a sequence without a slot takes the last checkpoint among
//   its pages, or begins at zero, and evaluates again what is behind it
//   (Engine::catchUp). Nothing else makes a state: there is no way to a wrong
//   one.
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

  /// Of `plan`, whose devices are `devices`; all must outlive it.
  StatePool(const fb::Plan &plan, const Devices &devices, const KvPool &pages);

  int32_t slots() const { return int32_t(slots_.size()); }
  /// Of a slot, over all layers.
  size_t bytes() const { return bytes_; }

  /// A slot for a sequence, with anything in it; kNone where sequences have
  /// all. A checkpoint may go for it.
  int32_t allocate() { return allocateBeside(kNone); }
  void release(int32_t slot);
  /// One with the same state, or kNone.
  int32_t duplicate(int32_t slot);

  /// A step may write to a sequence's slot what comes before `end`.
  void grow(int32_t slot, int32_t end) {
    int32_t &most = slots_[size_t(slot)].end;
    most = std::max(most, end);
  }
  /// Whether a sequence of `position` tokens can go on with the slot, which was
  /// its state after them and has seen more of its text since.
  bool holds(int32_t slot, int32_t position) const {
    return slots_[size_t(slot)].end - position <= rewindable_;
  }
  /// Whether a slot holds() all that a sequence needs which goes on from its
  /// last full page: a prompt need not stop there for a checkpoint.
  bool holdsPages() const { return rewindable_ >= moek::kKvPage; }
  /// What was written to a slot is not known: no more than it holds for one of
  /// `position` tokens.
  void assume(int32_t slot, int32_t position) {
    slots_[size_t(slot)].end = position + rewindable_;
  }

  bool hasCheckpoint(int32_t page) const { return find(page) != kNone; }
  /// A slot for a sequence with the state behind `page`; kNone without a
  /// checkpoint of it. Where no other slot is left, the checkpoint itself.
  int32_t take(int32_t page);
  /// Keeps a copy of a sequence's state as the one behind `page`, if there is a
  /// slot for it.
  Status keep(int32_t slot, int32_t page);

  /// Its bytes(), layer after layer.
  Status read(int32_t slot, std::byte *out) const;
  Status write(int32_t slot, const std::byte *from) const;

private:
  enum class Use : uint8_t { Free, Sequence, Checkpoint };
  struct Slot {
    Use use = Use::Free;
    int32_t page = kNone; ///< Of a checkpoint.
    int32_t end = 0;      ///< Behind the last position that was written.
    uint64_t generation = 0, used = 0;
  };
  struct Layer {
    Device *device;
    uint64_t offset, rowBytes;
  };
  int32_t find(int32_t page) const;
  bool isStale(const Slot &slot) const;
  int32_t allocateBeside(int32_t kept);
  Status copy(int32_t from, int32_t to) const;

  const KvPool &pages_;
  std::vector<Layer> layers_;
  std::vector<Slot> slots_;
  size_t bytes_ = 0;
  /// Positions that may be written behind the last token of a sequence while
  /// its slot still has all that it sees.
  int32_t rewindable_ = 0;
  uint64_t time_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_CACHE_STATEPOOL_H
