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
  uint64_t arrival = 0; ///< Earlier arrivals have smaller numbers.
  int32_t left = 0;     ///< Tokens that are still to be evaluated; at least 1.
};

/// Tokens of a prompt's end that are evaluated together, where a prompt has so
/// many. Products of fewer rows than 12 may use other kernels, which add in
/// another order (kernels/Gemms.def); what a prompt's last token gives would
/// then depend on how much of the prompt was in the cache, and on the chunks in
/// which it was evaluated.
inline constexpr int32_t kPromptEnd = 16;

/// Divides `tokens` between prompts, and returns the share of each. Clients
/// take turns by `fair`, which is charged for what they get. Of a client's
/// prompts, those of the highest priority share: by turns the one with the
/// least left, so that a short question is answered beside a long document, and
/// the earliest, so that the document is finished. No prompt is left with less
/// than kPromptEnd: it gets its rest too if all together stay within `most`, or
/// others that are far from their ends can wait, and else less.
std::vector<int32_t> dividePrefill(const std::vector<PendingPrompt> &prompts,
                                   int32_t tokens, int32_t most,
                                   FairShare &fair);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_PREFILLSHARES_H
