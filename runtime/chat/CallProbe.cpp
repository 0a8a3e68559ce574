#include "runtime/chat/CallProbe.h"

#include "runtime/chat/JsonScanner.h"
#include "runtime/chat/MarkText.h"
#include "runtime/chat/ReplyGrammar.h"
#include "runtime/chat/ToolCalls.h"
#include "runtime/chat/ValueText.h"
#include "runtime/constrain/Matcher.h"
#include "runtime/text/StreamDecoder.h"

#include <algorithm>
#include <optional>

namespace moert {

using Json = nlohmann::ordered_json;
using Body = ToolFormat::Body;

namespace {
/// Words that no template has.
constexpr std::string_view kQuestion = "zqquestion";
constexpr std::string_view kNames[] = {"zqfirst", "zqsecond"};
constexpr std::string_view kKeys[] = {"zqalpha", "zqbeta"};
constexpr std::string_view kValues[] = {"vqone", "vqtwo"};

/// Arguments of every type, each under a key of its own.
Json typedArguments() {
  return {{"zqstring", "vq"},          {"zqinteger", 7},
          {"zqnumber", 2.5},           {"zqboolean", true},
          {"zqnull", nullptr},         {"zqarray", {"vq", 1}},
          {"zqobject", {{"vk", "vq"}}}};
}

Json parametersOf(const Json &arguments) {
  Json properties = Json::object();
  for (const auto &[key, value] : arguments.items()) {
    std::string type =
        value.is_number_integer() ? "integer" : value.type_name();
    properties[key] = {{"type", type}, {"description", "d"}};
  }
  return {{"type", "object"},
          {"properties", properties},
          {"required", Json::array()}};
}

struct ProbeCall {
  std::string_view name;
  Json arguments;
};

ProbeCall textCall(size_t index) {
  return {kNames[index], {{kKeys[0], kValues[0]}, {kKeys[1], kValues[1]}}};
}

std::vector<Tool> probeTools(const std::vector<ProbeCall> &calls) {
  std::vector<Tool> tools;
  for (const ProbeCall &call : calls)
    tools.push_back({.name = std::string(call.name),
                     .description = "d",
                     .parameters = parametersOf(call.arguments)});
  return tools;
}

Json toolList(const std::vector<Tool> &tools) {
  Json list = Json::array();
  for (const Tool &tool : tools)
    list.push_back({{"type", "function"},
                    {"function",
                     {{"name", tool.name},
                      {"description", tool.description},
                      {"parameters", tool.parameters}}}});
  return list;
}

/// One rendering of calls: what the model says of them.
struct Written {
  std::vector<ProbeCall> calls;
  std::vector<std::string> ids;
  std::string text; ///< With control tokens as controlBytes().
};

/// How a template wants to be given calls.
struct Variant {
  bool hasFunctionIds;   ///< Ids such as functions.f:0, else nine letters.
  bool hasTextArguments; ///< Arguments are JSON text, else objects.
  bool hasNoContent;     ///< The content beside them is null, else "".
  bool hasResults;       ///< Answers of the tools follow.
};

class CallLearner {
public:
  CallLearner(const RenderVariables &render, const Tokenizer &tokenizer,
              const CallProbeSetting &setting)
      : render_(render), tokenizer_(tokenizer), setting_(setting) {}

  std::vector<ToolFormat> run() {
    std::vector<ToolFormat> forms;
    const std::string told = toolsText();
    if (findVariant()) {
      if (std::optional<ToolFormat> own = ownForm(told))
        forms.push_back(*own);
    }
    // What tools are described by may show another form than earlier turns do.
    const bool hasOwn = !forms.empty();
    for (const ToolFormat &known : knownToolFormats(told, tokenizer_)) {
      const std::string_view mark = markOf(known.firstMark());
      if (hasOwn &&
          (told.find(mark) == told.npos ||
           namedControls(forms.front().firstMark()).find(mark) != mark.npos))
        continue;
      forms.push_back(withControls(known, tokenizer_));
    }
    return forms;
  }

private:
  //===--------------------------------------------------------------------===//
  // Rendering
  //===--------------------------------------------------------------------===//

