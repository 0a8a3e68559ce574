//===- TokenTrie.cpp - A vocabulary in the order of its bytes -------------===//

#include "runtime/constrain/TokenTrie.h"

#include "runtime/text/StreamDecoder.h"
#include "runtime/text/Tokenizer.h"

#include <algorithm>
#include <deque>

namespace moert {

TokenTrie::TokenTrie(const std::vector<std::string_view> &tokens,
                     std::vector<int32_t> ends)
    : ends_(std::move(ends)) {
  std::ranges::sort(ends_);
  build(tokens);
}

TokenTrie::TokenTrie(const Tokenizer &tokenizer) {
  std::vector<std::string_view> tokens(size_t(tokenizer.vocabularySize()));
  std::deque<std::string> controls;
  for (int32_t id = 0; id < tokenizer.vocabularySize(); ++id) {
    std::string_view bytes = tokenizer.tokenBytes(id);
    if (tokenizer.isEndOfGeneration(id))
      ends_.push_back(id);
    else if (tokenizer.isControl(id))
      tokens[size_t(id)] = controls.emplace_back(controlBytes(bytes));
    else if (std::ranges::none_of(bytes, isControlMark))
      tokens[size_t(id)] = bytes;
  }
  build(tokens);
}

void TokenTrie::build(const std::vector<std::string_view> &tokens) {
  std::vector<int32_t> order;
  for (size_t id = 0; id < tokens.size(); ++id)
    if (!tokens[id].empty() && !isEnd(int32_t(id)))
      order.push_back(int32_t(id));
  std::ranges::sort(order, [&](int32_t a, int32_t b) {
    int less = tokens[size_t(a)].compare(tokens[size_t(b)]);
    return less != 0 ? less < 0 : a < b;
  });
  entryOf_.assign(tokens.size(), -1);
  std::string_view last;
  for (int32_t id : order) {
    std::string_view bytes = tokens[size_t(id)];
    size_t shared =
        size_t(std::ranges::mismatch(last, bytes).in1 - last.begin());
    entryOf_[size_t(id)] = int32_t(entries_.size());
    entries_.push_back({id, uint32_t(buffer_.size()), uint32_t(bytes.size()),
                        uint32_t(shared), 0});
    buffer_ += bytes;
    last = bytes;
  }
  std::vector<uint32_t> open; // Entries whose next entry is not known yet.
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    while (!open.empty() && entries_[open.back()].shared > entries_[i].shared) {
      entries_[open.back()].nextApart = i;
      open.pop_back();
    }
    open.push_back(i);
  }
  for (uint32_t i : open)
    entries_[i].nextApart = uint32_t(entries_.size());
}

std::string_view TokenTrie::bytesOf(int32_t id) const {
  if (id < 0 || id >= vocabularySize() || entryOf_[size_t(id)] < 0)
    return {};
  return bytes(entries_[size_t(entryOf_[size_t(id)])]);
}

bool TokenTrie::isEnd(int32_t id) const {
  return std::ranges::binary_search(ends_, id);
}

} // namespace moert
