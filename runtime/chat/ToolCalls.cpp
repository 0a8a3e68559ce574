#include "runtime/chat/ToolCalls.h"

#include "runtime/base/Text.h"
#include "runtime/chat/ToolValue.h"

#include <algorithm>
#include <fmt/format.h>

namespace moert {

using Body = ToolFormat::Body;

namespace {
/// Longer names and attributes are taken for a call that was never closed.
constexpr size_t kMostNameBytes = 512;
constexpr std::string_view kBlanks = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  size_t first = text.find_first_not_of(kBlanks);
  if (first == text.npos)
    return {};
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

/// A mark without its white space, unless it has nothing else.
std::string_view markOf(std::string_view mark) {
  std::string_view inner = trimmed(mark);
  return inner.empty() ? mark : inner;
}

std::string_view withoutBlanksAtEnd(std::string_view text) {
  size_t last = text.find_last_not_of(kBlanks);
  return text.substr(0, last == text.npos ? 0 : last + 1);
}
} // namespace

//===----------------------------------------------------------------------===//
// The held text and the events
//===----------------------------------------------------------------------===//

bool ToolCallParser::take(std::string_view mark) {
  mark = markOf(mark);
  if (mark.empty() || !held_.starts_with(mark))
    return false;
  held_.erase(0, mark.size());
  return true;
}

bool ToolCallParser::mayBecome(std::string_view mark) const {
  return held_.size() < markOf(mark).size() && markOf(mark).starts_with(held_);
}

void ToolCallParser::skipBlanks() {
  held_.erase(0, std::min(held_.find_first_not_of(kBlanks), held_.size()));
}

void ToolCallParser::emitText(std::string_view text) {
  if (text.empty())
    return;
  hasText_ = true;
  if (events_.empty() || events_.back().kind != ToolEvent::Kind::Text)
    events_.push_back({ToolEvent::Kind::Text});
  events_.back().text += text;
}

void ToolCallParser::addArguments(std::string_view text) {
  if (text.empty())
    return;
  if (events_.empty() || events_.back().kind != ToolEvent::Kind::Arguments)
    events_.push_back({ToolEvent::Kind::Arguments});
  events_.back().text += text;
}

bool ToolCallParser::fail(std::string_view what) {
  std::string call = name_.empty() ? std::string("a tool call")
                                   : "a call of " + moert::quoted(name_);
  events_.push_back({ToolEvent::Kind::Error,
                     fmt::format("the model wrote {} that {}", call, what)});
  place_ = Place::Failed;
  held_.clear();
  return false;
}

bool ToolCallParser::failOrText(std::string_view what) {
  if (!isTentative_ || hasBegun_)
    return fail(what);
  held_.insert(0, seen_);
  hasText_ = true;
  place_ = Place::Text;
  return true;
}

void ToolCallParser::enterCall() {
  bool isObject =
      format_->body == Body::Json || format_->body == Body::JsonList;
  place_ = isObject ? Place::Object : Place::Head;
  scanner_ = {};
  name_.clear();
  hasBegun_ = isTentative_ = hasArguments_ = false;
  seen_.clear();
  key_.clear();
  piece_.clear();
  earlyArguments_.clear();
  parameters_ = 0;
}

bool ToolCallParser::begin(std::string_view text) {
  text = trimmed(text);
  std::string id;
  // Mistral writes an id between name and arguments.
  if (size_t mark = text.find("[CALL_ID]"); mark != text.npos) {
    id = text.substr(mark + std::string_view("[CALL_ID]").size());
    text = text.substr(0, mark);
  }
  text = text.substr(0, text.find_first_of(" <"));
  if (format_->nameIsId) {
    id = text;
    if (text.starts_with("functions."))
      text.remove_prefix(std::string_view("functions.").size());
    size_t digits = text.find_last_not_of("0123456789");
    if (digits != text.npos && text[digits] == ':')
      text = text.substr(0, digits);
  }
  if (text.empty())
    return failOrText("has no name") && false;
  name_ = text;
  hasBegun_ = true;
  events_.push_back({ToolEvent::Kind::Begin, name_, id});
  return true;
}

void ToolCallParser::endCall() {
  events_.push_back({ToolEvent::Kind::End});
  ++calls_;
  name_.clear();
  place_ = isInSection_ ? Place::Section : Place::Text;
  dropsBlanks_ = true;
}

std::vector<ToolEvent> ToolCallParser::push(std::string_view text) {
  if (place_ == Place::Failed)
    return {};
  held_ += text;
  while (step()) {
  }
  return std::exchange(events_, {});
}

std::vector<ToolEvent> ToolCallParser::finish() {
  bool isEmptySection = place_ == Place::Section && calls_ == 0;
  if (place_ == Place::Object && isTentative_ && !hasBegun_) {
    emitText(seen_);
  } else if (place_ == Place::Text) {
    if (dropsBlanks_)
      skipBlanks();
    emitText(held_);
  } else if (place_ == Place::Close) {
    endCall();
  } else if (isEmptySection ||
             (place_ != Place::Section && place_ != Place::Failed)) {
    fail("is not complete: the reply ended inside it");
  }
  held_.clear();
  place_ = Place::Failed;
  return std::exchange(events_, {});
}

bool ToolCallParser::step() {
  switch (place_) {
  case Place::Text:
    return stepText();
  case Place::Section:
    return stepSection();
  case Place::Head:
    return stepHead();
  case Place::Object:
    return stepObject();
  case Place::Arguments:
    return stepArguments();
  case Place::Parameters:
    return stepParameters();
  case Place::ParameterName:
    return stepParameterName();
  case Place::Value:
    return stepValue();
  case Place::StringValue:
    return stepStringValue();
  case Place::Close:
    return stepClose();
  case Place::Failed:
    return false;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Around calls
//===----------------------------------------------------------------------===//

bool ToolCallParser::stepText() {
  if (dropsBlanks_)
    skipBlanks();
  if (held_.empty())
    return false;
  dropsBlanks_ = false;
  if (format_->isBare && !hasText_ && calls_ == 0) {
    size_t first = held_.find_first_not_of(kBlanks);
    if (first == held_.npos)
      return false;
    if (held_[first] == '{') {
      enterCall();
      isTentative_ = true;
      return true;
    }
  }
  const std::string_view marks[] = {
      markOf(format_->sectionOpen), markOf(format_->open),
      // A blank at its beginning tells it from other text.
      format_->otherOpen, format_->dropped};
  size_t at = held_.npos, partial = 0;
  std::string_view found;
  for (std::string_view mark : marks) {
    if (mark.empty())
      continue;
    size_t place = held_.find(mark);
    if (place < at ||
        (place == at && at != held_.npos && mark.size() > found.size())) {
      at = place;
      found = mark;
    }
    for (size_t size = std::min(mark.size() - 1, held_.size()); size > partial;
         --size)
      if (held_.ends_with(mark.substr(0, size)))
        partial = size;
  }
  if (at == held_.npos) {
    // Blanks may belong to a mark that follows.
    std::string_view certain = withoutBlanksAtEnd(
        std::string_view(held_).substr(0, held_.size() - partial));
    emitText(certain);
    held_.erase(0, certain.size());
    return false;
  }
  emitText(withoutBlanksAtEnd(std::string_view(held_).substr(0, at)));
  held_.erase(0, at + found.size());
  if (found == format_->dropped) {
    dropsBlanks_ = true;
  } else if (found == markOf(format_->sectionOpen)) {
    isInSection_ = true;
    place_ = Place::Section;
  } else {
    enterCall();
  }
  return true;
}

bool ToolCallParser::stepSection() {
  bool isList = format_->body == Body::JsonList;
  held_.erase(0,
              std::min(held_.find_first_not_of(isList ? " \t\r\n[," : kBlanks),
                       held_.size()));
  if (held_.empty())
    return false;
  if (take(format_->sectionClose)) {
    isInSection_ = false;
    place_ = Place::Text;
    dropsBlanks_ = true;
    return true;
  }
  if (take(format_->open) || (isList && held_[0] == '{')) {
    enterCall();
    return true;
  }
  if (mayBecome(format_->sectionClose) || mayBecome(format_->open))
    return false;
  return fail("has other text where a call should begin or the calls end");
}

bool ToolCallParser::stepClose() {
  if (format_->close.empty() || format_->body == Body::JsonList) {
    endCall();
    return true;
  }
  skipBlanks();
  if (take(format_->close)) {
    endCall();
    return true;
  }
  if (held_.empty() || mayBecome(format_->close))
    return false;
  return fail(fmt::format("has other text where {} should be",
                          moert::quoted(markOf(format_->close))));
}

bool ToolCallParser::stepHead() {
  size_t at = held_.npos;
  size_t consumed = 0, longest = 0;
  for (std::string_view mark :
       {markOf(format_->nameClose), markOf(format_->parameterOpen),
        markOf(format_->close)}) {
    longest = std::max(longest, mark.size());
    if (mark.empty() || held_.find(mark) >= at)
      continue;
    at = held_.find(mark);
    consumed = mark == markOf(format_->nameClose) ? mark.size() : 0;
  }
  // More text could still complete a mark that begins within the limit.
  if (at == held_.npos && held_.size() <= kMostNameBytes + longest)
    return false;
  if (at > kMostNameBytes)
    return fail("has a name without an end");
  std::string name = held_.substr(0, at);
  held_.erase(0, at + consumed);
  if (!begin(name))
    return false;
  place_ = format_->body == Body::Tagged ? Place::Parameters : Place::Arguments;
  if (place_ == Place::Parameters)
    addArguments("{");
  return true;
}

//===----------------------------------------------------------------------===//
// Arguments as JSON
//===----------------------------------------------------------------------===//

std::optional<std::string> ToolCallParser::scan(char byte) {
  std::string text(1, byte);
  if (scanner_.isInString() && uint8_t(byte) < 0x20)
    text = jsonEscaped(text);
  for (char c : text)
    if (!scanner_.push(c))
      return std::nullopt;
  return text;
}

bool ToolCallParser::stepArguments() {
  if (scanner_.depth() == 0) {
    skipBlanks();
    if (held_.empty() || mayBecome(format_->close))
      return false;
    if (take(format_->close)) {
      addArguments("{}");
      endCall();
      return true;
    }
    if (held_[0] != '{')
      return fail("has arguments that are no JSON object");
  }
  for (size_t i = 0; i < held_.size(); ++i) {
    std::optional<std::string> text = scan(held_[i]);
    if (!text)
      return fail("has arguments that are not valid JSON");
    addArguments(*text);
    if (scanner_.isComplete()) {
      held_.erase(0, i + 1);
      place_ = Place::Close;
      return true;
    }
  }
  held_.clear();
  return false;
}

bool ToolCallParser::stepObject() {
  std::string text = std::exchange(held_, {});
  for (size_t i = 0; i < text.size(); ++i) {
    if (isTentative_ && !hasBegun_)
      seen_ += text[i];
    if (!atObjectByte(text[i])) {
      if (place_ == Place::Failed)
        return false;
      held_ += text.substr(i + 1); // it was text
      return true;
    }
    if (scanner_.isComplete()) {
      held_ = text.substr(i + 1);
      if (!hasBegun_)
        return failOrText("has no name");
      if (!hasArguments_)
        addArguments("{}");
      place_ = Place::Close;
      return true;
    }
  }
  return false;
}

bool ToolCallParser::atObjectByte(char byte) {
  size_t before = scanner_.depth();
  bool wasInString = scanner_.isInString();
  if (before == 0 && byte != '{' && kBlanks.find(byte) == kBlanks.npos)
    return failOrText("is no JSON object") && false;
  std::optional<std::string> text = scan(byte);
  if (!text)
    return failOrText("is not valid JSON") && false;
  if (before == 0)
    return true;
  size_t level = std::max(before, scanner_.depth());
  if (level == 1) {
    if (!wasInString && byte == ':') {
      key_ = stringOf(piece_);
      piece_.clear();
      return true;
    }
    if (!wasInString && (byte == ',' || byte == '}'))
      return endMember();
    piece_ += *text;
    return true;
  }
  if (key_ != "arguments" && key_ != "parameters") {
    // Only arguments may be objects or lists; others are of no interest.
    return true;
  }
  if (before == 1 && byte == '[')
    return failOrText("has arguments that are no JSON object") && false;
  if (before == 1 && byte == '{' && hasArguments_)
    return failOrText("has arguments twice") && false;
  hasArguments_ = true;
  if (hasBegun_)
    addArguments(*text);
  else
    earlyArguments_ += *text;
  return true;
}

bool ToolCallParser::endMember() {
  std::string piece(trimmed(std::exchange(piece_, {})));
  std::string key = std::exchange(key_, {});
  if (key == "name")
    return setName(stringOf(piece));
  if ((key == "arguments" || key == "parameters") && !piece.empty())
    return setArguments(piece);
  return true;
}

bool ToolCallParser::setName(std::string name) {
  auto isKnown = [&](const Tool &tool) { return tool.name == name; };
  if (isTentative_ && std::ranges::none_of(*tools_, isKnown))
    return failOrText("names no tool") && false;
  if (name.empty() || hasBegun_)
    return failOrText("has no name, or two") && false;
  if (!begin(name))
    return false;
  addArguments(std::exchange(earlyArguments_, {}));
  return true;
}

bool ToolCallParser::setArguments(std::string_view piece) {
  if (hasArguments_)
    return failOrText("has arguments twice") && false;
  // Some models write them as a string of JSON.
  std::optional<std::string> object =
      piece == "null" ? "{}" : objectText(stringOf(piece));
  if (!object)
    return failOrText("has arguments that are no JSON object") && false;
  hasArguments_ = true;
  if (hasBegun_)
    addArguments(*object);
  else
    earlyArguments_ = *object;
  return true;
}

//===----------------------------------------------------------------------===//
// Arguments between marks
//===----------------------------------------------------------------------===//

bool ToolCallParser::stepParameters() {
  skipBlanks();
  if (held_.empty())
    return false;
  if (take(format_->parameterOpen)) {
    place_ = Place::ParameterName;
    return true;
  }
  if (take(format_->close)) {
    addArguments("}");
    endCall();
    return true;
  }
  if (mayBecome(format_->parameterOpen) || mayBecome(format_->close))
    return false;
  return fail(fmt::format("has other text where {} or {} should be",
                          moert::quoted(markOf(format_->parameterOpen)),
                          moert::quoted(markOf(format_->close))));
}

bool ToolCallParser::stepParameterName() {
  std::string_view nameClose = markOf(format_->parameterNameClose);
  std::string_view valueOpen = markOf(format_->valueOpen);
  size_t name = held_.find(nameClose);
  size_t attributes = name == held_.npos ? held_.npos : name + nameClose.size();
  size_t value =
      name == held_.npos ? held_.npos : held_.find(valueOpen, attributes);
  if (value == held_.npos && held_.size() < kMostNameBytes + valueOpen.size())
    return false;
  if (value > kMostNameBytes)
    return fail("has a parameter's name without an end");
  parameter_ = trimmed(std::string_view(held_).substr(0, name));
  attributes_ = held_.substr(attributes, value - attributes);
  // A line end after the mark belongs to it.
  std::string_view last =
      valueOpen.empty() ? format_->parameterNameClose : format_->valueOpen;
  size_t begin = value + valueOpen.size();
  if (last.ends_with('\n')) {
    if (begin == held_.size())
      return false;
    begin += held_[begin] == '\n';
  }
  held_.erase(0, begin);
  addArguments(parameters_++ ? ", " : "");
  addArguments("\"" + jsonEscaped(parameter_) + "\": ");
  bool isString = format_->stringAttribute.empty()
                      ? parameterIsString(*tools_, name_, parameter_)
                      : attributes_ == format_->stringAttribute;
  if (isString)
    addArguments("\"");
  place_ = isString ? Place::StringValue : Place::Value;
  return true;
}

bool ToolCallParser::stepValue() {
  size_t end = held_.find(markOf(format_->parameterClose));
  if (end == held_.npos)
    return false;
  addArguments(parameterJson(*tools_, name_, parameter_,
                             trimmed(std::string_view(held_).substr(0, end))));
  held_.erase(0, end + markOf(format_->parameterClose).size());
  place_ = Place::Parameters;
  return true;
}

bool ToolCallParser::stepStringValue() {
  std::string_view mark = markOf(format_->parameterClose);
  bool dropsLineEnd = format_->parameterClose.starts_with('\n');
  size_t end = held_.find(mark);
  if (end != held_.npos) {
    std::string_view last = std::string_view(held_).substr(0, end);
    if (dropsLineEnd && last.ends_with('\n'))
      last.remove_suffix(1);
    addArguments(jsonEscaped(last) + "\"");
    held_.erase(0, end + mark.size());
    place_ = Place::Parameters;
    return true;
  }
  size_t partial = std::min(mark.size() - 1, held_.size());
  while (!held_.ends_with(mark.substr(0, partial)))
    --partial;
  size_t certain = held_.size() - partial;
  if (dropsLineEnd && certain > 0 && held_[certain - 1] == '\n')
    --certain;
  addArguments(jsonEscaped(std::string_view(held_).substr(0, certain)));
  held_.erase(0, certain);
  return false;
}

} // namespace moert
