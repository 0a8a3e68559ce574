//===- Remedy.h - The nearest request that works ----------------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_REMEDY_H
#define MOE_COMPILER_DRIVER_REMEDY_H

#include "compiler/Driver/Diagnostics.h"
#include "compiler/Driver/Driver.h"
#include "runtime/base/Remedy.h"

#include <cstdint>
#include <functional>
#include <optional>

namespace moec {

/// A request near one that failed.
struct NearRequest {
  moert::Suggestion suggestion; ///< The kind of change.
  CompileRequest request;
  std::string detail; ///< Replaces {} in the suggestion's text.

  /// "it fits with a context of 512 tokens"
  std::string change() const { return suggestionText(suggestion, detail); }
};

/// Adds the command of the request to a failure whose message already names the
/// change. Adds no command if it would have to read a stream again.
moert::Status withRequest(moert::Status failure, const NearRequest &near);

/// This function also appends the suggestion's text to the message, after
/// `joint`.
moert::Status suggestRequest(moert::Status failure, const NearRequest &near,
                             std::string_view joint = "; ");

/// The context that resulted from --ctx.
struct AskedContext {
  int64_t tokens = 0;
  /// Bytes of the caches of all layers for one sequence.
  int64_t cacheBytes = 0;
};

/// Tries changes to `request` that could avoid a failure with `code`, the
/// smallest first, and returns the first one for which `compiles` returns true,
/// or nothing if there is none. Calls `compiles` a dozen times at most.
std::optional<NearRequest>
findRemedy(const CompileRequest &request, moert::StatusCode code,
           AskedContext context,
           const std::function<bool(const CompileRequest &)> &compiles);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_REMEDY_H
