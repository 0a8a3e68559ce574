//===- JsonText.cpp - Grammars of JSON's values ---------------------------===//

#include "runtime/constrain/JsonText.h"

#include <algorithm>

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
      if (uint8_t(quote[0]) < 0x80) // It is no control token.
        rules.conditions.push_back(
            {std::make_shared<const CharNfa>(CharNfa::ofTextsWith(quote)),
             /*isNegated=*/true});
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
      {.conditions = {{spaces()}}, .most = kMostSpace, .isJson = false});
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
    return objectOf({}, {{*nameOf(TextRules()), value(), false}});
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

ExprId JsonText::stringOf(const std::set<std::string> &texts) {
  auto nfa = std::make_shared<const CharNfa>(CharNfa::ofTexts(texts));
  return quoted(TextScanner::create({.conditions = {{std::move(nfa)}}}));
}

std::optional<ExprId> JsonText::nameOf(TextRules rules) {
  if (!isBare())
    return stringOf(std::move(rules));
  static const auto plain = std::make_shared<const CharNfa>(bareNames());
  rules.isJson = false;
  rules.conditions.push_back({plain});
  auto scanner = TextScanner::create(std::move(rules));
  if (scanner->isEmpty())
    return std::nullopt;
  return scan(std::move(scanner));
}

ExprId JsonText::nameOf(const std::set<std::string> &texts) {
  if (!isBare())
    return stringOf(texts);
  std::vector<ExprId> ways;
  for (const std::string &text : texts)
    ways.push_back(grammar_.bytes(text));
  return grammar_.choice(std::move(ways));
}

std::optional<ExprId> JsonText::numberOf(const NumberRules &rules) {
  if (rules.isEmpty())
    return std::nullopt;
  return scan(NumberScanner::create(rules));
}

ExprId JsonText::constant(const nlohmann::json &value) {
  if (value.is_string())
    return stringOf(std::set{value.get<std::string>()});
  if (value.is_number()) {
    const long double number = JsonNumber::of(value).value;
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
      members.push_back({nameOf(std::set{name}), constant(member), true});
    return objectOf(members, {});
  }
  if (value.is_null())
    return null();
  return value.get<bool>() ? words({"true", "True"})
                           : words({"false", "False"});
}

ExprId JsonText::enclosed(const char *open, Series series, const char *close) {
  series.separator = grammar_.sequence({grammar_.bytes(","), space()});
  return grammar_.sequence({grammar_.bytes(open), space(),
                            grammar_.series(std::move(series)),
                            grammar_.bytes(close)});
}

ExprId JsonText::objectOf(const std::vector<Member> &members,
                          const std::vector<Member> &rest, int32_t least,
                          int32_t most) {
  Series series{.isAnyOrder = true, .least = least, .most = most};
  auto text = [&](const Member &member) {
    return spaced(grammar_.sequence(
        {spaced(member.name), grammar_.bytes(":"), space(), member.value}));
  };
  for (const Member &member : members) {
    series.entries.push_back(text(member));
    series.isRequired.push_back(member.isRequired);
  }
  for (const Member &member : rest)
    series.rest.push_back(text(member));
  return enclosed("{", std::move(series), "}");
}

ExprId JsonText::listOf(const std::vector<ExprId> &first,
                        std::optional<ExprId> rest, int32_t least,
                        int32_t most) {
  Series series{.least = least, .most = most};
  for (ExprId item : first)
    series.entries.push_back(spaced(item));
  if (rest)
    series.rest.push_back(spaced(*rest));
  return enclosed("[", std::move(series), "]");
}

} // namespace moert
