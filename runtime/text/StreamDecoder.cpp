//===- StreamDecoder.cpp --------------------------------------------------===//

#include "runtime/text/StreamDecoder.h"

#include "runtime/base/Utf8.h"

#include <algorithm>
#include <fmt/format.h>

namespace moert {

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
    size_t keep = stopLength > 0 ? stopLength : longestPrefix;
    released.append(held_, 0, held_.size() - keep);
    held_.erase(0, held_.size() - keep);
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
    size_t valid = validUtf8Prefix(rest);
    text += rest.substr(0, valid);
    rest.remove_prefix(valid);
    if (rest.empty())
      break;
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
                      const std::vector<std::string> &stops, bool showControl) {
  MOE_ASSIGN_OR_RETURN(StopMatcher matcher, StopMatcher::create(stops));
  return StreamDecoder(tokenizer, std::move(matcher), showControl);
}

std::string StreamDecoder::push(int32_t id) {
  if (!showControl_ && tokenizer_->isControl(id))
    return {};
  return utf8_.push(stops_.push(tokenizer_->tokenBytes(id)));
}

std::string StreamDecoder::finish() {
  std::string text = utf8_.push(stops_.finish());
  return text + utf8_.finish();
}

} // namespace moert
