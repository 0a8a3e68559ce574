//===- SpecialTokens.cpp --------------------------------------------------===//

#include "runtime/text/SpecialTokens.h"

namespace moert {

void SpecialTokens::add(std::string_view text, int32_t id, bool isControl) {
  if (text.empty())
    return;
  isFirstByte_[static_cast<uint8_t>(text[0])] = true;
  uint32_t node = 0;
  for (char byte : text) {
    auto fresh = static_cast<uint32_t>(children_.size() + 1);
    node = children_.try_emplace(edge(node, byte), fresh).first->second;
  }
  ends_.try_emplace(node, Token{id, isControl});
}

SpecialTokens::Match SpecialTokens::findNext(std::string_view text, size_t from,
                                             bool withControl) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!isFirstByte_[static_cast<uint8_t>(text[begin])])
      continue;
    Match longest{begin, begin, -1};
    uint32_t node = 0;
    for (size_t i = begin; i < text.size(); ++i) {
      auto child = children_.find(edge(node, text[i]));
      if (child == children_.end())
        break;
      node = child->second;
      auto end = ends_.find(node);
      if (end != ends_.end() && (withControl || !end->second.isControl))
        longest = {begin, i + 1, end->second.id};
    }
    if (longest.end > begin)
      return longest;
  }
  return {text.size(), text.size(), -1};
}

} // namespace moert
