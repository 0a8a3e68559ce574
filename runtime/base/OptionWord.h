//===- OptionWord.h - Converts option values to and from text ---*- C++ -*-===//
//
// Numbers are decimal and must be the whole word: no octal, no sign for counts,
// no silent clamping, no NaN. Errors show the refused text.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_BASE_OPTIONWORD_H
#define MOE_RUNTIME_BASE_OPTIONWORD_H

#include "runtime/base/OptionInfo.h"
#include "runtime/base/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Parses all of `text` as a number from `least` to `most`. The error (Usage)
/// shows text and range. For int32_t, uint32_t, int64_t, uint64_t and float.
template <class T>
StatusOr<T> parseNumber(std::string_view text, T least, T most);

/// Parses comma-separated numbers, such as "3,10,17". The error shows the wrong
/// one.
StatusOr<std::vector<int32_t>> parseNumbers(std::string_view text,
                                            int32_t least, int32_t most);

/// Parses the value of an option of the kind in `info`. The error (Usage) says
/// what was expected and found, without the option's name. T is std::string, a
/// number type, or std::vector<int32_t>, to which numbers are appended.
template <class T>
Status parseOption(const OptionInfo &info, std::string_view text, T &value);

/// The inverse of parseOption().
template <class T>
std::string optionWord(const OptionInfo &info, const T &value);

/// Returns the words in `info.words`, such as "auto" and "pack".
std::vector<std::string_view> wordsOf(const OptionInfo &info);

} // namespace moert

#endif // MOE_RUNTIME_BASE_OPTIONWORD_H
