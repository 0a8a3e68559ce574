//===- Timeline.h - Operations and when they run ----------------*- C++ -*-===//

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
  std::vector<OperationPtr> after; ///< Must have ended.
  /// Of waits for a value, and of writes of one: where, for the host.
  uint32_t *flag = nullptr;
  bool isReleased = false; ///< What came before the write is seen before it.
  /// Of waits: whether it is there.
  std::function<bool()> isThere;
  /// Nothing is locked then.
  std::function<void(Operation &)> run;
  /// Runs when it is enqueued, unless the host's memory may be in use by then.
  std::function<void(Operation &)> prepare;
  softgpu::Range hostReads, hostWrites; ///< Pinned memory that it copies.
  bool isMapped = false;                ///< Kernels may write there too.
  bool isKernel = false;
  bool isOfHost = false; ///< A host function.
  /// Something before it may wait for the host: what it will read can change.
  bool followsHost = false;

  Clock clock; ///< Before it runs: what the host knew.
  Stamp stamp;
  bool isWanted = false; ///< The host waits for it, or for what follows it.
  bool isDone = false;
  double end = 0; ///< Of the GPU's clock, in seconds.
};

/// Of a word that host code and GPUs see each other's writes of.
uint32_t valueOf(uint32_t *flag);

/// Runs the operations of all GPUs, one after another: in the thread that waits
/// for one, or in a thread of its own.
class Timeline {
public:
  explicit Timeline(const Options &options);
  ~Timeline() { stop(); }
  /// Waits for what runs, drops the rest.
  void stop();

  uint32_t newChain() { return ++chains_; }

  /// The operation runs after `after` and what the host has waited for.
  OperationPtr enqueue(OperationPtr operation);
  /// Until it has ended. The host then knows what it followed.
  void wait(const OperationPtr &operation);
  /// Whether it has ended; if so the host knows it.
  bool hasEnded(const OperationPtr &operation);
  /// The GPU's clock, moved by an operation that runs.
  void pass(double seconds);
  /// The host's memory in `range` is no longer a GPU's.
  void forgetFlags(softgpu::Range range);

  /// Whether this thread is running an operation.
  bool isHere();

private:
  void loop();
  /// Runs one operation; false if none may run now.
  bool runOne(std::unique_lock<std::mutex> &lock, bool isIdle);
  /// The next to run; null: none may, or none should yet.
  OperationPtr pick(bool isIdle);
  static void want(Operation &operation);
  bool mayPrepare(const Operation &operation) const;
  bool isReady(const Operation &operation) const;

  const Options &options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<OperationPtr> pending_; ///< As enqueued.
  std::vector<uint32_t> numbers_;     ///< By chain.
  Clock host_;
  FlagOrder flags_;
  uint32_t chains_ = 0;
  uint64_t enqueued_ = 0;
  double now_ = 0;
  bool isRunning_ = false, ends_ = false;
  std::thread::id runner_; ///< Of what is running.
  std::mt19937_64 random_;
  std::thread thread_;
};

} // namespace softcuda

#endif // MOE_TEST_SOFTGPU_CUDA_TIMELINE_H
