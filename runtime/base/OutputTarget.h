//===- OutputTarget.h - A place that a command may write to -----*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_OUTPUTTARGET_H
#define MOE_RUNTIME_BASE_OUTPUTTARGET_H

#include "runtime/base/OutputPlace.h"

#include <functional>

namespace moert {

/// The argument of OutputFile::create: a path, with the rule about what may be
/// replaced there. For paths that users name, only OutputRule
/// (runtime/plan/OutputRule.h) creates targets.
class OutputTarget {
public:
  /// For files that no user names, such as caches: replaces any file at `path`.
  static OutputTarget ofCache(std::string path) {
    return OutputTarget(std::move(path), nullptr);
  }

  const std::string &path() const { return path_; }
  /// Makes a file that other users cannot read, also where it replaces one that
  /// they can.
  OutputTarget forOwnerOnly() && {
    ownerOnly_ = true;
    return std::move(*this);
  }
  bool isForOwnerOnly() const { return ownerOnly_; }

  /// Returns where the path leads now, if the rule allows an output there.
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
  bool ownerOnly_ = false;
};

} // namespace moert

#endif // MOE_RUNTIME_BASE_OUTPUTTARGET_H
