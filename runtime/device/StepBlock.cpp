#include "runtime/device/StepBlock.h"

#include "kernels/KvCache.h"
#include "runtime/plan/PlanAccess.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace moert {

namespace {
/// Offsets of the parts of a block.
constexpr uint64_t kSequencesAt = 64;
uint64_t pagesAt(StepRoom room) {
  return kSequencesAt + uint64_t(room.sequences) * sizeof(moek::SequenceRows);
}
static_assert(sizeof(moek::Step) <= kSequencesAt);

template <class T> const T *pointerTo(uint64_t address) {
  return reinterpret_cast<const T *>(uintptr_t(address));
}
} // namespace

StepRoom StepRoom::of(const fb::Plan &plan) {
  StepRoom room;
  for (const fb::Phase *phase : *plan.phases())
    room.sequences = std::max<int64_t>(room.sequences, phase->max_tokens());
  room.sequences = std::min<int64_t>(room.sequences, kMaxSequences);
  room.pages = room.sequences * kvPagesOf(plan.context());
  return room;
}

uint64_t StepRoom::bytes() const {
  return pagesAt(*this) + uint64_t(pages) * sizeof(int32_t);
}

uint64_t writeStepBlock(const moek::Step &step, StepRoom room,
                        std::byte *memory, uint64_t address) {
  moek::Step block = step;
  uint64_t end = sizeof(block);
  if (step.sequences) {
    assert(step.sequenceCount <= room.sequences &&
           "the engine limits the number of sequences");
    block.sequences = pointerTo<moek::SequenceRows>(address + kSequencesAt);
    end = pagesAt(room);
    for (int32_t i = 0; i < step.sequenceCount; ++i) {
      moek::SequenceRows rows = step.sequences[i];
      if (rows.pages) {
        size_t bytes = size_t(kvPagesOf(int64_t(rows.position) + rows.count)) *
                       sizeof(int32_t);
        assert(end + bytes <= room.bytes() && "within the context");
        std::memcpy(memory + end, rows.pages, bytes);
        rows.pages = pointerTo<int32_t>(address + end);
        end += bytes;
      }
      std::memcpy(memory + kSequencesAt + size_t(i) * sizeof(rows), &rows,
                  sizeof(rows));
    }
  }
  std::memcpy(memory, &block, sizeof(block));
  return end;
}

} // namespace moert
