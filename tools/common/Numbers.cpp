#include "tools/common/Numbers.h"

#include "runtime/base/ParseSize.h"
#include "runtime/base/Text.h"

#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <type_traits>
#include <utility>

using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moetool {

template <class T>
StatusOr<T> parseNumber(std::string_view text, T least, T most) {
  T value = {};
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  // Written so that NaN is outside every range.
  if (error == std::errc() && stop == end && value >= least && value <= most)
    return value;
  return Status(StatusCode::Usage,
                fmt::format("expected a {}number from {} to {}, found {}",
                            std::is_integral_v<T> ? "whole " : "", least, most,
                            moert::quoted(text)));
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
                                moert::quoted(text),
                                number.status().message()));
    numbers.push_back(*number);
    if (comma == rest.npos)
      return numbers;
    rest.remove_prefix(comma + 1);
  }
}

/// "--threads" of "-t,--threads".
static std::string longName(const std::string &names) {
  return names.substr(names.rfind(',') + 1);
}

template <class T>
CLI::Option *addNumber(CLI::App &command, const std::string &names, T &value,
                       const std::string &help, T least, T most) {
  CLI::Option *option = command.add_option_function<std::string>(
      names,
      [&value, name = longName(names), least, most](const std::string &text) {
        StatusOr<T> number = parseNumber(text, least, most);
        if (!number)
          throw CLI::ValidationError(name, number.status().message());
        value = *number;
      },
      help);
  return option->default_str(fmt::format("{}", value));
}

CLI::Option *addSize(CLI::App &command, const std::string &names,
                     int64_t &bytes, const std::string &help) {
  return command.add_option_function<std::string>(
      names,
      [&bytes, name = longName(names)](const std::string &text) {
        StatusOr<int64_t> size = moert::parseSize(text);
        if (!size)
          throw CLI::ValidationError(name, size.status().message());
        bytes = *size;
      },
      help);
}

CLI::Option *addRung(CLI::App &command, uint32_t &number) {
  return addNumber(command, "--rung", number,
                   "Of a ladder this rung, from 1; moec explain lists them", 1u,
                   1u << 16)
      ->type_name("N")
      ->group("Machine");
}

CLI::Option *addNumbers(CLI::App &command, const std::string &names,
                        std::vector<int32_t> &values, const std::string &help,
                        int32_t least, int32_t most) {
  CLI::Option *option = command.add_option_function<std::vector<std::string>>(
      names,
      [&values, name = longName(names), least,
       most](const std::vector<std::string> &texts) {
        values.clear();
        for (const std::string &text : texts) {
          auto numbers = parseNumbers(text, least, most);
          if (!numbers)
            throw CLI::ValidationError(name, numbers.status().message());
          values.insert(values.end(), numbers->begin(), numbers->end());
        }
      },
      help);
  return option->allow_extra_args(false)->default_str(
      fmt::format("{}", fmt::join(values, ",")));
}

#define MOE_NUMBER(T)                                                          \
  template StatusOr<T> parseNumber(std::string_view, T, T);                    \
  template CLI::Option *addNumber(CLI::App &, const std::string &, T &,        \
                                  const std::string &, T, T);
MOE_NUMBER(int32_t)
MOE_NUMBER(uint32_t)
MOE_NUMBER(int64_t)
MOE_NUMBER(uint64_t)
MOE_NUMBER(float)
#undef MOE_NUMBER

} // namespace moetool
