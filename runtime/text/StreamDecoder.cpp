//===- StreamDecoder.cpp --------------------------------------------------===//

#include "runtime/text/StreamDecoder.h"

#include "runtime/base/Utf8.h"

#include <algorithm>
#include <fmt/format.h>

namespace moert {

std::string controlBytes(std::string_view name) {
  return kControlOpen + std::string(name) + kControlClose;
}

std::string withoutControls(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t begin = text.find(kControlOpen);
    result += text.substr(0, begin);
    const size_t end = begin == text.npos ? begin
                                          : text.find(kControlClose, begin);
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
  }
  return result;
}

std::string namedControls(std::string_view text) {
  std::string result(text);
  std::erase_if(result, isControlMark);
  return result;
}

StopMatcher::Pattern::Pattern(std::string pattern) : text(std::move(pattern)) {
  borders.assign(text.size() + 1, 0);
  size_t border = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    while (border > 0 && text[border] != text[i])
      border = borders[border];
    if (text[border] == text[i])
      ++border;
    borders[i + 1] = border;
  }
}

void StopMatcher::Pattern::advance(char byte) {
  while (matched > 0 && text[matched] != byte)
    matched = borders[matched];
  if (text[matched] == byte)
    ++matched;
}

StatusOr<StopMatcher>
StopMatcher::create(const std::vector<std::string> &stops) {
  StopMatcher matcher;
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty())
      return Status(StatusCode::Usage,
                    fmt::format("stop string {} is empty; it would stop before "
                                "the first token",
                                i + 1));
    matcher.patterns_.emplace_back(stops[i]);
  }
  return matcher;
}

std::string StopMatcher::push(std::string_view bytes) {
  std::string released;
  for (char byte : bytes) {
    if (stoppedBy_ >= 0)
      break;
    held_ += byte;
    if (isControlMark(byte)) {
      if (held_.size() == 1)
        released += std::exchange(held_, {});
      continue;
    }
    size_t longestPrefix = 0;
    size_t stopLength = 0;
    for (size_t i = 0; i < patterns_.size(); ++i) {
      Pattern &pattern = patterns_[i];
      pattern.advance(byte);
      longestPrefix = std::max(longestPrefix, pattern.matched);
      if (pattern.matched == pattern.text.size() &&
          pattern.matched > stopLength) {
        stopLength = pattern.matched;
        stoppedBy_ = static_cast<int>(i);
      }
    }
    // The marks of control tokens among the last bytes count as none of them.
    size_t keep = stopLength > 0 ? stopLength : longestPrefix;
    size_t from = held_.size();
    for (size_t left = keep; left > 0; --from)
      left -= !isControlMark(held_[from - 1]);
    released.append(held_, 0, from);
    held_.erase(0, from);
  }
  if (stoppedBy_ >= 0)
    held_.clear();
  return released;
}

std::string StopMatcher::finish() { return std::exchange(held_, {}); }

std::string Utf8Stream::push(std::string_view bytes) {
  std::string joined = std::exchange(held_, {});
  joined += bytes;
  std::string text;
  for (std::string_view rest = joined; !rest.empty();) {
    if (isKept(rest.front())) {
      text += rest.front();
      rest.remove_prefix(1);
      continue;
    }
    size_t valid = validUtf8Prefix(rest);
    text += rest.substr(0, valid);
    rest.remove_prefix(valid);
    if (rest.empty() || isKept(rest.front()))
      continue;
    Utf8Unit unit = nextUtf8(rest.substr(0, 4));
    if (unit.kind == Utf8Kind::Truncated) {
      held_ = rest;
      break;
    }
    text += replacementCharacter;
    rest.remove_prefix(unit.length);
  }
  return text;
}

std::string Utf8Stream::finish() {
  bool incomplete = !std::exchange(held_, {}).empty();
  return incomplete ? std::string(replacementCharacter) : std::string();
}

StatusOr<StreamDecoder>
StreamDecoder::create(const Tokenizer &tokenizer,
                      const std::vector<std::string> &stops,
                      bool keepsControls) {
  MOE_ASSIGN_OR_RETURN(StopMatcher matcher, StopMatcher::create(stops));
  return StreamDecoder(tokenizer, std::move(matcher), keepsControls);
}

std::string StreamDecoder::push(int32_t id) {
  std::string bytes(tokenizer_->tokenBytes(id));
  if (!tokenizer_->isControl(id)) {
    // Any other byte that is not UTF-8 gives the same text.
    std::ranges::replace_if(bytes, isControlMark, '\xFD');
    return utf8_.push(stops_.push(bytes));
  }
  if (!keepsControls_)
    return {};
  return utf8_.push(stops_.push(controlBytes(bytes)));
}

std::string StreamDecoder::finish() {
  std::string text = utf8_.push(stops_.finish());
  return text + utf8_.finish();
}

} // namespace moert
