#include "runtime/device/cuda/CudaNeed.h"

#include "kernels/Activation.h"
#include "kernels/cuda/Launch.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/device/StepBlock.h"
#include "runtime/device/cuda/CudaStep.h"
#include "runtime/device/cuda/CudaWeights.h"
#include "runtime/device/cuda/RingShape.h"
#include "runtime/plan/PlanAccess.h"

#include <algorithm>

namespace moert {

namespace {
/// Minimum size of the staging buffer.
constexpr uint64_t kLeastStaging = uint64_t(1) << 20;

/// Returns the largest of the phases' inputs and outputs on the device.
uint64_t largestInOut(const fb::Plan &plan, uint32_t device) {
  uint64_t most = 0;
  for (const fb::Phase *phase : *plan.phases())
    for (int64_t number : {int64_t(phase->input()), int64_t(phase->hidden()),
                           int64_t(phase->output())}) {
      if (number < 0)
        continue;
      const fb::Buffer &buffer = *phase->buffers()->Get(uint32_t(number));
      if (buffer.device() != device)
        continue;
      int64_t rows =
          buffer.rows_per_token() * phase->max_tokens() + buffer.fixed_rows();
      most =
          std::max(most, uint64_t(rows * moek::encodedRowBytes(
                                             moek::Encoding(buffer.encoding()),
                                             buffer.cols())));
    }
  return most;
}

uint64_t constantBytes(const fb::Plan &plan) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < count(plan.constants()); ++i)
    bytes += alignUp(count(plan.constants()->Get(i)->values()) * sizeof(float),
                     kCudaAlignment);
  return bytes;
}

/// Returns the bytes of slots for the weights that an instruction streams.
uint64_t slotsOf(const CudaWeights::Streaming &streaming) {
  int64_t slots = 0;
  for (const fb::Weight *weight : streaming.weights)
    slots +=
        2 * moek::cuda::slotBytes(weight->outer_stride(),
                                  (streaming.experts + streaming.parts - 1) /
                                      streaming.parts);
  return uint64_t(slots);
}
} // namespace

CudaNeed cudaNeed(const fb::Plan &plan, uint32_t device) {
  const fb::Device &table = *plan.devices()->Get(device);
  CudaWeights weights(plan, device);
  CudaNeed need;
  need.weights = weights.bytes();
  need.kv = table.kv_bytes();
  need.activations = table.arena_bytes();
  need.workspace = table.workspace_bytes();
  need.constants = constantBytes(plan);
  need.steps =
      uint64_t(std::ranges::count(*plan.queues(), device, &fb::Queue::device)) *
      cudaStepBytes(StepRoom::of(plan));
  need.staging = std::max(kLeastStaging, largestInOut(plan, device));
  for (const CudaWeights::Mapped &piece : weights.mapped())
    need.mapped += alignUp(piece.end, kPinnedPage) - piece.begin;
  for (const auto &[queue, ring] : ringsOf(plan, device))
    need.rings += ring.bytes();
  for (const fb::Phase *phase : *plan.phases())
    for (uint32_t i = 0; i < count(phase->instructions()); ++i)
      if (const fb::Instruction &one = *phase->instructions()->Get(i);
          deviceOf(plan, one) == device)
        need.slots =
            std::max(need.slots, slotsOf(weights.streamingOf(plan, one)));
  return need;
}

} // namespace moert
