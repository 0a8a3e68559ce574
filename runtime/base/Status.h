//===- Status.h - Errors with a message and a place -------------*- C++ -*-===//
//
// Every fallible function outside the MLIR code returns Status or StatusOr<T>.
// A message is one sentence that names the place (file, key, offset) and, where
// there is one, the fix. The command that mends a failure is no part of the
// message: it is the status's remedy. No exceptions cross a library boundary.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_BASE_STATUS_H
#define MOE_RUNTIME_BASE_STATUS_H

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace moert {

/// The kind of failure; it decides the exit code of the tools.
enum class StatusCode {
  Ok,
  Internal,     ///< A bug in this project.
  Usage,        ///< A flag or argument is wrong.
  InvalidFile,  ///< A model, plan, rule or target file is malformed.
  Io,           ///< The operating system refused: missing file, disk full.
  DoesNotFit,   ///< Memory, context or VRAM budgets cannot hold.
  Unsupported,  ///< Well-formed, but outside what is implemented.
  WrongMachine, ///< The plan is for another ISA, GPU, model or version.
  Cancelled,    ///< The user interrupted.
};

/// Returns the documented exit code of the tools for a failure of this kind.
constexpr int exitCode(StatusCode code) {
  switch (code) {
  case StatusCode::Ok:
    return 0;
  case StatusCode::Internal:
    return 1;
  case StatusCode::Usage:
    return 2;
  case StatusCode::InvalidFile:
    return 3;
  case StatusCode::Io:
    return 4;
  case StatusCode::DoesNotFit:
    return 5;
  case StatusCode::Unsupported:
    return 6;
  case StatusCode::WrongMachine:
    return 7;
  case StatusCode::Cancelled:
    return 130;
  }
  return 1;
}

struct Remedy;

class [[nodiscard]] Status {
public:
  Status() = default;
  Status(StatusCode code, std::string message)
      : code_(code), message_(std::move(message)) {}

  static Status ok() { return {}; }
  bool isOk() const { return code_ == StatusCode::Ok; }
  explicit operator bool() const { return isOk(); }
  StatusCode code() const { return code_; }
  const std::string &message() const { return message_; }
  /// Returns the command that corrects the failure (Remedy.h), or null.
  const Remedy *remedy() const { return remedy_.get(); }

  /// Returns the failure with its place in front: "<place>: <message>".
  Status at(std::string_view place) && {
    if (!isOk())
      message_.insert(0, std::string(place) + ": ");
    return std::move(*this);
  }

  /// Returns the failure with `words` appended to its message.
  Status append(std::string_view words) && {
    message_ += words;
    return std::move(*this);
  }
  /// Returns the failure with another message.
  Status reworded(std::string message) && {
    message_ = std::move(message);
    return std::move(*this);
  }

  /// Returns the failure with a remedy, and appends the remedy's text to the
  /// message after `joint`.
  Status suggesting(Remedy remedy, std::string_view joint = "; ") &&;
  /// Returns the failure with a remedy that its message already describes.
  Status with(Remedy remedy) &&;

private:
  StatusCode code_ = StatusCode::Ok;
  std::string message_;
  std::shared_ptr<const Remedy> remedy_; ///< Null in nearly every status.
};

/// A value, or the failure that prevented it.
template <typename T> class [[nodiscard]] StatusOr {
public:
  StatusOr(T value) : state_(std::move(value)) {}
  StatusOr(Status status) : state_(std::move(status)) {
    assert(!std::get<Status>(state_).isOk() && "an ok status has no value");
  }

  bool isOk() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return isOk(); }
  Status status() const { return isOk() ? Status() : std::get<Status>(state_); }
  T &operator*() & { return std::get<T>(state_); }
  const T &operator*() const & { return std::get<T>(state_); }
  T &&operator*() && { return std::get<T>(std::move(state_)); }
  T *operator->() { return &std::get<T>(state_); }
  const T *operator->() const { return &std::get<T>(state_); }

private:
  std::variant<T, Status> state_;
};

} // namespace moert

#define MOE_CONCAT_IMPL(a, b) a##b
#define MOE_CONCAT(a, b) MOE_CONCAT_IMPL(a, b)

/// Returns from the enclosing function when `expr` (a Status) is a failure.
#define MOE_RETURN_IF_ERROR(expr)                                              \
  do {                                                                         \
    if (::moert::Status moeStatus = (expr); !moeStatus.isOk())                 \
      return moeStatus;                                                        \
  } while (false)

/// Declares or assigns `lhs` from a StatusOr, or returns its failure.
#define MOE_ASSIGN_OR_RETURN(lhs, expr)                                        \
  auto MOE_CONCAT(moeResult, __LINE__) = (expr);                               \
  if (!MOE_CONCAT(moeResult, __LINE__).isOk())                                 \
    return MOE_CONCAT(moeResult, __LINE__).status();                           \
  lhs = *std::move(MOE_CONCAT(moeResult, __LINE__))

#endif // MOE_RUNTIME_BASE_STATUS_H
