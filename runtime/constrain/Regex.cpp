//===- Regex.cpp - Regular expressions ------------------------------------===//

#include "runtime/constrain/Regex.h"

#include "runtime/constrain/GrammarText.h"
#include "runtime/constrain/TextScanner.h"

#include <algorithm>

namespace moert {

namespace {
constexpr int kMaxNesting = 200;
constexpr size_t kMaxStates = 10'000;

const CharSet kDigits = {{'0', '9'}};
const CharSet kWordChars = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CharSet kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
/// ECMA-262's WhiteSpace and LineTerminator.
const CharSet kSpaces = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},
                         {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                         {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
                         {0xFEFF, 0xFEFF}};

using NodeId = int32_t;

/// A part of an expression.
struct Node {
  enum class Kind : uint8_t { Chars, Condition, Sequence, Choice, Repeat };
  Kind kind;
  CharSet chars = {};
  int32_t label = 0; ///< Label of a condition (CharNfa::Label).
  std::vector<NodeId> parts = {};
  int32_t least = 0, most = 0;
};

/// An expression, and what must be or must not be ahead of its beginning.
struct ParsedRegex {
  struct Ahead {
    NodeId body;
    bool isNegated;
  };
  std::vector<Node> nodes;
  NodeId root = -1;
  std::vector<Ahead> ahead;
  /// Whether a part of the expression is not in the nodes, which then match
  /// more texts than it does.
  bool isPartial = false;
};

class RegexParser {
public:
  explicit RegexParser(std::string_view pattern) : text_("pattern", pattern) {}

  StatusOr<ParsedRegex> run() {
    MOE_ASSIGN_OR_RETURN(parsed_.root, alternatives(0));
    if (!text_.isAtEnd())
      return text_.error("expected ( before )");
    // Looking ahead at the beginning is a condition of its own, unless there
    // are other alternatives.
    if (parsed_.nodes[size_t(parsed_.root)].kind == Node::Kind::Choice &&
        !parsed_.ahead.empty()) {
      parsed_.ahead.clear();
      parsed_.isPartial = true;
    }
    return std::move(parsed_);
  }

private:
  NodeId add(Node node) {
    parsed_.nodes.push_back(std::move(node));
    return NodeId(parsed_.nodes.size()) - 1;
  }
  NodeId chars(CharSet set) {
    return add({.kind = Node::Kind::Chars, .chars = std::move(set)});
  }
  NodeId condition(int32_t label) {
    return add({.kind = Node::Kind::Condition, .label = label});
  }
  NodeId nothing() { return add({.kind = Node::Kind::Sequence}); }

  StatusOr<NodeId> alternatives(int depth) {
    if (depth > kMaxNesting)
      return text_.error("parentheses are nested too deep");
    std::vector<NodeId> parts;
    do {
      MOE_ASSIGN_OR_RETURN(NodeId part, sequence(depth));
      parts.push_back(part);
    } while (text_.take("|"));
    if (parts.size() == 1)
      return parts.front();
    return add({.kind = Node::Kind::Choice, .parts = std::move(parts)});
  }

  StatusOr<NodeId> sequence(int depth) {
    std::vector<NodeId> parts;
    isFirst_ = false;
    while (true) {
      const char c = text_.peek();
      if (text_.isAtEnd() || c == '|' || c == ')')
        return add({.kind = Node::Kind::Sequence, .parts = std::move(parts)});
      if (text_.take("^")) {
        isFirst_ = depth == 0 && parts.empty();
        parts.push_back(condition(CharNfa::kAtStart));
        continue;
      }
      const bool wasFirst = isFirst_;
      MOE_ASSIGN_OR_RETURN(NodeId part, item(depth));
      isFirst_ = wasFirst && lookedAhead_;
      lookedAhead_ = false;
      MOE_ASSIGN_OR_RETURN(part, repeated(part));
      parts.push_back(part);
    }
  }

  /// Whether the brace that is next begins a number of repetitions.
  bool isCount() const {
    std::string_view rest = text_.rest();
    size_t i = 1;
    auto digits = [&] {
      const size_t begin = i;
      while (i < rest.size() && rest[i] >= '0' && rest[i] <= '9')
        ++i;
      return i > begin;
    };
    if (!digits())
      return false;
    if (i < rest.size() && rest[i] == ',') {
      ++i;
      digits();
    }
    return i < rest.size() && rest[i] == '}';
  }

  StatusOr<NodeId> repeated(NodeId part) {
    int32_t least = 0, most = Expr::kUnbounded;
    if (text_.take("*"))
      ;
    else if (text_.take("+"))
      least = 1;
    else if (text_.take("?"))
      most = 1;
    else if (text_.peek() == '{' && isCount()) {
      text_.take("{");
      MOE_ASSIGN_OR_RETURN(GrammarText::Count count, text_.count());
      least = count.least;
      most = count.most;
    } else
      return part;
    text_.take("?");
    const char c = text_.peek();
    if (c == '*' || c == '+' || c == '?' || (c == '{' && isCount()))
      return text_.error("nothing to repeat");
    return add({.kind = Node::Kind::Repeat,
                .parts = {part},
                .least = least,
                .most = most});
  }

  StatusOr<NodeId> item(int depth) {
    const char c = text_.peek();
    if (c == '(')
      return group(depth);
    if (c == '*' || c == '+' || c == '?' || (c == '{' && isCount()))
      return text_.error("nothing to repeat");
    if (text_.take("$"))
      return condition(CharNfa::kAtEnd);
    if (text_.take("\\b"))
      return condition(CharNfa::kWordBorder);
    if (text_.take("\\B"))
      return condition(CharNfa::kNoWordBorder);
    if (text_.take("."))
      return chars(kLineEnds.complement());
    if (text_.take("["))
      return charClass();
    if (isBackReference()) {
      parsed_.isPartial = true;
      return add({.kind = Node::Kind::Repeat,
                  .parts = {chars(CharSet::all())},
                  .least = 0,
                  .most = Expr::kUnbounded});
    }
    MOE_ASSIGN_OR_RETURN(CharSet set, atom(/*inClass=*/false));
    return chars(std::move(set));
  }

  /// Reads \1 or \k<name>, which some group must have matched: any text.
  bool isBackReference() {
    std::string_view rest = text_.rest();
    if (rest.size() < 2 || rest[0] != '\\')
      return false;
    size_t length = 0;
    if (rest[1] >= '1' && rest[1] <= '9')
      for (length = 2;
           length < rest.size() && rest[length] >= '0' && rest[length] <= '9';
           ++length)
        ;
    else if (rest.starts_with("\\k<") && rest.find('>') != rest.npos)
      length = rest.find('>') + 1;
    text_.seek(text_.offset() + length);
    return length > 0;
  }

  StatusOr<NodeId> group(int depth) {
    const bool atStart = isFirst_;
    text_.take("(");
    bool isAhead = false, isBehind = false, isNegated = false;
    if (text_.take("?")) {
      isAhead = text_.take("=");
      if (!isAhead && text_.take("!"))
        isAhead = isNegated = true;
      isBehind = !isAhead && (text_.take("<=") || text_.take("<!"));
      if (isAhead || isBehind) {
      } else if (text_.take("<") || text_.take("P<")) {
        // A named group captures as any other.
        const size_t end = text_.rest().find('>');
        if (end == std::string_view::npos)
          return text_.error("expected > after the name of a group");
        text_.seek(text_.offset() + end + 1);
      } else if (!text_.take(":")) {
        return text_.error("expected :, =, !, <=, <! or <name> after (?");
      }
    }
    MOE_ASSIGN_OR_RETURN(NodeId inner, alternatives(depth + 1));
    if (!text_.take(")"))
      return text_.error("expected )");
    if (!isAhead && !isBehind)
      return inner;
    lookedAhead_ = isAhead && atStart;
    if (lookedAhead_)
      parsed_.ahead.push_back({inner, isNegated});
    else
      parsed_.isPartial = true;
    return nothing();
  }

  /// Reads a character or an escape that stands for a set.
  StatusOr<CharSet> atom(bool inClass) {
    if (!text_.take("\\")) {
      MOE_ASSIGN_OR_RETURN(uint32_t c, text_.codePoint());
      return CharSet::only(c);
    }
    char c = text_.peek();
    MOE_ASSIGN_OR_RETURN(uint32_t point, text_.codePoint());
    switch (c) {
    case 'd':
      return kDigits;
    case 'D':
      return kDigits.complement();
    case 'w':
      return kWordChars;
    case 'W':
      return kWordChars.complement();
    case 's':
      return kSpaces;
    case 'S':
      return kSpaces.complement();
    case 't':
      return CharSet::only('\t');
    case 'n':
      return CharSet::only('\n');
    case 'v':
      return CharSet::only('\v');
    case 'f':
      return CharSet::only('\f');
    case 'r':
      return CharSet::only('\r');
    case '0':
      return CharSet::only(0);
    case 'c': {
      const char letter = text_.peek() & ~0x20;
      if (letter < 'A' || letter > 'Z')
        return text_.error("expected a letter after \\c");
      text_.seek(text_.offset() + 1);
      return CharSet::only(uint32_t(letter) - 64);
    }
    case 'x': {
      MOE_ASSIGN_OR_RETURN(uint32_t value, text_.hexDigits(2, 2));
      return CharSet::only(value);
    }
    case 'u':
      return unicodeEscape();
    case 'p':
    case 'P':
      return property();
    case 'b':
      if (inClass)
        return CharSet::only('\b');
      break;
    default:
      break;
    }
    bool isLetter = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                    (c >= 'A' && c <= 'Z');
    if (isLetter)
      return text_.error(std::string("\\") + c + " is not supported");
    return CharSet::only(point);
  }

  /// Reads what follows \u: four digits, two times of a pair of surrogates, or
  /// digits in braces.
  StatusOr<CharSet> unicodeEscape() {
    if (text_.take("{")) {
      MOE_ASSIGN_OR_RETURN(uint32_t value, text_.hexDigits(1, 6));
      if (!text_.take("}"))
        return text_.error("expected }");
      return CharSet::only(value);
    }
    auto unit = [&](size_t at) -> uint32_t {
      uint32_t value = 0;
      for (size_t i = at; i < at + 4; ++i) {
        const char c = i < text_.rest().size() ? text_.rest()[i] : '\0';
        const int digit = c >= '0' && c <= '9' ? c - '0'
                          : (c | 0x20) >= 'a' && (c | 0x20) <= 'f'
                              ? (c | 0x20) - 'a' + 10
                              : -1;
        if (digit < 0)
          return UINT32_MAX;
        value = value << 4 | uint32_t(digit);
      }
      return value;
    };
    const uint32_t high = unit(0);
    const uint32_t low =
        text_.rest()
                .substr(std::min<size_t>(4, text_.rest().size()))
                .starts_with("\\u")
            ? unit(6)
            : UINT32_MAX;
    if (high >= 0xD800 && high <= 0xDBFF && low >= 0xDC00 && low <= 0xDFFF) {
      text_.seek(text_.offset() + 10);
      return CharSet::only(0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF));
    }
    MOE_ASSIGN_OR_RETURN(uint32_t value, text_.hexDigits(4, 4));
    return CharSet::only(value);
  }

  /// Reads what follows \p: a property of Unicode, which the backtracking
  /// matcher knows.
  StatusOr<CharSet> property() {
    const size_t end = text_.rest().find('}');
    if (!text_.rest().starts_with("{") || end == std::string_view::npos)
      return text_.error("expected a property in braces after \\p");
    text_.seek(text_.offset() + end + 1);
    parsed_.isPartial = true;
    return CharSet::all();
  }

  StatusOr<NodeId> charClass() {
    bool isNegated = text_.take("^");
    CharSet set;
    bool wasPartial = std::exchange(parsed_.isPartial, false);
    while (!text_.take("]")) {
      if (text_.isAtEnd())
        return text_.error("expected ]");
      MOE_ASSIGN_OR_RETURN(CharSet first, atom(/*inClass=*/true));
      bool isRange =
          text_.rest().starts_with("-") && !text_.rest().starts_with("-]");
      if (isRange && isOne(first)) {
        text_.take("-");
        MOE_ASSIGN_OR_RETURN(CharSet last, atom(/*inClass=*/true));
        if (!isOne(last) || last.ranges()[0].first < first.ranges()[0].first)
          return text_.error("a range needs two characters, the smaller one "
                             "first");
        first = {{first.ranges()[0].first, last.ranges()[0].first}};
      }
      set.add(first);
    }
    // The complement of a set that is too large would be too small.
    if (parsed_.isPartial)
      set = CharSet::all(), isNegated = false;
    parsed_.isPartial |= wasPartial;
    return chars(isNegated ? set.complement() : set);
  }

  static bool isOne(const CharSet &set) {
    return set.ranges().size() == 1 &&
           set.ranges()[0].first == set.ranges()[0].last;
  }

  GrammarText text_;
  ParsedRegex parsed_;
  bool isFirst_ = false; ///< Whether only ^ and look-ahead came before.
  /// Whether the last item was a look-ahead at the beginning.
  bool lookedAhead_ = false;
};

/// Compiles nodes in the manner of Thompson ("Regular expression search
/// algorithm", 1968).
class NfaBuilder {
public:
  explicit NfaBuilder(const ParsedRegex &parsed) : parsed_(parsed) {}

