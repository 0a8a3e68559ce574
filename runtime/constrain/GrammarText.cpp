//===- GrammarText.cpp - Reads grammar texts ------------------------------===//

#include "runtime/constrain/GrammarText.h"

#include "runtime/base/Utf8.h"
#include "runtime/constrain/Grammar.h"

#include <algorithm>

namespace moert {

bool GrammarText::take(std::string_view token) {
  if (!rest().starts_with(token))
    return false;
  at_ += token.size();
  return true;
}

StatusOr<uint32_t> GrammarText::codePoint() {
  if (isAtEnd())
    return error("the text ends too early");
  Utf8Unit unit = nextUtf8(rest());
  if (unit.kind != Utf8Kind::Valid)
    return error("the text is not UTF-8");
  uint32_t c = decodeUtf8(text_.data() + at_, unit.length);
  at_ += unit.length;
  return c;
}

StatusOr<uint32_t> GrammarText::hexDigits(int least, int most) {
  uint32_t value = 0;
  int count = 0;
  for (; count < most; ++count, ++at_) {
    char c = peek();
    if (c >= '0' && c <= '9')
      value = value << 4 | uint32_t(c - '0');
    else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
      value = value << 4 | uint32_t((c | 0x20) - 'a' + 10);
    else
      break;
  }
  if (count < least)
    return error("expected " + std::to_string(least) + " hexadecimal digits");
  if (value > CharSet::kMaxCodePoint || CharSet::only(value).isEmpty())
    return error("the number is not a Unicode character");
  return value;
}

StatusOr<int32_t> GrammarText::number(int32_t most) {
  size_t begin = at_;
  int64_t value = 0;
  for (; peek() >= '0' && peek() <= '9'; ++at_) {
    value = value * 10 + (peek() - '0');
    if (value > most)
      return error("the number is above " + std::to_string(most));
  }
  if (at_ == begin)
    return error("expected a number");
  return int32_t(value);
}

StatusOr<GrammarText::Count> GrammarText::count() {
  Count count{0, 0};
  MOE_ASSIGN_OR_RETURN(count.least, number(kMaxRepetitions));
  count.most = count.least;
  if (take(",")) {
    count.most = Expr::kUnbounded;
    if (peek() != '}') {
      MOE_ASSIGN_OR_RETURN(count.most, number(kMaxRepetitions));
    }
  }
  if (!take("}"))
    return error("expected } after the number of repetitions");
  if (count.most != Expr::kUnbounded && count.most < count.least)
    return error("the smaller number of repetitions comes first");
  return count;
}

Status GrammarText::error(std::string_view message) const {
  std::string_view before = text_.substr(0, at_);
  size_t lastLine = before.rfind('\n');
  size_t column = lastLine == before.npos ? at_ + 1 : at_ - lastLine;
  return Status(StatusCode::Usage,
                std::string(what_) + ":" +
                    std::to_string(1 + std::ranges::count(before, '\n')) + ":" +
                    std::to_string(column) + ": " + std::string(message));
}

} // namespace moert
