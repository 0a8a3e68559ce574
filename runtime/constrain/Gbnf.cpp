//===- Gbnf.cpp - Grammars in llama.cpp's notation ------------------------===//

#include "runtime/constrain/Gbnf.h"

#include "runtime/base/Text.h"
#include "runtime/constrain/GrammarText.h"

#include <fmt/format.h>

namespace moert {

namespace {
constexpr int kMaxNesting = 200;

bool isWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/// A rule is looked at again for each rule that it names: time grows with the
/// product of the number of rules and of the rules that one names.
constexpr int32_t kMostRules = 5000;

class GbnfParser {
public:
  GbnfParser(std::string_view text, const Deadline &deadline)
      : text_("grammar", text), deadline_(deadline) {}

  StatusOr<Grammar> run() {
    grammar_.declare("root");
    for (skipSpace(true); !text_.isAtEnd(); skipSpace(true))
      MOE_RETURN_IF_ERROR(rule());
    if (!grammar_.isDefined(0))
      return text_.error("the grammar has no rule root");
    return std::move(grammar_);
  }

private:
  /// Skips blanks and comments, and with `lines` ends of lines.
  void skipSpace(bool lines) {
    while (!text_.isAtEnd()) {
      char c = text_.peek();
      if (c == '#')
        while (!text_.isAtEnd() && text_.peek() != '\n')
          text_.seek(text_.offset() + 1);
      else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r')))
        text_.seek(text_.offset() + 1);
      else
        return;
    }
  }

  std::string word() {
    size_t length = 0;
    while (length < text_.rest().size() && isWordChar(text_.rest()[length]))
      ++length;
    std::string name(text_.rest().substr(0, length));
    text_.seek(text_.offset() + length);
    return name;
  }

  Status rule() {
    std::string name = word();
    if (name.empty())
      return text_.error("expected the name of a rule");
    RuleId id = grammar_.declare(name);
    if (grammar_.ruleCount() > kMostRules)
      return text_.error(
          fmt::format("the grammar has more than {} rules", kMostRules));
    if (grammar_.isDefined(id))
      return text_.error("rule " + printable(name) + " is defined twice");
    skipSpace(false);
    if (!text_.take("::="))
      return text_.error("expected ::= after the name of a rule");
    MOE_ASSIGN_OR_RETURN(ExprId body, alternatives(0));
    grammar_.define(id, body);
    if (!text_.isAtEnd() && text_.peek() != '\n' && text_.peek() != '\r')
      return text_.error("expected the end of the rule");
    return Status::ok();
  }

  StatusOr<ExprId> alternatives(int depth) {
    if (depth > kMaxNesting)
      return text_.error("parentheses are nested too deep");
    std::vector<ExprId> parts;
    do {
      skipSpace(true);
      MOE_ASSIGN_OR_RETURN(ExprId part, sequence(depth));
      parts.push_back(part);
      // Inside parentheses a line may end before the next alternative.
      skipSpace(depth > 0);
    } while (text_.take("|"));
    return grammar_.choice(std::move(parts));
  }

  StatusOr<ExprId> sequence(int depth) {
    std::vector<ExprId> parts;
    while (true) {
      skipSpace(depth > 0);
      char c = text_.peek();
      if (text_.isAtEnd() || c == '|' || c == ')' || c == '\n' || c == '\r')
        return grammar_.sequence(std::move(parts));
      MOE_ASSIGN_OR_RETURN(ExprId part, item(depth));
      MOE_ASSIGN_OR_RETURN(part, repeated(part));
      parts.push_back(part);
    }
  }

  StatusOr<ExprId> item(int depth) {
    MOE_RETURN_IF_ERROR(deadline_.check("reading the grammar"));
    if (text_.take("(")) {
      MOE_ASSIGN_OR_RETURN(ExprId inner, alternatives(depth + 1));
      if (!text_.take(")"))
        return text_.error("expected )");
      return inner;
    }
    if (text_.take("\""))
      return literal();
    if (text_.take("["))
      return charClass();
    if (text_.take("."))
      return grammar_.chars(CharSet::all());
    std::string name = word();
    if (name.empty())
      return text_.error("expected a rule, a text in quotes, a set of "
                         "characters in brackets, or a parenthesis");
    return grammar_.rule(grammar_.declare(name));
  }

  StatusOr<ExprId> repeated(ExprId part) {
    // Each repeats what the one before it does: they are nested, too.
    for (int depth = 0;; ++depth) {
      if (depth > kMaxNesting)
        return text_.error("nested too deep");
      if (text_.take("*"))
        part = grammar_.repeat(part, 0, Expr::kUnbounded);
      else if (text_.take("+"))
        part = grammar_.repeat(part, 1, Expr::kUnbounded);
      else if (text_.take("?"))
        part = grammar_.optional(part);
      else if (text_.take("{")) {
        MOE_ASSIGN_OR_RETURN(GrammarText::Count count, text_.count());
        part = grammar_.repeat(part, count.least, count.most);
      } else
        return part;
    }
  }

  StatusOr<uint32_t> character() {
    if (!text_.take("\\"))
      return text_.codePoint();
    constexpr std::string_view kLetters = "nrt\\\"[]-^";
    constexpr std::string_view kMeanings = "\n\r\t\\\"[]-^";
    if (size_t at = kLetters.find(text_.peek());
        !text_.isAtEnd() && at != kLetters.npos) {
      text_.seek(text_.offset() + 1);
      return uint32_t(kMeanings[at]);
    }
    if (text_.take("x"))
      return text_.hexDigits(2, 2);
    if (text_.take("u"))
      return text_.hexDigits(4, 4);
    if (text_.take("U"))
      return text_.hexDigits(8, 8);
    return text_.error("unknown escape; known ones are \\n \\r \\t \\\\ \\\" "
                       "\\[ \\] \\- \\^ \\xHH \\uHHHH \\UHHHHHHHH");
  }

  StatusOr<ExprId> literal() {
    std::string bytes;
    while (!text_.take("\"")) {
      if (text_.isAtEnd() || text_.peek() == '\n')
        return text_.error("expected \" at the end of the text");
      MOE_ASSIGN_OR_RETURN(uint32_t c, character());
      bytes += encodeUtf8(c);
    }
    return grammar_.bytes(std::move(bytes));
  }

  StatusOr<ExprId> charClass() {
    bool isNegated = text_.take("^");
    CharSet set;
    while (!text_.take("]")) {
      if (text_.isAtEnd() || text_.peek() == '\n')
        return text_.error("expected ] at the end of the set");
      MOE_ASSIGN_OR_RETURN(uint32_t first, character());
      uint32_t last = first;
      if (text_.rest().starts_with("-") && !text_.rest().starts_with("-]")) {
        text_.take("-");
        MOE_ASSIGN_OR_RETURN(last, character());
      }
      if (last < first)
        return text_.error("the first character of a range comes first");
      set.add({first, last});
    }
    return grammar_.chars(isNegated ? set.complement() : set);
  }

  GrammarText text_;
  const Deadline deadline_;
  Grammar grammar_;
};
} // namespace

StatusOr<Grammar> parseGbnf(std::string_view text, const Deadline &deadline) {
  return GbnfParser(text, deadline).run();
}

} // namespace moert
