// Methods of Python's str that templates use.
#include "runtime/text/jinja/Interpreter.h"
#include "runtime/text/jinja/Unicode.h"

#include <algorithm>

namespace moert::jinja {

namespace {

std::string_view self(const Call &call) { return call.self.text(); }

Result text(Call &call, std::string_view value) {
  return call.heap.string(std::string(value));
}

Result stripped(Call &call, bool left, bool right) {
  if (!call.has(0) || call.arguments[0]->is(Kind::None))
    return text(call, strip(self(call), nullptr, left, right));
  MOE_ASSIGN_OR_RETURN(std::string_view set, call.text(0, ""));
  call.heap.spend(set.size() * self(call).size() / 64);
  return text(call, strip(self(call), &set, left, right));
}
Result runStrip(Call &call) { return stripped(call, true, true); }
Result runLstrip(Call &call) { return stripped(call, true, false); }
Result runRstrip(Call &call) { return stripped(call, false, true); }

/// A change of case makes at most three characters out of one.
Result changed(Call &call, std::string (*change)(std::string_view)) {
  if (!call.heap.charge(8 * self(call).size()))
    return call.heap.status();
  return call.heap.string(change(self(call)));
}
Result runUpper(Call &call) { return changed(call, upper); }
Result runLower(Call &call) { return changed(call, lower); }
Result runTitle(Call &call) { return changed(call, title); }
Result runCapitalize(Call &call) { return changed(call, capitalize); }
Result runSwapcase(Call &call) { return changed(call, swapCase); }

/// Splits at blanks: at most `most` words are cut off, the rest stays as it is.
std::vector<std::string_view> words(std::string_view all, int64_t most,
                                    bool fromRight) {
  // Begin and end of each run of blanks.
  std::vector<std::pair<size_t, size_t>> blanks;
  std::string_view rest = strip(all, nullptr, true, true);
  for (size_t i = 0; i < rest.size();) {
    size_t next = nextCharacter(rest, i);
    if (strip(rest.substr(i, next - i), nullptr, true, false).empty()) {
      if (!blanks.empty() && blanks.back().second == i)
        blanks.back().second = next;
      else
        blanks.emplace_back(i, next);
    }
    i = next;
  }
  std::vector<std::string_view> parts;
  if (rest.empty())
    return parts;
  size_t count = most < 0 ? blanks.size()
                          : std::min(blanks.size(), static_cast<size_t>(most));
  size_t first = fromRight ? blanks.size() - count : 0;
  // If more words could be split off, the rest keeps the blanks at its outer
  // end.
  bool isAll = most < 0 || blanks.size() < static_cast<size_t>(most);
  std::string_view whole =
      strip(all, nullptr, !fromRight || isAll, fromRight || isAll);
  auto shift = static_cast<size_t>(rest.data() - whole.data());
  size_t begin = 0;
  for (size_t i = first; i < first + count; ++i) {
    parts.push_back(whole.substr(begin, blanks[i].first + shift - begin));
    begin = blanks[i].second + shift;
  }
  parts.push_back(whole.substr(begin));
  return parts;
}

Result split(Call &call, bool fromRight) {
  std::string_view all = self(call);
  MOE_ASSIGN_OR_RETURN(int64_t most, call.integer(1, -1));
  std::vector<std::string_view> parts;
  if (!call.heap.charge(all.size()))
    return call.heap.status();
  if (!call.has(0) || call.arguments[0]->is(Kind::None)) {
    parts = words(all, most, fromRight);
    fromRight = false;
  } else {
    MOE_ASSIGN_OR_RETURN(std::string_view separator, call.text(0, ""));
    if (separator.empty())
      return failure("empty separator");
    while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
      size_t at = fromRight ? all.rfind(separator) : all.find(separator);
      if (at == std::string_view::npos)
        break;
      std::string_view after = all.substr(at + separator.size());
      parts.push_back(fromRight ? after : all.substr(0, at));
      all = fromRight ? all.substr(0, at) : after;
    }
    parts.push_back(all);
  }
  if (fromRight)
    std::ranges::reverse(parts);
  if (!call.heap.charge(parts.size() * sizeof(String)))
    return call.heap.status();
  std::vector<Value> items;
  for (std::string_view part : parts)
    items.push_back(call.heap.string(std::string(part)));
  return call.heap.list(std::move(items));
}
Result runSplit(Call &call) { return split(call, false); }
Result runRsplit(Call &call) { return split(call, true); }

Result runSplitlines(Call &call) {
  if (!call.heap.charge(self(call).size() * 4))
    return call.heap.status();
  std::vector<Value> items;
  for (std::string_view line : splitLines(self(call), call.flag(0)))
    items.push_back(call.heap.string(std::string(line)));
  return call.heap.list(std::move(items));
}

Result runJoin(Call &call) {
  if (!call.has(0))
    return failure("join() takes the list to join");
  MOE_ASSIGN_OR_RETURN(std::vector<Value> items,
                       iterate(call.heap, *call.arguments[0]));
  Text out(call.heap);
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is(Kind::String))
      return failure("sequence item " + std::to_string(i) +
                     ": expected str instance, " +
                     std::string(typeName(items[i])) + " found");
    if (i > 0)
      out += self(call);
    out += items[i].text();
  }
  return call.heap.string(std::move(out.str()));
}