  /// Returns null if there were too many states.
  std::shared_ptr<const CharNfa> run(NodeId root, bool isBegun, bool isEnded) {
    const int32_t start = nfa_.addState(), end = nfa_.addState();
    const int32_t first = nfa_.addState(), last = nfa_.addState();
    nfa_.addEdge(start, CharNfa::kFree, first);
    nfa_.addEdge(last, CharNfa::kFree, end);
    if (!isBegun)
      nfa_.addChars(start, CharSet::all(), start);
    if (!isEnded)
      nfa_.addChars(end, CharSet::all(), end);
    add(root, first, last);
    nfa_.setEnds(start, end);
    if (isFull())
      return nullptr;
    return std::make_shared<const CharNfa>(std::move(nfa_));
  }

private:
  bool isFull() const { return nfa_.stateCount() > kMaxStates; }

  void add(NodeId id, int32_t from, int32_t to) {
    if (isFull())
      return;
    const Node &node = parsed_.nodes[size_t(id)];
    switch (node.kind) {
    case Node::Kind::Chars:
      nfa_.addChars(from, node.chars, to);
      return;
    case Node::Kind::Condition:
      nfa_.addEdge(from, node.label, to);
      return;
    case Node::Kind::Sequence:
      for (size_t i = 0; i + 1 < node.parts.size(); ++i) {
        const int32_t next = nfa_.addState();
        add(node.parts[i], from, next);
        from = next;
      }
      if (node.parts.empty())
        nfa_.addEdge(from, CharNfa::kFree, to);
      else
        add(node.parts.back(), from, to);
      return;
    case Node::Kind::Choice:
      for (NodeId part : node.parts) {
        const int32_t begin = nfa_.addState();
        nfa_.addEdge(from, CharNfa::kFree, begin);
        add(part, begin, to);
      }
      return;
    case Node::Kind::Repeat:
      addRepeat(node, from, to);
      return;
    }
  }

