//===- PrefixReader.h - Reads evaluated texts in another thread -*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_PREFIXREADER_H
#define MOE_RUNTIME_SERVE_PREFIXREADER_H

#include "runtime/engine/Engine.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace moert {

/// Reads and checks files of a PrefixStore on a thread of its own, one at a
/// time. One thread uses it.
class PrefixReader {
public:
  /// `engine` must outlive this. `done` is called on the reader's thread when a
  /// file has been read; it may be null.
  PrefixReader(const Engine &engine, std::function<void()> done);
  /// Waits for the file that is being read.
  ~PrefixReader();

  /// Whether takeResult() has still to return the result of a read().
  bool isBusy() const;
  /// Whether it would return it now.
  bool hasResult() const;
  /// Begins to read a file. Not while isBusy().
  void read(std::string path);
  /// Returns what was read, or why not, once; none while it goes on.
  std::optional<StatusOr<SavedSequence>> takeResult();

private:
  void work();

  const Engine &engine_;
  const std::function<void()> done_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string path_; ///< "" if there is nothing to read.
  std::optional<StatusOr<SavedSequence>> result_;
  bool stop_ = false;
  std::thread thread_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_PREFIXREADER_H
