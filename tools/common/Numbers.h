//===- Numbers.h - Options that take numbers --------------------*- C++ -*-===//
//
// Numbers are decimal and whole words: no octal, no sign on what counts, no
// silent clamping, no NaN. What is refused is shown with its place.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TOOLS_COMMON_NUMBERS_H
#define MOE_TOOLS_COMMON_NUMBERS_H

#include "runtime/base/Status.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moetool {

/// The number that is all of `text`, from `least` to `most`; the failure
/// (Usage) shows the text and the range. For int32_t, uint32_t, int64_t,
/// uint64_t and float.
template <class T>
moert::StatusOr<T> parseNumber(std::string_view text, T least, T most);

/// "3,10,17": numbers with commas between. The failure tells which is wrong.
moert::StatusOr<std::vector<int32_t>> parseNumbers(std::string_view text,
                                                   int32_t least, int32_t most);

/// An option with one number, parsed by parseNumber(). `value` is the default.
template <class T>
CLI::Option *addNumber(CLI::App &command, const std::string &names, T &value,
                       const std::string &help, T least, T most);

/// An option with a size, parsed by moert::parseSize(); 0 until it is given.
CLI::Option *addSize(CLI::App &command, const std::string &names,
                     int64_t &bytes, const std::string &help);

/// --rung of commands that read plans; `number` is 0 until it is given.
CLI::Option *addRung(CLI::App &command, uint32_t &number);

/// An option with a list, parsed by parseNumbers(); repeated, it appends.
CLI::Option *addNumbers(CLI::App &command, const std::string &names,
                        std::vector<int32_t> &values, const std::string &help,
                        int32_t least, int32_t most);

} // namespace moetool

#endif // MOE_TOOLS_COMMON_NUMBERS_H
