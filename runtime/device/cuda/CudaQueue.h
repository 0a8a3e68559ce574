//===- CudaQueue.h - Runs a GPU queue's part of steps -----------*- C++ -*-===//
//
// A queue has a stream, and the parameters of its steps in the device's memory.
// A part without waits, signals and copies through a ring is launched by the
// thread that begins it. All others are launched by the queue's own thread: a
// driver's launch queue is finite, so a launch may last until the GPU has
// passed a wait for another device, which the thread that begins the step has
// still to begin; and copies wait for the threads that fill the ring. If the
// part's graph synchronises with other queues by itself (CudaSync), that thread
// then only watches for failures, which a graph cannot report to queues that
// wait for it. In all other cases, and in a part's first step, it waits for
// events of other queues on the host, launches segments, and signals events
// when the GPU has reached them.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDAQUEUE_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDAQUEUE_H

#include "runtime/device/Device.h"
#include "runtime/device/StepBlock.h"
#include "runtime/device/cuda/CudaLaunches.h"
#include "runtime/device/cuda/CudaRing.h"

#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace moert {

/// Names an instruction of the running phase, and the step.
using PlaceNamer = std::function<std::string(uint32_t instruction)>;

class CudaQueue {
public:
  /// Creates a queue for steps of a plan with `room` in the current context.
  /// `driver` and `context` must outlive it, and it must be destroyed in that
  /// context.
  static StatusOr<std::unique_ptr<CudaQueue>> create(const CudaDriver &driver,
                                                     const CudaContext &context,
                                                     StepRoom room,
                                                     CudaOptions options);
  ~CudaQueue();

  /// Sets the ring of parts that stream weights through one.
  void setRing(std::unique_ptr<CudaRing> ring) { ring_ = std::move(ring); }

  cu::Stream stream() const { return stream_.get(); }
  /// Address from which kernels read the step's parameters.
  cu::DevicePointer step() const { return step_.get(); }

  /// Copies the step's parameters to the device.
  Status send(const moek::Step &step);
  /// Captures the graph of a part that synchronises with other queues, unless
  /// it has one, in the first way that works from CudaOptions::sync on. All
  /// parts on this GPU must have run before, and none may be running: the
  /// driver may wait for the GPU.
  void prepare(CudaPart &part, PlaceNamer name);
  /// Begins `part` after all work that is on the stream. `part`, and what
  /// `control` points to, must live until end() returns.
  void begin(CudaPart &part, const StepControl &control, PlaceNamer name);
  /// Waits until the part has finished or was abandoned. If abandoned, all
  /// events were signalled (StepEvents::stop) and the stream has finished, too.
  Status end();

  /// Launches the launches of one instruction and waits for them.
  Status runAlone(const CudaPart &part, uint32_t instruction,
                  const PlaceNamer &name);

private:
  CudaQueue(const CudaDriver &driver, const CudaContext &context, StepRoom room,
            CudaOptions options)
      : driver_(driver), context_(context), room_(room),
        options_(std::move(options)) {}

  /// The work of the thread in one step: segment by segment, or the graph of
  /// all of them.
  enum class Task : uint8_t { None, Walk, Whole };
  void start(Task task);
  Status walk();
  Status runWhole();
  Status captureAll();
  /// Captures a segment's launches. The first and last of them wait and signal
  /// by themselves if they can; otherwise nodes before and after them do.
  Status captureSegment(const CudaSegment &segment);
  Status waitForQueues(const CudaSegment &segment);
  Status signalQueues(const CudaSegment &segment);
  Status callHost(uint32_t event, bool waits);
  /// Returns whether the step was abandoned before this queue began it.
  bool isGivenUp() const;
  Status run(CudaSegment &segment);
  /// Runs one instruction after another and waits for each, to measure times.
  Status runTimed(const CudaSegment &segment);
  Status launchGraph(cu::GraphExec graph);
  /// Captures the work that `record` puts on the stream as a graph.
  StatusOr<CudaOwned<cu::GraphExec>>
  capture(const std::function<Status()> &record);
  Status launchSegment(const CudaSegment &segment);
  /// Returns whether launch number `index` may begin while the launch before it
  /// ends. That must be a kernel of the same segment, not a copy.
  bool follows(const CudaSegment &segment, size_t index) const;
  /// `follows`: the launch may begin while the one before ends.
  Status launch(const CudaLaunch &launch, bool follows = false);
  /// Enqueues the copies through the ring that come before the launch.
  Status copyBefore(const CudaLaunch &launch);
  /// Waits for the stream: with a busy core if this is all that the process
  /// does meanwhile, otherwise asleep, because each core has a worker.
  Status synchronize();
  /// Adds the names of the first and last of `count` launches to an error.
  Status failed(Status status, size_t first, size_t count) const;

  const CudaDriver &driver_;
  const CudaContext &context_;
  const StepRoom room_;
  CudaOptions options_;
  CudaOwned<cu::DevicePointer> step_;
  CudaOwned<void *> pinnedStep_;
  CudaOwned<cu::Stream> stream_;
  /// Recorded where a thread waits for the stream without keeping a core busy.
  CudaOwned<cu::Event> reached_;
  std::unique_ptr<CudaRing> ring_; ///< Null: no part has copies.

  CudaPart *part_ = nullptr; ///< Null: no part has begun.
  StepControl control_;
  PlaceNamer name_;
  Status status_; ///< Status of begin() and of the thread's task.

  std::thread thread_; ///< Started when first needed.
  Event begun_, ended_;
  uint32_t ends_ = 0; ///< Value of ended_ before the running task ends.
  Task task_ = Task::None;
  bool isClosing_ = false;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDAQUEUE_H
