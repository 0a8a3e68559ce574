//===- JsonText.cpp - Grammars of JSON's values ---------------------------===//

#include "runtime/constrain/JsonText.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace moert {

namespace {
/// Most characters of white space at a place, and line ends among them: small
/// models like to go on with these.
constexpr int32_t kMostSpace = 128, kMostLineEnds = 8;

std::shared_ptr<const CharNfa> spaces() {
  CharNfa nfa;
  const CharNfa::StateId end = nfa.addState(), start = nfa.addState();
  CharNfa::StateId state = start;
  for (int32_t lineEnds = 0;; ++lineEnds) {
    nfa.addChars(state, {{'\t', '\t'}, {' ', ' '}}, state);
    nfa.addEdge(state, CharNfa::kFree, end);
    if (lineEnds == kMostLineEnds)
      break;
    const CharNfa::StateId next = nfa.addState();
    nfa.addChars(state, {{'\n', '\n'}, {'\r', '\r'}}, next);
    state = next;
  }
  nfa.setEnds(start, end);
  return std::make_shared<const CharNfa>(std::move(nfa));
}
/// Names without quotes: they have none of the characters that end them.
CharNfa bareNames() {
  const CharSet set = {{'!', '!'},
                       {'#', '+'},
                       {'-', '9'},
                       {';', ';'},
                       {'=', '='},
                       {'?', 'Z'},
                       {'\\', '\\'},
                       {'^', 'z'},
                       {'|', '|'},
                       {'~', '~'},
                       {0xA1, CharSet::kMaxCodePoint}};
  CharNfa nfa;
  const CharNfa::StateId end = nfa.addState(), start = nfa.addState();
  nfa.addChars(start, set, end);
  nfa.addChars(end, set, end);
  nfa.setEnds(start, end);
  return nfa;
}
} // namespace

template <class Body> ExprId JsonText::rule(const char *name, Body body) {
  RuleId id = grammar_.declare(std::to_string(int(options_.notation)) +
                               " json " + name);
  if (!grammar_.isDefined(id)) {
    // The rule is defined first, because its body may refer to it.
    grammar_.define(id, grammar_.empty());
    grammar_.define(id, body());
  }
  return grammar_.rule(id);
}

ExprId JsonText::scan(std::shared_ptr<const Scanner> scanner) {
  return grammar_.scan(std::move(scanner));
}

ExprId JsonText::words(std::pair<const char *, const char *> each) {
  const ExprId word = grammar_.bytes(each.first);
  return options_.notation != Notation::Json
             ? grammar_.choice({word, grammar_.bytes(each.second)})
             : word;
}

ExprId JsonText::quoted(std::shared_ptr<const TextScanner> scanner) {
  TextRules rules = scanner->rules();
  if (isBare()) {
    rules.isJson = false;
    for (const std::string &quote : options_.quotes)
      if (uint8_t(quote[0]) <
          0x80) // Other first bytes are those of control tokens.
        rules.conditions.push_back({.nfa = std::make_shared<const CharNfa>(
                                        CharNfa::ofTextsWith(quote)),
                                    .isNegated = true});
    const ExprId text = scan(TextScanner::create(std::move(rules)));
    std::vector<ExprId> ways;
    for (const std::string &quote : options_.quotes)
      ways.push_back(grammar_.sequence(
          {grammar_.bytes(quote), text, grammar_.bytes(quote)}));
    return grammar_.choice(std::move(ways));
  }
  const ExprId text = scan(std::move(scanner));
  if (options_.notation == Notation::Json)
    return text;
  rules.isSingleQuoted = true;
  return grammar_.choice({text, scan(TextScanner::create(std::move(rules)))});
}

ExprId JsonText::space() {
  if (!options_.hasSpaces)
    return grammar_.empty();
  static const auto scanner = TextScanner::create(
      {.conditions = {{.nfa = spaces()}}, .most = kMostSpace, .isJson = false});
  return scan(scanner);
}

ExprId JsonText::value() {
  return rule("value", [&] {
    return grammar_.choice(
        {object(), list(), string(), number(), boolean(), null()});
  });
}

ExprId JsonText::object() {
  return rule("object", [&] {
    return objectOf({}, {{*nameOf(TextRules()), value()}});
  });
}

ExprId JsonText::list() {
  return rule("list", [&] { return listOf({}, value(), 0, Expr::kUnbounded); });
}

ExprId JsonText::boolean() {
  return grammar_.choice({words({"true", "True"}), words({"false", "False"})});
}

ExprId JsonText::string() {
  static const auto scanner = TextScanner::create({});
  return quoted(scanner);
}

ExprId JsonText::number() {
  static const auto scanner = NumberScanner::create({});
  return scan(scanner);
}

std::optional<ExprId> JsonText::stringOf(TextRules rules) {
  auto scanner = TextScanner::create(std::move(rules));
  if (scanner->isEmpty())
    return std::nullopt;
  return quoted(std::move(scanner));
}

ExprId JsonText::stringOf(std::shared_ptr<const TextList> texts) {
  return quoted(
      TextScanner::create({.conditions = {{.list = std::move(texts)}}}));
}

std::optional<ExprId> JsonText::nameOf(TextRules rules) {
  if (!isBare())
    return stringOf(std::move(rules));
  static const auto plain = std::make_shared<const CharNfa>(bareNames());
  rules.isJson = false;
  rules.conditions.push_back({.nfa = plain});
  auto scanner = TextScanner::create(std::move(rules));
  if (scanner->isEmpty())
    return std::nullopt;
  return scan(std::move(scanner));
}

