#include "runtime/device/cuda/CudaQueue.h"

#include <chrono>
#include <fmt/format.h>

namespace moert {

namespace {
using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}
} // namespace

StatusOr<std::unique_ptr<CudaQueue>>
CudaQueue::create(const CudaDriver &driver, const CudaContext &context) {
  std::unique_ptr<CudaQueue> queue(new CudaQueue(driver, context));
  MOE_ASSIGN_OR_RETURN(queue->stream_, context.createStream());
  return queue;
}

CudaQueue::~CudaQueue() {
  if (!thread_.joinable())
    return;
  isClosing_ = true;
  begun_.advance();
  thread_.join();
}

void CudaQueue::begin(CudaPart &part, const StepControl &control,
                      PlaceNamer name) {
  part_ = &part;
  control_ = control;
  name_ = std::move(name);
  isWalkedByThread_ = part.hasEvents;
  if (!isWalkedByThread_) {
    status_ = walk();
    return;
  }
  ends_ = ended_.value();
  if (!thread_.joinable())
    thread_ = std::thread([this, seen = begun_.value()]() mutable {
      StatusOr<CudaContext::Use> use = context_.use();
      while (true) {
        begun_.waitWhile(seen);
        ++seen;
        if (isClosing_)
          return;
        status_ = use ? walk() : use.status();
        if (!status_.isOk() && control_.events)
          control_.events->stop();
        ended_.advance();
      }
    });
  begun_.advance();
}

Status CudaQueue::end() {
  if (!part_)
    return Status::ok();
  if (isWalkedByThread_)
    ended_.waitWhile(ends_);
  // Nothing of the step runs any more when it has ended, whatever became of it.
  Status last = synchronize();
  if (!last.isOk() && status_.isOk() && !part_->segments.empty())
    status_ = failed(std::move(last), part_->segments.back());
  part_->ran |= status_.isOk();
  part_ = nullptr;
  if (!status_.isOk() && control_.events)
    control_.events->stop();
  return std::move(status_);
}

Status CudaQueue::walk() {
  StepEvents *events = control_.events;
  for (CudaSegment &segment : part_->segments) {
    auto begin = Clock::now();
    for (uint32_t event : segment.waits)
      events->wait(event);
    if ((events && events->stopped()) ||
        (control_.cancel && *control_.cancel)) {
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
      return failed(std::move(status), segment);
    events->arrive(uint32_t(segment.signal), 1);
  }
  return Status::ok();
}

Status CudaQueue::run(CudaSegment &segment) {
  if (!control_.times.empty())
    return runTimed(segment);
  // A graph of one launch is a launch.
  if (part_->ran && segment.count > 1) {
    if (!segment.graph.get())
      MOE_RETURN_IF_ERROR(capture(segment));
    if (Status status = driver_.check(
            driver_.api().cuGraphLaunch(segment.graph.get(), stream()),
            "launching a graph");
        !status.isOk())
      return failed(std::move(status), segment);
    return Status::ok();
  }
  for (size_t i = 0; i < segment.count; ++i)
    MOE_RETURN_IF_ERROR(launch(part_->launches[segment.first + i]));
  return Status::ok();
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

Status CudaQueue::capture(CudaSegment &segment) {
  const cu::Api &api = driver_.api();
  MOE_RETURN_IF_ERROR(driver_.check(
      api.cuStreamBeginCapture_v2(stream(), cu::kCaptureOfThisThread),
      "beginning a capture"));
  Status status;
  for (size_t i = 0; i < segment.count && status.isOk(); ++i)
    status = launch(part_->launches[segment.first + i]);
  cu::Graph handle = nullptr;
  Status ended =
      driver_.check(api.cuStreamEndCapture(stream(), &handle), "capturing");
  MOE_RETURN_IF_ERROR(std::move(status));
  MOE_RETURN_IF_ERROR(std::move(ended));
  CudaOwned<cu::Graph> graph(handle, api.cuGraphDestroy);
  cu::GraphExec executable = nullptr;
  MOE_RETURN_IF_ERROR(driver_.check(
      api.cuGraphInstantiateWithFlags(&executable, handle, /*flags=*/0),
      "instantiating a graph"));
  segment.graph = {executable, api.cuGraphExecDestroy};
  return Status::ok();
}

Status CudaQueue::launch(const CudaLaunch &launch) {
  void *argument = const_cast<std::byte *>(launch.args.data());
  cu::Result result = driver_.api().cuLaunchKernel(
      launch.function, launch.grid[0], launch.grid[1], launch.grid[2],
      launch.threads, 1, 1, launch.sharedBytes, stream(), &argument, nullptr);
  if (result == cu::kSuccess)
    return Status::ok();
  return driver_.check(result, "launching it").at(name_(launch.instruction));
}

Status CudaQueue::synchronize() {
  return driver_.check(driver_.api().cuStreamSynchronize(stream()),
                       "waiting for the GPU");
}

Status CudaQueue::failed(Status status, const CudaSegment &segment) const {
  if (segment.count == 0)
    return status;
  const CudaLaunch *launches = &part_->launches[segment.first];
  std::string first = name_(launches[0].instruction);
  return std::move(status).at(
      segment.count == 1
          ? first
          : fmt::format("between {} and {}", first,
                        name_(launches[segment.count - 1].instruction)));
}

Status CudaQueue::runAlone(const CudaPart &part, uint32_t instruction,
                           const PlaceNamer &name) {
  name_ = name;
  for (const CudaLaunch &one : part.launches)
    if (one.instruction == instruction)
      MOE_RETURN_IF_ERROR(launch(one));
  return synchronize().at(name(instruction));
}

} // namespace moert
