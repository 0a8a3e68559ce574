#include "runtime/text/jinja/Parser.h"

#include "runtime/text/jinja/Lexer.h"

#include <algorithm>
#include <initializer_list>

namespace moert::jinja {

namespace {

using Type = Expr::Type;

std::string describe(const Token &token) {
  switch (token.type) {
  case Token::Type::End:
    return "the template's end";
  case Token::Type::BlockEnd:
    return "'%}'";
  case Token::Type::OutputEnd:
    return "'}}'";
  case Token::Type::BlockBegin:
    return "'{%'";
  case Token::Type::OutputBegin:
    return "'{{'";
  case Token::Type::String:
    return "a string";
  default:
    return "'" + token.text.substr(0, 40) + "'";
  }
}

class Parser {
public:
  Parser(std::vector<Token> tokens, uint32_t depth)
      : tokens_(std::move(tokens)), most_(depth) {}

  /// Nodes up to a tag of one of `ends`, whose name is consumed; with no ends,
  /// up to the template's end.
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

  /// Counts how deep the parser's own calls are.
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

  static ExprPtr make(Type type, Place place) {
    auto expr = std::make_unique<Expr>();
    expr->type = type;
    expr->place = place;
    return expr;
  }
  StatusOr<ExprPtr> finish(ExprPtr expr) const;
  StatusOr<ExprPtr> binary(Type type, Token op, ExprPtr left, ExprPtr right,
                           char code = 0) const;

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
  MacroNode *macro_ = nullptr; ///< Around here.
  uint32_t loops_ = 0;         ///< Around here, inside this macro or block.
};

/// Bounds the tree, also where the parser goes round instead of down.
StatusOr<ExprPtr> Parser::finish(ExprPtr expr) const {
  auto count = [&](const ExprPtr &child) {
    if (child)
      expr->depth = std::max(expr->depth, child->depth + 1);
  };
  for (const ExprPtr &child : expr->children)
    count(child);
  for (const ExprPtr &argument : expr->arguments.positional)
    count(argument);
  for (const auto &[_, argument] : expr->arguments.named)
    count(argument);
  count(expr->arguments.star);
  count(expr->arguments.starStar);
  if (expr->depth > most_)
    return tooDeep(expr->place);
  return expr;
}

StatusOr<ExprPtr> Parser::binary(Type type, Token op, ExprPtr left,
                                 ExprPtr right, char code) const {
  ExprPtr expr = make(type, op.place);
  expr->op = code;
  expr->children.push_back(std::move(left));
  expr->children.push_back(std::move(right));
  return finish(std::move(expr));
}

StatusOr<ExprPtr> Parser::expression(bool withConditional) {
  Nest nest(nest_);
  MOE_RETURN_IF_ERROR(checkNest());
  MOE_ASSIGN_OR_RETURN(ExprPtr value, orExpr());
  while (withConditional && isName("if")) {
    ExprPtr expr = make(Type::Conditional, take().place);
    expr->children.push_back(std::move(value));
    MOE_ASSIGN_OR_RETURN(ExprPtr condition, orExpr());
    expr->children.push_back(std::move(condition));
    expr->children.push_back(nullptr);
    if (takeName("else")) {
      MOE_ASSIGN_OR_RETURN(expr->children.back(), expression());
    }
    MOE_ASSIGN_OR_RETURN(value, finish(std::move(expr)));
  }
  return value;
}

StatusOr<ExprPtr> Parser::orExpr() {
  MOE_ASSIGN_OR_RETURN(ExprPtr left, andExpr());
  while (isName("or")) {
    Token op = take();
    MOE_ASSIGN_OR_RETURN(ExprPtr right, andExpr());
    MOE_ASSIGN_OR_RETURN(
        left, binary(Type::Or, op, std::move(left), std::move(right)));
  }
  return left;
}

StatusOr<ExprPtr> Parser::andExpr() {
  MOE_ASSIGN_OR_RETURN(ExprPtr left, notExpr());
  while (isName("and")) {
    Token op = take();
    MOE_ASSIGN_OR_RETURN(ExprPtr right, notExpr());
    MOE_ASSIGN_OR_RETURN(
        left, binary(Type::And, op, std::move(left), std::move(right)));
  }
  return left;
}

StatusOr<ExprPtr> Parser::notExpr() {
  if (!isName("not"))
    return comparison();
  Nest nest(nest_);
  MOE_RETURN_IF_ERROR(checkNest());
  ExprPtr expr = make(Type::Not, take().place);
  MOE_ASSIGN_OR_RETURN(ExprPtr value, notExpr());
  expr->children.push_back(std::move(value));
  return finish(std::move(expr));
}

StatusOr<ExprPtr> Parser::comparison() {
  MOE_ASSIGN_OR_RETURN(ExprPtr first, sum());
  constexpr std::pair<std::string_view, char> operators[] = {
      {"==", '='}, {"!=", '!'}, {"<", '<'},
      {">", '>'},  {"<=", 'l'}, {">=", 'g'}};
  ExprPtr expr;
  while (true) {
    char code = 0;
    Place place = peek().place;
    for (auto [op, known] : operators)
      if (isOp(op))
        code = known;
    if (code)
      take();
    else if (takeName("in"))
      code = 'i';
    else if (isName("not") && isName("in", 1))
      take(), take(), code = 'n';
    if (!code)
      break;
    if (!expr) {
      expr = make(Type::Compare, place);
      expr->children.push_back(std::move(first));
    }
    expr->comparisons += code;
    MOE_ASSIGN_OR_RETURN(ExprPtr next, sum());
    expr->children.push_back(std::move(next));
  }
  return expr ? finish(std::move(expr)) : StatusOr<ExprPtr>(std::move(first));
}

StatusOr<ExprPtr> Parser::sum() {
  MOE_ASSIGN_OR_RETURN(ExprPtr left, concatenation());
  while (isOp("+") || isOp("-")) {
    Token op = take();
    MOE_ASSIGN_OR_RETURN(ExprPtr right, concatenation());
    MOE_ASSIGN_OR_RETURN(left, binary(Type::Arithmetic, op, std::move(left),
                                      std::move(right), op.text[0]));
  }
  return left;
}

StatusOr<ExprPtr> Parser::concatenation() {
  MOE_ASSIGN_OR_RETURN(ExprPtr first, product());
  if (!isOp("~"))
    return first;
  ExprPtr expr = make(Type::Concat, peek().place);
  expr->children.push_back(std::move(first));
  while (takeOp("~")) {
    MOE_ASSIGN_OR_RETURN(ExprPtr next, product());
    expr->children.push_back(std::move(next));
  }
  return finish(std::move(expr));
}

StatusOr<ExprPtr> Parser::product() {
  MOE_ASSIGN_OR_RETURN(ExprPtr left, power());
  while (isOp("*") || isOp("/") || isOp("//") || isOp("%")) {
    Token op = take();
    char code = op.text == "//" ? 'f' : op.text[0];
    MOE_ASSIGN_OR_RETURN(ExprPtr right, power());
    MOE_ASSIGN_OR_RETURN(left, binary(Type::Arithmetic, op, std::move(left),
                                      std::move(right), code));
  }
  return left;
}

/// Groups to the left, unlike Python's.
StatusOr<ExprPtr> Parser::power() {
  MOE_ASSIGN_OR_RETURN(ExprPtr left, unary());
  while (isOp("**")) {
    Token op = take();
    MOE_ASSIGN_OR_RETURN(ExprPtr right, unary());
    MOE_ASSIGN_OR_RETURN(left, binary(Type::Arithmetic, op, std::move(left),
                                      std::move(right), 'p'));
  }
  return left;
}

StatusOr<ExprPtr> Parser::unary(bool withFilters) {
  ExprPtr expr;
  if (isOp("-") || isOp("+")) {
    Nest nest(nest_);
    MOE_RETURN_IF_ERROR(checkNest());
    Token op = take();
    expr = make(op.text == "-" ? Type::Negate : Type::Plus, op.place);
    MOE_ASSIGN_OR_RETURN(ExprPtr value, unary(false));
    expr->children.push_back(std::move(value));
    MOE_ASSIGN_OR_RETURN(expr, finish(std::move(expr)));
  } else {
    MOE_ASSIGN_OR_RETURN(expr, primary());
  }
  MOE_ASSIGN_OR_RETURN(expr, postfix(std::move(expr)));
  return withFilters ? filters(std::move(expr))
                     : StatusOr<ExprPtr>(std::move(expr));
}

StatusOr<ExprPtr> Parser::primary() {
  Place place = peek().place;
  switch (peek().type) {
  case Token::Type::Name: {
    std::string name = take().text;
    if (name == "true" || name == "True" || name == "false" ||
        name == "False") {
      ExprPtr expr = make(Type::Bool, place);
      expr->boolean = name[0] == 't' || name[0] == 'T';
      return expr;
    }
    if (name == "none" || name == "None")
      return make(Type::None, place);
    if (macro_) {
      macro_->usesVarargs |= name == "varargs";
      macro_->usesKwargs |= name == "kwargs";
      macro_->usesCaller |= name == "caller";
    }
    ExprPtr expr = make(Type::Name, place);
    expr->text = std::move(name);
    return expr;
  }
  case Token::Type::String: {
    ExprPtr expr = make(Type::String, place);
    while (peek().type == Token::Type::String)
      expr->text += take().text;
    return expr;
  }
  case Token::Type::Int: {
    ExprPtr expr = make(Type::Int, place);
    expr->integer = take().integer;
    return expr;
  }
  case Token::Type::Float: {
    ExprPtr expr = make(Type::Float, place);
    expr->number = take().number;
    return expr;
  }
  case Token::Type::Operator:
    if (takeOp("(")) {
      MOE_ASSIGN_OR_RETURN(ExprPtr expr, tuple(true, true));
      MOE_RETURN_IF_ERROR(expectOp(")"));
      return expr;
    }
    if (isOp("["))
      return list();
    if (isOp("{"))
      return dict();
    [[fallthrough]];
  default:
    return unexpected("an expression");
  }
}

/// One expression, or several with commas; `inParentheses` perhaps none.
StatusOr<ExprPtr> Parser::tuple(bool withConditional, bool inParentheses,
                                bool untilIn) {
  Place place = peek().place;
  std::vector<ExprPtr> items;
  bool isTuple = false;
  auto ends = [&] {
    return peek().type == Token::Type::BlockEnd ||
           peek().type == Token::Type::OutputEnd || isOp(")") ||
           (untilIn && isName("in"));
  };
  while (!ends()) {
    MOE_ASSIGN_OR_RETURN(ExprPtr item, expression(withConditional));
    items.push_back(std::move(item));
    if (!takeOp(","))
      break;
    isTuple = true;
  }
  if (!isTuple && !items.empty())
    return std::move(items[0]);
  if (items.empty() && !inParentheses)
    return unexpected("an expression");
  ExprPtr expr = make(Type::Tuple, place);
  expr->children = std::move(items);
  return finish(std::move(expr));
}

StatusOr<ExprPtr> Parser::list() {
  ExprPtr expr = make(Type::List, take().place);
  while (!isOp("]")) {
    if (!expr->children.empty())
      MOE_RETURN_IF_ERROR(expectOp(","));
    if (isOp("]"))
      break;
    MOE_ASSIGN_OR_RETURN(ExprPtr item, expression());
    expr->children.push_back(std::move(item));
  }
  take();
  return finish(std::move(expr));
}

StatusOr<ExprPtr> Parser::dict() {
  ExprPtr expr = make(Type::Dict, take().place);
  while (!isOp("}")) {
    if (!expr->children.empty())
      MOE_RETURN_IF_ERROR(expectOp(","));
    if (isOp("}"))
      break;
    MOE_ASSIGN_OR_RETURN(ExprPtr key, expression());
    expr->children.push_back(std::move(key));
    MOE_RETURN_IF_ERROR(expectOp(":"));
    MOE_ASSIGN_OR_RETURN(ExprPtr value, expression());
    expr->children.push_back(std::move(value));
  }
  take();
  return finish(std::move(expr));
}

StatusOr<ExprPtr> Parser::postfix(ExprPtr expr) {
  while (true) {
    if (isOp(".") || isOp("[")) {
      MOE_ASSIGN_OR_RETURN(expr, subscript(std::move(expr)));
    } else if (isOp("(")) {
      MOE_ASSIGN_OR_RETURN(expr, call(std::move(expr)));
    } else {
      return expr;
    }
  }
}

StatusOr<ExprPtr> Parser::filters(ExprPtr expr) {
  while (true) {
    if (takeOp("|")) {
      MOE_ASSIGN_OR_RETURN(expr, filter(std::move(expr)));
    } else if (isName("is")) {
      MOE_ASSIGN_OR_RETURN(expr, test(std::move(expr)));
    } else if (isOp("(")) {
      MOE_ASSIGN_OR_RETURN(expr, call(std::move(expr)));
    } else {
      return expr;
    }
  }
}

/// What follows a "|".
StatusOr<ExprPtr> Parser::filter(ExprPtr value) {
  ExprPtr expr = make(Type::Filter, peek().place);
  expr->children.push_back(std::move(value));
  MOE_ASSIGN_OR_RETURN(expr->text, identifier("a filter's name"));
  if (takeOp("("))
    MOE_RETURN_IF_ERROR(arguments(expr->arguments));
  return finish(std::move(expr));
}

StatusOr<ExprPtr> Parser::test(ExprPtr value) {
  take();
  bool isNegated = takeName("not");
  ExprPtr expr = make(Type::Test, peek().place);
  expr->children.push_back(std::move(value));
  MOE_ASSIGN_OR_RETURN(expr->text, identifier("a test's name"));
  bool startsValue =
      peek().type == Token::Type::Name || peek().type == Token::Type::String ||
      peek().type == Token::Type::Int || peek().type == Token::Type::Float ||
      isOp("[") || isOp("{");
  bool isKeyword = isName("else") || isName("or") || isName("and") ||
                   isName("if") || isName("in") || isName("not");
  if (takeOp("(")) {
    MOE_RETURN_IF_ERROR(arguments(expr->arguments));
  } else if (isName("is")) {
    return unexpected("the end of the test; tests do not chain");
  } else if (startsValue && !isKeyword) {
    MOE_ASSIGN_OR_RETURN(ExprPtr argument, primary());
    MOE_ASSIGN_OR_RETURN(argument, postfix(std::move(argument)));
    expr->arguments.positional.push_back(std::move(argument));
  }
  MOE_ASSIGN_OR_RETURN(expr, finish(std::move(expr)));
  if (!isNegated)
    return expr;
  ExprPtr negated = make(Type::Not, expr->place);
  negated->children.push_back(std::move(expr));
  return finish(std::move(negated));
}

StatusOr<ExprPtr> Parser::subscript(ExprPtr object) {
  Token op = take();
  if (op.text == "[") {
    MOE_ASSIGN_OR_RETURN(ExprPtr item,
                         subscriptItem(std::move(object), op.place));
    MOE_RETURN_IF_ERROR(expectOp("]"));
    return item;
  }
  if (peek().type == Token::Type::Int) { // x.0 is x[0].
    ExprPtr index = make(Type::Int, peek().place);
    index->integer = take().integer;
    return binary(Type::Item, op, std::move(object), std::move(index));
  }
  ExprPtr expr = make(Type::Attribute, peek().place);
  expr->children.push_back(std::move(object));
  MOE_ASSIGN_OR_RETURN(expr->text, identifier("an attribute's name"));
  return finish(std::move(expr));
}

/// What is between "[" and "]": an index, several, or a slice.
StatusOr<ExprPtr> Parser::subscriptItem(ExprPtr object, Place place) {
  ExprPtr bounds[3];
  size_t part = 0;
  while (!isOp("]")) {
    if (takeOp(":")) {
      if (++part > 2)
        return unexpected("']'");
      continue;
    }
    if (bounds[part])
      return unexpected("']' or ':'");
    MOE_ASSIGN_OR_RETURN(bounds[part], expression());
    if (part == 0 && isOp(",")) {
      ExprPtr several = make(Type::Tuple, place);
      several->children.push_back(std::move(bounds[0]));
      while (takeOp(",")) {
        if (isOp("]"))
          break;
        MOE_ASSIGN_OR_RETURN(ExprPtr next, expression());
        several->children.push_back(std::move(next));
      }
      MOE_ASSIGN_OR_RETURN(bounds[0], finish(std::move(several)));
      break;
    }
  }
  if (part == 0 && !bounds[0])
    return unexpected("an index");
  ExprPtr expr = make(part == 0 ? Type::Item : Type::Slice, place);
  expr->children.push_back(std::move(object));
  for (ExprPtr &bound : bounds)
    if (part > 0 || bound)
      expr->children.push_back(std::move(bound));
  return finish(std::move(expr));
}

StatusOr<ExprPtr> Parser::call(ExprPtr callee) {
  ExprPtr expr = make(Type::Call, take().place);
  expr->children.push_back(std::move(callee));
  MOE_RETURN_IF_ERROR(arguments(expr->arguments));
  return finish(std::move(expr));
}

/// Arguments up to and with ")".
Status Parser::arguments(Arguments &result) {
  bool isFirst = true;
  while (!isOp(")")) {
    if (!std::exchange(isFirst, false))
      MOE_RETURN_IF_ERROR(expectOp(","));
    if (isOp(")"))
      break;
    bool isNamed = peek().type == Token::Type::Name && isOp("=", 1);
    if (takeOp("**")) {
      MOE_ASSIGN_OR_RETURN(result.starStar, expression());
    } else if (takeOp("*")) {
      MOE_ASSIGN_OR_RETURN(result.star, expression());
    } else if (isNamed) {
      std::string name = take().text;
      take();
      MOE_ASSIGN_OR_RETURN(ExprPtr value, expression());
      result.named.emplace_back(std::move(name), std::move(value));
    } else if (!result.named.empty() || result.starStar) {
      return failureAt(peek().place,
                       "an argument without a name follows one with a name");
    } else {
      MOE_ASSIGN_OR_RETURN(ExprPtr value, expression());
      result.positional.push_back(std::move(value));
    }
  }
  take();
  return Status::ok();
}

StatusOr<Target> Parser::targetPart(bool withAttribute) {
  Nest nest(nest_);
  MOE_RETURN_IF_ERROR(checkNest());
  if (takeOp("(")) {
    MOE_ASSIGN_OR_RETURN(Target result, target(withAttribute));
    MOE_RETURN_IF_ERROR(expectOp(")"));
    return result;
  }
  Target result;
  result.place = peek().place;
  constexpr std::string_view constants[] = {"true", "false", "none",
                                            "True", "False", "None"};
  MOE_ASSIGN_OR_RETURN(result.name, identifier("a name to assign to"));
  if (std::ranges::find(constants, result.name) != std::end(constants))
    return failureAt(result.place, "cannot assign to '" + result.name + "'");
  if (withAttribute && takeOp(".")) {
    MOE_ASSIGN_OR_RETURN(result.attribute, identifier("an attribute's name"));
  }
  return result;
}

StatusOr<Target> Parser::target(bool withAttribute) {
  Place place = peek().place;
  MOE_ASSIGN_OR_RETURN(Target first, targetPart(withAttribute));
  if (!isOp(","))
    return first;
  Target all;
  all.place = place;
  all.parts.push_back(std::move(first));
  while (takeOp(",")) {
    if (peek().type != Token::Type::Name && !isOp("("))
      break;
    if (isName("in"))
      break;
    MOE_ASSIGN_OR_RETURN(Target next, targetPart(withAttribute));
    all.parts.push_back(std::move(next));
  }
  return all;
}

StatusOr<Body> Parser::body(std::initializer_list<std::string_view> ends,
                            std::string_view opener, Place opened) {
  Nest nest(nest_);
  MOE_RETURN_IF_ERROR(checkNest());
  Body nodes;
  while (true) {
    const Token &token = peek();
    switch (token.type) {
    case Token::Type::End:
      if (ends.size() == 0)
        return nodes;
      return failureAt(opened, "'" + std::string(opener) +
                                   "' does not end: no '{% " +
                                   std::string(*(ends.end() - 1)) + " %}'");
    case Token::Type::Text: {
      auto node = std::make_unique<TextNode>(token.place);
      node->text = take().text;
      nodes.push_back(std::move(node));
      break;
    }
    case Token::Type::OutputBegin: {
      auto node = std::make_unique<OutputNode>(take().place);
      MOE_ASSIGN_OR_RETURN(node->value, tuple(true));
      if (peek().type != Token::Type::OutputEnd)
        return unexpected("'}}'");
      take();
      nodes.push_back(std::move(node));
      break;
    }
    case Token::Type::BlockBegin: {
      bool isEnd = peek(1).type == Token::Type::Name &&
                   std::ranges::find(ends, peek(1).text) != ends.end();
      take();
      if (isEnd)
        return nodes;
      MOE_ASSIGN_OR_RETURN(std::unique_ptr<Node> node, statement());
      if (node)
        nodes.push_back(std::move(node));
      break;
    }
    default:
      return unexpected("text or a tag");
    }
  }
}

/// A body up to and with "{% end<tag> %}".
Status Parser::blockBody(Body &result, std::string_view tag, Place place) {
  std::string end = "end" + std::string(tag);
  MOE_ASSIGN_OR_RETURN(result, body({end}, tag, place));
  take();
  if (tag == "block" || tag == "macro") // May repeat their names.
    if (peek().type == Token::Type::Name)
      take();
  return expectBlockEnd();
}

StatusOr<std::unique_ptr<Node>> Parser::statement() {
  if (peek().type != Token::Type::Name)
    return unexpected("a tag's name");
  Token tag = take();
  const std::string &name = tag.text;
  if (name == "if")
    return ifStatement(tag.place);
  if (name == "for")
    return forStatement(tag.place);
  if (name == "set")
    return setStatement(tag.place);
  if (name == "macro")
    return macroStatement(tag.place);
  if (name == "call")
    return callStatement(tag.place);
  if (name == "filter")
    return filterStatement(tag.place);
  if (name == "with" || name == "block" || name == "generation" ||
      name == "autoescape")
    return scopeStatement(tag);
  if (name == "print") {
    auto node = std::make_unique<OutputNode>(tag.place);
    MOE_ASSIGN_OR_RETURN(node->value, tuple(true));
    MOE_RETURN_IF_ERROR(expectBlockEnd());
    return std::unique_ptr<Node>(std::move(node));
  }
  if (name == "break" || name == "continue") {
    if (loops_ == 0)
      return failureAt(tag.place, "'" + name + "' outside of a for loop");
    MOE_RETURN_IF_ERROR(expectBlockEnd());
    if (name == "break")
      return std::unique_ptr<Node>(std::make_unique<BreakNode>(tag.place));
    return std::unique_ptr<Node>(std::make_unique<ContinueNode>(tag.place));
  }
  if (name == "extends" || name == "include" || name == "import" ||
      name == "from")
    return failureAt(tag.place, "the tag '" + name +
                                    "' is not supported: a chat template is "
                                    "one text without others");
  return failureAt(tag.place,
                   "unknown tag '" + name.substr(0, 40) +
                       "'; known are if, for, set, macro, call, filter, with, "
                       "block, generation, autoescape, print, raw, break and "
                       "continue");
}

StatusOr<std::unique_ptr<Node>> Parser::ifStatement(Place place) {
  auto node = std::make_unique<IfNode>(place);
  while (true) {
    MOE_ASSIGN_OR_RETURN(ExprPtr condition, tuple(false));
    MOE_RETURN_IF_ERROR(expectBlockEnd());
    MOE_ASSIGN_OR_RETURN(Body nodes,
                         body({"elif", "else", "endif"}, "if", place));
    node->branches.emplace_back(std::move(condition), std::move(nodes));
    std::string next = take().text;
    if (next == "elif")
      continue;
    MOE_RETURN_IF_ERROR(expectBlockEnd());
    if (next == "else")
      MOE_RETURN_IF_ERROR(blockBody(node->otherwise, "if", place));
    return std::unique_ptr<Node>(std::move(node));
  }
}

StatusOr<std::unique_ptr<Node>> Parser::forStatement(Place place) {
  auto node = std::make_unique<ForNode>(place);
  MOE_ASSIGN_OR_RETURN(node->target, target(false));
  MOE_RETURN_IF_ERROR(expectName("in"));
  MOE_ASSIGN_OR_RETURN(node->over, tuple(false));
  if (takeName("if")) {
    MOE_ASSIGN_OR_RETURN(node->condition, expression());
  }
  node->isRecursive = takeName("recursive");
  MOE_RETURN_IF_ERROR(expectBlockEnd());
  ++loops_;
  MOE_ASSIGN_OR_RETURN(node->body, body({"else", "endfor"}, "for", place));
  --loops_;
  std::string next = take().text;
  MOE_RETURN_IF_ERROR(expectBlockEnd());
  if (next == "else")
    MOE_RETURN_IF_ERROR(blockBody(node->otherwise, "for", place));
  return std::unique_ptr<Node>(std::move(node));
}

StatusOr<std::unique_ptr<Node>> Parser::setStatement(Place place) {
  auto node = std::make_unique<SetNode>(place);
  MOE_ASSIGN_OR_RETURN(node->target, target(true));
  if (takeOp("=")) {
    MOE_ASSIGN_OR_RETURN(node->value, tuple(true));
    MOE_RETURN_IF_ERROR(expectBlockEnd());
    return std::unique_ptr<Node>(std::move(node));
  }
  while (takeOp("|")) {
    MOE_ASSIGN_OR_RETURN(node->filter, filter(std::move(node->filter)));
  }
  if (peek().type != Token::Type::BlockEnd)
    return unexpected("'=' or '%}'");
  take();
  uint32_t loops = std::exchange(loops_, 0);
  MOE_RETURN_IF_ERROR(blockBody(node->body, "set", place));
  loops_ = loops;
  return std::unique_ptr<Node>(std::move(node));
}

Status Parser::parameters(MacroNode &macro) {
  MOE_RETURN_IF_ERROR(expectOp("("));
  while (!isOp(")")) {
    if (!macro.parameters.empty())
      MOE_RETURN_IF_ERROR(expectOp(","));
    if (isOp(")"))
      break;
    Place place = peek().place;
    MOE_ASSIGN_OR_RETURN(std::string name, identifier("a parameter's name"));
    macro.parameters.push_back(std::move(name));
    if (takeOp("=")) {
      MOE_ASSIGN_OR_RETURN(ExprPtr value, expression());
      macro.defaults.push_back(std::move(value));
    } else if (!macro.defaults.empty()) {
      return failureAt(place,
                       "a parameter without a default follows one with one");
    }
  }
  return expectOp(")");
}

StatusOr<std::unique_ptr<Node>> Parser::macroStatement(Place place) {
  auto node = std::make_unique<MacroNode>(place);
  MOE_ASSIGN_OR_RETURN(node->name, identifier("a macro's name"));
  MacroNode *outer = std::exchange(macro_, node.get());
  MOE_RETURN_IF_ERROR(parameters(*node));
  MOE_RETURN_IF_ERROR(expectBlockEnd());
  uint32_t loops = std::exchange(loops_, 0);
  MOE_RETURN_IF_ERROR(blockBody(node->body, "macro", place));
  loops_ = loops;
  macro_ = outer;
  return std::unique_ptr<Node>(std::move(node));
}

StatusOr<std::unique_ptr<Node>> Parser::callStatement(Place place) {
  auto node = std::make_unique<CallNode>(place);
  node->caller = std::make_unique<MacroNode>(place);
  node->caller->name = "caller";
  if (isOp("("))
    MOE_RETURN_IF_ERROR(parameters(*node->caller));
  MOE_ASSIGN_OR_RETURN(node->call, expression());
  if (node->call->type != Type::Call)
    return failureAt(place, "expected a call after 'call'");
  MOE_RETURN_IF_ERROR(expectBlockEnd());
  uint32_t loops = std::exchange(loops_, 0);
  MacroNode *outer = std::exchange(macro_, node->caller.get());
  MOE_RETURN_IF_ERROR(blockBody(node->caller->body, "call", place));
  macro_ = outer;
  loops_ = loops;
  return std::unique_ptr<Node>(std::move(node));
}

StatusOr<std::unique_ptr<Node>> Parser::filterStatement(Place place) {
  auto node = std::make_unique<FilterNode>(place);
  do {
    MOE_ASSIGN_OR_RETURN(node->filter, filter(std::move(node->filter)));
  } while (takeOp("|"));
  MOE_RETURN_IF_ERROR(expectBlockEnd());
  uint32_t loops = std::exchange(loops_, 0);
  MOE_RETURN_IF_ERROR(blockBody(node->body, "filter", place));
  loops_ = loops;
  return std::unique_ptr<Node>(std::move(node));
}

StatusOr<std::unique_ptr<Node>> Parser::scopeStatement(const Token &tag) {
  auto node = std::make_unique<ScopeNode>(tag.place);
  if (tag.text == "with") {
    while (peek().type != Token::Type::BlockEnd) {
      if (!node->names.empty())
        MOE_RETURN_IF_ERROR(expectOp(","));
      MOE_ASSIGN_OR_RETURN(Target name, targetPart(false));
      MOE_RETURN_IF_ERROR(expectOp("="));
      MOE_ASSIGN_OR_RETURN(ExprPtr value, expression());
      node->names.emplace_back(std::move(name), std::move(value));
    }
  } else if (tag.text == "block") {
    MOE_RETURN_IF_ERROR(identifier("a block's name").status());
    takeName("scoped");
    takeName("required");
  } else if (tag.text == "autoescape" && !takeName("false") &&
             !takeName("False")) {
    return unexpected("'false'; chat templates have no escaping");
  }
  MOE_RETURN_IF_ERROR(expectBlockEnd());
  MOE_RETURN_IF_ERROR(blockBody(node->body, tag.text, tag.place));
  return std::unique_ptr<Node>(std::move(node));
}

} // namespace

StatusOr<Body> parse(std::string_view source, uint32_t depth) {
  MOE_ASSIGN_OR_RETURN(std::vector<Token> tokens, tokenize(source));
  Parser parser(std::move(tokens), depth);
  return parser.body({}, "", {});
}

} // namespace moert::jinja
