//===- Progress.h - A progress line for long work ---------------*- C++ -*-===//

#ifndef MOE_TOOLS_COMMON_PROGRESS_H
#define MOE_TOOLS_COMMON_PROGRESS_H

#include <chrono>
#include <cstdint>
#include <string>

namespace moetool {

/// A progress line on stderr, redrawn ten times a second:
///   packing weights  42% [########------------] 4.1 of 9.6 GiB, 1.2 GiB/s, ...
/// Silent if stderr is not a terminal, and for work that ends within half a
/// second. The line is erased when the object is destroyed.
class Progress {
public:
  explicit Progress(std::string what) : what_(std::move(what)) {}
  ~Progress() { finish(); }
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  /// Shows that `done` of `total` bytes are done.
  void update(uint64_t done, uint64_t total);
  void finish();

private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  Clock::time_point start_ = Clock::now(), drawn_ = start_;
  bool visible_ = false;
};

} // namespace moetool

#endif // MOE_TOOLS_COMMON_PROGRESS_H
