//===- Timeline.h - Decides when GPU operations run -------------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_CUDA_TIMELINE_H
#define MOE_TEST_SOFTGPU_CUDA_TIMELINE_H

#include "test/softgpu/cuda/Order.h"
#include "test/softgpu/cuda/SoftCuda.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

namespace softcuda {

struct Operation;
using OperationPtr = std::shared_ptr<Operation>;

struct Operation {
  AccessOrder::Name name;
  uint32_t chain = 0;
  int gpu = 0;                     ///< Number of the GPU.
  std::vector<OperationPtr> after; ///< Operations that must have ended before.
  /// For waits on a value and writes of one: the word, as a host address.
  uint32_t *flag = nullptr;
  /// Whether earlier writes are visible before this one.
  bool isReleased = false;
  /// For waits: whether the value has arrived.
  std::function<bool()> isThere;
  /// Does the work; called without any lock.
  std::function<void(Operation &)> run;
  /// Runs when the operation is enqueued, unless its host memory may be in use
  /// then.
  std::function<void(Operation &)> prepare;
  /// Ranges of pinned memory that the operation copies.
  softgpu::Range hostReads, hostWrites;
  /// Whether this memory is mapped, so that kernels may write it.
  bool isMapped = false;
  bool isKernel = false;
  bool isOfHost = false; ///< Whether it is a host function.
  /// An operation before it may wait for the host, so that what it reads can
  /// change.
  bool followsHost = false;

  Clock clock; ///< What happened before; at first, what the host knew.
  Stamp stamp;
  bool isWanted = false; ///< Whether the host waits for it or for a successor.
  bool isDone = false;
  double end = 0; ///< GPU time at its end, in seconds.
};

/// Reads a word that host code and GPUs share.
uint32_t valueOf(uint32_t *flag);

/// Runs the operations of all GPUs, one after another: in the thread that waits
/// for one, or in its own thread.
class Timeline {
public:
  explicit Timeline(const Options &options);
  ~Timeline() { stop(); }
  /// Waits for the running operation and drops the others.
  void stop();

  uint32_t newChain() { return ++chains_; }

  /// Waits until the GPU's queue has room for an operation.
  void waitForRoom(int gpu);
  /// Enqueues an operation; it runs after its `after` and after what the host
  /// has waited for.
  OperationPtr enqueue(OperationPtr operation);
  /// Waits until it has ended. The host then knows everything that happened
  /// before it.
  void wait(const OperationPtr &operation);
  /// Whether it has ended; if so, the host knows it.
  bool hasEnded(const OperationPtr &operation);
  /// Returns whether an operation of another GPU has not ended.
  bool othersWork(int gpu);
  /// Advances the GPU's clock; called by a running operation.
  void pass(double seconds);
  /// The host memory in `range` is no longer accessible to GPUs.
  void forgetFlags(softgpu::Range range);

  /// Whether this thread is running an operation.
  bool isHere();

private:
  void loop();
  /// Runs one operation; false if none may run now.
  bool runOne(std::unique_lock<std::mutex> &lock, bool isIdle);
  /// Returns the next operation to run; null: none may, or none should yet.
  OperationPtr pick(bool isIdle);
  static void want(Operation &operation);
  bool canPrepare(const Operation &operation) const;
  bool isReady(const Operation &operation) const;

  const Options &options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  /// Operations in the order in which they were enqueued.
  std::vector<OperationPtr> pending_;
  std::vector<uint32_t> numbers_; ///< Last number of each chain.
  Clock host_;
  FlagOrder flags_;
  uint32_t chains_ = 0;
  uint64_t enqueued_ = 0;
  double now_ = 0;
  bool isRunning_ = false, ends_ = false;
  std::thread::id runner_; ///< Thread that executes the operation.
  std::mt19937_64 random_;
  std::thread thread_;
};

} // namespace softcuda

#endif // MOE_TEST_SOFTGPU_CUDA_TIMELINE_H
