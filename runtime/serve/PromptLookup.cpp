#include "runtime/serve/PromptLookup.h"

#include <algorithm>

namespace moert {

/// Returns a hash of the kGram tokens before `end`.
static uint64_t gramBefore(std::span<const int32_t> text, size_t end) {
  uint64_t hash = 0;
  for (size_t i = end - PromptLookup::kGram; i < end; ++i)
    hash = (hash + uint64_t(uint32_t(text[i])) + 1) * 0x9e3779b97f4a7c15;
  return hash;
}

std::vector<int32_t> PromptLookup::draft(std::span<const int32_t> text,
                                         int32_t most) {
  // The text's last tokens are not indexed yet: nothing follows them.
  for (size_t end = std::max(indexed_, kGram); end < text.size(); ++end)
    after_[gramBefore(text, end)] = int32_t(end);
  indexed_ = text.size();
  if (text.size() < kGram || most <= 0)
    return {};
  auto found = after_.find(gramBefore(text, text.size()));
  if (found == after_.end())
    return {};
  auto first = text.begin() + found->second;
  auto count = std::min(int64_t(most), int64_t(text.end() - first));
  return {first, first + count};
}

} // namespace moert
