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

/// What a message shows of a text that somebody wrote, as it is: over 96 bytes
/// it is cut, between two characters.
std::string clipped(std::string_view text);

/// `text` with the same escapes, whole and without quotes: for reports, where
/// names stand in columns and sentences are long.
std::string escaped(std::string_view text);

/// As it is when it holds up to 80 bytes of printable ASCII, else quoted().
std::string printable(std::string_view text);

/// `text` as it can be shown on a terminal: what would drive one is written as
/// \xNN, which is control characters but newlines and tabs, DEL, the controls
/// U+0080 to U+009F, the marks that turn following text around (U+202A to
/// U+202E, U+2066 to U+2069), and bytes that are no UTF-8. All else stays.
std::string terminalSafe(std::string_view text);

/// The same for a JSON text, with \uNNNN: its values do not change. Bytes that
/// are no UTF-8 become U+FFFD.
std::string terminalSafeJson(std::string_view json);

/// "1 byte", "3 bytes"; for counts in messages.
std::string counted(unsigned long long count, std::string_view noun);

/// Bytes for people: "9.65 GiB".
std::string humanBytes(double bytes);

/// Bytes for an option of moec or moert, exactly: "1536MiB". parseSize() of
/// runtime/base/ParseSize.h reads it.
std::string sizeWord(uint64_t bytes);

/// A number of parameters for people: "671.03 B".
std::string humanCount(uint64_t count);

} // namespace moert

#endif // MOE_RUNTIME_BASE_TEXT_H
