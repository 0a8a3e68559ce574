#include "runtime/device/cuda/CudaQueue.h"

#include "kernels/cuda/Fuse.h"
#include "runtime/device/cuda/CudaStep.h"

#include <chrono>
#include <cstddef>
#include <fmt/format.h>
#include <utility>

namespace moert {

// waitForQueues() copies the board's tokens and sequences over the Step's.
static_assert(offsetof(moek::cuda::Step, tokens) == 0 &&
              offsetof(moek::cuda::Step, sequences) == 4 &&
              StepEvents::kLateOffset == 8);

namespace {
using Clock = std::chrono::steady_clock;

Status lacking(std::string_view symbol) {
  return Status(StatusCode::Unsupported,
                fmt::format("the driver has no {}", symbol));
}

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}
} // namespace

StatusOr<std::unique_ptr<CudaQueue>>
CudaQueue::create(const CudaDriver &driver, const CudaContext &context,
                  StepRoom room, CudaOptions options) {
  std::unique_ptr<CudaQueue> queue(
      new CudaQueue(driver, context, room, std::move(options)));
  MOE_ASSIGN_OR_RETURN(queue->stream_, context.createStream());
  MOE_ASSIGN_OR_RETURN(queue->step_, context.allocate(cudaStepBytes(room)));
  MOE_ASSIGN_OR_RETURN(queue->pinnedStep_,
                       context.allocatePinned(cudaStepBytes(room)));
  MOE_ASSIGN_OR_RETURN(
      queue->reached_,
      context.createEvent(cu::kEventBlockingSync | cu::kEventDisableTiming));
  return queue;
}

CudaQueue::~CudaQueue() {
  if (!thread_.joinable())
    return;
  isClosing_ = true;
  begun_.advance();
  thread_.join();
}

Status CudaQueue::send(const moek::Step &step) {
  auto *pinned = static_cast<std::byte *>(pinnedStep_.get());
  uint64_t bytes = writeCudaStep(step, room_, pinned, step_.get());
  return driver_.check(
      driver_.api().cuMemcpyHtoDAsync_v2(step_.get(), pinned, bytes, stream()),
      "sending a step's parameters");
}

void CudaQueue::prepare(CudaPart &part, PlaceNamer name) {
  if (!part.events || part.graph.get() || part.isWalked)
    return;
  part_ = &part;
  name_ = std::move(name);
  part.sync = options_.sync;
  Status failed; // The first one.
  while (!part.graph.get() && part.sync != CudaSync::Walk) {
    Status status;
    if (part.sync == CudaSync::HostFunctions && !part.isOnly)
      status =
          Status(StatusCode::Unsupported,
                 "host functions of several queues may wait for each other");
    else
      status = captureAll();
    if (status.isOk())
      break;
    // A driver may refuse such edges of a graph; then it is tried without.
    if (std::exchange(options_.overlapsLaunches, false))
      continue;
    if (failed.isOk())
      failed = std::move(status);
    part.sync = part.sync == CudaSync::Flags && part.isOnly
                    ? CudaSync::HostFunctions
                    : CudaSync::Walk;
  }
  part.isWalked = part.sync == CudaSync::Walk;
  if (!failed.isOk() && options_.note)
    options_.note(fmt::format(
        "in a step it waits for the other devices by {}, which takes longer, "
        "because flags in memory failed: {}",
        part.isWalked ? "a thread of the host" : "calling the host",
        failed.message()));
  part_ = nullptr;
}

void CudaQueue::begin(CudaPart &part, const StepControl &control,
                      PlaceNamer name) {
  part_ = &part;
  control_ = control;
  name_ = std::move(name);
  status_ = Status::ok();
  task_ = Task::None;
  if (!part.events && part.copies.empty())
    status_ = walk();
  else // Times are measured per instruction, which a graph does not allow.
    start(part.graph.get() && control.times.empty() ? Task::Whole : Task::Walk);
}

void CudaQueue::start(Task task) {
  task_ = task;
  ends_ = ended_.value();
  if (!thread_.joinable())
    thread_ = std::thread([this, seen = begun_.value()]() mutable {
      StatusOr<CudaContext::Use> use = context_.use();
      while (true) {
        begun_.waitWhile(seen);
        ++seen;
        if (isClosing_)
          return;
        status_ = !use                   ? use.status()
                  : task_ == Task::Whole ? runWhole()
                                         : walk();
        if (!status_.isOk() && part_->events)
          part_->events->stop();
        ended_.advance();
      }
    });
  begun_.advance();
}

