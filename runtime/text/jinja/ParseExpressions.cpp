#include "runtime/text/jinja/ParserState.h"

namespace moert::jinja {

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

/// Sets the depth of a node and bounds it, also where the parser loops instead
/// of recursing.
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

/// Associates to the left, unlike Python's **.
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

/// Parses one expression or several separated by commas; with `inParentheses`,
/// possibly none.
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

/// Parses the part after "|".
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
  if (peek().type == Token::Type::Int) { // x.0 means x[0].
    ExprPtr index = make(Type::Int, peek().place);
    index->integer = take().integer;
    return binary(Type::Item, op, std::move(object), std::move(index));
  }
  ExprPtr expr = make(Type::Attribute, peek().place);
  expr->children.push_back(std::move(object));
  MOE_ASSIGN_OR_RETURN(expr->text, identifier("an attribute's name"));
  return finish(std::move(expr));
}

/// Parses the part between "[" and "]": an index, several, or a slice.
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

/// Parses arguments up to and including ")".
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

} // namespace moert::jinja
