//===- JsonText.cpp - Grammars of JSON's values ---------------------------===//

#include "runtime/constrain/JsonText.h"

#include <algorithm>
#include <map>

namespace moert {

namespace {
const CharSet kDigits = {{'0', '9'}};
const CharSet kHex = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
/// Characters that strings must escape.
const CharSet kEscaped = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
/// Spaces of indentation at most, after a line break.
constexpr int32_t kIndentation = 64;

/// Returns the two-character escape of a character, or an empty string.
std::string shortEscape(uint32_t c) {
  switch (c) {
  case '"':
    return "\\\"";
  case '\\':
    return "\\\\";
  case '\b':
    return "\\b";
  case '\f':
    return "\\f";
  case '\n':
    return "\\n";
  case '\r':
    return "\\r";
  case '\t':
    return "\\t";
  default:
    return "";
  }
}

std::string escapeOf(uint32_t c) {
  std::string text = shortEscape(c);
  if (!text.empty())
    return text;
  constexpr char kDigitsOf16[] = "0123456789abcdef";
  return std::string("\\u00") + kDigitsOf16[c >> 4 & 15] + kDigitsOf16[c & 15];
}
} // namespace

template <class Body> ExprId JsonText::rule(const char *name, Body body) {
  RuleId id = grammar_.declare(std::string("json ") + name);
  if (!grammar_.isDefined(id)) {
    // The rule is defined first, because its body may refer to it.
    grammar_.define(id, grammar_.empty());
    grammar_.define(id, body());
  }
  return grammar_.rule(id);
}

ExprId JsonText::space() {
  if (!options_.hasSpaces)
    return grammar_.empty();
  return rule("space", [&] {
    return grammar_.choice(
        {grammar_.empty(), grammar_.bytes(" "),
         grammar_.sequence(
             {grammar_.bytes("\n"),
              grammar_.repeat(grammar_.chars({{'\t', '\t'}, {' ', ' '}}), 0,
                              kIndentation)})});
  });
}

ExprId JsonText::value() {
  return rule("value", [&] {
    return grammar_.choice(
        {object(), list(), string(), number(), boolean(), null()});
  });
}

ExprId JsonText::object() {
  return rule("object",
              [&] { return objectOf({}, member(string(), value())); });
}

ExprId JsonText::list() {
  return rule("list", [&] { return listOf({}, value(), 0, Expr::kUnbounded); });
}

ExprId JsonText::boolean() {
  return grammar_.choice({grammar_.bytes("true"), grammar_.bytes("false")});
}

ExprId JsonText::digits(int32_t least, int32_t most) {
  return grammar_.repeat(grammar_.chars(kDigits), least, most);
}

ExprId JsonText::integer() {
  return rule("integer", [&] {
    ExprId natural =
        grammar_.choice({grammar_.bytes("0"),
                         grammar_.sequence({grammar_.chars({{'1', '9'}}),
                                            digits(0, Expr::kUnbounded)})});
    return grammar_.sequence({grammar_.optional(grammar_.bytes("-")), natural});
  });
}

ExprId JsonText::number() {
  return rule("number", [&] {
    ExprId fraction =
        grammar_.sequence({grammar_.bytes("."), digits(1, Expr::kUnbounded)});
    // Exponents of three digits are beyond doubles already.
    ExprId exponent = grammar_.sequence(
        {grammar_.chars({{'E', 'E'}, {'e', 'e'}}),
         grammar_.optional(grammar_.chars({{'+', '+'}, {'-', '-'}})),
         digits(1, 3)});
    return grammar_.sequence(
        {integer(), grammar_.optional(fraction), grammar_.optional(exponent)});
  });
}

ExprId JsonText::character(Grammar &grammar, const CharSet &set) {
  std::vector<ExprId> forms = {grammar.chars(set.without(kEscaped))};
  const CharSet escaped = set.intersection(kEscaped);
  for (CharSet::Range range : escaped.ranges())
    for (uint32_t c = range.first; c <= range.last; ++c)
      forms.push_back(grammar.bytes(escapeOf(c)));
  return grammar.choice(std::move(forms));
}

ExprId JsonText::anyCharacter() {
  return rule("character", [&] {
    ExprId hex = grammar_.chars(kHex);
    // Code units D800 to DFFF are halves of surrogate pairs.
    ExprId first = grammar_.choice(
        {grammar_.sequence(
             {grammar_.chars(kHex.without({{'D', 'D'}, {'d', 'd'}})), hex}),
         grammar_.sequence({grammar_.chars({{'D', 'D'}, {'d', 'd'}}),
                            grammar_.chars({{'0', '7'}})})});
    ExprId escape = grammar_.choice(
        {grammar_.chars({{'"', '"'},
                         {'/', '/'},
                         {'\\', '\\'},
                         {'b', 'b'},
                         {'f', 'f'},
                         {'n', 'n'},
                         {'r', 'r'},
                         {'t', 't'}}),
         grammar_.sequence({grammar_.bytes("u"), first, hex, hex})});
    return grammar_.choice({grammar_.chars(kEscaped.complement()),
                            grammar_.sequence({grammar_.bytes("\\"), escape})});
  });
}

ExprId JsonText::quoted(ExprId content) {
  return grammar_.sequence(
      {grammar_.bytes("\""), content, grammar_.bytes("\"")});
}

ExprId JsonText::string() {
  return rule("string", [&] { return stringOfLength(0, Expr::kUnbounded); });
}

ExprId JsonText::stringOfLength(int32_t least, int32_t most) {
  return quoted(grammar_.repeat(anyCharacter(), least, most));
}

ExprId JsonText::stringExcept(const std::set<std::string> &names) {
  // The trie has the names as they are written in JSON. A string differs from
  // all of them if it leaves the trie with a character that continues no name,
  // or if it ends at a node that is not the end of a name. Each character has
  // only one spelling here, so no other spelling can evade the trie.
  struct Node {
    std::map<uint32_t, Node> next;
    bool isName = false;
  };
  Node root;
  for (const std::string &name : names) {
    Node *node = &root;
    for (size_t i = 0; i < name.size();) {
      auto lead = uint8_t(name[i]);
      size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
      uint32_t c = length == 1 ? lead : lead & (0x7Fu >> length);
      for (size_t k = 1; k < length && i + k < name.size(); ++k)
        c = c << 6 | (uint8_t(name[i + k]) & 0x3Fu);
      i += length;
      node = &node->next[c];
    }
    node->isName = true;
  }
  ExprId any = rule("plain character",
                    [&] { return character(grammar_, CharSet::all()); });
  auto add = [&](auto &self, const Node &node) -> ExprId {
    CharSet known;
    std::vector<ExprId> ways;
    if (!node.isName)
      ways.push_back(grammar_.empty());
    for (const auto &[c, next] : node.next) {
      known.add(CharSet::only(c));
      ways.push_back(grammar_.sequence(
          {character(grammar_, CharSet::only(c)), self(self, next)}));
    }
    ways.push_back(
        grammar_.sequence({character(grammar_, known.complement()),
                           grammar_.repeat(any, 0, Expr::kUnbounded)}));
    return grammar_.choice(std::move(ways));
  };
  return quoted(add(add, root));
}

ExprId JsonText::member(ExprId name, ExprId value) {
  return grammar_.sequence(
      {name, space(), grammar_.bytes(":"), space(), value});
}

ExprId JsonText::objectOf(const std::vector<Member> &members,
                          std::optional<ExprId> rest) {
  ExprId comma = grammar_.sequence({space(), grammar_.bytes(","), space()});
  // Builds the text from the last member backwards: `more` is the rest of the
  // object after a member, and `first` is the rest if there is no member before
  // it.
  ExprId more = grammar_.empty(), first = grammar_.empty();
  if (rest) {
    more =
        grammar_.repeat(grammar_.sequence({comma, *rest}), 0, Expr::kUnbounded);
    first = grammar_.optional(grammar_.sequence({*rest, more}));
  }
  // A rule per member keeps expressions flat: `more` is used twice.
  auto shared = [&](ExprId expr) {
    RuleId id =
        grammar_.declare("members " + std::to_string(grammar_.ruleCount()));
    grammar_.define(id, expr);
    return grammar_.rule(id);
  };
  for (auto it = members.rbegin(); it != members.rend(); ++it) {
    more = shared(more);
    ExprId begin = grammar_.sequence({it->text, more});
    ExprId next = grammar_.sequence({comma, it->text, more});
    first = it->isRequired ? begin : grammar_.choice({begin, first});
    more = it->isRequired ? next : grammar_.choice({next, more});
    first = shared(first);
  }
  return grammar_.sequence(
      {grammar_.bytes("{"), space(), first, space(), grammar_.bytes("}")});
}

ExprId JsonText::listOf(const std::vector<ExprId> &first,
                        std::optional<ExprId> rest, int32_t least,
                        int32_t most) {
  ExprId comma = grammar_.sequence({space(), grammar_.bytes(","), space()});
  auto count = int32_t(first.size());
  if (most != Expr::kUnbounded)
    count = std::min(count, most);
  // The items after `first`. If `first` has fewer than `least` items, some of
  // them are required.
  ExprId tail = grammar_.empty();
  if (rest && (most == Expr::kUnbounded || most > count)) {
    int32_t fewest = std::max(0, least - count);
    int32_t largest = most == Expr::kUnbounded ? most : most - count;
    ExprId again = grammar_.sequence({comma, *rest});
    if (count > 0) {
      tail = grammar_.repeat(again, fewest, largest);
    } else {
      int32_t others = largest == Expr::kUnbounded ? largest : largest - 1;
      tail = grammar_.sequence(
          {*rest, grammar_.repeat(again, std::max(0, fewest - 1), others)});
      if (fewest == 0)
        tail = grammar_.optional(tail);
    }
  }
  for (int32_t i = count; i-- > 0;) {
    ExprId item = first[size_t(i)];
    tail = grammar_.sequence(i > 0 ? std::vector{comma, item, tail}
                                   : std::vector{item, tail});
    if (i >= least)
      tail = grammar_.optional(tail);
  }
  return grammar_.sequence(
      {grammar_.bytes("["), space(), tail, space(), grammar_.bytes("]")});
}

//===----------------------------------------------------------------------===//
// Ranges of integers
//===----------------------------------------------------------------------===//

ExprId JsonText::sameLength(const std::string &low, const std::string &high) {
  size_t n = low.size();
  auto digit = [&](char from, char to) {
    return grammar_.chars({{uint32_t(from), uint32_t(to)}});
  };
  if (n == 0)
    return grammar_.empty();
  if (low == std::string(n, '0') && high == std::string(n, '9'))
    return digits(int32_t(n), int32_t(n));
  if (low[0] == high[0])
    return grammar_.sequence(
        {digit(low[0], low[0]), sameLength(low.substr(1), high.substr(1))});
  // There are three cases by the first digit: the lowest one, followed by at
  // least the rest of `low`; one in between, followed by any digits; and the
  // highest one, followed by at most the rest of `high`.
  std::vector<ExprId> ways = {
      grammar_.sequence({digit(low[0], low[0]),
                         sameLength(low.substr(1), std::string(n - 1, '9'))})};
  if (high[0] - low[0] > 1)
    ways.push_back(
        grammar_.sequence({digit(char(low[0] + 1), char(high[0] - 1)),
                           digits(int32_t(n) - 1, int32_t(n) - 1)}));
  ways.push_back(
      grammar_.sequence({digit(high[0], high[0]),
                         sameLength(std::string(n - 1, '0'), high.substr(1))}));
  return grammar_.choice(std::move(ways));
}

ExprId JsonText::naturalsBetween(const std::string &low,
                                 const std::string &high) {
  std::vector<ExprId> ways;
  for (size_t n = low.size(); n <= high.size(); ++n) {
    std::string least = n == low.size() ? low : "1" + std::string(n - 1, '0');
    std::string most = n == high.size() ? high : std::string(n, '9');
    ways.push_back(sameLength(least, most));
  }
  return grammar_.choice(std::move(ways));
}

ExprId JsonText::integersBetween(std::optional<int64_t> least,
                                 std::optional<int64_t> most) {
  if (!least && !most)
    return integer();
  auto magnitude = [](int64_t value) {
    return std::to_string(value < 0 ? 0 - uint64_t(value) : uint64_t(value));
  };
  std::vector<ExprId> ways;
  // Numbers from `low` on that have more digits than it has no upper limit.
  auto addSide = [&](const char *sign, const std::string &low,
                     const std::optional<std::string> &high) {
    ExprId number = grammar_.empty();
    if (high) {
      number = naturalsBetween(low, *high);
    } else {
      auto n = int32_t(low.size());
      number =
          grammar_.choice({sameLength(low, std::string(low.size(), '9')),
                           grammar_.sequence({grammar_.chars({{'1', '9'}}),
                                              digits(n, Expr::kUnbounded)})});
    }
    ways.push_back(grammar_.sequence({grammar_.bytes(sign), number}));
  };
  if (!most || *most >= 0)
    addSide("", least && *least > 0 ? magnitude(*least) : "0",
            most ? std::optional(magnitude(*most)) : std::nullopt);
  if (!least || *least < 0)
    addSide("-", most && *most < 0 ? magnitude(*most) : "1",
            least ? std::optional(magnitude(*least)) : std::nullopt);
  return grammar_.choice(std::move(ways));
}

} // namespace moert