bool CudaQueue::isGivenUp() const {
  return (part_->events && part_->events->stopped()) ||
         (control_.cancel && *control_.cancel);
}

Status CudaQueue::end() {
  if (!part_)
    return Status::ok();
  if (task_ != Task::None && part_->events &&
      !ended_.waitWhile(ends_, part_->events->patience()))
    part_->events->giveUp();
  if (task_ != Task::None)
    ended_.waitWhile(ends_);
  // Whatever the outcome, no work of the step may run after its end.
  Status last = synchronize();
  if (!part_->copies.empty())
    if (Status copied = ring_->end(); last.isOk())
      last = std::move(copied);
  if (!last.isOk() && status_.isOk() && !part_->segments.empty())
    status_ = failed(std::move(last), part_->segments.back().first,
                     part_->segments.back().count);
  part_->ran |= status_.isOk();
  part_ = nullptr;
  if (!status_.isOk() && control_.events)
    control_.events->stop();
  return std::exchange(status_, Status::ok());
}

Status CudaQueue::walk() {
  StepEvents *events = control_.events;
  if (!part_->copies.empty())
    MOE_RETURN_IF_ERROR(ring_->begin(part_->copies));
  for (CudaSegment &segment : part_->segments) {
    auto begin = Clock::now();
    for (uint32_t event : segment.waits)
      events->wait(event);
    if (isGivenUp()) {
      if (events)
        events->stop();
      return Status(StatusCode::Cancelled, "interrupted");
    }
    if (!control_.times.empty() && segment.count > 0)
      control_.times[part_->launches[segment.first].instruction].wait +=
          secondsSince(begin);
    MOE_RETURN_IF_ERROR(run(segment));
    if (segment.signal < 0)
      continue;
    if (Status status = synchronize(); !status.isOk())
      return failed(std::move(status), segment.first, segment.count);
    events->arrive(uint32_t(segment.signal), 1);
  }
  return Status::ok();
}

Status CudaQueue::runWhole() {
  if (isGivenUp())
    return Status(StatusCode::Cancelled, "interrupted");
  Status status = launchGraph(part_->graph.get());
  if (status.isOk())
    status = synchronize();
  if (!status.isOk())
    return failed(std::move(status), 0, part_->launches.size());
  // A launch that waited for too long says so in memory only.
  if (part_->events->isLate())
    part_->events->giveUp();
  return part_->events->stopped() ? Status(StatusCode::Cancelled, "interrupted")
                                  : Status::ok();
}

Status CudaQueue::run(CudaSegment &segment) {
  if (!control_.times.empty())
    return runTimed(segment);
  // A graph of a single launch would be no faster than the launch.
  if (!part_->ran || segment.count <= 1 || segment.isRefused)
    return launchSegment(segment);
  if (!segment.graph.get()) {
    StatusOr<CudaOwned<cu::GraphExec>> graph =
        capture([&] { return launchSegment(segment); });
    if (!graph) {
      segment.isRefused = true;
      return launchSegment(segment);
    }
    segment.graph = *std::move(graph);
  }
  if (Status status = launchGraph(segment.graph.get()); !status.isOk())
    return failed(std::move(status), segment.first, segment.count);
  return Status::ok();
}

bool CudaQueue::follows(const CudaSegment &segment, size_t index) const {
  return options_.overlapsLaunches && index > segment.first &&
         part_->launches[index - 1].function &&
         part_->launches[index].copies == 0 &&
         part_->launches[index].awaitsLaunch;
}

Status CudaQueue::launchSegment(const CudaSegment &segment) {
  for (size_t i = 0; i < segment.count; ++i)
    MOE_RETURN_IF_ERROR(launch(part_->launches[segment.first + i],
                               follows(segment, segment.first + i)));
  return Status::ok();
}

Status CudaQueue::launchGraph(cu::GraphExec graph) {
  return driver_.check(driver_.api().cuGraphLaunch(graph, stream()),
                       "launching a graph");
}

