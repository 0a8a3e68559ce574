//===- Utf8.h - Classifying bytes as UTF-8 ----------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_UTF8_H
#define MOE_RUNTIME_BASE_UTF8_H

#include <cstdint>
#include <string>
#include <string_view>

namespace moert {

/// U+FFFD, which replaces bytes that are not UTF-8.
inline constexpr std::string_view replacementCharacter = "\xEF\xBF\xBD";

enum class Utf8Kind : uint8_t {
  Valid,   ///< One whole code point.
  Invalid, ///< The bytes cannot become valid: a maximal subpart.
  /// The text ends inside a sequence that more bytes could complete.
  Truncated,
};

/// The unit at the start of a byte string, and its length in bytes.
struct Utf8Unit {
  Utf8Kind kind;
  uint8_t length; ///< 1 to 4.
};

/// Classifies the start of `bytes`, which must not be empty. Surrogates,
/// overlong forms and code points above U+10FFFF are invalid; an invalid unit
/// is a maximal subpart in the sense of the Unicode Standard, section 3.9
/// ("Substitution of Maximal Subparts"), so each one is one U+FFFD.
Utf8Unit nextUtf8(std::string_view bytes);

/// Returns the number of leading bytes that are complete code points.
size_t validUtf8Prefix(std::string_view bytes);

/// Returns the code point of a valid unit of `length` bytes at `bytes`.
uint32_t decodeUtf8(const char *bytes, unsigned length);

} // namespace moert

#endif // MOE_RUNTIME_BASE_UTF8_H
