//===- Unicode.h - Python's string functions on UTF-8 -----------*- C++ -*-===//
//
// All text is valid UTF-8; positions and lengths that templates see count code
// points. Categories and simple case mappings are those of utf8proc.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_TEXT_JINJA_UNICODE_H
#define MOE_RUNTIME_TEXT_JINJA_UNICODE_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moert::jinja {

/// Returns the offset after the character at `begin`, which must be inside
/// `text`.
size_t nextCharacter(std::string_view text, size_t begin);
size_t countCharacters(std::string_view text);
std::u32string decode(std::string_view text);
std::string encode(std::u32string_view text);
void appendCharacter(std::string &out, char32_t c);
/// Returns `text` with U+FFFD for bytes that are not UTF-8.
std::string validText(std::string_view text);

bool isSpace(char32_t c);   ///< Same as str.isspace().
bool isLetter(char32_t c);  ///< Same as str.isalpha().
bool isDecimal(char32_t c); ///< Same as str.isdecimal(): category Nd.
/// Same as str.isnumeric(): categories Nd, Nl and No.
bool isNumeric(char32_t c);
bool isUpper(char32_t c);
bool isLower(char32_t c);
bool isPrintable(char32_t c); ///< Whether repr() prints it unchanged.
/// Whether it is part of a name: letters, digits and "_".
bool isWord(char32_t c);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
/// str.capitalize(): the first character upper, the rest lower.
std::string capitalize(std::string_view text);
/// str.title(): capitalises each run of letters.
std::string title(std::string_view text);
std::string swapCase(std::string_view text);

/// Removes characters of `set`, or blanks if `set` is null, from the ends.
std::string_view strip(std::string_view text, const std::string_view *set,
                       bool left, bool right);
/// str.splitlines().
std::vector<std::string_view> splitLines(std::string_view text, bool keepEnds);

} // namespace moert::jinja

#endif // MOE_RUNTIME_TEXT_JINJA_UNICODE_H