Status CudaQueue::runTimed(const CudaSegment &segment) {
  for (size_t i = 0; i < segment.count; ++i) {
    const CudaLaunch &one = part_->launches[segment.first + i];
    auto begin = Clock::now();
    MOE_RETURN_IF_ERROR(launch(one));
    MOE_RETURN_IF_ERROR(synchronize().at(name_(one.instruction)));
    control_.times[one.instruction].run += secondsSince(begin);
  }
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// All of a part as one graph
//===----------------------------------------------------------------------===//

Status CudaQueue::captureAll() {
  part_->calls.clear();
  MOE_ASSIGN_OR_RETURN(part_->graph, capture([this]() -> Status {
                         for (const CudaSegment &segment : part_->segments)
                           MOE_RETURN_IF_ERROR(captureSegment(segment));
                         return Status::ok();
                       }));
  return Status::ok();
}

Status CudaQueue::captureSegment(const CudaSegment &segment) {
  size_t last = segment.first + segment.count - 1;
  // A launch that waits occupies a multiprocessor. With several queues, a
  // launch could wait for another's that cannot start; drivers know only
  // dependences between nodes. So launches wait by themselves only in a phase
  // with one queue.
  bool maySynchronize =
      part_->sync == CudaSync::Flags && part_->isOnly && segment.count > 0;
  bool awaits = maySynchronize && part_->launchesMayWait &&
                segment.waits.size() == 1 &&
                part_->launches[segment.first].canAwait;
  bool signals =
      maySynchronize && segment.signal >= 0 && part_->launches[last].canSignal;
  if (!awaits)
    MOE_RETURN_IF_ERROR(waitForQueues(segment));
  for (size_t i = segment.first; i < segment.first + segment.count; ++i) {
    CudaLaunch one = part_->launches[i];
    moek::cuda::HostSync sync{};
    if (awaits && i == segment.first) {
      sync.awaited = reinterpret_cast<const uint32_t *>(
          uintptr_t(part_->board + StepEvents::flagOffset(segment.waits[0])));
      sync.head =
          reinterpret_cast<const moek::cuda::u64 *>(uintptr_t(part_->board));
      sync.late = reinterpret_cast<uint32_t *>(
          uintptr_t(part_->board + StepEvents::kLateOffset));
      sync.patience = moek::cuda::u64(part_->events->patience().count());
    }
    if (signals && i == last)
      sync.signalled = reinterpret_cast<uint32_t *>(uintptr_t(
          part_->board + StepEvents::flagOffset(uint32_t(segment.signal))));
    if (sync.awaited || sync.signalled)
      moek::cuda::setHostSync(one.args, sync);
    MOE_RETURN_IF_ERROR(launch(one, follows(segment, i)));
  }
  return signals ? Status::ok() : signalQueues(segment);
}

Status CudaQueue::waitForQueues(const CudaSegment &segment) {
  const cu::Api &api = driver_.api();
  for (uint32_t event : segment.waits) {
    if (part_->sync == CudaSync::HostFunctions) {
      MOE_RETURN_IF_ERROR(callHost(event, /*waits=*/true));
      continue;
    }
    if (!api.cuStreamWaitValue32_v2)
      return lacking("cuStreamWaitValue32_v2");
    MOE_RETURN_IF_ERROR(driver_.check(
        api.cuStreamWaitValue32_v2(stream(),
                                   part_->board + StepEvents::flagOffset(event),
                                   1, cu::kWaitAtLeast),
        "waiting for a flag"));
  }
  if (segment.waits.empty())
    return Status::ok();
  // If the step was abandoned, the data waited for may not exist. The step's
  // number of tokens is then 0.
  return driver_.check(api.cuMemcpyHtoDAsync_v2(step(), part_->events->board(),
                                                StepEvents::kLateOffset,
                                                stream()),
                       "reading whether a step is given up");
}

Status CudaQueue::signalQueues(const CudaSegment &segment) {
  if (segment.signal < 0)
    return Status::ok();
  auto event = uint32_t(segment.signal);
  if (part_->sync == CudaSync::HostFunctions)
    return callHost(event, /*waits=*/false);
  if (!driver_.api().cuStreamWriteValue32_v2)
    return lacking("cuStreamWriteValue32_v2");
  return driver_.check(driver_.api().cuStreamWriteValue32_v2(
                           stream(),
                           part_->board + StepEvents::flagOffset(event), 1,
                           cu::kWriteInOrder),
                       "writing a flag");
}

Status CudaQueue::callHost(uint32_t event, bool waits) {
  if (!driver_.api().cuLaunchHostFunc)
    return lacking("cuLaunchHostFunc");
  part_->calls.emplace_back(new CudaHostCall{part_->events, event, waits});
  auto function = [](void *data) {
    const auto &call = *static_cast<const CudaHostCall *>(data);
    if (call.waits)
      call.events->wait(call.event);
    else
      call.events->arrive(call.event, 1);
  };
  return driver_.check(driver_.api().cuLaunchHostFunc(
                           stream(), function, part_->calls.back().get()),
                       "calling the host");
}

StatusOr<CudaOwned<cu::GraphExec>>
CudaQueue::capture(const std::function<Status()> &record) {
  const cu::Api &api = driver_.api();
  MOE_RETURN_IF_ERROR(driver_.check(
      api.cuStreamBeginCapture_v2(stream(), cu::kCaptureOfThisThread),
      "beginning a capture"));
  Status status = record();
  cu::Graph handle = nullptr;
  Status ended =
      driver_.check(api.cuStreamEndCapture(stream(), &handle), "capturing");
  CudaOwned<cu::Graph> graph(handle, handle ? api.cuGraphDestroy : nullptr);
  MOE_RETURN_IF_ERROR(std::move(status));
  MOE_RETURN_IF_ERROR(std::move(ended));
  cu::GraphExec executable = nullptr;
  MOE_RETURN_IF_ERROR(driver_.check(
      api.cuGraphInstantiateWithFlags(&executable, handle, /*flags=*/0),
      "instantiating a graph"));
  return CudaOwned<cu::GraphExec>(executable, api.cuGraphExecDestroy);
}

Status CudaQueue::launch(const CudaLaunch &launch, bool follows) {
  if (launch.to)
    return driver_
        .check(driver_.api().cuMemcpyDtoHAsync_v2(launch.to, launch.from,
                                                  launch.bytes, stream()),
               "sending to another GPU")
        .at(name_(launch.instruction));
  if (launch.copies > 0)
    MOE_RETURN_IF_ERROR(copyBefore(launch));
  void *argument = const_cast<std::byte *>(launch.args.data());
  cu::Result result = cu::kNotSupported;
  if (follows) {
    cu::LaunchAttribute overlap{cu::kProgrammaticSerialization, 1};
    cu::LaunchConfig config{{launch.grid[0], launch.grid[1], launch.grid[2]},
                            {launch.threads, 1, 1},
                            launch.sharedBytes,
                            stream(),
                            &overlap,
                            1};
    result = driver_.api().cuLaunchKernelEx(&config, launch.function, &argument,
                                            nullptr);
    options_.overlapsLaunches = result != cu::kNotSupported;
  }
  if (result == cu::kNotSupported)
    result = driver_.api().cuLaunchKernel(
        launch.function, launch.grid[0], launch.grid[1], launch.grid[2],
        launch.threads, 1, 1, launch.sharedBytes, stream(), &argument, nullptr);
  if (result == cu::kSuccess)
    return Status::ok();
  return driver_.check(result, "launching it").at(name_(launch.instruction));
}

Status CudaQueue::copyBefore(const CudaLaunch &launch) {
  if (part_ && isGivenUp())
    return Status(StatusCode::Cancelled, "interrupted");
  return ring_->bring(launch.copies, launch.copiesFirst, stream())
      .at(name_(launch.instruction));
}

Status CudaQueue::synchronize() {
  const cu::Api &api = driver_.api();
  cu::Result result;
  if (!part_ || !part_->events)
    result = api.cuStreamSynchronize(stream());
  else if ((result = api.cuEventRecord(reached_.get(), stream())) ==
           cu::kSuccess)
    result = api.cuEventSynchronize(reached_.get());
  return driver_.check(result, "waiting for the GPU");
}

Status CudaQueue::failed(Status status, size_t first, size_t count) const {
  if (count == 0)
    return status;
  std::string begin = name_(part_->launches[first].instruction);
  if (count == 1)
    return std::move(status).at(begin);
  return std::move(status).at(
      fmt::format("between {} and {}", begin,
                  name_(part_->launches[first + count - 1].instruction)));
}

Status CudaQueue::runAlone(const CudaPart &part, uint32_t instruction,
                           const PlaceNamer &name) {
  name_ = name;
  std::vector<moek::cuda::HostCopy> copies;
  auto next = part.copies.begin();
  for (const CudaLaunch &one : part.launches) {
    if (one.instruction == instruction)
      copies.insert(copies.end(), next, next + ptrdiff_t(one.copies));
    next += ptrdiff_t(one.copies);
  }
  if (!copies.empty())
    MOE_RETURN_IF_ERROR(ring_->begin(copies));
  Status status;
  for (const CudaLaunch &one : part.launches)
    if (one.instruction == instruction && status.isOk())
      status = launch(one);
  if (Status ended = synchronize(); status.isOk())
    status = std::move(ended).at(name(instruction));
  if (!copies.empty())
    if (Status ended = ring_->end(); status.isOk())
      status = std::move(ended).at(name(instruction));
  return status;
}

} // namespace moert
