#include "runtime/chat/CallForms.h"

#include "runtime/chat/JsonScanner.h"
#include "runtime/chat/MarkText.h"
#include "runtime/chat/ValueText.h"

#include <cctype>

namespace moert {

using Json = nlohmann::ordered_json;
using Body = ToolFormat::Body;

namespace {
/// A part of a text.
struct Span {
  size_t begin = std::string::npos, end = 0;
  bool exists() const { return begin != std::string::npos; }
};

/// The first JSON object that has `word`, as small as possible.
Span objectWith(std::string_view text, size_t word) {
  for (size_t at = word + 1; at-- > 0;) {
    if (text[at] != '{')
      continue;
    JsonScanner scanner;
    for (size_t i = at; i < text.size() && scanner.push(text[i]); ++i)
      if (scanner.isComplete()) {
        if (i >= word)
          return {at, i + 1};
        break;
      }
  }
  return {};
}

/// The marks around calls, by the text before the first one, between two, and
/// after the last one.
void setMarks(ToolFormat &form, std::string_view before,
              std::optional<std::string_view> middle, std::string_view after) {
  form.open = before;
  form.close = after;
  if (!middle)
    return;
  const std::string_view close = commonBegin(after, *middle);
  const std::string_view open = commonEnd(before, middle->substr(close.size()));
  form.close = close;
  form.open = open;
  form.between =
      middle->substr(close.size(), middle->size() - close.size() - open.size());
  form.sectionOpen = before.substr(0, before.size() - open.size());
  form.sectionClose = after.substr(close.size());
  // A section needs more than blanks.
  if (withoutBlanks(form.sectionOpen).empty())
    form.sectionOpen.clear();
}

std::optional<ToolFormat> jsonForm(const CallSamples &samples) {
  const std::string &text = samples.most().text;
  auto objectOf = [&](size_t from) -> Span {
    const size_t name = text.find(kProbeNames[from == 0 ? 0 : 1], from);
    const size_t key = text.find(kProbeKeys[0], from);
    if (name == text.npos || key == text.npos)
      return {};
    const Span inner = objectWith(text, key);
    if (!inner.exists())
      return {};
    Span outer = objectWith(text, name);
    // The object that has both.
    while (outer.exists() &&
           (outer.begin > inner.begin || outer.end < inner.end)) {
      if (outer.begin == 0)
        return {};
      outer = objectWith(text, outer.begin - 1);
    }
    return outer;
  };
  const Span first = objectOf(0);
  const Span second =
      samples.two && first.exists() ? objectOf(first.end) : first;
  if (!first.exists() || !second.exists())
    return std::nullopt;
  const Json object = Json::parse(
      text.substr(first.begin, first.end - first.begin), nullptr, false);
  ToolFormat form{.name = "own", .body = Body::Json};
  form.nameKey.clear();
  form.argumentsKey.clear();
  size_t index = 0, idAt = 0, nameAt = 0;
  bool isKey = false;
  for (const auto &[key, value] : object.items()) {
    if (key == kProbeNames[0] && value.is_object() && object.size() == 1) {
      isKey = true;
    } else if (value == kProbeNames[0]) {
      form.nameKey = key;
      nameAt = index;
    } else if (value.is_object() && value.contains(kProbeKeys[0])) {
      form.argumentsKey = key;
    } else if (value.is_string()) {
      form.idKey = key;
      idAt = index;
    }
    ++index;
  }
  form.idIsFirst = !form.idKey.empty() && idAt < nameAt;
  if (!isKey && (form.nameKey.empty() || form.argumentsKey.empty()))
    return std::nullopt;
  const std::string_view all = text;
  const std::string_view before = all.substr(0, first.begin),
                         after = all.substr(second.end);
  std::optional<std::string_view> middle;
  if (samples.two)
    middle = all.substr(first.end, second.begin - first.end);
  if (withoutBlanks(before).ends_with('[') &&
      withoutBlanks(after).starts_with(']')) {
    form.body = Body::JsonList;
    const std::string_view open = withoutBlanksAtEnd(before);
    form.sectionOpen = open.substr(0, open.size() - 1);
    form.sectionClose = withoutBlanks(after);
    form.between = middle.value_or(", ");
    if (withoutBlanks(form.sectionOpen).empty())
      return std::nullopt;
    // A word alone may be in any text.
    if (!hasTag(form.sectionOpen))
      form.sectionOpen = open;
    return form;
  }
  setMarks(form, before, middle, after);
  form.isBare = withoutBlanks(form.open).empty() && form.sectionOpen.empty();
  return form;
}

/// Ranges of the name and the arguments in a text that has them in this order.
struct Place {
  Span name, body;
};

std::optional<ToolFormat> namedForm(const CallSamples &samples) {
  const WrittenCalls &from = samples.most();
  const std::string &text = from.text;
  std::vector<Place> places;
  size_t at = 0;
  for (const ProbeCall &call : from.calls) {
    Place place;
    place.name.begin = text.find(call.name, at);
    if (!place.name.exists())
      return std::nullopt;
    place.name.end = place.name.begin + call.name.size();
    const size_t key = text.find(kProbeKeys[0], place.name.end);
    if (key == text.npos)
      return std::nullopt;
    place.body = objectWith(text, key);
    if (!place.body.exists() || place.body.begin < place.name.end)
      return std::nullopt;
    at = place.body.end;
    places.push_back(place);
  }
  ToolFormat form{.name = "own", .body = Body::NamedJson};
  const std::string_view all = text;
  std::string_view before = all.substr(0, places.front().name.begin);
  std::optional<std::string_view> middle;
  if (places.size() > 1)
    middle = all.substr(places[0].body.end,
                        places[1].name.begin - places[0].body.end);
  auto headOf = [&](const Place &place) {
    return all.substr(place.name.end, place.body.begin - place.name.end);
  };
  // An id stands behind the name or in front of it.
  const std::string &id = from.ids[0];
  std::string_view head = headOf(places[0]);
  if (const size_t place = head.find(id); place != head.npos) {
    form.idOpen = head.substr(0, place);
    head.remove_prefix(place + id.size());
  } else if (const size_t front = before.rfind(id); front != before.npos) {
    form.idClose = before.substr(front + id.size());
    before = before.substr(0, front);
    if (middle)
      middle = middle->substr(0, middle->rfind(from.ids[1]));
  }
  form.nameClose = head;
  setMarks(form, before, middle, all.substr(places.back().body.end));
  return form;
}

/// Sets what stands behind a name if it has the call's number.
void setNumbered(ToolFormat &form, std::string_view head,
                 std::string_view second) {
  const std::vector<std::string_view> atoms = atomsOf(head);
  size_t at = 0;
  while (at < head.size() && at < second.size() && head[at] == second[at])
    ++at;
  std::string numbered(head);
  if (at < head.size() && std::isdigit(uint8_t(head[at])))
    numbered.replace(at, 1, 1, ToolFormat::kNumber);
  form.nameClose = atoms.front();
  form.headEnd = atoms.size() > 1 ? atoms.back() : std::string_view();
  form.attributes = numbered.substr(form.nameClose.size(),
                                    numbered.size() - form.nameClose.size() -
                                        form.headEnd.size());
}

std::optional<ToolFormat> taggedForm(const CallSamples &samples) {
  const WrittenCalls &from = samples.most();
  ToolFormat form{.name = "own", .body = Body::Tagged};
  /// The text of a call between its name, keys and values.
  struct Parts {
    std::string head, equals, next, last;
    size_t begin, end; ///< Begin of the name; end of the last value.
  };
  std::vector<Parts> all;
  const std::string_view text = from.text;
  size_t at = 0;
  for (const ProbeCall &call : from.calls) {
    Parts parts;
    auto until = [&](std::string_view word, std::string *into) {
      const size_t place = text.find(word, at);
      if (place == text.npos)
        return false;
      if (into)
        *into = text.substr(at, place - at);
      at = place + word.size();
      return true;
    };
    if (!until(call.name, nullptr))
      return std::nullopt;
    parts.begin = at - call.name.size();
    if (!until(kProbeKeys[0], &parts.head) ||
        !until(kProbeValues[0], &parts.equals) ||
        !until(kProbeKeys[1], &parts.next) || !until(kProbeValues[1], nullptr))
      return std::nullopt;
    if (parts.next.empty())
      return std::nullopt;
    parts.end = at;
    all.push_back(std::move(parts));
  }
  std::string next = all[0].next;
  std::string after(text.substr(all.back().end));
  std::optional<std::string> middle;
  if (all.size() > 1)
    middle = text.substr(all[0].end, all[1].begin - all[0].end);
  auto unnamed = [&](std::string &part, std::string_view key) {
    if (const size_t place = part.find(key); place != part.npos)
      part.replace(place, key.size(), 1, ToolFormat::kKey);
  };
  unnamed(next, kProbeKeys[0]);
  unnamed(after, kProbeKeys[1]);
  if (middle)
    unnamed(*middle, kProbeKeys[1]);
  // What follows a value: its parameter's end, then the next parameter's
  // beginning or the call's end.
  form.parameterOpen = commonEnd(all[0].head, next);
  if (withoutBlanks(form.parameterOpen).empty())
    return std::nullopt;
  form.parameterClose = next.substr(0, next.size() - form.parameterOpen.size());
  if (withoutBlanks(form.parameterClose).empty())
    return std::nullopt;
  auto cut = [&](std::string &part) {
    const std::string_view shared = commonBegin(form.parameterClose, part);
    part.erase(0, shared.size());
    return withoutBlanks(shared) == withoutBlanks(form.parameterClose);
  };
  if (!cut(after) || (middle && !cut(*middle)))
    return std::nullopt;
  std::string head =
      all[0].head.substr(0, all[0].head.size() - form.parameterOpen.size());
  if (all.size() > 1 && all[0].head != all[1].head)
    setNumbered(form, head, all[1].head);
  else
    form.nameClose = head;
  form.parameterNameClose = all[0].equals;
  setMarks(form, text.substr(0, all[0].begin),
           middle ? std::optional<std::string_view>(*middle) : std::nullopt,
           after);
  return form;
}

/// Calls as Python writes them, between marks.
std::optional<ToolFormat> keywordForm(const CallSamples &samples) {
  const WrittenCalls &from = samples.most();
  const std::string_view all = from.text;
  std::vector<Span> calls;
  size_t at = 0;
  for (const ProbeCall &call : from.calls) {
    Span span{all.find(call.name, at)};
    if (!span.exists())
      return std::nullopt;
    const size_t open = span.begin + call.name.size();
    if (!all.substr(open).starts_with('('))
      return std::nullopt;
    const size_t size = KeywordScanner().find(all.substr(open + 1));
    if (size == all.npos)
      return std::nullopt;
    at = span.end = open + 1 + size + 1;
    calls.push_back(span);
  }
  ToolFormat form{.name = "own",
                  .body = Body::Keywords,
                  .sectionOpen = std::string(all.substr(0, calls[0].begin)),
                  .sectionClose =
                      std::string(withoutBlanksAtEnd(all.substr(at))),
                  .close = ")",
                  .between = ", ",
                  .nameClose = "("};
  if (calls.size() > 1)
    form.between = all.substr(calls[0].end, calls[1].begin - calls[0].end);
  // Brackets are not enough for marks: any text may have them.
  const bool isMarked =
      withoutBlanks(form.sectionOpen).size() > 1 && !form.sectionClose.empty();
  return isMarked ? std::optional(std::move(form)) : std::nullopt;
}
} // namespace

std::vector<ToolFormat> guessedForms(const CallSamples &samples) {
  std::vector<ToolFormat> forms;
  for (std::optional<ToolFormat> form :
       {jsonForm(samples), namedForm(samples), taggedForm(samples),
        keywordForm(samples)})
    if (form)
      forms.push_back(*std::move(form));
  return forms;
}

} // namespace moert
