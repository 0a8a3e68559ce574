#include "runtime/text/jinja/Unicode.h"

#include "runtime/base/Utf8.h"

#include <algorithm>
#include <utf8proc.h>

namespace moert::jinja {

namespace {
utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

/// Returns the upper case of characters for which it has several characters.
/// The other entries of SpecialCasing.txt are in scripts without capital
/// letters at the beginning of sentences.
std::u32string_view specialUpper(char32_t c) {
  switch (c) {
  case U'ß':
    return U"SS";
  case U'\u0149':
    return U"\u02BCN";
  case U'\u01F0':
    return U"J\u030C";
  case U'\uFB00':
    return U"FF";
  case U'\uFB01':
    return U"FI";
  case U'\uFB02':
    return U"FL";
  case U'\uFB03':
    return U"FFI";
  case U'\uFB04':
    return U"FFL";
  case U'\uFB05':
  case U'\uFB06':
    return U"ST";
  default:
    return {};
  }
}

void appendUpper(std::string &out, char32_t c, bool isTitle) {
  std::u32string_view special = specialUpper(c);
  if (special.empty()) {
    auto code = static_cast<utf8proc_int32_t>(c);
    appendCharacter(out,
                    static_cast<char32_t>(isTitle ? utf8proc_totitle(code)
                                                  : utf8proc_toupper(code)));
    return;
  }
  appendCharacter(out, special[0]);
  for (char32_t next : special.substr(1))
    appendCharacter(out, isTitle && next < 0x80 ? next | 0x20 : next);
}

bool isCased(char32_t c) {
  return isUpper(c) || isLower(c) || category(c) == UTF8PROC_CATEGORY_LT;
}

/// Appends the lower case of text[i]; a sigma at the end of a word has its own
/// form.
void appendLower(std::string &out, const std::u32string &text, size_t i) {
  char32_t c = text[i];
  if (c == U'\u0130') {
    out += "i\u0307";
    return;
  }
  if (c == U'Σ') {
    bool isFinal = i > 0 && isCased(text[i - 1]) &&
                   (i + 1 == text.size() || !isCased(text[i + 1]));
    appendCharacter(out, isFinal ? U'ς' : U'σ');
    return;
  }
  appendCharacter(out, static_cast<char32_t>(
                           utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}
} // namespace

size_t nextCharacter(std::string_view text, size_t begin) {
  return begin + nextUtf8(text.substr(begin, 4)).length;
}

size_t countCharacters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char byte) { return (byte & 0xC0) != 0x80; }));
}

std::u32string decode(std::string_view text) {
  std::u32string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    unsigned length = nextUtf8(text.substr(i, 4)).length;
    result += static_cast<char32_t>(decodeUtf8(&text[i], length));
    i += length;
  }
  return result;
}

void appendCharacter(std::string &out, char32_t c) {
  if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) {
    out += replacementCharacter;
    return;
  }
  auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::string encode(std::u32string_view text) {
  std::string result;
  for (char32_t c : text)
    appendCharacter(result, c);
  return result;
}

std::string validText(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    size_t valid = validUtf8Prefix(text);
    result += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty())
      break;
    text.remove_prefix(nextUtf8(text.substr(0, 4)).length);
    result += replacementCharacter;
  }
  return result;
}

bool isSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 ||
         c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool isLetter(char32_t c) {
  auto type = category(c);
  return type >= UTF8PROC_CATEGORY_LU && type <= UTF8PROC_CATEGORY_LO;
}
bool isDecimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool isNumeric(char32_t c) {
  auto type = category(c);
  return type >= UTF8PROC_CATEGORY_ND && type <= UTF8PROC_CATEGORY_NO;
}
bool isUpper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool isLower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL; }

bool isPrintable(char32_t c) {
  if (c == ' ')
    return true;
  switch (category(c)) {
  case UTF8PROC_CATEGORY_CN:
  case UTF8PROC_CATEGORY_CC:
  case UTF8PROC_CATEGORY_CF:
  case UTF8PROC_CATEGORY_CS:
  case UTF8PROC_CATEGORY_CO:
  case UTF8PROC_CATEGORY_ZL:
  case UTF8PROC_CATEGORY_ZP:
  case UTF8PROC_CATEGORY_ZS:
    return false;
  default:
    return true;
  }
}

bool isWord(char32_t c) { return c == '_' || isLetter(c) || isNumeric(c); }

std::string upper(std::string_view text) {
  std::string result;
  for (char32_t c : decode(text))
    appendUpper(result, c, false);
  return result;
}

std::string lower(std::string_view text) {
  std::u32string characters = decode(text);
  std::string result;
  for (size_t i = 0; i < characters.size(); ++i)
    appendLower(result, characters, i);
  return result;
}

std::string capitalize(std::string_view text) {
  std::u32string characters = decode(text);
  std::string result;
  for (size_t i = 0; i < characters.size(); ++i)
    if (i == 0)
      appendUpper(result, characters[i], true);
    else
      appendLower(result, characters, i);
  return result;
}

std::string title(std::string_view text) {
  std::u32string characters = decode(text);
  std::string result;
  bool inWord = false;
  for (size_t i = 0; i < characters.size(); ++i) {
    if (inWord)
      appendLower(result, characters, i);
    else
      appendUpper(result, characters[i], true);
    inWord = isCased(characters[i]);
  }
  return result;
}

std::string swapCase(std::string_view text) {
  std::u32string characters = decode(text);
  std::string result;
  for (size_t i = 0; i < characters.size(); ++i)
    if (isLower(characters[i]))
      appendUpper(result, characters[i], false);
    else
      appendLower(result, characters, i);
  return result;
}

std::string_view strip(std::string_view text, const std::string_view *set,
                       bool left, bool right) {
  std::u32string among = set ? decode(*set) : std::u32string();
  auto goes = [&](std::string_view character) {
    char32_t c =
        decodeUtf8(character.data(), static_cast<unsigned>(character.size()));
    return set ? among.find(c) != std::u32string::npos : isSpace(c);
  };
  while (left && !text.empty()) {
    size_t end = nextCharacter(text, 0);
    if (!goes(text.substr(0, end)))
      break;
    text.remove_prefix(end);
  }
  while (right && !text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 && (text[begin] & 0xC0) == 0x80)
      --begin;
    if (!goes(text.substr(begin)))
      break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

std::vector<std::string_view> splitLines(std::string_view text, bool keepEnds) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    size_t next = nextCharacter(text, i);
    char32_t c = decodeUtf8(&text[i], static_cast<unsigned>(next - i));
    bool ends = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) ||
                c == 0x85 || c == 0x2028 || c == 0x2029;
    if (c == '\r' && next < text.size() && text[next] == '\n')
      ++next;
    if (ends) {
      lines.push_back(text.substr(begin, (keepEnds ? next : i) - begin));
      begin = next;
    }
    i = next;
  }
  if (begin < text.size())
    lines.push_back(text.substr(begin));
  return lines;
}

} // namespace moert::jinja
