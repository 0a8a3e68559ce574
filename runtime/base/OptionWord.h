//===- OptionWord.h - Values of options to and from words -------*- C++ -*-===//
//
// Numbers are decimal and whole words: no octal, no sign on what counts, no
// silent clamping, no NaN. What is refused is shown with its place.
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

/// The number that is all of `text`, from `least` to `most`; the failure
/// (Usage) shows the text and the range. For int32_t, uint32_t, int64_t,
/// uint64_t and float.
template <class T>
StatusOr<T> parseNumber(std::string_view text, T least, T most);

/// "3,10,17": numbers with commas between. The failure tells which is wrong.
StatusOr<std::vector<int32_t>> parseNumbers(std::string_view text,
                                            int32_t least, int32_t most);

/// Reads the value of an option of the kind that `info` says. The failure
/// (Usage) says what is expected and found, without the option's name. T is
/// std::string, a type of number, or std::vector<int32_t>, to which numbers are
/// appended.
template <class T>
Status parseOption(const OptionInfo &info, std::string_view text, T &value);

/// The inverse of parseOption().
template <class T>
std::string optionWord(const OptionInfo &info, const T &value);

/// The words of `info.words` that stand for a value: "auto", "pack", ...
std::vector<std::string_view> wordsOf(const OptionInfo &info);

} // namespace moert

#endif // MOE_RUNTIME_BASE_OPTIONWORD_H
