//===- CudaQueue.h - Runs a queue's part of steps ---------------*- C++ -*-===//
//
// A stream, and the parameters of its steps in the device's memory. A part that
// nobody waits for, and that waits for nobody, is launched by who begins it.
// So is one that meets others by what its graph executes (CudaMeeting); a
// thread then only watches for a failure, of which the graph could not tell who
// waits for it. Else, and in a part's first step, that thread walks: it waits
// for others' events on the host, launches what may begin, and signals events
// when the GPU has come so far.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_DEVICE_CUDA_CUDAQUEUE_H
#define MOE_RUNTIME_DEVICE_CUDA_CUDAQUEUE_H

#include "runtime/device/Device.h"
#include "runtime/device/StepBlock.h"
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
  /// For steps of a plan with `room`, in the context that is current. `driver`
  /// and `context` outlive it, and it ends in the context.
  static StatusOr<std::unique_ptr<CudaQueue>>
  create(const CudaDriver &driver, const CudaContext &context, StepRoom room);
  ~CudaQueue();

  cu::Stream stream() const { return stream_.get(); }
  /// Where kernels find their step.
  cu::DevicePointer step() const { return step_.get(); }

  /// Sends the step's parameters to the device.
  Status send(const moek::Step &step);
  /// Makes one graph of a part that meets others, if it has none, in the first
  /// way that the driver knows. All parts on this GPU ran before, and none
  /// runs: a driver may wait for the GPU meanwhile.
  Status prepare(CudaPart &part, PlaceNamer name);
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
  CudaQueue(const CudaDriver &driver, const CudaContext &context, StepRoom room)
      : driver_(driver), context_(context), room_(room) {}

  /// What the thread does of a step.
  enum class Task : uint8_t { None, Walk, Watch };
  void start(Task task);
  Status walk();
  Status watch();
  Status captureAll();
  /// A segment's launches, the first and the last of which meet others where
  /// they can, with nodes before and behind them where not.
  Status captureSegment(const CudaSegment &segment);
  Status awaitOthers(const CudaSegment &segment);
  Status tellOthers(const CudaSegment &segment);
  Status callHost(uint32_t event, bool waits);
  /// Whether the step is given up before it began here.
  bool isGivenUp() const;
  Status run(CudaSegment &segment);
  /// One instruction after the other, waiting for each.
  Status runTimed(const CudaSegment &segment);
  Status launchGraph(cu::GraphExec graph);
  /// What `record` puts on the stream, as a graph.
  StatusOr<CudaOwned<cu::GraphExec>>
  capture(const std::function<Status()> &record);
  Status launchSegment(const CudaSegment &segment);
  Status launch(const CudaLaunch &launch);
  Status synchronize();
  /// Names the first and the last of `count` launches.
  Status failed(Status status, size_t first, size_t count) const;

  const CudaDriver &driver_;
  const CudaContext &context_;
  const StepRoom room_;
  CudaOwned<cu::DevicePointer> step_;
  CudaOwned<void *> pinnedStep_;
  CudaOwned<cu::Stream> stream_;

  CudaPart *part_ = nullptr; ///< Null: nothing was begun.
  StepControl control_;
  PlaceNamer name_;
  Status status_; ///< Of beginning, and of the thread's task.

  std::thread thread_; ///< Started when it is first needed.
  Event begun_, ended_;
  uint32_t ends_ = 0; ///< Of ended_, before the running task ends.
  Task task_ = Task::None;
  bool isClosing_ = false;
};

} // namespace moert

#endif // MOE_RUNTIME_DEVICE_CUDA_CUDAQUEUE_H