Result runReplace(Call &call) {
  MOE_ASSIGN_OR_RETURN(std::string_view from, call.text(0, ""));
  MOE_ASSIGN_OR_RETURN(std::string_view to, call.text(1, ""));
  MOE_ASSIGN_OR_RETURN(int64_t most, call.integer(2, -1));
  if (!call.has(0) || !call.has(1))
    return failure("replace() takes what to replace and what by");
  Text out(call.heap);
  std::string_view rest = self(call);
  // An empty text is found before each character and at the end.
  while (most != 0 && !call.heap.exhausted()) {
    size_t at = rest.find(from);
    if (at == std::string_view::npos)
      break;
    out += rest.substr(0, at);
    out += to;
    rest.remove_prefix(at + from.size());
    --most;
    if (!from.empty())
      continue;
    if (rest.empty())
      break;
    size_t next = nextCharacter(rest, 0);
    out += rest.substr(0, next);
    rest.remove_prefix(next);
  }
  out += rest;
  return call.heap.string(std::move(out.str()));
}

/// Returns the text from arguments[first] to arguments[first + 1], both counted
/// in characters. `offset` is the number of characters before it.
StatusOr<std::string_view> part(Call &call, size_t first, int64_t &offset) {
  std::string_view all = self(call);
  offset = 0;
  if (!call.has(first) && !call.has(first + 1))
    return all;
  auto size = static_cast<int64_t>(countCharacters(all));
  call.heap.spend(all.size() / 16);
  auto bound = [&](size_t i, int64_t open) -> StatusOr<int64_t> {
    if (!call.has(i) || call.arguments[i]->is(Kind::None))
      return open;
    MOE_ASSIGN_OR_RETURN(int64_t place, call.integer(i, open));
    return place < 0 ? std::max<int64_t>(place + size, 0) : place;
  };
  MOE_ASSIGN_OR_RETURN(int64_t begin, bound(first, 0));
  MOE_ASSIGN_OR_RETURN(int64_t end, bound(first + 1, size));
  end = std::min(end, size);
  if (begin > end)
    return Status(StatusCode::Cancelled,
                  ""); // The result is no text at all, not even "".
  auto byteOf = [&](int64_t character) {
    size_t i = 0;
    while (character-- > 0)
      i = nextCharacter(all, i);
    return i;
  };
  offset = begin;
  size_t from = byteOf(begin);
  return all.substr(from, byteOf(end) - from);
}

Result affix(Call &call, bool atStart) {
  int64_t offset = 0;
  StatusOr<std::string_view> among = part(call, 1, offset);
  if (!among && among.status().code() == StatusCode::Cancelled)
    return Value::of(false);
  MOE_RETURN_IF_ERROR(among.status());
  if (!call.has(0))
    return failure("the text to look for is missing");
  std::span<const Value> candidates(call.arguments[0], 1);
  bool isTuple = candidates[0].is(Kind::Sequence) &&
                 candidates[0].sequence().flavor == Flavor::Tuple;
  if (isTuple)
    candidates = candidates[0].sequence().items;
  for (const Value &candidate : candidates) {
    if (candidate.is(Kind::Undefined))
      return failure(std::string(candidate.hint()));
    if (!candidate.is(Kind::String))
      return failure(std::string(atStart ? "startswith" : "endswith") +
                     " first arg must be str or a tuple of str, not " +
                     std::string(typeName(candidate)));
    if (atStart ? among->starts_with(candidate.text())
                : among->ends_with(candidate.text()))
      return Value::of(true);
  }
  return Value::of(false);
}
Result runStartswith(Call &call) { return affix(call, true); }
Result runEndswith(Call &call) { return affix(call, false); }

