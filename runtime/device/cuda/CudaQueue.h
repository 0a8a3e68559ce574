//===- CudaQueue.h - Runs a queue's part of steps ---------------*- C++ -*-===//
//
// A stream, and, for parts that wait for other queues, a thread: it waits for
// their events on the host, launches what may begin, and signals events when
// the GPU has come so far. Parts without events are launched by who begins
// them. From its second run on a segment is one graph.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDAQUEUE_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDAQUEUE_H

#include "runtime/device/Device.h"
#include "runtime/device/cuda/CudaLaunches.h"

#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace moert {

/// Names an instruction of the phase that runs, and the step.
using PlaceNamer = std::function<std::string(uint32_t instruction)>;

class CudaQueue {
public:
  /// In the context that is current. `driver` and `context` outlive it, and it
  /// ends in the context.
  static StatusOr<std::unique_ptr<CudaQueue>>
  create(const CudaDriver &driver, const CudaContext &context);
  ~CudaQueue();

  cu::Stream stream() const { return stream_.get(); }

  /// Begins `part`, behind all that the stream was given. `part`, and what
  /// `control` points to, live until end() returns.
  void begin(CudaPart &part, const StepControl &control, PlaceNamer name);
  /// When all is done, or given up: then events are stopped and the stream has
  /// come to its end all the same.
  Status end();

  /// Launches what `part` has of one instruction, and waits for it.
  Status runAlone(const CudaPart &part, uint32_t instruction,
                  const PlaceNamer &name);

private:
  CudaQueue(const CudaDriver &driver, const CudaContext &context)
      : driver_(driver), context_(context) {}

  Status walk();
  Status run(CudaSegment &segment);
  /// One instruction after the other, waiting for each.
  Status runTimed(const CudaSegment &segment);
  Status capture(CudaSegment &segment);
  Status launch(const CudaLaunch &launch);
  Status synchronize();
  Status failed(Status status, const CudaSegment &segment) const;

  const CudaDriver &driver_;
  const CudaContext &context_;
  CudaOwned<cu::Stream> stream_;

  CudaPart *part_ = nullptr; ///< Null: nothing was begun.
  StepControl control_;
  PlaceNamer name_;
  Status status_; ///< Of the walk.

  std::thread thread_; ///< Started when it is first needed.
  Event begun_, ended_;
  uint32_t ends_ = 0; ///< Of ended_, before the running walk ends.
  bool isWalkedByThread_ = false, isClosing_ = false;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDAQUEUE_H
