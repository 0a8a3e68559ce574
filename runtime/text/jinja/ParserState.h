//===- ParserState.h - The parser class -------------------------*- C++ -*-===//
//
// ParseExpressions.cpp parses expressions, Parser.cpp parses tags.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_TEXT_JINJA_PARSERSTATE_H
#define MOE_RUNTIME_TEXT_JINJA_PARSERSTATE_H

#include "runtime/text/jinja/Lexer.h"

#include <algorithm>
#include <initializer_list>

namespace moert::jinja {

/// Returns the name of a token for messages.
std::string describe(const Token &token);

class Parser {
public:
  Parser(std::vector<Token> tokens, uint32_t depth)
      : tokens_(std::move(tokens)), most_(depth) {}

  /// Parses nodes up to a tag in `ends`, whose name is consumed, or up to the
  /// end of the template if `ends` is empty.
  StatusOr<Body> body(std::initializer_list<std::string_view> ends,
                      std::string_view opener, Place opened);

private:
  const Token &peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  Token take() {
    Token token = peek();
    if (at_ + 1 < tokens_.size())
      ++at_;
    return token;
  }
  bool isOp(std::string_view op, size_t ahead = 0) const {
    return peek(ahead).type == Token::Type::Operator && peek(ahead).text == op;
  }
  bool isName(std::string_view name, size_t ahead = 0) const {
    return peek(ahead).type == Token::Type::Name && peek(ahead).text == name;
  }
  bool takeOp(std::string_view op) {
    bool found = isOp(op);
    if (found)
      take();
    return found;
  }
  bool takeName(std::string_view name) {
    bool found = isName(name);
    if (found)
      take();
    return found;
  }
  Status unexpected(std::string_view wanted) const {
    return failureAt(peek().place, "expected " + std::string(wanted) +
                                       ", found " + describe(peek()));
  }
  Status expectOp(std::string_view op) {
    return takeOp(op) ? Status::ok() : unexpected("'" + std::string(op) + "'");
  }
  Status expectName(std::string_view name) {
    return takeName(name) ? Status::ok()
                          : unexpected("'" + std::string(name) + "'");
  }
  Status expectBlockEnd() {
    if (peek().type != Token::Type::BlockEnd)
      return unexpected("'%}'");
    take();
    return Status::ok();
  }
  StatusOr<std::string> identifier(std::string_view what) {
    if (peek().type != Token::Type::Name)
      return unexpected(what);
    return take().text;
  }

  /// Counts the depth of the parser's recursion.
  struct Nest {
    uint32_t &depth;
    explicit Nest(uint32_t &depth) : depth(++depth) {}
    ~Nest() { --depth; }
  };
  Status checkNest() const {
    return nest_ <= most_ / 4 ? Status::ok() : tooDeep(peek().place);
  }
  Status tooDeep(Place place) const {
    return failureAt(place, "the template is nested too deeply");
  }

  static ExprPtr make(Expr::Type type, Place place) {
    auto expr = std::make_unique<Expr>();
    expr->type = type;
    expr->place = place;
    return expr;
  }
  StatusOr<ExprPtr> finish(ExprPtr expr) const;
  StatusOr<ExprPtr> binary(Expr::Type type, Token op, ExprPtr left,
                           ExprPtr right, char code = 0) const;

  StatusOr<ExprPtr> expression(bool withConditional = true);
  StatusOr<ExprPtr> orExpr();
  StatusOr<ExprPtr> andExpr();
  StatusOr<ExprPtr> notExpr();
  StatusOr<ExprPtr> comparison();
  StatusOr<ExprPtr> sum();
  StatusOr<ExprPtr> concatenation();
  StatusOr<ExprPtr> product();
  StatusOr<ExprPtr> power();
  StatusOr<ExprPtr> unary(bool withFilters = true);
  StatusOr<ExprPtr> primary();
  StatusOr<ExprPtr> postfix(ExprPtr expr);
  StatusOr<ExprPtr> filters(ExprPtr expr);
  StatusOr<ExprPtr> filter(ExprPtr expr);
  StatusOr<ExprPtr> test(ExprPtr expr);
  StatusOr<ExprPtr> subscript(ExprPtr expr);
  StatusOr<ExprPtr> subscriptItem(ExprPtr object, Place place);
  StatusOr<ExprPtr> call(ExprPtr expr);
  Status arguments(Arguments &result);
  StatusOr<ExprPtr> tuple(bool withConditional, bool inParentheses = false,
                          bool untilIn = false);
  StatusOr<ExprPtr> list();
  StatusOr<ExprPtr> dict();
  StatusOr<Target> target(bool withAttribute);
  StatusOr<Target> targetPart(bool withAttribute);

  StatusOr<std::unique_ptr<Node>> statement();
  StatusOr<std::unique_ptr<Node>> ifStatement(Place place);
  StatusOr<std::unique_ptr<Node>> forStatement(Place place);
  StatusOr<std::unique_ptr<Node>> setStatement(Place place);
  StatusOr<std::unique_ptr<Node>> macroStatement(Place place);
  StatusOr<std::unique_ptr<Node>> callStatement(Place place);
  StatusOr<std::unique_ptr<Node>> filterStatement(Place place);
  StatusOr<std::unique_ptr<Node>> scopeStatement(const Token &tag);
  Status parameters(MacroNode &macro);
  Status blockBody(Body &result, std::string_view tag, Place place);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  uint32_t most_;
  uint32_t nest_ = 0;
  MacroNode *macro_ = nullptr; ///< The enclosing macro.
  uint32_t loops_ = 0;         ///< Enclosing loops in this macro or block.
};

} // namespace moert::jinja

#endif // MOE_RUNTIME_TEXT_JINJA_PARSERSTATE_H