std::optional<ExprId> JsonText::numberOf(const NumberRules &rules) {
  if (rules.isEmpty())
    return std::nullopt;
  return scan(NumberScanner::create(rules));
}

ExprId JsonText::constant(const nlohmann::json &value) {
  if (value.is_string())
    return stringOf(TextList::of({value.get_ref<const std::string &>()}));
  if (value.is_number()) {
    const Decimal number = Decimal::of(value);
    return scan(NumberScanner::create({.least = number, .most = number}));
  }
  if (value.is_array()) {
    std::vector<ExprId> items;
    for (const nlohmann::json &item : value)
      items.push_back(constant(item));
    const auto count = int32_t(items.size());
    return listOf(items, std::nullopt, count, count);
  }
  if (value.is_object()) {
    std::vector<Member> members;
    for (const auto &[name, member] : value.items())
      members.push_back({name, constant(member), true});
    return objectOf(members, {});
  }
  if (value.is_null())
    return null();
  return value.get<bool>() ? words({"true", "True"})
                           : words({"false", "False"});
}

ExprId JsonText::enclosed(const char *open, Series series, const char *close) {
  series.separator = grammar_.sequence({grammar_.bytes(","), space()});
  series.after = space();
  return grammar_.sequence({grammar_.bytes(open), space(),
                            grammar_.series(std::move(series)),
                            grammar_.bytes(close)});
}

void JsonText::addNames(Series &series, std::shared_ptr<const TextList> names) {
  TextRules rules{.conditions = {{.list = std::move(names)}},
                  .isJson = !isBare()};
  series.names.push_back(TextScanner::create(rules));
  if (options_.notation == Notation::Python) {
    rules.isSingleQuoted = true;
    series.names.push_back(TextScanner::create(std::move(rules)));
  }
  series.afterName = grammar_.sequence({space(), grammar_.bytes(":"), space()});
}

ExprId JsonText::memberOf(ExprId name, ExprId value) {
  return grammar_.sequence(
      {name, space(), grammar_.bytes(":"), space(), value});
}

ExprId JsonText::objectOf(const std::vector<Member> &members,
                          const std::vector<Rest> &rest, int32_t least,
                          int32_t most) {
  Series series{.isAnyOrder = true, .least = least, .most = most};
  std::map<std::string_view, const Member *> sorted;
  std::vector<std::string_view> names;
  for (const Member &member : members) {
    sorted.emplace(member.name, &member);
    names.push_back(member.name);
  }
  for (const auto &[name, member] : sorted) {
    series.nameOf.push_back(int32_t(series.entries.size()));
    series.entries.push_back(member->value);
    series.isRequired.push_back(member->isRequired);
  }
  if (!members.empty())
    addNames(series, TextList::of(std::move(names)));
  for (const Rest &each : rest)
    series.rest.push_back(memberOf(each.name, each.value));
  return enclosed("{", std::move(series), "}");
}

ExprId JsonText::objectOfAny(const std::vector<Variant> &variants) {
  // Members of the same name and value are the same entry.
  using Key = std::pair<bool, int32_t>;
  struct Entry {
    ExprId value = -1;
    std::vector<int32_t> variants = {};
  };
  auto add = [&](std::map<Key, Entry> &to, ExprId value, size_t variant) {
    const bool isRule = grammar_[value].kind == Expr::Kind::Rule;
    Entry &entry = to[{isRule, isRule ? grammar_[value].rule : value}];
    entry.value = value;
    entry.variants.push_back(int32_t(variant));
  };
  std::map<std::string_view, std::map<Key, Entry>> byName;
  std::map<Key, Entry> others;
  Series series{.isAnyOrder = true};
  for (size_t i = 0; i < variants.size(); ++i) {
    for (const Member &member : variants[i].members)
      add(byName[member.name], member.value, i);
    if (variants[i].others)
      add(others, *variants[i].others, i);
  }
  std::vector<std::string_view> names;
  std::unordered_map<std::string_view, int32_t> numbers;
  for (auto &[name, entries] : byName) {
    const auto number = int32_t(names.size());
    names.push_back(name);
    numbers.emplace(name, number);
    for (auto &[key, entry] : entries) {
      series.entries.push_back(entry.value);
      series.nameOf.push_back(number);
      series.variantsOf.push_back(std::move(entry.variants));
    }
  }
  for (const Variant &variant : variants) {
    std::vector<int32_t> &needed = series.neededNames.emplace_back();
    for (const Member &member : variant.members)
      if (member.isRequired)
        needed.push_back(numbers[member.name]);
    std::ranges::sort(needed);
  }
  auto list = TextList::of(std::move(names));
  if (!others.empty()) {
    const ExprId name =
        *nameOf({.conditions = {{.list = list, .isNegated = true}}});
    for (auto &[key, entry] : others) {
      series.rest.push_back(memberOf(name, entry.value));
      series.restAfterName.push_back(entry.value);
      series.variantsOfRest.push_back(std::move(entry.variants));
    }
  }
  addNames(series, std::move(list));
  return enclosed("{", std::move(series), "}");
}

ExprId JsonText::listOf(const std::vector<ExprId> &first,
                        std::optional<ExprId> rest, int32_t least,
                        int32_t most) {
  Series series{.entries = first, .least = least, .most = most};
  if (rest)
    series.rest.push_back(*rest);
  return enclosed("[", std::move(series), "]");
}

} // namespace moert
