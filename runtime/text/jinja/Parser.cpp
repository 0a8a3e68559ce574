#include "runtime/text/jinja/Parser.h"

#include "runtime/text/jinja/ParserState.h"

namespace moert::jinja {

using Type = Expr::Type;

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

/// Parses a body up to and including "{% end<tag> %}".
Status Parser::blockBody(Body &result, std::string_view tag, Place place) {
  std::string end = "end" + std::string(tag);
  MOE_ASSIGN_OR_RETURN(result, body({end}, tag, place));
  take();
  if (tag == "block" || tag == "macro") // The end tag may repeat the name.
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

StatusOr<Body> parse(std::string_view source, uint32_t depth) {
  MOE_ASSIGN_OR_RETURN(std::vector<Token> tokens, tokenize(source));
  Parser parser(std::move(tokens), depth);
  return parser.body({}, "", {});
}

} // namespace moert::jinja
