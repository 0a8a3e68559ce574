//===- AtomicFile.h - A file that appears whole or not at all ---*- C++ -*-===//

#ifndef MOE_COMPILER_SERIALIZE_ATOMICFILE_H
#define MOE_COMPILER_SERIALIZE_ATOMICFILE_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <span>
#include <string>

namespace moec {

/// Writes to a temporary file in the same folder; commit() renames it to its
/// final name. Destroyed before that, it leaves nothing behind and an existing
/// file of the name untouched. All functions fail with Io and name the file.
class AtomicFile {
public:
  static moert::StatusOr<AtomicFile> create(const std::string &path);

  AtomicFile(AtomicFile &&other) noexcept;
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;
  ~AtomicFile();

  /// Fails if the file system has less than `bytes` free.
  moert::Status requireSpace(uint64_t bytes) const;
  moert::Status write(std::span<const uint8_t> bytes);
  moert::Status commit();

private:
  AtomicFile(std::string path, std::string temporary, int descriptor)
      : path_(std::move(path)), temporary_(std::move(temporary)),
        descriptor_(descriptor) {}
  moert::Status failure(const char *what) const;

  std::string path_, temporary_;
  int descriptor_ = -1;
};

} // namespace moec

#endif // MOE_COMPILER_SERIALIZE_ATOMICFILE_H
