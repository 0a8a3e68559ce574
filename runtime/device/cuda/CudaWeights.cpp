#include "runtime/device/cuda/CudaWeights.h"

#include "kernels/cuda/Launch.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/plan/PlanAccess.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace moert {

namespace {
/// Number of buffers in the ring: while one is filled, the others are being
/// copied.
constexpr size_t kRing = 4;

/// Returns whether a GPU reads a weight in the host's memory.
bool isMapped(const fb::Plan &plan, const fb::Residency &residency) {
  if (residency.mode() != fb::ResidencyMode::Resident)
    return residency.mode() == fb::ResidencyMode::Pinned;
  return plan.devices()->Get(residency.device())->shares_memory() &&
         plan.weights()->Get(residency.weight())->offset() %
                 kInPlaceAlignment ==
             0;
}
} // namespace

CudaWeights::CudaWeights(const fb::Plan &plan, uint32_t device)
    : offsets_(count(plan.weights()), kAbsent) {
  struct Resident {
    uint32_t weight, file;
    Extent extent;
  };
  std::vector<Resident> resident;
  for (uint32_t i = 0; i < count(plan.residency()); ++i) {
    const fb::Residency &r = *plan.residency()->Get(i);
    if (r.device() == device && isStreamed(r.mode()))
      streamed_[r.weight()] = r.mode();
    if (r.device() != device || r.mode() != fb::ResidencyMode::Resident ||
        isMapped(plan, r))
      continue;
    const fb::Weight &w = *plan.weights()->Get(r.weight());
    resident.push_back({r.weight(), w.file(), extentOf(w)});
  }
  std::ranges::sort(resident, {}, [](const Resident &r) {
    return std::pair(r.file, r.extent.offset);
  });
  for (const Resident &r : resident) {
    if (ranges_.empty() || ranges_.back().file != r.file ||
        ranges_.back().extent.end() <= r.extent.offset) {
      bytes_ = alignUp(bytes_, kCudaAlignment);
      ranges_.push_back({r.file, r.extent, bytes_});
    }
    Range &range = ranges_.back();
    uint64_t end = std::max(range.extent.end(), r.extent.end());
    range.extent.bytes = end - range.extent.offset;
    bytes_ = range.offset + range.extent.bytes;
    offsets_[r.weight] = range.offset + (r.extent.offset - range.extent.offset);
  }
  findMapped(plan, device);
}

void CudaWeights::findMapped(const fb::Plan &plan, uint32_t device) {
  std::vector<Mapped> all;
  for (uint32_t i = 0; i < count(plan.residency()); ++i) {
    const fb::Residency &r = *plan.residency()->Get(i);
    if (!isMapped(plan, r))
      continue;
    const fb::Weight &w = *plan.weights()->Get(r.weight());
    Extent extent = extentOf(w);
    all.push_back({w.file(),
                   extent.offset / kPinnedPage * kPinnedPage,
                   extent.end(),
                   {}});
    if (r.device() == device)
      all.back().weights.push_back(r.weight());
  }
  std::ranges::sort(all, {}, [](const Mapped &piece) {
    return std::pair(piece.file, piece.begin);
  });
  for (Mapped &piece : all) {
    if (mapped_.empty() || mapped_.back().file != piece.file ||
        alignUp(mapped_.back().end, kPinnedPage) <= piece.begin) {
      mapped_.push_back(std::move(piece));
      continue;
    }
    Mapped &last = mapped_.back();
    last.end = std::max(last.end, piece.end);
    last.weights.insert(last.weights.end(), piece.weights.begin(),
                        piece.weights.end());
  }
  std::erase_if(mapped_,
                [](const Mapped &piece) { return piece.weights.empty(); });
}

CudaWeights::Streaming
CudaWeights::streamingOf(const fb::Plan &plan,
                         const fb::Instruction &instruction) const {
  Streaming result;
  int64_t bytes = 0;
  for (const fb::Operand *operand : *instruction.operands())
    if (auto how = streamed_.find(operand->index());
        operand->kind() == fb::OperandKind::Weight && how != streamed_.end()) {
      const fb::Weight *weight = plan.weights()->Get(operand->index());
      result.weights.push_back(weight);
      result.experts = weight->outer();
      result.pinned = how->second == fb::ResidencyMode::Pinned;
      bytes += weight->outer() * weight->outer_stride();
    }
  if (!result.weights.empty())
    result.parts = moek::cuda::streamedParts(bytes, result.experts);
  return result;
}

std::vector<uint32_t> CudaWeights::throughRing() const {
  std::vector<uint32_t> weights;
  for (auto [weight, mode] : streamed_)
    if (mode == fb::ResidencyMode::Streamed)
      weights.push_back(weight);
  return weights;
}

Status CudaWeights::upload(const CudaDriver &driver, const CudaContext &context,
                           cu::Stream stream, const WeightFiles &files,
                           cu::DevicePointer to, std::string_view name,
                           const LoadProgress &progress,
                           uint64_t ringBytes) const {
  struct Slot {
    CudaOwned<void *> memory;
    CudaOwned<cu::Event> free;
    bool isUsed = false;
  };
  uint64_t each = std::min(ringBytes, bytes_);
  std::array<Slot, kRing> ring;
  size_t next = 0;
  uint64_t done = 0, all = 0;
  for (const Range &range : ranges_)
    all += range.extent.bytes;
  for (const Range &range : ranges_)
    for (uint64_t at = 0; at < range.extent.bytes;) {
      uint64_t bytes = std::min(each, range.extent.bytes - at);
      Slot &slot = ring[next++ % kRing];
      if (!slot.isUsed) {
        MOE_ASSIGN_OR_RETURN(slot.memory, context.allocatePinned(each));
        MOE_ASSIGN_OR_RETURN(slot.free,
                             context.createEvent(cu::kEventDisableTiming));
        slot.isUsed = true;
      } else {
        MOE_RETURN_IF_ERROR(
            driver.check(driver.api().cuEventSynchronize(slot.free.get()),
                         "copying weights to the GPU"));
      }
      MOE_RETURN_IF_ERROR(
          files.read(range.file, range.extent.offset + at,
                     {static_cast<uint8_t *>(slot.memory.get()), bytes}));
      MOE_RETURN_IF_ERROR(driver.check(
          driver.api().cuMemcpyHtoDAsync_v2(to + range.offset + at,
                                            slot.memory.get(), bytes, stream),
          "copying weights to the GPU"));
      MOE_RETURN_IF_ERROR(
          driver.check(driver.api().cuEventRecord(slot.free.get(), stream),
                       "copying weights to the GPU"));
      at += bytes;
      done += bytes;
      if (progress)
        progress(name, done, all);
    }
  return driver.check(driver.api().cuStreamSynchronize(stream),
                      "copying weights to the GPU");
}

} // namespace moert