  /// What the template writes in front of a reply if there are tools.
  std::string toolsText() const {
    const std::vector<ProbeCall> calls = {textCall(0)};
    auto text = render_({{"messages", Json::array({probeQuestion()})},
                         {"tools", toolList(probeTools(calls))},
                         {"add_generation_prompt", true}});
    return text ? *text : std::string();
  }

  std::string idOf(size_t index, std::string_view name) const {
    return variant_.hasFunctionIds
               ? "functions." + std::string(name) + ":" + std::to_string(index)
               : "zqidaaa0" + std::to_string(index + 1);
  }

  std::optional<Written> write(const std::vector<ProbeCall> &calls) const {
    Written written{calls, {}, {}};
    Json list = Json::array();
    for (size_t i = 0; i < calls.size(); ++i) {
      written.ids.push_back(idOf(i, calls[i].name));
      const Json &arguments = calls[i].arguments;
      list.push_back(
          {{"id", written.ids.back()},
           {"type", "function"},
           {"function",
            {{"name", calls[i].name},
             {"arguments", variant_.hasTextArguments ? Json(arguments.dump())
                                                     : arguments}}}});
    }
    Json messages = Json::array({probeQuestion()});
    messages.push_back({{"role", "assistant"},
                        {"content", variant_.hasNoContent ? Json() : Json("")},
                        {"tool_calls", std::move(list)}});
    if (variant_.hasResults)
      for (size_t i = 0; i < calls.size(); ++i)
        messages.push_back({{"role", "tool"},
                            {"name", calls[i].name},
                            {"tool_call_id", written.ids[i]},
                            {"content", "zqresult"}});
    auto text = render_({{"messages", messages},
                         {"tools", toolList(probeTools(calls))},
                         {"add_generation_prompt", false}});
    if (!text)
      return std::nullopt;
    const std::string tail(afterQuestion(*text));
    for (const ProbeCall &call : calls)
      if (tail.find(call.name) == tail.npos)
        return std::nullopt;
    written.text = said(tail);
    return written;
  }

  /// What the model says, of the text after the question: without the header
  /// that stands before its answers, and up to the end of its turn.
  std::string said(std::string_view tail) const {
    tail = tail.substr(0, tail.find("zqresult"));
    tail.remove_prefix(commonBegin(tail, setting_.answerHead).size());
    std::string text = withControls(tail, tokenizer_);
    // Without a token that ends the turn, what follows is what follows answers.
    text.resize(
        text.size() -
        commonEnd(text, withControls(setting_.answerTail, tokenizer_)).size());
    for (bool isLess = true; isLess;) {
      isLess = false;
      for (const std::string &mark : setting_.answerMarks)
        if (!mark.empty() && withoutBlanks(text).starts_with(mark)) {
          text = withoutBlanks(text).substr(mark.size());
          isLess = true;
        }
    }
    if (*setting_.channels) {
      const std::string &body = (*setting_.channels)->body;
      if (const size_t at = text.find(body); at != text.npos)
        text.erase(0, at + body.size());
    }
    return text;
  }

  bool findVariant() {
    for (unsigned bits = 0; bits < 16; ++bits) {
      variant_ = {.hasFunctionIds = (bits & 8) == 0,
                  .hasTextArguments = (bits & 4) != 0,
                  .hasNoContent = (bits & 2) != 0,
                  .hasResults = (bits & 1) != 0};
      auto one = write({textCall(0)});
      if (!one)
        continue;
      one_ = *std::move(one);
      // Each message has a call of its own where headers name them.
      if (!*setting_.channels)
        two_ = write({textCall(0), textCall(1)});
      return true;
    }
    return false;
  }

  //===--------------------------------------------------------------------===//
  // Trying forms
  //===--------------------------------------------------------------------===//