/// Returns the position, or -1 if not found.
StatusOr<int64_t> position(Call &call, bool fromRight) {
  int64_t offset = 0;
  StatusOr<std::string_view> among = part(call, 1, offset);
  if (!among && among.status().code() == StatusCode::Cancelled)
    return -1;
  MOE_RETURN_IF_ERROR(among.status());
  MOE_ASSIGN_OR_RETURN(std::string_view wanted, call.text(0, ""));
  call.heap.spend(among->size() / 16);
  size_t at = fromRight ? among->rfind(wanted) : among->find(wanted);
  if (at == std::string_view::npos)
    return -1;
  return offset + static_cast<int64_t>(countCharacters(among->substr(0, at)));
}
Result find(Call &call, bool fromRight, bool mustBe) {
  MOE_ASSIGN_OR_RETURN(int64_t at, position(call, fromRight));
  if (at < 0 && mustBe)
    return failure("substring not found");
  return Value::of(at);
}
Result runFind(Call &call) { return find(call, false, false); }
Result runRfind(Call &call) { return find(call, true, false); }
Result runIndex(Call &call) { return find(call, false, true); }
Result runRindex(Call &call) { return find(call, true, true); }

Result runCount(Call &call) {
  int64_t offset = 0;
  StatusOr<std::string_view> among = part(call, 1, offset);
  if (!among && among.status().code() == StatusCode::Cancelled)
    return Value::of(int64_t(0));
  MOE_RETURN_IF_ERROR(among.status());
  MOE_ASSIGN_OR_RETURN(std::string_view wanted, call.text(0, ""));
  if (wanted.empty())
    return Value::of(int64_t(countCharacters(*among) + 1));
  int64_t count = 0;
  for (size_t at = 0; (at = among->find(wanted, at)) != std::string_view::npos;
       at += wanted.size())
    ++count;
  return Value::of(count);
}

Result aligned(Call &call, bool left, bool right) {
  MOE_ASSIGN_OR_RETURN(int64_t width, call.integer(0, 0));
  MOE_ASSIGN_OR_RETURN(std::string_view fill, call.text(1, " "));
  if (countCharacters(fill) != 1)
    return failure("The fill character must be exactly one character long");
  auto size = static_cast<int64_t>(countCharacters(self(call)));
  auto missing = static_cast<size_t>(std::max<int64_t>(width - size, 0));
  // Python's center(): the odd blank is on the left if the width is odd.
  size_t before = left && right ? missing / 2 + (missing & width & 1)
                  : left        ? missing
                                : 0;
  Text out(call.heap);
  out.append(before, fill);
  out += self(call);
  out.append(missing - before, fill);
  return call.heap.string(std::move(out.str()));
}
Result runCenter(Call &call) { return aligned(call, true, true); }
Result runLjust(Call &call) { return aligned(call, false, true); }
Result runRjust(Call &call) { return aligned(call, true, false); }

Result runZfill(Call &call) {
  MOE_ASSIGN_OR_RETURN(int64_t width, call.integer(0, 0));
  std::string_view digits = self(call);
  auto size = static_cast<int64_t>(countCharacters(digits));
  bool hasSign = digits.starts_with('-') || digits.starts_with('+');
  Text out(call.heap);
  out += digits.substr(0, hasSign);
  out.append(static_cast<size_t>(std::max<int64_t>(width - size, 0)), "0");
  out += digits.substr(hasSign);
  return call.heap.string(std::move(out.str()));
}

Result partition(Call &call, bool fromRight) {
  MOE_ASSIGN_OR_RETURN(std::string_view separator, call.text(0, ""));
  if (separator.empty())
    return failure("empty separator");
  std::string_view all = self(call);
  size_t at = fromRight ? all.rfind(separator) : all.find(separator);
  std::string_view parts[3] = {all, "", ""};
  if (at == std::string_view::npos && fromRight)
    std::swap(parts[0], parts[2]);
  if (at != std::string_view::npos) {
    parts[0] = all.substr(0, at);
    parts[1] = separator;
    parts[2] = all.substr(at + separator.size());
  }
  std::vector<Value> items;
  for (std::string_view item : parts)
    items.push_back(call.heap.string(std::string(item)));
  return call.heap.list(std::move(items), Flavor::Tuple);
}
Result runPartition(Call &call) { return partition(call, false); }
Result runRpartition(Call &call) { return partition(call, true); }

Result runRemoveprefix(Call &call) {
  MOE_ASSIGN_OR_RETURN(std::string_view prefix, call.text(0, ""));
  return text(call, self(call).starts_with(prefix)
                        ? self(call).substr(prefix.size())
                        : self(call));
}
Result runRemovesuffix(Call &call) {
  MOE_ASSIGN_OR_RETURN(std::string_view suffix, call.text(0, ""));
  return text(call,
              self(call).ends_with(suffix)
                  ? self(call).substr(0, self(call).size() - suffix.size())
                  : self(call));
}

