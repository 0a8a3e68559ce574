#include "runtime/chat/ReplySplitter.h"

#include "runtime/text/StreamDecoder.h"

#include <algorithm>
#include <span>

namespace moert {

namespace {
/// A header without an end that is longer is taken for text.
constexpr size_t kMostHeaderBytes = 512;

struct Found {
  size_t at = std::string_view::npos;
  std::string_view mark = {};
};

/// The first of the marks in a text; of several at one place, the longest.
Found firstOf(std::string_view text, std::span<const std::string_view> marks) {
  Found found;
  for (std::string_view mark : marks) {
    if (mark.empty())
      continue;
    const size_t at = text.find(mark);
    if (at < found.at ||
        (at == found.at && at != text.npos && mark.size() > found.mark.size()))
      found = {at, mark};
  }
  return found;
}

/// How many of the last bytes of a text may begin one of the marks.
size_t heldBytes(std::string_view text,
                 std::span<const std::string_view> marks) {
  size_t held = 0;
  for (std::string_view mark : marks)
    for (size_t size = std::min(mark.size(), text.size() + 1);
         size-- > held + 1;)
      if (text.ends_with(mark.substr(0, size))) {
        held = size;
        break;
      }
  return held;
}

bool mayBecome(std::string_view text, std::string_view mark) {
  return text.size() < mark.size() && mark.starts_with(text);
}

/// What follows `word` in a header, up to a blank or the name of a control
/// token.
std::string_view wordAfter(std::string_view header, std::string_view word) {
  const size_t at = word.empty() ? header.npos : header.find(word);
  if (at == header.npos)
    return {};
  std::string_view rest = header.substr(at + word.size());
  rest = rest.substr(0, rest.find_first_of(kBlanks));
  return rest.substr(0, rest.find("<|"));
}

/// Whether the header of a message is what calls a tool in this form.
bool isCalledByHeader(const ToolFormat &form, const Channels &channels) {
  return form.nameClose == channels.body;
}
} // namespace

ReplySplitter::ReplySplitter(std::shared_ptr<const Speech> speech,
                             std::string_view prompt, bool findsCalls)
    : speech_(std::move(speech)), findsCalls_(findsCalls) {
  if (!speech_->channels) {
    // The reply goes on with a mark that the prompt has begun.
    held_ = speech_->begunMark(prompt);
    if (speech_->isInside(prompt))
      place_ = Place::Reasoning;
    else if (!speech_->reasons() && speech_->answerBegin.empty())
      place_ = Place::Answer;
    return;
  }
  place_ = Place::Header;
  const std::string start = namedControls(speech_->channels->start),
                    body = namedControls(speech_->channels->body);
  const size_t at = prompt.rfind(start);
  if (at == prompt.npos)
    return;
  // The prompt may have begun a message.
  prompt.remove_prefix(at + start.size());
  if (size_t end = prompt.find(body); end != prompt.npos)
    enterMessage(prompt.substr(0, end));
  else
    held_ = prompt;
}

void ReplySplitter::emit(bool isReasoning, std::string_view text) {
  if (startsPart_)
    text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  if (text.empty())
    return;
  startsPart_ = false;
  if (parts_.empty() || parts_.back().isReasoning != isReasoning)
    parts_.push_back({isReasoning, ""});
  parts_.back().text += text;
}

void ReplySplitter::enterAnswer() {
  place_ = Place::Answer;
  startsPart_ = true;
}

bool ReplySplitter::step(bool isEnd) {
  switch (place_) {
  case Place::Start:
    return stepStart(isEnd);
  case Place::Reasoning:
    return stepReasoning(isEnd);
  case Place::Answer:
    return stepAnswer(isEnd);
  case Place::Header:
    return stepHeader(isEnd);
  case Place::Message:
    return stepMessage(isEnd);
  }
  return false;
}

bool ReplySplitter::stepStart(bool isEnd) {
  const size_t first = held_.find_first_not_of(kBlanks);
  if (first == held_.npos && !isEnd)
    return false;
  const std::string_view text =
      std::string_view(held_).substr(std::min(first, held_.size()));
  const std::string_view begin = withoutBlanks(speech_->reasoningBegin);
  // A reply may say that it does not reason by the end of its reasoning alone.
  // Where an answer begins with a text, only that of the reply's beginning is a
  // mark.
  std::string_view answer = withoutBlanks(speech_->answerBegin);
  if (answer.find(kControlOpen) != answer.npos)
    answer = {};
  for (std::string_view mark :
       {begin, withoutBlanks(speech_->reasoningEnd), answer}) {
    if (!mark.empty() && text.starts_with(mark)) {
      held_.erase(0, first + mark.size());
      startsPart_ = true;
      place_ = mark == begin ? Place::Reasoning : Place::Answer;
      return true;
    }
    if (!isEnd && mayBecome(text, mark))
      return false;
  }
  place_ = Place::Answer;
  return true;
}

bool ReplySplitter::stepReasoning(bool isEnd) {
  const std::string_view end = withoutBlanks(speech_->reasoningEnd);
  std::vector<std::string_view> marks = {end};
  if (findsCalls_)
    for (const ToolFormat &form : speech_->calls)
      if (std::string_view mark = withoutBlanks(form.firstMark());
          !mark.empty())
        marks.push_back(mark);
  const std::string_view text = held_;
  for (size_t from = 0;;) {
    Found found = firstOf(text.substr(from), marks);
    if (found.at == text.npos)
      break;
    found.at += from;
    const std::string_view before =
        withoutBlanksAtEnd(text.substr(0, found.at));
    const bool isCall = found.mark != end;
    // Reasoning may talk about a mark that is no control token: only at the
    // beginning of a line it is one.
    const bool beginsLine =
        (before.empty() && startsPart_) ||
        text.substr(before.size(), found.at - before.size()).find('\n') !=
            text.npos;
    if (isCall && found.mark.front() != kControlOpen && !beginsLine) {
      from = found.at + found.mark.size();
      continue;
    }
    emit(true, before);
    held_.erase(0, found.at + (isCall ? 0 : found.mark.size()));
    enterAnswer();
    return true;
  }
  // Blanks before a mark belong to it.
  const size_t keep = isEnd ? 0 : heldBytes(text, marks);
  std::string_view certain = text.substr(0, text.size() - keep);
  if (!isEnd)
    certain = withoutBlanksAtEnd(certain);
  emit(true, certain);
  held_.erase(0, certain.size());
  return false;
}

bool ReplySplitter::stepAnswer(bool isEnd) {
  std::vector<std::string_view> marks = {withoutBlanks(speech_->answerBegin)};
  for (const std::string &mark : speech_->answerEnds)
    marks.push_back(withoutBlanks(mark));
  std::erase_if(marks, [](std::string_view mark) {
    return mark.find(kControlOpen) == mark.npos;
  });
  const std::string_view text = held_;
  if (Found found = firstOf(text, marks); found.at != text.npos) {
    // The end of an answer may be the beginning of a call's mark.
    const std::string_view rest = text.substr(found.at);
    size_t kept = 0;
    bool isOpen = false;
    for (const ToolFormat &form : speech_->calls) {
      const std::string_view mark = withoutBlanks(form.firstMark());
      if (!findsCalls_ || !mark.starts_with(found.mark))
        continue;
      if (rest.starts_with(mark))
        kept = std::max(kept, mark.size());
      isOpen |= mayBecome(rest, mark);
    }
    emitAnswer(text.substr(0, found.at + kept));
    const bool isHeld = kept == 0 && isOpen && !isEnd;
    held_.erase(0, found.at + (kept > 0 ? kept
                               : isHeld ? 0
                                        : found.mark.size()));
    return !isHeld;
  }
  const size_t keep = isEnd ? 0 : heldBytes(text, marks);
  emitAnswer(text.substr(0, text.size() - keep));
  held_.erase(0, text.size() - keep);
  return false;
}

bool ReplySplitter::stepHeader(bool isEnd) {
  const Channels &channels = *speech_->channels;
  // A message may begin with the mark that the prompt ends with.
  const std::string_view start = channels.start;
  if (held_.starts_with(start)) {
    held_.erase(0, start.size());
    return true;
  }
  const size_t end = held_.find(channels.body);
  if (end != held_.npos) {
    enterMessage(std::string_view(held_).substr(0, end));
    held_.erase(0, end + channels.body.size());
    return true;
  }
  // A header begins with a control token, or says whom the message is to: what
  // has none is an answer.
  constexpr std::string_view to = " to=";
  auto isPartOf = [&](std::string_view mark) {
    return !mark.empty() && (held_.starts_with(mark) || mayBecome(held_, mark));
  };
  const bool isHeader =
      isPartOf(start) || isPartOf(channels.channel) || isPartOf(to);
  const bool isShort = held_.size() <= kMostHeaderBytes;
  if (!isEnd && isShort &&
      (held_.empty() || isHeader || held_.front() == kControlOpen))
    return false;
  // A reply that was cut inside a header says nothing there.
  if (isEnd && isShort && isHeader) {
    held_.clear();
    return false;
  }
  place_ = Place::Message;
  isReasoning_ = false;
  startsPart_ = true;
  messageEnd_.clear();
  return true;
}

void ReplySplitter::enterMessage(std::string_view header) {
  const Channels &channels = *speech_->channels;
  const std::string named = namedControls(header);
  const std::string mark = namedControls(channels.channel);
  place_ = Place::Message;
  startsPart_ = true;
  messageEnd_.clear();
  auto isLike = [&](std::string_view other) {
    const std::string all = namedControls(other);
    return wordAfter(named, mark) == wordAfter(all, mark) &&
           wordAfter(named, "to=") == wordAfter(all, "to=");
  };
  std::string_view tool = wordAfter(named, "to=");
  for (const std::string &answer : {channels.answer, channels.reasoning})
    if (wordAfter(namedControls(answer), "to=") == tool)
      tool = {};
  isReasoning_ = tool.empty() && isLike(channels.reasoning);
  if (tool.empty() || !findsCalls_ || speech_->calls.empty())
    return;
  const ToolFormat &form = speech_->calls.front();
  if (!isCalledByHeader(form, channels))
    return;
  if (tool.starts_with("functions."))
    tool.remove_prefix(std::string_view("functions.").size());
  emitAnswer(form.open + std::string(tool) + form.nameClose);
  messageEnd_ = form.close;
}

bool ReplySplitter::stepMessage(bool isEnd) {
  const Channels &channels = *speech_->channels;
  std::vector<std::string_view> marks(channels.ends.begin(),
                                      channels.ends.end());
  marks.push_back(channels.start);
  const std::string_view text = held_;
  if (Found found = firstOf(text, marks); found.at != text.npos) {
    std::string_view before = text.substr(0, found.at);
    emit(isReasoning_, isReasoning_ ? withoutBlanksAtEnd(before) : before);
    emitAnswer(messageEnd_);
    held_.erase(0, found.at + found.mark.size());
    place_ = Place::Header;
    return true;
  }
  const size_t keep = isEnd ? 0 : heldBytes(text, marks);
  std::string_view certain = text.substr(0, text.size() - keep);
  if (isReasoning_ && !isEnd)
    certain = withoutBlanksAtEnd(certain);
  emit(isReasoning_, certain);
  held_.erase(0, certain.size());
  return false;
}

std::vector<ReplySplitter::Part> ReplySplitter::push(std::string_view text) {
  pending_ += text;
  // A control token is not cut.
  size_t whole = pending_.rfind(kControlOpen);
  if (whole == pending_.npos ||
      pending_.find(kControlClose, whole) != pending_.npos)
    whole = pending_.size();
  held_ += pending_.substr(0, whole);
  pending_.erase(0, whole);
  while (step(false)) {
  }
  return std::exchange(parts_, {});
}

std::vector<ReplySplitter::Part> ReplySplitter::finish() {
  pending_.clear();
  while (!held_.empty() && step(true)) {
  }
  return std::exchange(parts_, {});
}

} // namespace moert
