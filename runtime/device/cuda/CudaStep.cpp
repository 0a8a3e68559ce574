#include "runtime/device/cuda/CudaStep.h"

#include "kernels/cuda/Abi.h"
#include "runtime/plan/PlanAccess.h"

#include <cassert>
#include <cstring>

namespace moert {

static_assert(moek::cuda::kMaxSequences == kMaxSequences);

uint64_t cudaStepBytes(StepRoom room) {
  return sizeof(moek::cuda::Step) + uint64_t(room.pages) * sizeof(int32_t);
}

uint64_t writeCudaStep(const moek::Step &step, [[maybe_unused]] StepRoom room,
                       std::byte *memory, uint64_t address) {
  moek::cuda::Step block{};
  block.tokens = step.tokens;
  block.sequences = step.sequenceCount;
  assert(step.sequenceCount <= room.sequences && "the engine sees to it");
  uint64_t end = sizeof(block);
  for (int32_t i = 0; i < step.sequenceCount; ++i) {
    moek::SequenceRows rows = step.sequence(i);
    const int *pages = nullptr;
    if (rows.pages) {
      size_t bytes = size_t(kvPagesOf(int64_t(rows.position) + rows.count)) *
                     sizeof(int32_t);
      assert(end + bytes <= cudaStepBytes(room) && "within the context");
      std::memcpy(memory + end, rows.pages, bytes);
      pages = reinterpret_cast<const int *>(uintptr_t(address + end));
      end += bytes;
    }
    block.sequence[i] = {rows.begin, rows.count, rows.position, rows.state,
                         pages};
  }
  std::memcpy(memory, &block, sizeof(block));
  return end;
}

} // namespace moert
