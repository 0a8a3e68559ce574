#include "runtime/chat/MarkText.h"

#include "runtime/text/StreamDecoder.h"

#include <algorithm>
#include <cctype>

namespace moert {

namespace {
/// Longer text between brackets is no tag.
constexpr size_t kMostTagBytes = 64;

/// The size of the control token or tag at the front of a text; 0 if there is
/// none.
size_t tagBytes(std::string_view text) {
  if (text.front() == kControlOpen) {
    const size_t end = text.find(kControlClose);
    return end == text.npos ? 0 : end + 1;
  }
  const char close = text.front() == '<' ? '>' : ']';
  if (text.front() != '<' && text.front() != '[')
    return 0;
  const size_t end = text.find_first_of(" \t\r\n\"'{}\xFF<>[]", 1);
  const bool isTag =
      end != text.npos && end > 1 && end < kMostTagBytes && text[end] == close;
  return isTag ? end + 1 : 0;
}

std::string_view nameOf(std::string_view atom) {
  if (!atom.empty() && atom.front() == kControlOpen)
    return atom.substr(1, atom.size() - 2);
  return atom;
}

/// Pairs of what stands around the name of a part, where it begins and where
/// it ends.
struct Brackets {
  /// Texts before and after the name in the opening mark.
  std::string_view before, after;
  /// Texts before and after the name in the closing mark.
  std::string_view closeBefore, closeAfter;
};
constexpr Brackets kBrackets[] = {
    {"<|open|>", "<|sep|>", "<|close|>", "<|sep|>"},
    {"<|START_", "|>", "<|END_", "|>"},
    {"<|start_of_", "|>", "<|end_of_", "|>"},
    {"<|begin_of_", "|>", "<|end_of_", "|>"},
    {"<|", "_begin|>", "<|", "_end|>"},
    {"<|", "_start|>", "<|", "_end|>"},
    {"<", ">", "</", ">"},
    {"[", "]", "[/", "]"},
};

/// `mark` with other brackets; control tokens stay such.
std::string exchanged(std::string_view mark, bool opens) {
  const std::string name = namedControls(mark);
  const bool isControl = !mark.empty() && mark.front() == kControlOpen;
  for (const Brackets &pair : kBrackets) {
    const auto [before, after] =
        opens ? std::pair(pair.closeBefore, pair.closeAfter)
              : std::pair(pair.before, pair.after);
    if (!name.starts_with(before) || !name.ends_with(after) ||
        name.size() <= before.size() + after.size())
      continue;
    const std::string inner =
        name.substr(before.size(), name.size() - before.size() - after.size());
    // A closing mark is no opening one.
    if (!opens && inner.front() == '/')
      continue;
    const std::string_view otherBefore = opens ? pair.before : pair.closeBefore;
    const std::string_view otherAfter = opens ? pair.after : pair.closeAfter;
    if (before == "<|open|>" || before == "<|close|>") {
      if (!isControl)
        return std::string(otherBefore) + inner + std::string(otherAfter);
      return controlBytes(otherBefore) + inner + controlBytes(otherAfter);
    }
    const std::string result =
        std::string(otherBefore) + inner + std::string(otherAfter);
    return isControl ? controlBytes(result) : result;
  }
  return {};
}
} // namespace

std::vector<std::string_view> atomsOf(std::string_view text) {
  std::vector<std::string_view> atoms;
  while (!text.empty()) {
    size_t size = tagBytes(text);
    const std::string_view name = nameOf(text.substr(0, size));
    // A section's mark is three atoms, of which the last is a tag.
    if (name == "<|open|>" || name == "<|close|>") {
      size_t at = size;
      while (at < text.size() && text[at] != '<' && text[at] != kControlOpen)
        ++at;
      const size_t last = at < text.size() ? tagBytes(text.substr(at)) : 0;
      if (nameOf(text.substr(at, last)) == "<|sep|>")
        size = at + last;
    }
    if (size == 0) {
      size = 1;
      while (size < text.size() && (uint8_t(text[size]) & 0xC0) == 0x80 &&
             !isControlMark(text[size]))
        ++size;
    }
    atoms.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return atoms;
}

bool hasTag(std::string_view mark) {
  return std::ranges::any_of(atomsOf(mark), [](std::string_view atom) {
    return atom.front() == kControlOpen || tagBytes(atom) == atom.size();
  });
}

std::string_view commonBegin(std::string_view text, std::string_view other) {
  const std::vector<std::string_view> a = atomsOf(text), b = atomsOf(other);
  size_t bytes = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i)
    bytes += a[i].size();
  return text.substr(0, bytes);
}

std::string_view commonEnd(std::string_view text, std::string_view other) {
  const std::vector<std::string_view> a = atomsOf(text), b = atomsOf(other);
  size_t bytes = 0;
  for (size_t i = 1;
       i <= std::min(a.size(), b.size()) && a[a.size() - i] == b[b.size() - i];
       ++i)
    bytes += a[a.size() - i].size();
  return text.substr(text.size() - bytes);
}

std::string openerOf(std::string_view mark) { return exchanged(mark, true); }
std::string closerOf(std::string_view mark) { return exchanged(mark, false); }

} // namespace moert