  void addRepeat(const Node &node, int32_t from, int32_t to) {
    const NodeId part = node.parts[0];
    for (int32_t i = 0; i < node.least && !isFull(); ++i) {
      const int32_t next = nfa_.addState();
      add(part, from, next);
      from = next;
    }
    if (node.most == Expr::kUnbounded) {
      const int32_t loop = nfa_.addState();
      nfa_.addEdge(from, CharNfa::kFree, loop);
      const int32_t back = nfa_.addState();
      add(part, loop, back);
      nfa_.addEdge(back, CharNfa::kFree, loop);
      nfa_.addEdge(loop, CharNfa::kFree, to);
      return;
    }
    for (int32_t i = node.least; i < node.most && !isFull(); ++i) {
      const int32_t begin = nfa_.addState(), next = nfa_.addState();
      nfa_.addEdge(from, CharNfa::kFree, begin);
      nfa_.addEdge(from, CharNfa::kFree, to);
      add(part, begin, next);
      from = next;
    }
    nfa_.addEdge(from, CharNfa::kFree, to);
  }

  const ParsedRegex &parsed_;
  CharNfa nfa_;
};

/// Whether an automaton accepts a text; nothing is kept of it.
bool accepts(const std::shared_ptr<const CharNfa> &nfa, std::string_view text) {
  SubsetDfa dfa(nfa);
  int32_t state = dfa.start();
  for (uint32_t c : codePointsOf(text))
    state = dfa.next(state, c);
  return dfa.accepts(state);
}
} // namespace

