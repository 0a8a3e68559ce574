//===- Utf8.cpp -----------------------------------------------------------===//

#include "runtime/base/Utf8.h"

#include <cstring>

namespace moert {

Utf8Unit nextUtf8(std::string_view bytes) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  uint8_t lead = byte(0);
  if (lead < 0x80)
    return {Utf8Kind::Valid, 1};
  if (lead < 0xC2 || lead > 0xF4)
    return {Utf8Kind::Invalid, 1};

  uint8_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // Only the range of the second byte depends on the lead byte (table 3-7 of
  // the Unicode Standard). It excludes overlong forms, surrogates and code
  // points above U+10FFFF.
  uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (uint8_t i = 1; i < length; ++i) {
    if (i == bytes.size())
      return {Utf8Kind::Truncated, i};
    if (byte(i) < low || byte(i) > high)
      return {Utf8Kind::Invalid, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Kind::Valid, length};
}

size_t validUtf8Prefix(std::string_view bytes) {
  size_t position = 0;
  while (position < bytes.size()) {
    // ASCII is by far the most common case: eight bytes at a time.
    uint64_t block;
    while (bytes.size() - position >= sizeof(block)) {
      std::memcpy(&block, bytes.data() + position, sizeof(block));
      if (block & 0x8080808080808080u)
        break;
      position += sizeof(block);
    }
    if (position == bytes.size())
      break;
    Utf8Unit unit = nextUtf8(bytes.substr(position, 4));
    if (unit.kind != Utf8Kind::Valid)
      break;
    position += unit.length;
  }
  return position;
}

uint32_t decodeUtf8(const char *bytes, unsigned length) {
  auto byte = [&](unsigned i) { return static_cast<uint8_t>(bytes[i]); };
  if (length == 1)
    return byte(0);
  uint32_t codePoint = byte(0) & (0x7Fu >> length);
  for (unsigned i = 1; i < length; ++i)
    codePoint = codePoint << 6 | (byte(i) & 0x3Fu);
  return codePoint;
}

} // namespace moert
