//===- OutputTarget.h - A place that a command may write to -----*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_OUTPUTTARGET_H
#define MOE_RUNTIME_BASE_OUTPUTTARGET_H

#include "runtime/base/OutputPlace.h"

#include <functional>

namespace moert {

/// What OutputFile::create takes: a path together with the rule about what may
/// be replaced there. Only OutputRule (runtime/plan/OutputRule.h) makes one of
/// a path that a user names.
class OutputTarget {
public:
  /// For files of this program that no user names, such as caches: whatever is
  /// at `path` is replaced.
  static OutputTarget ofCache(std::string path) {
    return OutputTarget(std::move(path), nullptr);
  }

  const std::string &path() const { return path_; }

  /// Where the path leads now, if the rule allows an output there.
  StatusOr<OutputPlace> check() const {
    MOE_ASSIGN_OR_RETURN(OutputPlace place, OutputPlace::find(path_));
    if (mayReplace_)
      MOE_RETURN_IF_ERROR(mayReplace_(place));
    return place;
  }

private:
  friend class OutputRule;
  using MayReplace = std::function<Status(const OutputPlace &)>;
  OutputTarget(std::string path, MayReplace mayReplace)
      : path_(std::move(path)), mayReplace_(std::move(mayReplace)) {}

  std::string path_;
  MayReplace mayReplace_;
};

} // namespace moert

#endif // MOE_RUNTIME_BASE_OUTPUTTARGET_H
