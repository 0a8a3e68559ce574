#include "runtime/text/Reasoning.h"

#include <algorithm>

namespace moert {

namespace {
using Mark = ReasoningMark;
constexpr Mark marks[] = {
    {"<think>", Mark::Effect::Begin},
    {"</think>", Mark::Effect::End},
    // gpt-oss
    {"<|channel|>analysis<|message|>", Mark::Effect::Begin},
    {"<|channel|>final<|message|>", Mark::Effect::End},
    {"<|start|>assistant", Mark::Effect::None},
    {"<|end|>", Mark::Effect::End},
    // Gemma 4
    {"<|channel>thought", Mark::Effect::Begin},
    {"<channel|>", Mark::Effect::End},
};

std::string_view withoutBlanksAtEnd(std::string_view text) {
  size_t last = text.find_last_not_of(" \n\t");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}
} // namespace

std::span<const ReasoningMark> reasoningMarks() { return marks; }

ReasoningSplitter::ReasoningSplitter(std::string_view prompt) {
  std::string_view end = withoutBlanksAtEnd(prompt);
  for (const Mark &mark : marks)
    if (mark.effect == Mark::Effect::Begin && end.ends_with(mark.text))
      isReasoning_ = true;
}

void ReasoningSplitter::emit(std::string_view text, std::vector<Part> &parts) {
  if (startsPart_)
    text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  if (text.empty())
    return;
  startsPart_ = false;
  if (parts.empty() || parts.back().isReasoning != isReasoning_)
    parts.push_back({isReasoning_, ""});
  parts.back().text += text;
}

std::vector<ReasoningSplitter::Part> ReasoningSplitter::split(bool isEnd) {
  std::vector<Part> parts;
  while (!held_.empty()) {
    size_t first = std::string::npos;
    const Mark *found = nullptr;
    for (const Mark &mark : marks)
      if (size_t at = held_.find(mark.text); at < first) {
        first = at;
        found = &mark;
      }
    if (found) {
      std::string_view before = std::string_view(held_).substr(0, first);
      // Line ends before a mark belong to it.
      emit(isReasoning_ ? withoutBlanksAtEnd(before) : before, parts);
      held_.erase(0, first + found->text.size());
      if (found->effect != Mark::Effect::None)
        isReasoning_ = found->effect == Mark::Effect::Begin;
      startsPart_ = true;
      continue;
    }
    // Hold back text that may begin a mark, and blanks that may precede its
    // end.
    size_t keep = 0;
    for (const Mark &mark : marks)
      for (size_t size = std::min(mark.text.size() - 1, held_.size());
           size > keep; --size)
        if (held_.ends_with(mark.text.substr(0, size)))
          keep = size;
    std::string_view certain =
        std::string_view(held_).substr(0, held_.size() - (isEnd ? 0 : keep));
    if (isReasoning_ && !isEnd)
      certain = withoutBlanksAtEnd(certain);
    emit(certain, parts);
    held_.erase(0, certain.size());
    break;
  }
  return parts;
}

std::vector<ReasoningSplitter::Part>
ReasoningSplitter::push(std::string_view text) {
  held_ += text;
  return split(false);
}

std::vector<ReasoningSplitter::Part> ReasoningSplitter::finish() {
  return split(true);
}

} // namespace moert