bool Pattern::matches(std::string_view text) const {
  return std::ranges::all_of(conditions,
                             [&](const TextCondition &condition) {
                               return accepts(condition.nfa, text) !=
                                      condition.isNegated;
                             }) &&
         (!rest || rest->matches(text));
}

static StatusOr<Pattern> parseEcma(std::string_view pattern, RegexMatch match) {
  MOE_ASSIGN_OR_RETURN(ParsedRegex parsed, RegexParser(pattern).run());
  const bool isWhole = match == RegexMatch::Whole;
  Pattern result;
  auto condition = [&](NodeId root, bool isBegun, bool isEnded,
                       bool isNegated) -> Status {
    auto nfa = NfaBuilder(parsed).run(root, isBegun, isEnded);
    if (!nfa)
      return Status(StatusCode::Usage,
                    "pattern:1:1: it needs over " + std::to_string(kMaxStates) +
                        " states; repeat fewer times, or smaller parts");
    result.conditions.push_back(
        {.nfa = std::move(nfa), .isNegated = isNegated});
    return Status::ok();
  };
  MOE_RETURN_IF_ERROR(condition(parsed.root, isWhole, isWhole, false));
  for (const ParsedRegex::Ahead &ahead : parsed.ahead)
    // A partial expression matches too much, and must not be negated.
    if (!(parsed.isPartial && ahead.isNegated))
      MOE_RETURN_IF_ERROR(condition(ahead.body, true, false, ahead.isNegated));
  if (parsed.isPartial) {
    MOE_ASSIGN_OR_RETURN(result.rest,
                         BacktrackingRegex::compile(pattern, match));
  }
  return result;
}

StatusOr<Pattern> parsePattern(std::string_view pattern, RegexMatch match) {
  StatusOr<Pattern> parsed = parseEcma(pattern, match);
  if (parsed)
    return parsed;
  // A pattern that other engines accept can still be checked at the end of a
  // text.
  auto rest = BacktrackingRegex::compile(pattern, match);
  if (!rest)
    return parsed;
  return Pattern{{}, *std::move(rest)};
}

StatusOr<Grammar> parseRegex(std::string_view pattern) {
  MOE_ASSIGN_OR_RETURN(Pattern parsed,
                       parsePattern(pattern, RegexMatch::Whole));
  Grammar grammar;
  RuleId root = grammar.declare("root");
  ExprId body = grammar.scan(
      TextScanner::create({.conditions = parsed.conditions, .isJson = false}));
  if (parsed.rest)
    body =
        grammar.checked(body, std::make_shared<const TextCheck>(
                                  "pattern " + std::string(pattern),
                                  [rest = parsed.rest](std::string_view text) {
                                    return rest->matches(text);
                                  }));
  grammar.define(root, body);
  return grammar;
}

} // namespace moert
