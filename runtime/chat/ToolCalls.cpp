#include "runtime/chat/ToolCalls.h"

#include "runtime/base/Text.h"
#include "runtime/chat/MarkText.h"
#include "runtime/chat/Speech.h"
#include "runtime/text/StreamDecoder.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

namespace moert {

using Body = ToolFormat::Body;

namespace {
bool hasControl(std::string_view mark) {
  return mark.find(kControlOpen) != mark.npos;
}
} // namespace

//===----------------------------------------------------------------------===//
// The held text and the events
//===----------------------------------------------------------------------===//

void ToolCallParser::consume(size_t bytes) {
  if (isTentative_ && !hasBegun_)
    seen_ += held_.substr(0, bytes);
  held_.erase(0, bytes);
}

bool ToolCallParser::take(std::string_view mark) {
  mark = markOf(mark);
  if (mark.empty() || !held_.starts_with(mark))
    return false;
  consume(mark.size());
  return true;
}

bool ToolCallParser::mayBecome(std::string_view mark) const {
  return held_.size() < markOf(mark).size() && markOf(mark).starts_with(held_);
}

void ToolCallParser::skipBlanks() {
  consume(std::min(held_.find_first_not_of(kBlanks), held_.size()));
}

void ToolCallParser::emitText(std::string_view text) {
  const std::string shown = withoutControls(text);
  if (shown.empty())
    return;
  hasText_ = true;
  followsCall_ = false;
  if (events_.empty() || events_.back().kind != ToolEvent::Kind::Text)
    events_.push_back({ToolEvent::Kind::Text});
  events_.back().text += shown;
}

void ToolCallParser::addArguments(std::string_view text) {
  const std::string shown = namedControls(text);
  if (shown.empty())
    return;
  if (events_.empty() || events_.back().kind != ToolEvent::Kind::Arguments)
    events_.push_back({ToolEvent::Kind::Arguments});
  events_.back().text += shown;
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
  // Another form may begin with the same mark, and the text after the mark may
  // contain a call.
  held_.insert(0, seen_.substr(markBytes_));
  seen_.resize(markBytes_);
  const std::string_view mark = withoutBlanks(seen_);
  for (const ToolFormat *next = form_ + 1;
       !mark.empty() && next != formats_->data() + formats_->size(); ++next)
    if (markOf(next->firstMark()) == mark) {
      form_ = next;
      enterForm(!next->sectionOpen.empty());
      return true;
    }
  emitText(seen_);
  hasText_ = true;
  isTentative_ = isInSection_ = false;
  place_ = Place::Text;
  return true;
}

void ToolCallParser::enterCall() {
  bool isObject = form_->body == Body::Json || form_->body == Body::JsonList;
  place_ = isObject ? Place::Object : Place::Head;
  scanner_ = {};
  keywords_ = {};
  name_.clear();
  hasBegun_ = hasArguments_ = false;
  key_.clear();
  piece_.clear();
  earlyArguments_.clear();
  id_.clear();
  parameters_ = 0;
}

bool ToolCallParser::begin(std::string_view text, std::string id) {
  text = withoutBlanks(text);
  auto cut = [&](std::string_view mark) {
    const size_t at = mark.empty() ? text.npos : text.find(markOf(mark));
    std::string_view after;
    if (at != text.npos) {
      after = text.substr(at + markOf(mark).size());
      text = text.substr(0, at);
    }
    return after;
  };
  if (std::string_view after = cut(form_->idOpen); !after.empty())
    id = namedControls(after);
  if (std::string_view after = cut(form_->idClose); !after.empty()) {
    id = namedControls(text);
    text = after;
  }
  if (form_->body != Body::Json && form_->body != Body::JsonList)
    text = text.substr(0, text.find_first_of(" <\xFF"));
  if (form_->nameIsId) {
    id = text;
    if (text.starts_with("functions."))
      text.remove_prefix(std::string_view("functions.").size());
    size_t digits = text.find_last_not_of("0123456789");
    if (digits != text.npos && text[digits] == ':')
      text = text.substr(0, digits);
  }
  const bool isKnown =
      std::ranges::find(*tools_, text, &Tool::name) != tools_->end();
  if (text.empty() || (needsKnownTool_ && !isKnown))
    return failOrText("has no name") && false;
  name_ = text;
  hasBegun_ = true;
  events_.push_back({ToolEvent::Kind::Begin, name_, std::move(id)});
  return true;
}

void ToolCallParser::endCall() {
  events_.push_back({ToolEvent::Kind::End});
  ++calls_;
  followsCall_ = true;
  name_.clear();
  isTentative_ = needsKnownTool_ = false;
  place_ = isInSection_ ? Place::Section : Place::Text;
  dropsBlanks_ = true;
  dropsSectionClose_ = !isInSection_ && !form_->sectionClose.empty();
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
  const bool isOutside = place_ == Place::Text;
  const bool isEmptySection = place_ == Place::Section && calls_ == 0;
  if (!isOutside && isTentative_ && !hasBegun_) {
    emitText(seen_ + held_);
  } else if (isOutside) {
    // What is held back may be the beginning of a mark. Right after a call it
    // is one that was cut, of the next call.
    if (dropsBlanks_)
      skipBlanks();
    if (!followsCall_)
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
  case Place::HeadEnd:
    return stepHeadEnd();
  case Place::Object:
    return stepObject();
  case Place::Arguments:
    return stepArguments();
  case Place::BareArguments:
    return stepBareArguments();
  case Place::Keywords:
    return stepKeywords();
  case Place::Parameters:
    return stepParameters();
  case Place::ParameterName:
    return stepParameterName();
  case Place::Value:
    return stepValue();
  case Place::TextValue:
    return stepTextValue();
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
  if (dropsSectionClose_) {
    if (mayBecome(form_->sectionClose))
      return false;
    dropsSectionClose_ = false;
    if (take(form_->sectionClose))
      return true;
  }
  dropsBlanks_ = false;
  auto bare = std::ranges::find(*formats_, true, &ToolFormat::isBare);
  if (bare != formats_->end() && !hasText_ && calls_ == 0) {
    // A control token may tell that a call follows.
    size_t first = held_.find_first_not_of(kBlanks);
    while (first != held_.npos && held_[first] == kControlOpen &&
           held_.find(bare->open, first) != first)
      first = held_.find_first_not_of(kBlanks,
                                      held_.find(kControlClose, first) + 1);
    if (first == held_.npos)
      return false;
    if (held_[first] == '{') {
      form_ = &*bare;
      enterCall();
      isTentative_ = needsKnownTool_ = true;
      seen_ = held_.substr(0, first);
      markBytes_ = first;
      held_.erase(0, first);
      return true;
    }
  }
  size_t at = held_.npos, partial = 0;
  std::string_view found;
  const ToolFormat *format = nullptr;
  bool isSection = false;
  auto look = [&](const ToolFormat &each, const std::string &text,
                  bool opensSection) {
    const std::string_view mark = markOf(text);
    if (mark.empty())
      return;
    const size_t place = held_.find(mark);
    if (place < at ||
        (place == at && at != held_.npos && mark.size() > found.size())) {
      at = place;
      found = mark;
      format = &each;
      isSection = opensSection;
    }
    for (size_t size = std::min(mark.size() - 1, held_.size()); size > partial;
         --size)
      if (held_.ends_with(mark.substr(0, size)))
        partial = size;
  };
  for (const ToolFormat &each : *formats_) {
    look(each, each.sectionOpen, true);
    look(each, each.open, false);
  }
  if (at == held_.npos) {
    // Blanks may belong to a mark that follows.
    std::string_view certain = withoutBlanksAtEnd(
        std::string_view(held_).substr(0, held_.size() - partial));
    emitText(certain);
    held_.erase(0, certain.size());
    return false;
  }
  // A longer mark of another form may begin at the same place.
  for (const ToolFormat &each : *formats_)
    for (const std::string *other : {&each.sectionOpen, &each.open})
      if (markOf(*other).size() > held_.size() - at &&
          markOf(*other).starts_with(std::string_view(held_).substr(at)))
        return false;
  const std::string_view before =
      withoutBlanksAtEnd(std::string_view(held_).substr(0, at));
  emitText(before);
  seen_ = held_.substr(before.size(), at + found.size() - before.size());
  markBytes_ = seen_.size();
  held_.erase(0, at + found.size());
  form_ = format;
  isTentative_ = !hasControl(found);
  enterForm(isSection);
  return true;
}

void ToolCallParser::enterForm(bool isSection) {
  // Any text may have a bracket, or a word.
  const bool isWord = !hasTag(form_->firstMark()) &&
                      form_->firstMark().find('<') == std::string::npos;
  needsKnownTool_ = (!isSection && !form_->sectionOpen.empty()) ||
                    (form_->body == Body::Keywords && isTentative_) || isWord;
  isInSection_ = isSection;
  hasBegun_ = false;
  if (isSection)
    place_ = Place::Section;
  else
    enterCall();
}

bool ToolCallParser::stepSection() {
  const bool isList = form_->body == Body::JsonList,
             hasKeywords = form_->body == Body::Keywords;
  consume(std::min(held_.find_first_not_of(isList        ? " \t\r\n[,"
                                           : hasKeywords ? " \t\r\n,"
                                                         : kBlanks),
                   held_.size()));
  if (held_.empty())
    return false;
  if (take(form_->sectionClose)) {
    isInSection_ = isTentative_ = false;
    place_ = Place::Text;
    dropsBlanks_ = true;
    return true;
  }
  const bool isName = std::isalnum(uint8_t(held_[0])) || held_[0] == '_';
  if (take(form_->open) || (isList && held_[0] == '{') ||
      (hasKeywords && isName)) {
    enterCall();
    return true;
  }
  if (mayBecome(form_->sectionClose) || mayBecome(form_->open))
    return false;
  return failOrText(
      "has other text where a call should begin or the calls end");
}

bool ToolCallParser::stepClose() {
  if (form_->close.empty() || form_->body == Body::JsonList) {
    endCall();
    return true;
  }
  skipBlanks();
  if (take(form_->close)) {
    endCall();
    return true;
  }
  if (held_.empty() || mayBecome(form_->close))
    return false;
  return fail(fmt::format("has other text where {} should be",
                          moert::quoted(namedControls(markOf(form_->close)))));
}

bool ToolCallParser::stepHead() {
  size_t at = held_.npos;
  size_t consumed = 0, longest = 1;
  auto look = [&](std::string_view mark, bool isConsumed) {
    longest = std::max(longest, mark.size());
    if (mark.empty() || held_.find(mark) >= at)
      return;
    at = held_.find(mark);
    consumed = isConsumed ? mark.size() : 0;
  };
  look(markOf(form_->nameClose), true);
  look(markOf(form_->parameterOpen), false);
  look(markOf(form_->close), false);
  if (form_->body == Body::NamedBare)
    look("{", false);
  // More text could still complete a mark that begins within the limit.
  if (at == held_.npos && held_.size() <= kMostNameBytes + longest)
    return false;
  if (at > kMostNameBytes)
    return failOrText("has a name without an end");
  const std::string name = held_.substr(0, at);
  consume(at + consumed);
  if (!begin(name))
    return place_ == Place::Text;
  place_ = form_->headEnd.empty() ? Place::Arguments : Place::HeadEnd;
  if (place_ == Place::HeadEnd)
    return true;
  if (form_->body == Body::NamedBare)
    place_ = Place::BareArguments;
  if (form_->body == Body::Keywords)
    place_ = Place::Keywords;
  if (form_->body == Body::Tagged) {
    place_ = Place::Parameters;
    addArguments("{");
  }
  return true;
}

bool ToolCallParser::stepHeadEnd() {
  const std::string_view mark = markOf(form_->headEnd);
  const size_t at = held_.find(mark);
  if (at > kMostNameBytes && held_.size() > kMostNameBytes + mark.size())
    return fail("has attributes without an end");
  if (at == held_.npos)
    return false;
  held_.erase(0, at + mark.size());
  place_ = form_->body == Body::Tagged ? Place::Parameters : Place::Arguments;
  if (place_ == Place::Parameters)
    addArguments("{");
  return true;
}

} // namespace moert
