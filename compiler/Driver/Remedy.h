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
  moert::Suggestion suggestion; ///< What is changed.
  CompileRequest request;
  std::string detail; ///< In place of {} in the suggestion's text.

  /// "it fits with a context of 512 tokens"
  std::string change() const { return suggestionText(suggestion, detail); }
};

/// The failure with the request's command, for which the message has words
/// already; without one where that would read a stream, which has been read.
moert::Status withRequest(moert::Status failure, const NearRequest &near);

/// The same, with the words too, after `joint`.
moert::Status suggestRequest(moert::Status failure, const NearRequest &near,
                             std::string_view joint = "; ");

/// What --ctx came to.
struct AskedContext {
  int64_t tokens = 0;
  int64_t cacheBytes = 0; ///< Of all layers, for one sequence.
};

/// The first of the changes to `request`, nearest first, that `compiles` says
/// yes to, for a failure with `code`; none if no change mends it. Asks for at
/// most some dozen compilations.
std::optional<NearRequest>
findRemedy(const CompileRequest &request, moert::StatusCode code,
           AskedContext context,
           const std::function<bool(const CompileRequest &)> &compiles);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_REMEDY_H
