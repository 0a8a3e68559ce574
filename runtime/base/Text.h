//===- Text.h - Names from files, safe to print -----------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_TEXT_H
#define MOE_RUNTIME_BASE_TEXT_H

#include <cstdint>
#include <string>
#include <string_view>

namespace moert {

/// `text` in double quotes for a message. Control bytes and bytes outside ASCII
/// become \xNN, so that a name in a file cannot drive the terminal; texts over
/// 96 bytes are cut.
std::string quoted(std::string_view text);

/// `text` with the same escapes, whole and without quotes: for reports, where
/// names stand in columns and sentences are long.
std::string escaped(std::string_view text);

/// As it is when it holds up to 80 bytes of printable ASCII, else quoted().
std::string printable(std::string_view text);

/// "1 byte", "3 bytes"; for counts in messages.
std::string counted(unsigned long long count, std::string_view noun);

/// Bytes for people: "9.65 GiB".
std::string humanBytes(double bytes);

/// A number of parameters for people: "671.03 B".
std::string humanCount(uint64_t count);

} // namespace moert

#endif // MOE_RUNTIME_BASE_TEXT_H
