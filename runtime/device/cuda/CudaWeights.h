//===- CudaWeights.h - Weights in a GPU's memory ----------------*- C++ -*-===//
//
// Where the weights that are resident on a device lie in one piece of its
// memory, and how they come there: through a ring of pinned buffers, so that
// reading a file, and the link to the GPU work at the
// same time. Bytes that weights share, such as two views of one tensor, are
// there once.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDAWEIGHTS_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDAWEIGHTS_H

#include "runtime/device/Device.h"
#include "runtime/device/cuda/CudaContext.h"
#include "runtime/plan/WeightFiles.h"
#include "runtime/schema/plan_generated.h"

#include <vector>

namespace moert {

/// As cuMemAlloc() aligns.
inline constexpr uint64_t kCudaAlignment = 256;
/// Of host memory, as drivers pin it.
inline constexpr uint64_t kPinnedPage = 4096;

/// Places of a device's resident weights, and which are streamed to it.
class CudaWeights {
public:
  CudaWeights(const fb::Plan &plan, uint32_t device);

  /// Of all of them.
  uint64_t bytes() const { return bytes_; }
  bool has(uint32_t weight) const { return offsets_[weight] != kAbsent; }
  /// Of a weight of the plan that is there.
  uint64_t offset(uint32_t weight) const { return offsets_[weight]; }

  /// A piece of a file with weights that are streamed.
  struct Streamed {
    uint32_t file;
    uint64_t begin, end;           ///< Bytes of the file, `begin` at a page.
    std::vector<uint32_t> weights; ///< To this device.
  };
  /// Those with weights for this device, which share no pages and are the same
  /// for all GPUs of the plan.
  const std::vector<Streamed> &streamed() const { return streamed_; }

  /// Of a buffer of the ring. Of 8 MiB the 10 us that a copy takes to begin are
  /// 3 % at 26 GB/s.
  static constexpr uint64_t kRingBytes = uint64_t(8) << 20;

  /// Copies all to `to` in the context that is current, on `stream`; they are
  /// there when it returns. `progress` may be null.
  Status upload(const CudaDriver &driver, const CudaContext &context,
                cu::Stream stream, const WeightFiles &files,
                cu::DevicePointer to, std::string_view name,
                const LoadProgress &progress,
                uint64_t ringBytes = kRingBytes) const;

private:
  static constexpr uint64_t kAbsent = UINT64_MAX;
  /// Of a file.
  struct Range {
    uint32_t file;
    Extent extent;
    uint64_t offset; ///< In the device's memory.
  };

  void findStreamed(const fb::Plan &plan, uint32_t device);

  std::vector<Range> ranges_;
  std::vector<Streamed> streamed_;
  std::vector<uint64_t> offsets_; ///< By weight of the plan.
  uint64_t bytes_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDAWEIGHTS_H