  /// Whether the form reads the calls that were written, and nothing else.
  bool reads(const ToolFormat &form, const Written &written) const {
    const std::vector<ToolFormat> forms = {form};
    const std::vector<Tool> tools = probeTools(written.calls);
    ToolCallParser parser(forms, tools);
    std::vector<ToolEvent> events = parser.push(written.text);
    std::ranges::move(parser.finish(), std::back_inserter(events));
    std::vector<std::pair<std::string, std::string>> found;
    for (const ToolEvent &event : events)
      switch (event.kind) {
      case ToolEvent::Kind::Begin:
        found.emplace_back(event.text, "");
        break;
      case ToolEvent::Kind::Arguments:
        found.back().second += event.text;
        break;
      case ToolEvent::Kind::Text:
        if (!withoutBlanks(event.text).empty())
          return false;
        break;
      case ToolEvent::Kind::End:
        break;
      case ToolEvent::Kind::Error:
        return false;
      }
    if (found.size() != written.calls.size())
      return false;
    for (size_t i = 0; i < found.size(); ++i) {
      const Json read = Json::parse(found[i].second, nullptr, false);
      // Templates may write members in another order.
      if (found[i].first != written.calls[i].name || read.is_discarded() ||
          nlohmann::json(read) != nlohmann::json(written.calls[i].arguments))
        return false;
    }
    return true;
  }

  /// Whether the grammar of calls in this form has what was written.
  bool says(const ToolFormat &form, const Written &written) const {
    static const std::vector<std::string> bytes = [] {
      std::vector<std::string> all;
      for (int byte = 0; byte < 256; ++byte)
        all.emplace_back(1, char(byte));
      return all;
    }();
    static const auto trie = std::make_shared<const TokenTrie>(
        std::vector<std::string_view>(bytes.begin(), bytes.end()),
        std::vector<int32_t>());
    const std::vector<ToolFormat> forms = {form};
    const std::vector<Tool> tools = probeTools(written.calls);
    ReplyWish wish;
    wish.tools = &tools;
    wish.forms = &forms;
    wish.mustCall = true;
    auto grammar = replyGrammar(wish);
    if (!grammar || !*grammar)
      return false;
    Matcher matcher(*grammar, trie);
    for (char byte : withoutBlanks(written.text))
      if (!matcher.accept(uint8_t(byte)))
        return false;
    return matcher.canEnd();
  }

  bool readsAll(const ToolFormat &form) const {
    return reads(form, one_) && (!two_ || reads(form, *two_));
  }
  bool saysAll(const ToolFormat &form) const {
    return says(form, one_) && (!two_ || says(form, *two_));
  }

  std::optional<ToolFormat> ownForm(std::string_view told) {
    // The header of a message is what calls, if the message is the arguments.
    if (*setting_.channels && Json::accept(withoutBlanks(one_.text)))
      return withControls(*toolFormatNamed("gpt-oss"), tokenizer_);
    // What is known of a form is more than one text shows. A form that reads
    // what it would not have written so is the last resort.
    std::vector<ToolFormat> forms;
    for (const ToolFormat &known : knownToolFormats(
             namedControls(one_.text) + std::string(told), tokenizer_))
      forms.push_back(withControls(known, tokenizer_));
    for (std::optional<ToolFormat> form :
         {jsonForm(), namedForm(), taggedForm(), keywordForm()})
      if (form)
        forms.push_back(*std::move(form));
    std::erase_if(forms,
                  [&](const ToolFormat &form) { return !readsAll(form); });
    auto best = std::ranges::find_if(
        forms, [&](const ToolFormat &form) { return saysAll(form); });
    if (best == forms.end())
      best = forms.begin();
    return best == forms.end() ? std::nullopt : std::optional(*best);
  }

  //===--------------------------------------------------------------------===//
  // Finding a form
  //===--------------------------------------------------------------------===//

  /// A part of a text.
  struct Span {
    size_t begin = std::string::npos, end = 0;
    bool exists() const { return begin != std::string::npos; }
  };

