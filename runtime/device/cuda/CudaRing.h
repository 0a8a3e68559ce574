//===- CudaRing.h - Streams weights through pinned memory -------*- C++ -*-===//
//
// A GPU copies at the full speed of its link only from pinned memory, and
// weights are in files that the system maps. Threads of the host copy them to
// the slots of a ring of pinned memory, in the order in which the step's
// launches need them; the GPU copies each slot to its memory, on a stream of
// the ring's own, while launches multiply what came before:
//
//   threads    wait until the slot's last copy has ended, and fill it
//   bring()    waits for filled slots, and enqueues their copies
//   copies     wait for the launches that read what they overwrite
//   launches   wait for their copies
//
// The threads run ahead of the launches by the size of the ring. Who waits for
// whom is decided on the host between single launches, so that launches with
// copies are in no graph.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDARING_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDARING_H

#include "kernels/cuda/Launch.h"
#include "runtime/device/cpu/WorkerPool.h"
#include "runtime/device/cuda/CudaContext.h"
#include "runtime/device/cuda/RingShape.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace moert {

class CudaRing {
public:
  /// Creates a ring of `shape`, or a smaller one if the system does not pin so
  /// much memory, which `threads` threads fill. It must be destroyed in the
  /// current context; `driver` and `context` must outlive it. Fails with
  /// DoesNotFit if the system pins less than kLeastBytes.
  static StatusOr<std::unique_ptr<CudaRing>> create(const CudaDriver &driver,
                                                    const CudaContext &context,
                                                    RingShape shape,
                                                    int threads);
  ~CudaRing() { stop(); }

  static constexpr uint64_t kLeastBytes = uint64_t(2) << 20;
  const RingShape &shape() const { return shape_; }

  /// Begins to fill slots with these copies, in this order. `copies` must live
  /// until end() returns.
  Status begin(std::span<const moek::cuda::HostCopy> copies);
  /// Enqueues the next copies, those before a launch, and makes `stream` wait
  /// for them. They wait for what is on `stream` now or, unless `first`, for
  /// what was there before the last call.
  Status bring(size_t copies, bool first, cu::Stream stream);
  /// Ends the filling, even if copies are left, and waits for those enqueued.
  Status end();

private:
  /// What fits into a slot.
  using Piece = moek::cuda::HostCopy;

  CudaRing(const CudaDriver &driver, const CudaContext &context,
           RingShape shape)
      : driver_(driver), context_(context), shape_(shape) {}
  std::byte *slot(size_t piece) const {
    return static_cast<std::byte *>(memory_.get()) +
           piece % shape_.slots * shape_.slotBytes;
  }
  void fill();
  void stop();
  Status check(cu::Result result) const;

  const CudaDriver &driver_;
  const CudaContext &context_;
  RingShape shape_;
  CudaOwned<void *> memory_;
  CudaOwned<cu::Stream> stream_; ///< Of the copies.
  /// By slot: its copy has ended.
  std::vector<CudaOwned<cu::Event>> copied_;
  /// What later copies overwrite is no longer read; copies have ended.
  CudaOwned<cu::Event> free_, landed_;
  std::unique_ptr<WorkerPool> pool_;

  std::vector<Piece> pieces_;     ///< Of the step.
  std::vector<size_t> pieceEnds_; ///< By copy, in pieces_.
  size_t copy_ = 0;               ///< The next one to be enqueued.
  std::thread thread_;            ///< Fills slots, with pool_.

  std::mutex mutex_; ///< Guards what follows.
  std::condition_variable changed_;
  size_t filled_ = 0, enqueued_ = 0; ///< Pieces.
  bool isStopped_ = false;
  Status failure_; ///< Of the thread.
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDARING_H
