//===- Text.h - Formats texts, bytes and counts for messages ----*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_TEXT_H
#define MOE_RUNTIME_BASE_TEXT_H

#include <cstdint>
#include <string>
#include <string_view>

namespace moert {

/// Returns `text` in double quotes, for messages. Control bytes and bytes
/// outside ASCII become \xNN, so that a name in a file cannot control the
/// terminal; texts over 96 bytes are cut.
std::string quoted(std::string_view text);

/// Returns a text written by a user for a message. It is unchanged, except that
/// it is cut after at most 96 bytes, between two characters.
std::string clipped(std::string_view text);

/// Returns `text` with the escapes of quoted(), but whole and without quotes,
/// for reports.
std::string escaped(std::string_view text);

/// Returns `text` unchanged if it is up to 80 bytes of printable ASCII, else
/// quoted().
std::string printable(std::string_view text);

/// Returns `text` in a form that is safe on a terminal. These become \xNN:
/// control characters except newlines and tabs, DEL, the controls U+0080 to
/// U+009F, marks that change the direction of text (U+202A to U+202E, U+2066 to
/// U+2069), and bytes that are not UTF-8.
std::string terminalSafe(std::string_view text);

/// Does the same for a JSON text with \uNNNN escapes, which do not change its
/// values. Bytes that are not UTF-8 become U+FFFD.
std::string terminalSafeJson(std::string_view json);

/// Returns a count for a message, such as "1 byte" or "3 bytes".
std::string counted(unsigned long long count, std::string_view noun);

/// Formats bytes for users: "9.65 GiB".
std::string humanBytes(double bytes);

/// Formats bytes exactly, as parseSize() reads them: "1536MiB".
std::string sizeWord(uint64_t bytes);

/// Formats a number of parameters for users: "671.03 B".
std::string humanCount(uint64_t count);

} // namespace moert

#endif // MOE_RUNTIME_BASE_TEXT_H
