#include "runtime/base/OptionWord.h"

#include "runtime/base/ParseSize.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

namespace moert {

template <class T>
StatusOr<T> parseNumber(std::string_view text, T least, T most) {
  T value = {};
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  // The comparisons are false for NaN.
  if (error == std::errc() && stop == end && value >= least && value <= most)
    return value;
  return Status(StatusCode::Usage,
                fmt::format("expected a {}number from {} to {}, found {}",
                            std::is_integral_v<T> ? "whole " : "", least, most,
                            quoted(text)));
}

StatusOr<std::vector<int32_t>> parseNumbers(std::string_view text,
                                            int32_t least, int32_t most) {
  std::vector<int32_t> numbers;
  for (std::string_view rest = text;;) {
    size_t comma = rest.find(',');
    StatusOr<int32_t> number = parseNumber(rest.substr(0, comma), least, most);
    if (!number)
      return Status(StatusCode::Usage,
                    fmt::format("number {} of {}: {}", numbers.size() + 1,
                                quoted(text), number.status().message()));
    numbers.push_back(*number);
    if (comma == rest.npos)
      return numbers;
    rest.remove_prefix(comma + 1);
  }
}

namespace {
/// A word of OptionInfo::words and the number that it stands for, if any.
struct NamedValue {
  std::string_view name, number;
};

std::vector<NamedValue> namedValues(const OptionInfo &info) {
  std::vector<NamedValue> values;
  for (std::string_view rest = info.words; !rest.empty();) {
    std::string_view word = rest.substr(0, rest.find('|'));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    size_t equals = word.find('=');
    values.push_back({word.substr(0, equals), equals == word.npos
                                                  ? std::string_view()
                                                  : word.substr(equals + 1)});
  }
  return values;
}

/// Converts a bound from a row of a table to the type of the option's value.
template <class T> T bound(double value) {
  if (value >= double(std::numeric_limits<T>::max()))
    return std::numeric_limits<T>::max();
  return T(value);
}

template <class T>
StatusOr<T> parseNumberOrName(const OptionInfo &info, std::string_view text) {
  std::vector<NamedValue> named = namedValues(info);
  for (auto [name, number] : named)
    if (name == text)
      return parseNumber(number, std::numeric_limits<T>::lowest(),
                         std::numeric_limits<T>::max());
  StatusOr<T> number =
      parseNumber(text, bound<T>(info.least), bound<T>(info.most));
  if (number || named.empty())
    return number;
  return Status(StatusCode::Usage,
                fmt::format("expected {} or a number from {} to {}, found {}",
                            fmt::join(wordsOf(info), ", "),
                            bound<T>(info.least), bound<T>(info.most),
                            quoted(text)));
}
} // namespace

std::vector<std::string_view> wordsOf(const OptionInfo &info) {
  std::vector<std::string_view> words;
  for (const NamedValue &value : namedValues(info))
    words.push_back(value.name);
  return words;
}

template <class T>
Status parseOption(const OptionInfo &info, std::string_view text, T &value) {
  if constexpr (std::is_same_v<T, std::string>) {
    std::vector<std::string_view> words = wordsOf(info);
    if (info.kind == OptionKind::Word &&
        std::ranges::find(words, text) == words.end())
      return Status(StatusCode::Usage,
                    fmt::format("expected one of {}; found {}",
                                fmt::join(words, ", "), quoted(text)));
    value = text;
  } else if constexpr (std::is_same_v<T, std::vector<int32_t>>) {
    MOE_ASSIGN_OR_RETURN(std::vector<int32_t> numbers,
                         parseNumbers(text, bound<int32_t>(info.least),
                                      bound<int32_t>(info.most)));
    value.insert(value.end(), numbers.begin(), numbers.end());
  } else {
    if (info.kind == OptionKind::Size) {
      MOE_ASSIGN_OR_RETURN(int64_t size, parseSize(text));
      value = T(size);
      return Status::ok();
    }
    MOE_ASSIGN_OR_RETURN(value, parseNumberOrName<T>(info, text));
  }
  return Status::ok();
}

template <class T>
std::string optionWord(const OptionInfo &info, const T &value) {
  if constexpr (std::is_same_v<T, std::vector<int32_t>>) {
    return fmt::format("{}", fmt::join(value, ","));
  } else if constexpr (std::is_arithmetic_v<T>) {
    if (info.kind == OptionKind::Size)
      return sizeWord(uint64_t(value));
    std::string number = fmt::format("{}", value);
    for (const NamedValue &named : namedValues(info))
      if (named.number == number)
        return std::string(named.name);
    return number;
  } else {
    return value;
  }
}

#define MOE_NUMBER(T) template StatusOr<T> parseNumber(std::string_view, T, T);
#define MOE_OPTION_TYPE(T)                                                     \
  template Status parseOption(const OptionInfo &, std::string_view, T &);      \
  template std::string optionWord(const OptionInfo &, const T &);
#define MOE_NUMBER_OPTION(T) MOE_NUMBER(T) MOE_OPTION_TYPE(T)
MOE_NUMBER_OPTION(int32_t)
MOE_NUMBER_OPTION(uint32_t)
MOE_NUMBER_OPTION(int64_t)
MOE_NUMBER_OPTION(uint64_t)
MOE_NUMBER_OPTION(float)
MOE_OPTION_TYPE(std::string)
MOE_OPTION_TYPE(std::vector<int32_t>)
#undef MOE_NUMBER
#undef MOE_OPTION_TYPE
#undef MOE_NUMBER_OPTION

} // namespace moert
