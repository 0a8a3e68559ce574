//===- Utf8.h - Classifying bytes as UTF-8 ----------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_UTF8_H
#define MOE_RUNTIME_BASE_UTF8_H

#include <cstdint>
#include <string>
#include <string_view>

namespace moert {

/// U+FFFD, which stands in text for bytes that are not UTF-8.
inline constexpr std::string_view replacementCharacter = "\xEF\xBF\xBD";

enum class Utf8Kind : uint8_t {
  Valid,     ///< One whole code point.
  Invalid,   ///< A maximal subpart: no continuation can make it valid.
  Truncated, ///< The bytes end inside a sequence that more could complete.
};

/// What stands at the start of a byte string, and how many bytes it takes.
struct Utf8Unit {
  Utf8Kind kind;
  uint8_t length; ///< 1 to 4.
};

/// Classifies the start of `bytes`, which must not be empty. Surrogates,
/// overlong forms and code points above U+10FFFF are invalid; an invalid unit
/// is a maximal subpart in the sense of the Unicode Standard, section 3.9
/// ("Substitution of Maximal Subparts"), so each one is one U+FFFD.
Utf8Unit nextUtf8(std::string_view bytes);

/// The number of bytes from the start of `bytes` that are whole code points.
size_t validUtf8Prefix(std::string_view bytes);

/// The code point of a valid unit of `length` bytes at `bytes`.
uint32_t decodeUtf8(const char *bytes, unsigned length);

} // namespace moert

#endif // MOE_RUNTIME_BASE_UTF8_H
