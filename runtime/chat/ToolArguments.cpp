// Arguments of calls.
#include "runtime/base/Text.h"
#include "runtime/chat/Speech.h"
#include "runtime/chat/ToolCalls.h"
#include "runtime/chat/ToolValue.h"
#include "runtime/chat/ValueText.h"
#include "runtime/text/StreamDecoder.h"

#include <algorithm>
#include <fmt/format.h>

namespace moert {

using Body = ToolFormat::Body;
using Json = nlohmann::ordered_json;

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
    if (held_.empty() || mayBecome(form_->close))
      return false;
    if (take(form_->close)) {
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
      held_ += text.substr(i + 1); // The rest is text, not an object.
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
      return !form_->nameKey.empty() || setName(key_);
    }
    if (!wasInString && (byte == ',' || byte == '}'))
      return endMember();
    piece_ += *text;
    return true;
  }
  if (!isArguments(key_)) {
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
  std::string piece(withoutBlanks(std::exchange(piece_, {})));
  std::string key = std::exchange(key_, {});
  if (!form_->nameKey.empty() && (key == form_->nameKey || key == "name"))
    return setName(stringOf(piece));
  if (isArguments(key) && !piece.empty())
    return setArguments(piece);
  if (!form_->idKey.empty() && key == form_->idKey)
    id_ = stringOf(piece);
  return true;
}

bool ToolCallParser::isArguments(std::string_view key) const {
  return form_->nameKey.empty() || key == form_->argumentsKey ||
         key == "arguments" || key == "parameters";
}

