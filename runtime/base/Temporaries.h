//===- Temporaries.h - Temporary files and their removal --------*- C++ -*-===//
//
// OutputFile writes to a temporary file before it gives it its name. The
// temporary is called .NAME.moe-<16 hexadecimal digits>.tmp, lies in the folder
// of NAME, and is locked (flock) by the process that writes it.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_BASE_TEMPORARIES_H
#define MOE_RUNTIME_BASE_TEMPORARIES_H

#include <string>
#include <utility>

namespace moert {

/// Returns a new name for a temporary of the file `name`. A long name is
/// shortened.
std::string temporaryName(const std::string &name);

/// Removes temporaries of `name` in `folder` that killed processes left:
/// regular files whose name has exactly this form, which belong to this user,
/// have no other hard link and are not locked. Nothing else is touched.
void removeStaleTemporaries(const std::string &folder, const std::string &name);

/// While it lives, removeTemporaries() removes the file at `path` if it exists.
/// Only the path is kept, so it can be registered before the file is created.
class RemovedOnSignal {
public:
  RemovedOnSignal() = default;
  explicit RemovedOnSignal(const std::string &path);
  RemovedOnSignal(RemovedOnSignal &&other) noexcept;
  RemovedOnSignal &operator=(RemovedOnSignal &&other) noexcept;
  ~RemovedOnSignal();

  struct Entry;

private:
  Entry *entry_ = nullptr;
  char *path_ = nullptr;
};

/// Removes the files of all RemovedOnSignal objects. For signal handlers and
/// other exits without destructors.
void removeTemporaries();

/// For handlers of `signal`, or a thread that took it: removes temporaries and
/// ends the process by the signal's default action, or with status 128 + signal
/// where the system ignores that, as for the first process of a container.
[[noreturn]] void endBySignal(int signal);

/// Makes SIGINT, SIGTERM and SIGHUP remove temporaries before they end the
/// process, unless the signals are ignored or handled already. Call once from a
/// tool's main.
void installCleanupHandlers();

} // namespace moert

#endif // MOE_RUNTIME_BASE_TEMPORARIES_H
