//===- Regex.cpp - Regular expressions as grammars ------------------------===//

#include "runtime/constrain/Regex.h"

#include "runtime/constrain/GrammarText.h"

#include <optional>

namespace moert {

namespace {
constexpr int kMaxNesting = 200;

const CharSet kDigits = {{'0', '9'}};
const CharSet kWordChars = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CharSet kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
/// ECMA-262's WhiteSpace and LineTerminator.
const CharSet kSpaces = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},
                         {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                         {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
                         {0xFEFF, 0xFEFF}};

class RegexParser {
public:
  RegexParser(Grammar &grammar, std::string_view pattern, RegexMatch match,
              const CharWriter &write)
      : text_("pattern", pattern), grammar_(grammar), match_(match),
        write_(write) {}

  StatusOr<ExprId> run() {
    MOE_ASSIGN_OR_RETURN(ExprId body, alternatives(0));
    if (!text_.isAtEnd())
      return text_.error("expected ( before )");
    return body;
  }

private:
  StatusOr<ExprId> alternatives(int depth) {
    if (depth > kMaxNesting)
      return text_.error("parentheses are nested too deep");
    std::vector<ExprId> parts;
    do {
      MOE_ASSIGN_OR_RETURN(ExprId part, sequence(depth));
      parts.push_back(part);
    } while (text_.take("|"));
    return grammar_.choice(std::move(parts));
  }

  ExprId anything() {
    return grammar_.repeat(write_(grammar_, CharSet::all()), 0,
                           Expr::kUnbounded);
  }

  StatusOr<ExprId> sequence(int depth) {
    std::vector<ExprId> parts;
    bool searches = depth == 0 && match_ == RegexMatch::Anywhere;
    if (!(depth == 0 && text_.take("^")) && searches)
      parts.push_back(anything());
    while (true) {
      char c = text_.peek();
      bool isEnd = text_.isAtEnd() || c == '|' || c == ')';
      if (!isEnd && depth == 0 && c == '$') {
        text_.take("$");
        c = text_.peek();
        if (!text_.isAtEnd() && c != '|')
          return text_.error("$ is only supported at the end");
        return grammar_.sequence(std::move(parts));
      }
      if (isEnd) {
        if (searches)
          parts.push_back(anything());
        return grammar_.sequence(std::move(parts));
      }
      MOE_ASSIGN_OR_RETURN(ExprId part, item(depth));
      MOE_ASSIGN_OR_RETURN(part, repeated(part));
      parts.push_back(part);
    }
  }

  StatusOr<ExprId> repeated(ExprId part) {
    int32_t least = 0, most = Expr::kUnbounded;
    if (text_.take("*"))
      ;
    else if (text_.take("+"))
      least = 1;
    else if (text_.take("?"))
      most = 1;
    else if (text_.take("{")) {
      MOE_ASSIGN_OR_RETURN(GrammarText::Count count, text_.count());
      least = count.least;
      most = count.most;
    } else
      return part;
    text_.take("?");
    if (text_.peek() == '*' || text_.peek() == '+' || text_.peek() == '{')
      return text_.error("nothing to repeat");
    return grammar_.repeat(part, least, most);
  }

  StatusOr<ExprId> item(int depth) {
    char c = text_.peek();
    if (c == '(')
      return group(depth);
    if (c == '*' || c == '+' || c == '?' || c == '{')
      return text_.error("nothing to repeat");
    if (c == '^' || c == '$')
      return text_.error(std::string(1, c) +
                         " is only supported at the ends of the expression");
    if (text_.take("."))
      return write_(grammar_, kLineEnds.complement());
    if (text_.take("["))
      return charClass();
    MOE_ASSIGN_OR_RETURN(CharSet set, atom(/*inClass=*/false));
    return write_(grammar_, set);
  }

  StatusOr<ExprId> group(int depth) {
    text_.take("(");
    if (text_.take("?")) {
      // A named group, (?<name>...), captures as any other.
      bool isNamed = text_.rest().starts_with("<") &&
                     !text_.rest().starts_with("<=") &&
                     !text_.rest().starts_with("<!");
      if (isNamed) {
        size_t end = text_.rest().find('>');
        if (end == std::string_view::npos)
          return text_.error("expected > after the name of a group");
        text_.seek(text_.offset() + end + 1);
      } else if (!text_.take(":")) {
        return text_.error("looking ahead or behind is not supported");
      }
    }
    MOE_ASSIGN_OR_RETURN(ExprId inner, alternatives(depth + 1));
    if (!text_.take(")"))
      return text_.error("expected )");
    return inner;
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
    case 'x': {
      MOE_ASSIGN_OR_RETURN(uint32_t value, text_.hexDigits(2, 2));
      return CharSet::only(value);
    }
    case 'u': {
      bool inBraces = text_.take("{");
      MOE_ASSIGN_OR_RETURN(uint32_t value,
                           text_.hexDigits(inBraces ? 1 : 4, inBraces ? 6 : 4));
      if (inBraces && !text_.take("}"))
        return text_.error("expected }");
      return CharSet::only(value);
    }
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

  StatusOr<ExprId> charClass() {
    bool isNegated = text_.take("^");
    CharSet set;
    while (!text_.take("]")) {
      if (text_.isAtEnd())
        return text_.error("expected ]");
      MOE_ASSIGN_OR_RETURN(CharSet first, atom(/*inClass=*/true));
      bool isRange =
          text_.rest().starts_with("-") && !text_.rest().starts_with("-]");
      if (isRange) {
        text_.take("-");
        MOE_ASSIGN_OR_RETURN(CharSet last, atom(/*inClass=*/true));
        if (!isOne(first) || !isOne(last) ||
            last.ranges()[0].first < first.ranges()[0].first)
          return text_.error("a range needs two characters, the smaller one "
                             "first");
        first = {{first.ranges()[0].first, last.ranges()[0].first}};
      }
      set.add(first);
    }
    return write_(grammar_, isNegated ? set.complement() : set);
  }

  static bool isOne(const CharSet &set) {
    return set.ranges().size() == 1 &&
           set.ranges()[0].first == set.ranges()[0].last;
  }

  GrammarText text_;
  Grammar &grammar_;
  RegexMatch match_;
  const CharWriter &write_;
};
} // namespace

StatusOr<ExprId> addRegex(Grammar &grammar, std::string_view pattern,
                          RegexMatch match, const CharWriter &write) {
  return RegexParser(grammar, pattern, match, write).run();
}

StatusOr<Grammar> parseRegex(std::string_view pattern) {
  Grammar grammar;
  RuleId root = grammar.declare("root");
  auto write = [](Grammar &g, const CharSet &set) { return g.chars(set); };
  MOE_ASSIGN_OR_RETURN(ExprId body,
                       addRegex(grammar, pattern, RegexMatch::Whole, write));
  grammar.define(root, body);
  return grammar;
}

} // namespace moert
