//===- OutputPlace.h - Resolves the path of an output -----------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_OUTPUTPLACE_H
#define MOE_RUNTIME_BASE_OUTPUTPLACE_H

#include "runtime/base/Status.h"

#include <optional>
#include <string>
#include <sys/stat.h>

namespace moert {

/// The file, stream or descriptor that an output path leads to.
struct OutputPlace {
  /// Follows symbolic links, also to files that do not exist yet. "-" and the
  /// names of open descriptors (/dev/stdout, /dev/fd/N) lead to the descriptor.
  /// Fails with Usage for "", and with Io for a loop of links or a missing
  /// folder.
  static StatusOr<OutputPlace> find(const std::string &path);

  std::string path;    ///< Without symbolic links; "" for a descriptor.
  int descriptor = -1; ///< Not owned; -1 for a path.
  std::optional<struct stat> existing;

  bool isDescriptor() const { return descriptor >= 0; }
  /// Returns whether this is a descriptor, FIFO or device: written bytes cannot
  /// be read again, and no other file can be placed next to it.
  bool isStream() const;
  /// Returns the folder of `path`; "." if it names none.
  std::string folder() const;
  /// Returns the last component of `path`.
  std::string name() const;
};

} // namespace moert

#endif // MOE_RUNTIME_BASE_OUTPUTPLACE_H