bool ToolCallParser::setName(std::string name) {
  if (name.empty() || hasBegun_)
    return failOrText("has no name, or two") && false;
  if (!begin(name, id_))
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

bool ToolCallParser::stepBareArguments() {
  const std::string_view close = markOf(form_->close);
  // The mark inside a string is text.
  const std::string quotes[] = {controlBytes(kBareQuote),
                                std::string(kBareQuote)};
  size_t at = held_.npos;
  for (size_t from = 0; from <= held_.size();) {
    at = close.empty() ? held_.npos : held_.find(close, from);
    size_t begin = held_.npos, end = held_.npos;
    for (const std::string &quote : quotes)
      if (size_t place = held_.find(quote, from); place < begin) {
        begin = place;
        const size_t inside = place + quote.size();
        end = held_.find(quote, inside);
        if (end != held_.npos)
          end += quote.size();
      }
    if (at <= begin)
      break;
    at = held_.npos;
    if (end == held_.npos)
      return false;
    from = end;
  }
  if (at == held_.npos)
    return false;
  const std::string text = namedControls(held_.substr(0, at));
  std::optional<std::string> json =
      withoutBlanks(text).empty() ? "{}" : jsonOfBare(withoutBlanks(text));
  if (!json)
    return fail("has arguments that cannot be read");
  addArguments(*json);
  held_.erase(0, at + close.size());
  endCall();
  return true;
}

bool ToolCallParser::stepKeywords() {
  const size_t end = keywords_.find(held_);
  if (end == held_.npos)
    return false;
  std::optional<std::string> json =
      jsonOfKeywords(namedControls(std::string_view(held_).substr(0, end)));
  if (!json)
    return fail("has arguments that cannot be read");
  addArguments(*json);
  held_.erase(0, end + 1);
  endCall();
  return true;
}

//===----------------------------------------------------------------------===//
// Arguments between marks
//===----------------------------------------------------------------------===//

bool ToolCallParser::stepParameters() {
  skipBlanks();
  if (held_.empty())
    return false;
  // A call's end may begin as a parameter does.
  if (take(form_->close)) {
    addArguments("}");
    endCall();
    return true;
  }
  if (mayBecome(form_->parameterOpen) || mayBecome(form_->close))
    return false;
  if (take(form_->parameterOpen)) {
    place_ = Place::ParameterName;
    return true;
  }
  return fail(
      fmt::format("has other text where {} or {} should be",
                  moert::quoted(namedControls(markOf(form_->parameterOpen))),
                  moert::quoted(namedControls(markOf(form_->close)))));
}

bool ToolCallParser::isTextParameter() const {
  if (!form_->typeAttributes.empty())
    return withoutBlanks(attributes_) ==
           withoutBlanks(form_->attributesOf("string"));
  const Json &root = toolSchema(*tools_, name_);
  return valueTypes(parameterSchema(*tools_, name_, parameter_), root).isText();
}

bool ToolCallParser::stepParameterName() {
  std::string_view nameClose = markOf(form_->parameterNameClose);
  std::string_view valueOpen = markOf(form_->valueOpen);
  size_t name = held_.find(nameClose);
  size_t attributes = name == held_.npos ? held_.npos : name + nameClose.size();
  size_t value =
      name == held_.npos ? held_.npos : held_.find(valueOpen, attributes);
  if (value == held_.npos && held_.size() < kMostNameBytes + valueOpen.size())
    return false;
  if (value > kMostNameBytes)
    return fail("has a parameter's name without an end");
  parameter_ = withoutBlanks(std::string_view(held_).substr(0, name));
  attributes_ = held_.substr(attributes, value - attributes);
  // A line end after the mark belongs to it.
  const std::string &last =
      valueOpen.empty() ? form_->parameterNameClose : form_->valueOpen;
  size_t begin = value + valueOpen.size();
  if (last.ends_with('\n')) {
    if (begin == held_.size())
      return false;
    begin += held_[begin] == '\n';
  }
  const std::string_view rest = std::string_view(held_).substr(begin);
  const bool isMarked =
      !form_->textOpen.empty() && rest.starts_with(form_->textOpen);
  if (!isMarked && rest.size() < form_->textOpen.size() &&
      form_->textOpen.starts_with(rest))
    return false;
  valueClose_ = form_->closeOf(parameter_);
  if (isMarked) {
    begin += form_->textOpen.size();
    valueClose_.insert(0, form_->textClose);
  }
  held_.erase(0, begin);
  addArguments(parameters_++ ? ", " : "");
  addArguments("\"" + jsonEscaped(parameter_) + "\": ");
  place_ = isTextParameter() ? Place::TextValue : Place::Value;
  if (place_ == Place::TextValue)
    addArguments("\"");
  return true;
}

std::string ToolCallParser::valueOf(std::string_view written) const {
  const std::string text = namedControls(written);
  const Json &root = toolSchema(*tools_, name_);
  const Json &schema = parameterSchema(*tools_, name_, parameter_);
  if (form_->values == ToolFormat::Values::Nested) {
    // The parameter's own mark shows what stands in front of all of them.
    const std::string mark = namedControls(markOf(form_->parameterOpen));
    const std::string_view prefix =
        std::string_view(mark).substr(0, mark.find_last_of('<'));
    if (auto json = jsonOfNested(text, prefix, schema, root))
      return *json;
  }
  // An attribute says that the value is no string, whatever the schema says.
  if (!form_->typeAttributes.empty() && Json::accept(withoutBlanks(text)))
    return std::string(withoutBlanks(text));
  return valueJson(schema, root, text);
}

bool ToolCallParser::stepValue() {
  const std::string &close = valueClose_;
  const size_t end = held_.find(markOf(close));
  if (end == held_.npos)
    return false;
  std::string_view text = std::string_view(held_).substr(0, end);
  if (close.starts_with('\n') && text.ends_with('\n'))
    text.remove_suffix(1);
  addArguments(valueOf(text));
  held_.erase(0, end + markOf(close).size());
  place_ = Place::Parameters;
  return true;
}

bool ToolCallParser::stepTextValue() {
  const std::string &close = valueClose_;
  const std::string_view mark = markOf(close);
  const bool dropsLineEnd = close.starts_with('\n');
  const size_t end = held_.find(mark);
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
