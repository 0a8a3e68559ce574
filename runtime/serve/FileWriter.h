//===- FileWriter.h - Writes files behind a thread's back -------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_FILEWRITER_H
#define MOE_RUNTIME_SERVE_FILEWRITER_H

#include "runtime/base/Status.h"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace moert {

/// Writes files of a cache on a thread of its own, one at a time. One thread
/// uses it.
class FileWriter {
public:
  FileWriter();
  /// Waits for the file that is being written.
  ~FileWriter();

  /// Whether takeResult() has still to return the result of a write().
  bool isBusy() const;
  /// Begins to write a file, which appears complete or not at all
  /// (OutputTarget::ofCache). Not while isBusy().
  void write(std::string path, std::vector<uint8_t> content);
  /// Returns how a write ended, once; none while it goes on. With `wait`,
  /// returns when it has ended.
  std::optional<Status> takeResult(bool wait = false);

private:
  void work();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string path_; ///< "" if there is nothing to write.
  std::vector<uint8_t> content_;
  std::optional<Status> result_;
  bool stop_ = false;
  std::thread thread_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_FILEWRITER_H
