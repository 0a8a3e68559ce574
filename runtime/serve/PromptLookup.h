//===- PromptLookup.h - Guesses what follows from what was ------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_PROMPTLOOKUP_H
#define MOE_RUNTIME_SERVE_PROMPTLOOKUP_H

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace moert {

/// Drafts tokens for speculative decoding without a second model: what followed
/// the last tokens where they occurred before in the same text. It pays for
/// texts that repeat their prompt, such as summaries with quotations and edits
/// of code.
class PromptLookup {
public:
  /// Length of the token sequences that are looked up.
  static constexpr size_t kGram = 3;

  /// Returns at most `most` tokens that followed the last occurrence of the
  /// text's last kGram tokens before its end. `text` must begin with the text
  /// of the call before. Takes time in proportion to what was added.
  std::vector<int32_t> draft(std::span<const int32_t> text, int32_t most);

private:
  /// Index after the last occurrence of kGram tokens; keys are their hashes.
  /// Equal hashes of other tokens give a bad draft, nothing worse.
  std::unordered_map<uint64_t, int32_t> after_;
  size_t indexed_ = 0; ///< Tokens whose occurrences are in the map.
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_PROMPTLOOKUP_H