Result runExpandtabs(Call &call) {
  MOE_ASSIGN_OR_RETURN(int64_t size, call.integer(0, 8));
  Text out(call.heap);
  int64_t column = 0;
  std::string_view all = self(call);
  for (size_t i = 0; i < all.size() && !call.heap.exhausted();) {
    size_t next = nextCharacter(all, i);
    char c = all[i];
    if (c == '\t') {
      int64_t blanks = size > 0 ? size - column % size : 0;
      out.append(static_cast<size_t>(blanks), " ");
      column += blanks;
    } else {
      out += all.substr(i, next - i);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    i = next;
  }
  return call.heap.string(std::move(out.str()));
}

/// Returns whether the text is not empty and all characters have the property.
Result all(Call &call, bool (*holds)(char32_t)) {
  if (!call.heap.charge(4 * self(call).size()))
    return call.heap.status();
  std::u32string characters = decode(self(call));
  return Value::of(!characters.empty() &&
                   std::ranges::all_of(characters, holds));
}
Result runIsalpha(Call &call) { return all(call, isLetter); }
Result runIsdecimal(Call &call) { return all(call, isDecimal); }
Result runIsnumeric(Call &call) { return all(call, isNumeric); }
Result runIsspace(Call &call) { return all(call, isSpace); }
Result runIsalnum(Call &call) {
  return all(call, [](char32_t c) { return isLetter(c) || isNumeric(c); });
}
/// Digits are decimals, superscripts, subscripts and circled digits.
Result runIsdigit(Call &call) {
  return all(call, [](char32_t c) {
    return isDecimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 ||
           (c >= 0x2070 && c <= 0x2089 && isNumeric(c)) ||
           (c >= 0x2460 && c <= 0x2468);
  });
}
Result runIsascii(Call &call) {
  return Value::of(std::ranges::all_of(
      self(call), [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
}
Result cased(Call &call, bool (*wanted)(char32_t), bool (*other)(char32_t)) {
  std::u32string characters = decode(self(call));
  return Value::of(std::ranges::any_of(characters, wanted) &&
                   std::ranges::none_of(characters, other));
}
Result runIsupper(Call &call) { return cased(call, isUpper, isLower); }
Result runIslower(Call &call) { return cased(call, isLower, isUpper); }
Result runIstitle(Call &call) {
  bool hasLetter = std::ranges::any_of(
      decode(self(call)), [](char32_t c) { return isUpper(c) || isLower(c); });
  return Value::of(hasLetter && title(self(call)) == self(call));
}
Result runIsidentifier(Call &call) {
  std::u32string characters = decode(self(call));
  return Value::of(!characters.empty() && !isNumeric(characters[0]) &&
                   std::ranges::all_of(characters, isWord));
}

Result runFormat(Call &call) {
  return formatBraces(call.heap, self(call), call.values.positional,
                      call.values.named);
}

constexpr Builtin methods[] = {
    {"strip", "chars", runStrip},
    {"lstrip", "chars", runLstrip},
    {"rstrip", "chars", runRstrip},
    {"upper", "", runUpper},
    {"lower", "", runLower},
    {"casefold", "", runLower},
    {"title", "", runTitle},
    {"capitalize", "", runCapitalize},
    {"swapcase", "", runSwapcase},
    {"split", "sep maxsplit", runSplit},
    {"rsplit", "sep maxsplit", runRsplit},
    {"splitlines", "keepends", runSplitlines},
    {"join", "iterable", runJoin},
    {"replace", "old new count", runReplace},
    {"startswith", "prefix start end", runStartswith},
    {"endswith", "suffix start end", runEndswith},
    {"find", "sub start end", runFind},
    {"rfind", "sub start end", runRfind},
    {"index", "sub start end", runIndex},
    {"rindex", "sub start end", runRindex},
    {"count", "sub start end", runCount},
    {"center", "width fillchar", runCenter},
    {"ljust", "width fillchar", runLjust},
    {"rjust", "width fillchar", runRjust},
    {"zfill", "width", runZfill},
    {"partition", "sep", runPartition},
    {"rpartition", "sep", runRpartition},
    {"removeprefix", "prefix", runRemoveprefix},
    {"removesuffix", "suffix", runRemovesuffix},
    {"expandtabs", "tabsize", runExpandtabs},
    {"isalpha", "", runIsalpha},
    {"isdecimal", "", runIsdecimal},
    {"isdigit", "", runIsdigit},
    {"isnumeric", "", runIsnumeric},
    {"isalnum", "", runIsalnum},
    {"isspace", "", runIsspace},
    {"isascii", "", runIsascii},
    {"isupper", "", runIsupper},
    {"islower", "", runIslower},
    {"istitle", "", runIstitle},
    {"isidentifier", "", runIsidentifier},
    {"format", "*", runFormat},
};

} // namespace

std::span<const Builtin> stringMethods() { return methods; }

} // namespace moert::jinja
