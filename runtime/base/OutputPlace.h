//===- OutputPlace.h - Where written bytes end up ---------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_OUTPUTPLACE_H
#define MOE_RUNTIME_BASE_OUTPUTPLACE_H

#include "runtime/base/Status.h"

#include <optional>
#include <string>
#include <sys/stat.h>

namespace moert {

/// What a path given for output leads to.
struct OutputPlace {
  /// Follows symbolic links, also to what does not exist yet. "-" and the names
  /// of open descriptors (/dev/stdout, /dev/fd/N) lead to the descriptor. Fails
  /// with Usage for "", with Io for a loop of links or a missing folder.
  static StatusOr<OutputPlace> find(const std::string &path);

  std::string path;    ///< No symbolic link; "" for a descriptor.
  int descriptor = -1; ///< Not owned; -1 for a path.
  std::optional<struct stat> existing;

  bool isDescriptor() const { return descriptor >= 0; }
  /// Whether bytes go away as they are written, so that there is no file to
  /// read again, and nothing "beside" it: a descriptor, FIFO or device.
  bool isStream() const;
  /// The folder of `path`: "." where none is named.
  std::string folder() const;
  /// The last component of `path`.
  std::string name() const;
};

} // namespace moert

#endif // MOE_RUNTIME_BASE_OUTPUTPLACE_H
