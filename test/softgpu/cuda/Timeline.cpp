//===- Timeline.cpp -------------------------------------------------------===//

#include "test/softgpu/cuda/Timeline.h"

#include <algorithm>
#include <atomic>

namespace softcuda {

/// Polling interval for flags in memory, whose changes are not notified.
static constexpr auto kPoll = std::chrono::milliseconds(2);
/// Time by which an eager GPU delays the host after it enqueued an operation.
static constexpr auto kEager = std::chrono::milliseconds(20);

Timeline::Timeline(const Options &options)
    : options_(options), random_(options.seed) {
  thread_ = std::thread([this] { loop(); });
}

void Timeline::stop() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable())
    thread_.join();
}

void Timeline::waitForRoom(int gpu) {
  std::unique_lock lock(mutex_);
  auto isFull = [&] {
    return std::ranges::count(pending_, gpu, [](const OperationPtr &other) {
             return other->gpu;
           }) >= std::ptrdiff_t(options_.queueDepth);
  };
  while (isFull() && !ends_)
    if (!runOne(lock, /*isIdle=*/true))
      changed_.wait_for(lock, kPoll);
}

OperationPtr Timeline::enqueue(OperationPtr operation) {
  std::unique_lock lock(mutex_);
  operation->clock = host_;
  operation->followsHost = operation->isOfHost || operation->isThere != nullptr;
  for (const OperationPtr &before : operation->after)
    operation->followsHost |= !before->isDone && before->followsHost;
  if (operation->prepare && canPrepare(*operation))
    operation->prepare(*operation);
  pending_.push_back(operation);
  ++enqueued_;
  changed_.notify_all();
  bool settles = options_.timing == Timing::Early ||
                 (options_.timing == Timing::Seeded && random_() % 4 == 0);
  if (settles)
    changed_.wait_for(lock, kEager, [&] {
      return !isRunning_ &&
             std::none_of(pending_.begin(), pending_.end(),
                          [&](auto &other) { return isReady(*other); });
    });
  return operation;
}

/// Whether the host's bytes cannot be changed or read by others before it runs.
bool Timeline::canPrepare(const Operation &operation) const {
  if (operation.followsHost)
    return false;
  auto meet = [](softgpu::Range a, softgpu::Range b) {
    return a.begin < b.end && b.begin < a.end;
  };
  return std::none_of(pending_.begin(), pending_.end(),
                      [&](const OperationPtr &other) {
                        return (other->isKernel && operation.isMapped) ||
                               meet(other->hostWrites, operation.hostReads) ||
                               meet(other->hostWrites, operation.hostWrites) ||
                               meet(other->hostReads, operation.hostWrites);
                      });
}

void Timeline::want(Operation &operation) {
  if (operation.isWanted || operation.isDone)
    return;
  operation.isWanted = true;
  for (const OperationPtr &before : operation.after)
    want(*before);
}

void Timeline::wait(const OperationPtr &operation) {
  std::unique_lock lock(mutex_);
  want(*operation);
  bool isIdle = false;
  while (!operation->isDone && !ends_)
    if (!runOne(lock, isIdle))
      isIdle = changed_.wait_for(lock, kPoll) == std::cv_status::timeout;
  host_.join(operation->clock);
}

bool Timeline::hasEnded(const OperationPtr &operation) {
  std::unique_lock lock(mutex_);
  if (operation->isDone)
    host_.join(operation->clock);
  else
    want(*operation); // A host that polls counts as one that waits.
  changed_.notify_all();
  return operation->isDone;
}

bool Timeline::othersWork(int gpu) {
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(pending_, [gpu](const OperationPtr &other) {
    return other->gpu != gpu;
  });
}

bool Timeline::isHere() {
  std::lock_guard lock(mutex_);
  return runner_ == std::this_thread::get_id();
}

void Timeline::pass(double seconds) {
  std::lock_guard lock(mutex_);
  now_ += seconds;
}

void Timeline::forgetFlags(softgpu::Range range) {
  std::lock_guard lock(mutex_);
  flags_.forget(range);
}

uint32_t valueOf(uint32_t *flag) {
  return std::atomic_ref(*flag).load(std::memory_order_acquire);
}

bool Timeline::isReady(const Operation &operation) const {
  for (const OperationPtr &before : operation.after)
    if (!before->isDone)
      return false;
  return !operation.isThere || operation.isThere();
}

OperationPtr Timeline::pick(bool isIdle) {
  std::vector<OperationPtr> ready;
  for (const OperationPtr &operation : pending_)
    if (isReady(*operation) &&
        (operation->isWanted || isIdle || options_.timing != Timing::Late))
      ready.push_back(operation);
  if (ready.empty())
    return nullptr;
  switch (options_.timing) {
  case Timing::Late: // Runs the latest of the operations that are ready.
    return ready.back();
  case Timing::Seeded:
    return ready[random_() % ready.size()];
  default:
    return ready.front();
  }
}

bool Timeline::runOne(std::unique_lock<std::mutex> &lock, bool isIdle) {
  if (isRunning_)
    return false;
  OperationPtr operation = pick(isIdle);
  if (!operation)
    return false;
  isRunning_ = true;
  runner_ = std::this_thread::get_id();
  Operation &op = *operation;
  for (const OperationPtr &before : op.after) {
    op.clock.join(before->clock);
    op.end = std::max(op.end, before->end);
  }
  auto flag = reinterpret_cast<uint64_t>(op.flag);
  if (op.isThere)
    flags_.read(flag, valueOf(op.flag), op.clock);
  if (numbers_.size() <= op.chain)
    numbers_.resize(op.chain + 1);
  op.stamp = {op.chain, ++numbers_[op.chain]};
  op.clock.add(op.stamp);
  lock.unlock();
  if (op.run)
    op.run(op);
  lock.lock();
  if (op.flag && !op.isThere)
    flags_.write(flag, valueOf(op.flag), op.clock, op.isReleased);
  op.end = now_;
  op.isDone = true;
  op.after.clear();
  op.run = nullptr;
  std::erase(pending_, operation);
  isRunning_ = false;
  runner_ = {};
  changed_.notify_all();
  return true;
}

void Timeline::loop() {
  std::unique_lock lock(mutex_);
  bool isIdle = false;
  while (!ends_) {
    if (runOne(lock, isIdle)) {
      isIdle = isIdle && !pending_.empty();
      continue;
    }
    uint64_t before = enqueued_;
    auto pause = std::chrono::milliseconds(
        pending_.empty() ? 1000 : options_.idleMilliseconds);
    bool isQuiet = changed_.wait_for(lock, pause) == std::cv_status::timeout;
    isIdle = isQuiet && before == enqueued_ && !pending_.empty();
  }
}

} // namespace softcuda