  /// The first JSON object that has `word`, as small as possible.
  static Span objectWith(std::string_view text, size_t word) {
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
  static void setMarks(ToolFormat &form, std::string_view before,
                       std::optional<std::string_view> middle,
                       std::string_view after) {
    form.open = before;
    form.close = after;
    if (!middle)
      return;
    const std::string_view close = commonBegin(after, *middle);
    const std::string_view open =
        commonEnd(before, middle->substr(close.size()));
    form.close = close;
    form.open = open;
    form.between = middle->substr(close.size(),
                                  middle->size() - close.size() - open.size());
    form.sectionOpen = before.substr(0, before.size() - open.size());
    form.sectionClose = after.substr(close.size());
    // Blanks alone are no section.
    if (withoutBlanks(form.sectionOpen).empty())
      form.sectionOpen.clear();
  }

  std::optional<ToolFormat> jsonForm() const {
    const std::string &text = two_ ? two_->text : one_.text;
    auto objectOf = [&](size_t from) -> Span {
      const size_t name = text.find(kNames[from == 0 ? 0 : 1], from);
      const size_t key = text.find(kKeys[0], from);
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
    const Span second = two_ && first.exists() ? objectOf(first.end) : first;
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
      if (key == kNames[0] && value.is_object() && object.size() == 1) {
        isKey = true;
      } else if (value == kNames[0]) {
        form.nameKey = key;
        nameAt = index;
      } else if (value.is_object() && value.contains(kKeys[0])) {
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
    if (two_)
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
      return form;
    }
    setMarks(form, before, middle, after);
    form.isBare = withoutBlanks(form.open).empty() && form.sectionOpen.empty();
    return form;
  }

  /// Where names and arguments of a text stand that has them in this order.
  struct Place {
    Span name, body;
  };

  std::optional<ToolFormat> namedForm() const {
    const Written &from = two_ ? *two_ : one_;
    const std::string &text = from.text;
    std::vector<Place> places;
    size_t at = 0;
    for (const ProbeCall &call : from.calls) {
      Place place;
      place.name.begin = text.find(call.name, at);
      if (!place.name.exists())
        return std::nullopt;
      place.name.end = place.name.begin + call.name.size();
      const size_t key = text.find(kKeys[0], place.name.end);
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

  std::optional<ToolFormat> taggedForm() const {
    const Written &from = two_ ? *two_ : one_;
    ToolFormat form{.name = "own", .body = Body::Tagged};
    /// The text of a call between its name, keys and values.
    struct Parts {
      std::string head, equals, next, last;
      size_t begin, end; ///< Of the name; of the last value.
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
      if (!until(kKeys[0], &parts.head) || !until(kValues[0], &parts.equals) ||
          !until(kKeys[1], &parts.next) || !until(kValues[1], nullptr))
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
    unnamed(next, kKeys[0]);
    unnamed(after, kKeys[1]);
    if (middle)
      unnamed(*middle, kKeys[1]);
    // What follows a value: its parameter's end, then the next parameter's
    // beginning or the call's end.
    form.parameterOpen = commonEnd(all[0].head, next);
    if (withoutBlanks(form.parameterOpen).empty())
      return std::nullopt;
    form.parameterClose =
        next.substr(0, next.size() - form.parameterOpen.size());
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
    return withTypes(std::move(form));
  }

  /// Calls as Python writes them, between marks.
  std::optional<ToolFormat> keywordForm() const {
    const Written &from = two_ ? *two_ : one_;
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
    // Brackets alone are no marks: any text may have them.
    const bool isMarked = withoutBlanks(form.sectionOpen).size() > 1 &&
                          !form.sectionClose.empty();
    return isMarked ? std::optional(std::move(form)) : std::nullopt;
  }

  /// Sets what stands behind a name if it has the call's number.
  static void setNumbered(ToolFormat &form, std::string_view head,
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

  /// Some templates put marks around a text that could be taken for marks.
  void learnTextMarks(ToolFormat &form) const {
    constexpr std::string_view value = "<vq>";
    const std::optional<Written> written =
        write({{kNames[0], {{"zqmarkup", value}}}});
    if (!written)
      return;
    const std::string_view text = written->text;
    const std::string_view last = markOf(
        form.valueOpen.empty() ? form.parameterNameClose : form.valueOpen);
    const size_t at = text.find(value);
    const size_t close =
        at == text.npos ? at : text.find(markOf(form.closeOf("zqmarkup")), at);
    const size_t open = at == text.npos ? at : text.rfind(last, at);
    if (open == text.npos || close == text.npos)
      return;
    const std::string_view before =
        withoutBlanks(text.substr(open + last.size(), at - open - last.size()));
    const std::string_view after = withoutBlanks(
        text.substr(at + value.size(), close - at - value.size()));
    if (before.empty() || after.empty())
      return;
    form.textOpen = before;
    form.textClose = after;
  }

  /// Learns what stands before values of each type, and how they are written.
  std::optional<ToolFormat> withTypes(ToolFormat form) const {
    std::optional<Written> typed = write({{kNames[0], typedArguments()}});
    if (!typed)
      return form;
    // Some templates leave null out.
    if (typed->text.find("zqnull") == typed->text.npos)
      typed->calls[0].arguments.erase("zqnull");
    std::map<std::string, std::string> before;
    const std::string mark = form.parameterNameClose;
    const std::string_view last = atomsOf(mark).back();
    for (const auto &[key, value] : typed->calls[0].arguments.items()) {
      const size_t at = typed->text.find(key);
      if (at == typed->text.npos)
        continue;
      const std::string_view rest =
          std::string_view(typed->text).substr(at + key.size());
      if (const size_t end = rest.find(last); end != rest.npos)
        before[value.is_number_integer() ? "integer" : value.type_name()] =
            rest.substr(0, end + last.size());
    }
    const std::string &string = before["string"];
    bool differs = false;
    for (const auto &[type, other] : before)
      differs |= other != string;
    if (differs) {
      const std::vector<std::string_view> atoms = atomsOf(string);
      form.parameterNameClose = atoms.front();
      form.valueOpen = atoms.size() > 1 ? atoms.back() : std::string_view();
      const size_t around =
          form.parameterNameClose.size() + form.valueOpen.size();
      for (const auto &[type, mark] : before)
        if (mark.starts_with(form.parameterNameClose) &&
            mark.ends_with(form.valueOpen) && mark.size() >= around)
          form.typeAttributes[type] =
              mark.substr(form.parameterNameClose.size(), mark.size() - around);
      if (!form.typeAttributes.contains("null"))
        form.typeAttributes["null"] = form.attributesOf("object");
    }
    learnTextMarks(form);
    // The notation that reads all of it is the model's.
    for (auto values :
         {ToolFormat::Values::Python, ToolFormat::Values::Nested}) {
      form.values = values;
      if (reads(form, *typed))
        break;
      form.values = ToolFormat::Values::Json;
    }
    if (form.values == ToolFormat::Values::Python &&
        typed->text.find("True") == typed->text.npos)
      form.values = ToolFormat::Values::Json;
    return form;
  }

  const RenderVariables &render_;
  const Tokenizer &tokenizer_;
  const CallProbeSetting &setting_;
  Variant variant_ = {};
  Written one_;
  std::optional<Written> two_;
};
} // namespace

Json probeQuestion() { return {{"role", "user"}, {"content", kQuestion}}; }

std::string_view afterQuestion(std::string_view text) {
  const size_t at = text.rfind(kQuestion);
  return at == text.npos ? std::string_view()
                         : text.substr(at + kQuestion.size());
}

std::vector<ToolFormat> learnCalls(const RenderVariables &render,
                                   const Tokenizer &tokenizer,
                                   const CallProbeSetting &setting) {
  return CallLearner(render, tokenizer, setting).run();
}

} // namespace moert
