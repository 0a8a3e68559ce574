//===- PrefillShares.h - Which prompts a step goes on with ------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_PREFILLSHARES_H
#define MOE_RUNTIME_SERVE_PREFILLSHARES_H

#include "runtime/serve/FairShare.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace moert {

/// A prompt that is being evaluated.
struct PendingPrompt {
  std::string_view client;
  int32_t priority = 0;
  uint64_t arrival = 0; ///< Smaller: earlier.
  int32_t left = 0;     ///< Tokens to evaluate, above 0.
};

/// Divides `tokens` between prompts, and returns the share of each. Clients
/// take turns by `fair`, which is charged for what they get. Of a client's
/// prompts, those of the highest priority share: by turns the one with the
/// least left, so that a short question is answered beside a long document, and
/// the earliest, so that the document is finished. No prompt is left with a
/// single token, unless it gets nothing else: engines treat one token as
/// generated.
std::vector<int32_t> dividePrefill(const std::vector<PendingPrompt> &prompts,
                                   int32_t tokens, FairShare &fair);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_PREFILLSHARES_H
