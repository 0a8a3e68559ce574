//===- Temporaries.h - Files that must not stay behind ----------*- C++ -*-===//
//
// What OutputFile writes before it has its name. A temporary is called
// .NAME.moe-<16 hexadecimal digits>.tmp, lies in NAME's folder, and is locked
// (flock) by the process that writes it.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_BASE_TEMPORARIES_H
#define MOE_RUNTIME_BASE_TEMPORARIES_H

#include <string>
#include <utility>

namespace moert {

/// A new name for a temporary of the file `name`; of a long name only the
/// beginning is in it.
std::string temporaryName(const std::string &name);

/// Removes what killed processes left of writing `name` in `folder`: regular
/// files that have exactly the name of such a temporary, are this user's, have
/// no other name, and are locked by nobody. Nothing else is touched.
void removeStaleTemporaries(const std::string &folder, const std::string &name);

/// While alive, removeTemporaries() removes the file at `path`, if there is
/// one. Only path names are kept: register before creating the file.
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

/// Removes the files of all RemovedOnSignal. For signal handlers, and other
/// ends of a process without destructors.
void removeTemporaries();

/// For handlers of `signal`: removes temporaries and lets the signal's default
/// action end the process once the handler returns.
void endBySignal(int signal);

/// SIGINT, SIGTERM and SIGHUP remove temporaries before they end the process,
/// unless they are ignored or handled already. Call once from a tool's main.
void installCleanupHandlers();

} // namespace moert

#endif // MOE_RUNTIME_BASE_TEMPORARIES_H
