//===- CudaWeights.h - Weights in a GPU's memory ----------------*- C++ -*-===//
//
// Lays out the weights that are resident on a device in one block of its
// memory, and copies them there through a ring of pinned buffers, so that
// reading the file and copying to the GPU overlap. Bytes that weights share,
// such as two views of one tensor, are stored once. A GPU that shares the
// host's memory reads them there: none are copied but those that begin where
// its kernels cannot read.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDAWEIGHTS_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDAWEIGHTS_H

#include "runtime/device/Device.h"
#include "runtime/device/cuda/CudaContext.h"
#include "runtime/plan/WeightFiles.h"
#include "runtime/schema/plan_generated.h"

#include <map>
#include <vector>

namespace moert {

/// Alignment of cuMemAlloc().
inline constexpr uint64_t kCudaAlignment = 256;
/// Pages of host memory, as drivers pin it.
inline constexpr uint64_t kPinnedPage = 4096;

/// Least alignment of weights that a GPU reads in the host's memory, as that of
/// GGUF files usually is: a multiple of what any load of a kernel needs.
inline constexpr uint64_t kInPlaceAlignment = 32;

/// Offsets of a device's resident weights, and the weights that it reads in the
/// host's memory.
class CudaWeights {
public:
  CudaWeights(const fb::Plan &plan, uint32_t device);

  /// Bytes of the block with resident weights.
  uint64_t bytes() const { return bytes_; }
  bool has(uint32_t weight) const { return offsets_[weight] != kAbsent; }
  /// Returns the offset of a weight of the plan in the block.
  uint64_t offset(uint32_t weight) const { return offsets_[weight]; }

  /// A range of a file with weights that the device reads in host memory.
  struct Mapped {
    uint32_t file;
    uint64_t begin, end; ///< Bytes of the file; `begin` is page-aligned.
    /// Weights that this device copies from the range itself, or reads in it
    /// because it shares the host's memory.
    std::vector<uint32_t> weights;
  };
  /// Returns the ranges with weights for this device. Ranges share no pages and
  /// are the same for all GPUs of the plan.
  const std::vector<Mapped> &mapped() const { return mapped_; }

  /// How the weights of an instruction are streamed.
  struct Streaming {
    std::vector<const fb::Weight *> weights; ///< Empty: they are not.
    int64_t experts = 0;
    int32_t parts = 0;   ///< Number of parts in which they are copied.
    bool pinned = false; ///< The GPU reads them in the host's memory.
  };
  Streaming streamingOf(const fb::Plan &plan,
                        const fb::Instruction &instruction) const;
  /// Returns the weights that the device streams through a ring.
  std::vector<uint32_t> throughRing() const;

  /// Bytes of a buffer in the ring. At 8 MiB, the 10 us that a copy takes to
  /// start are 3 % of its 323 us at 26 GB/s.
  static constexpr uint64_t kRingBytes = uint64_t(8) << 20;

  /// Copies all resident weights to `to` on `stream`, in the current context,
  /// and waits for the end. `progress` may be null.
  Status upload(const CudaDriver &driver, const CudaContext &context,
                cu::Stream stream, const WeightFiles &files,
                cu::DevicePointer to, std::string_view name,
                const LoadProgress &progress,
                uint64_t ringBytes = kRingBytes) const;

private:
  static constexpr uint64_t kAbsent = UINT64_MAX;
  /// A range of a file.
  struct Range {
    uint32_t file;
    Extent extent;
    uint64_t offset; ///< Offset in the device's memory.
  };

  void findMapped(const fb::Plan &plan, uint32_t device);

  std::vector<Range> ranges_;
  std::map<uint32_t, fb::ResidencyMode> streamed_; ///< By weight of the plan.
  std::vector<Mapped> mapped_;
  std::vector<uint64_t> offsets_; ///< By weight of the plan.
  uint64_t bytes_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDAWEIGHTS_H
