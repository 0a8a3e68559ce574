//===- SpecialTokens.cpp --------------------------------------------------===//

#include "runtime/text/SpecialTokens.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace moert {

namespace {
/// The limit is twice the size of the largest known vocabulary if all its
/// tokens were special.
constexpr size_t mostBytes = size_t(4) << 20;
} // namespace

uint32_t SpecialTokens::next(uint32_t node, char byte) const {
  for (;; node = nodes_[node].shorter) {
    if (auto child = children_.find(edge(node, byte)); child != children_.end())
      return child->second;
    if (node == 0)
      return 0;
  }
}

StatusOr<SpecialTokens> SpecialTokens::create(std::span<const Entry> entries) {
  size_t bytes = 0;
  for (const Entry &entry : entries)
    bytes += entry.text.size();
  if (bytes > mostBytes)
    return Status(StatusCode::InvalidFile,
                  fmt::format("tokenizer.ggml.tokens that are control or "
                              "user-defined have {} bytes in all, expected at "
                              "most {}",
                              bytes, mostBytes));

  SpecialTokens result;
  struct Origin {
    uint32_t parent;
    uint32_t depth;
    char byte;
  };
  std::vector<Origin> origins{{0, 0, 0}};
  for (const Entry &entry : entries) {
    if (entry.text.empty())
      continue;
    result.isLastByte_[static_cast<uint8_t>(entry.text.back())] = true;
    uint32_t node = 0, depth = 0;
    for (size_t i = entry.text.size(); i-- > 0;) {
      char byte = entry.text[i];
      auto fresh = static_cast<uint32_t>(origins.size());
      auto [child, isNew] =
          result.children_.try_emplace(edge(node, byte), fresh);
      ++depth;
      if (isNew)
        origins.push_back({node, depth, byte});
      node = child->second;
    }
    result.nodes_.resize(origins.size());
    Node &end = result.nodes_[node];
    if (end.token != none)
      continue;
    end.token = static_cast<int32_t>(result.tokens_.size());
    end.plain = entry.isControl ? none : end.token;
    result.tokens_.push_back(
        {static_cast<uint32_t>(entry.text.size()), entry.id});
  }

  // Shorter states are processed first.
  std::vector<uint32_t> order(origins.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {},
                           [&](uint32_t node) { return origins[node].depth; });
  for (uint32_t at : order) {
    Node &node = result.nodes_[at];
    const Origin &origin = origins[at];
    if (origin.depth > 1)
      node.shorter =
          result.next(result.nodes_[origin.parent].shorter, origin.byte);
    const Node &shorter = result.nodes_[node.shorter];
    if (node.token == none)
      node.token = shorter.token;
    if (node.plain == none)
      node.plain = shorter.plain;
  }
  return result;
}

std::vector<SpecialTokens::Match> SpecialTokens::find(std::string_view text,
                                                      bool withControl) const {
  std::vector<Match> matches;
  uint32_t node = 0;
  for (size_t i = text.size(); i-- > 0;) {
    if (node == 0 && !isLastByte_[static_cast<uint8_t>(text[i])])
      continue;
    node = next(node, text[i]);
    int32_t token = withControl ? nodes_[node].token : nodes_[node].plain;
    if (token != none)
      matches.push_back(
          {static_cast<uint32_t>(i), tokens_[token].length, tokens_[token].id});
  }
  std::ranges::reverse(matches);
  return matches;
}

} // namespace moert
