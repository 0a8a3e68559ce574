//===- Words.h - Small parts of headers' grammar ----------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_HTTP_WORDS_H
#define MOE_RUNTIME_SERVE_HTTP_WORDS_H

#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Returns ASCII text in lower case.
std::string lowerCase(std::string_view text);

/// Returns the text without spaces and tabs at both ends.
std::string_view trimmed(std::string_view text);

/// Returns the trimmed parts between `separator`s, those that are empty too.
std::vector<std::string_view> split(std::string_view text, char separator);

/// Returns whether two texts are equal but for ASCII case.
bool equalsIgnoringCase(std::string_view a, std::string_view b);

/// Returns whether `c` may be in a token, such as a header's name.
bool isTokenCharacter(char c);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_WORDS_H
