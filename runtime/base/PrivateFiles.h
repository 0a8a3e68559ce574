//===- PrivateFiles.h - Files that other users cannot read ------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_PRIVATEFILES_H
#define MOE_RUNTIME_BASE_PRIVATEFILES_H

#include "runtime/base/Status.h"

#include <functional>
#include <string>

namespace moert {

/// Makes a folder that no other user can read or enter, with those above it. An
/// existing one loses such rights, if all that it has is the caller's by
/// `isOwn`, which is given names; fails with Io otherwise, telling the command
/// that takes them. Also fails with Io if the folder cannot be made, and for a
/// file.
Status makePrivateFolder(const std::string &path,
                         const std::function<bool(std::string_view)> &isOwn);

/// Makes an empty file that no other user can read, if there is none, and takes
/// others' rights to an existing one. Fails with Io; for a file of another
/// user, telling the command for that one.
Status makePrivateFile(const std::string &path);

} // namespace moert

#endif // MOE_RUNTIME_BASE_PRIVATEFILES_H
