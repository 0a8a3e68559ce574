#include "runtime/base/ParallelPieces.h"

#include "runtime/base/HostCpu.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace moert {

namespace {
/// State shared by the threads.
class Pieces {
public:
  Pieces(size_t count, uint64_t total, const PiecesOptions &options,
         const std::function<PieceTask()> &makeTask)
      : count_(count), total_(total), options_(options), makeTask_(makeTask) {}

  Status run() {
    size_t threads = options_.threads > 0 ? size_t(options_.threads)
                                          : threadsFor(physicalCores().size());
    {
      std::vector<std::jthread> others;
      try {
        for (size_t i = 1; i < std::min(threads, count_); ++i)
          others.emplace_back([this] { workOrStop(false); });
      } catch (const std::system_error &) {
        // If the system refuses more threads, the existing ones do all the
        // work.
      }
      workOrStop(true);
    }
    if (result_.isOk() && options_.progress)
      (void)options_.progress(total_, total_);
    return std::move(result_);
  }

private:
  /// Disks reach their speed with eight to sixteen reads at a time.
  size_t threadsFor(size_t cores) const {
    return options_.waits ? std::max(cores, std::min<size_t>(4 * cores, 16))
                          : cores;
  }

  /// Exceptions must not leave a thread.
  void workOrStop(bool reports) {
    try {
      work(reports);
    } catch (const std::bad_alloc &) {
      stop(Status(StatusCode::DoesNotFit, "out of memory"));
    }
  }

  void work(bool reports) {
    PieceTask task = makeTask_();
    while (!failed_) {
      size_t index = next_++;
      if (index >= count_)
        return;
      StatusOr<uint64_t> bytes = task(index);
      if (!bytes)
        return stop(bytes.status());
      uint64_t done = done_ += *bytes;
      if (reports && options_.progress && !options_.progress(done, total_))
        return stop(Status(StatusCode::Cancelled, "interrupted"));
    }
  }

  /// Keeps the first error.
  void stop(Status status) {
    std::lock_guard lock(mutex_);
    if (!failed_.exchange(true))
      result_ = std::move(status);
  }

  const size_t count_;
  const uint64_t total_;
  const PiecesOptions &options_;
  const std::function<PieceTask()> &makeTask_;
  std::atomic<size_t> next_ = 0;
  std::atomic<uint64_t> done_ = 0;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  Status result_;
};
} // namespace

Status forEachPiece(size_t count, uint64_t total, const PiecesOptions &options,
                    const std::function<PieceTask()> &makeTask) {
  return Pieces(count, total, options, makeTask).run();
}

} // namespace moert
