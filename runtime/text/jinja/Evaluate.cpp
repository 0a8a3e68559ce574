// Evaluates expressions.
#include "runtime/text/jinja/Interpreter.h"
#include "runtime/text/jinja/Unicode.h"

#include <algorithm>

namespace moert::jinja {

using Type = Expr::Type;

Result Interpreter::eval(const Expr &expr) {
  Nested nested(depth_);
  if (!heap_.spend())
    return heap_.status();
  Result result = depth_ > heap_.limits().depth
                      ? failure("expressions and calls are nested too deeply")
                      : evalAny(expr);
  if (!result && !place_)
    place_ = expr.place;
  return result;
}

Result Interpreter::evalAny(const Expr &expr) {
  switch (expr.type) {
  case Type::None:
    return Value::none();
  case Type::Bool:
    return Value::of(expr.boolean);
  case Type::Int:
    return Value::of(expr.integer);
  case Type::Float:
    return Value::of(expr.number);
  case Type::String:
    return heap_.string(expr.text);
  case Type::Name:
    return evalName(expr);
  case Type::List:
  case Type::Tuple:
    return evalItems(expr);
  case Type::Dict:
    return evalDict(expr);
  case Type::Negate:
  case Type::Plus:
  case Type::Not:
  case Type::And:
  case Type::Or:
    return evalLogic(expr);
  case Type::Arithmetic:
    return evalArithmetic(expr);
  case Type::Concat:
    return evalConcat(expr);
  case Type::Compare:
    return evalCompare(expr);
  case Type::Conditional:
    return evalConditional(expr);
  case Type::Attribute:
  case Type::Item:
    return evalSubscript(expr);
  case Type::Slice:
    return evalSlice(expr);
  case Type::Call:
    return evalCall(expr, nullptr);
  case Type::Filter:
    return evalFilter(expr, nullptr);
  case Type::Test:
    return evalTest(expr);
  }
  return failure("an expression of no known type");
}

Result Interpreter::evalName(const Expr &expr) {
  if (const Value *value = scope_->find(expr.text))
    return *value;
  for (const Builtin &builtin : globalFunctions())
    if (builtin.name == expr.text)
      return Value(heap_.make<Function>(Function::Type::Global, builtin.name));
  return heap_.undefined("'" + expr.text + "' is undefined");
}

Result Interpreter::evalLogic(const Expr &expr) {
  MOE_ASSIGN_OR_RETURN(Value value, eval(*expr.children[0]));
  switch (expr.type) {
  case Type::Not:
    return Value::of(!truth(value));
  case Type::And:
    return truth(value) ? eval(*expr.children[1]) : value;
  case Type::Or:
    return truth(value) ? value : eval(*expr.children[1]);
  case Type::Negate:
    return negate(value);
  default:
    if (value.is(Kind::Bool))
      return Value::of(value.integer());
    if (value.isNumber())
      return value;
    return failure(value.is(Kind::Undefined)
                       ? std::string(value.hint())
                       : "bad operand type for unary +: '" +
                             std::string(typeName(value)) + "'");
  }
}

Result Interpreter::evalItems(const Expr &expr) {
  std::vector<Value> items;
  for (const ExprPtr &child : expr.children) {
    MOE_ASSIGN_OR_RETURN(Value value, eval(*child));
    items.push_back(value);
  }
  return heap_.list(std::move(items),
                    expr.type == Type::List ? Flavor::List : Flavor::Tuple);
}

Result Interpreter::evalDict(const Expr &expr) {
  Dict *dict = heap_.make<Dict>();
  for (size_t i = 0; i < expr.children.size(); i += 2) {
    MOE_ASSIGN_OR_RETURN(Value key, eval(*expr.children[i]));
    MOE_ASSIGN_OR_RETURN(Value value, eval(*expr.children[i + 1]));
    MOE_RETURN_IF_ERROR(checkHashable(key));
    heap_.spend(key.is(Kind::String) ? 1 : dict->entries.size());
    dict->set(key, value);
  }
  return Value(dict);
}

Result Interpreter::evalCompare(const Expr &expr) {
  MOE_ASSIGN_OR_RETURN(Value left, eval(*expr.children[0]));
  for (size_t i = 0; i < expr.comparisons.size(); ++i) {
    MOE_ASSIGN_OR_RETURN(Value right, eval(*expr.children[i + 1]));
    char op = expr.comparisons[i];
    bool holds = false;
    if (op == '=' || op == '!') {
      holds = equal(heap_, left, right) == (op == '=');
    } else if (op == 'i' || op == 'n') {
      MOE_ASSIGN_OR_RETURN(bool found, contains(heap_, right, left));
      holds = found == (op == 'i');
    } else {
      for (const Value &value : {left, right})
        if (value.is(Kind::Undefined))
          return failure(std::string(value.hint()));
      bool isGreater = op == '>' || op == 'g';
      MOE_ASSIGN_OR_RETURN(int order, isGreater ? compare(heap_, right, left)
                                                : compare(heap_, left, right));
      bool isNan = (left.is(Kind::Float) && left.number() != left.number()) ||
                   (right.is(Kind::Float) && right.number() != right.number());
      holds = !isNan && (order < 0 || (order == 0 && (op == 'l' || op == 'g')));
    }
    if (!holds)
      return Value::of(false);
    left = right;
  }
  return Value::of(true);
}

Result Interpreter::evalConcat(const Expr &expr) {
  Text text(heap_);
  for (const ExprPtr &child : expr.children) {
    MOE_ASSIGN_OR_RETURN(Value value, eval(*child));
    printStr(text, value);
  }
  return heap_.string(std::move(text.str()));
}

Result Interpreter::evalArithmetic(const Expr &expr) {
  MOE_ASSIGN_OR_RETURN(Value left, eval(*expr.children[0]));
  MOE_ASSIGN_OR_RETURN(Value right, eval(*expr.children[1]));
  return expr.op == '+' ? add(heap_, left, right)
                        : arithmetic(heap_, expr.op, left, right);
}

Result Interpreter::evalConditional(const Expr &expr) {
  MOE_ASSIGN_OR_RETURN(Value condition, eval(*expr.children[1]));
  if (truth(condition))
    return eval(*expr.children[0]);
  if (expr.children[2])
    return eval(*expr.children[2]);
  return heap_.undefined("the inline if-expression evaluated to false and no "
                         "else section was defined");
}

Result Interpreter::evalSubscript(const Expr &expr) {
  MOE_ASSIGN_OR_RETURN(Value object, eval(*expr.children[0]));
  if (expr.type == Type::Attribute)
    return attribute(object, expr.text);
  MOE_ASSIGN_OR_RETURN(Value key, eval(*expr.children[1]));
  return item(object, key);
}

Result Interpreter::evalSlice(const Expr &expr) {
  MOE_ASSIGN_OR_RETURN(Value object, eval(*expr.children[0]));
  Value bounds[3] = {Value::none(), Value::none(), Value::none()};
  for (size_t i = 0; i < 3; ++i)
    if (expr.children[i + 1]) {
      MOE_ASSIGN_OR_RETURN(bounds[i], eval(*expr.children[i + 1]));
    }
  return slice(heap_, object, bounds[0], bounds[1], bounds[2]);
}

StatusOr<CallValues> Interpreter::evalArguments(const Arguments &arguments) {
  CallValues values;
  for (const ExprPtr &argument : arguments.positional) {
    MOE_ASSIGN_OR_RETURN(Value value, eval(*argument));
    values.positional.push_back(value);
  }
  if (arguments.star) {
    MOE_ASSIGN_OR_RETURN(Value more, eval(*arguments.star));
    MOE_ASSIGN_OR_RETURN(std::vector<Value> items, iterate(heap_, more));
    values.positional.insert(values.positional.end(), items.begin(),
                             items.end());
  }
  for (const auto &[name, argument] : arguments.named) {
    MOE_ASSIGN_OR_RETURN(Value value, eval(*argument));
    values.named.set(heap_.string(name), value);
  }
  if (arguments.starStar) {
    MOE_ASSIGN_OR_RETURN(Value more, eval(*arguments.starStar));
    if (!more.is(Kind::Dict))
      return failure("argument after ** must be a mapping, not " +
                     std::string(typeName(more)));
    for (const auto &[key, value] : more.dict().entries) {
      if (!key.is(Kind::String))
        return failure("keywords must be strings");
      values.named.set(key, value);
    }
  }
  return values;
}

Result Interpreter::evalCall(const Expr &expr, const Value *caller) {
  MOE_ASSIGN_OR_RETURN(Value callee, eval(*expr.children[0]));
  MOE_ASSIGN_OR_RETURN(CallValues values, evalArguments(expr.arguments));
  if (caller)
    values.named.set(heap_.string("caller"), *caller);
  return call(callee, values);
}

Result Interpreter::evalFilter(const Expr &expr, const Value *blockText) {
  Value value;
  const ExprPtr &input = expr.children[0];
  if (!input)
    value = *blockText;
  // May be a filter of the block's text.
  else if (input->type == Type::Filter) {
    MOE_ASSIGN_OR_RETURN(value, evalFilter(*input, blockText));
  } else {
    MOE_ASSIGN_OR_RETURN(value, eval(*input));
  }
  MOE_ASSIGN_OR_RETURN(CallValues values, evalArguments(expr.arguments));
  return applyFilter(expr.text, value, values);
}

Result Interpreter::evalTest(const Expr &expr) {
  MOE_ASSIGN_OR_RETURN(Value value, eval(*expr.children[0]));
  MOE_ASSIGN_OR_RETURN(CallValues values, evalArguments(expr.arguments));
  MOE_ASSIGN_OR_RETURN(bool holds, applyTest(expr.text, value, values));
  return Value::of(holds);
}

static std::string noAttribute(const Value &value, std::string_view name) {
  return "'" + std::string(typeName(value)) + " object' has no attribute '" +
         std::string(name) + "'";
}

Result Interpreter::attribute(const Value &value, std::string_view name,
                              bool withItems) {
  if (value.is(Kind::Undefined))
    return failure(std::string(value.hint()));
  if (name.starts_with("__"))
    return heap_.undefined("access to attribute '" + std::string(name) +
                           "' of '" + std::string(typeName(value)) +
                           "' object is unsafe");
  if (value.is(Kind::Loop))
    return loopAttribute(value, name);
  if (value.is(Kind::Namespace)) {
    const Value *found = value.dict().find(name);
    return found ? *found : heap_.undefined(noAttribute(value, name));
  }
  if (value.is(Kind::Function) &&
      value.function().type == Function::Type::Macro && name == "name")
    return heap_.string(std::string(value.function().name));
  if (value.is(Kind::Function) &&
      value.function().type == Function::Type::Cycler && name == "current") {
    const auto &items = value.function().self.sequence().items;
    return items[value.function().calls % items.size()];
  }
  std::span<const Builtin> methods =
      value.is(Kind::String) ? stringMethods() : containerMethods(value);
  for (const Builtin &method : methods)
    if (method.name == name) {
      Function *bound =
          heap_.make<Function>(Function::Type::Method, method.name);
      bound->self = value;
      return Value(bound);
    }
  if (withItems && value.is(Kind::Dict))
    if (const Value *found = value.dict().find(name))
      return *found;
  return heap_.undefined(noAttribute(value, name));
}

Result Interpreter::item(const Value &value, const Value &key) {
  if (value.is(Kind::Undefined))
    return failure(std::string(value.hint()));
  if (value.is(Kind::Dict)) {
    MOE_RETURN_IF_ERROR(checkHashable(key));
    if (!key.is(Kind::String))
      heap_.spend(value.dict().entries.size());
    if (const Value *found = value.dict().find(key))
      return *found;
  }
  bool isIndexed =
      value.is(Kind::String) ||
      (value.is(Kind::Sequence) && value.sequence().flavor <= Flavor::Range);
  if (isIndexed && key.isInteger()) {
    MOE_ASSIGN_OR_RETURN(int64_t size, length(heap_, value));
    Integer index = key.integer() < 0 ? key.integer() + size : key.integer();
    if (index < 0 || index >= size)
      return heap_.undefined("'" + std::string(typeName(value)) +
                             " object' has no element " +
                             printInteger(key.integer()));
    if (value.is(Kind::Sequence))
      return value.sequence().items[static_cast<size_t>(index)];
    return slice(heap_, value, Value::of(index), Value::of(index + 1),
                 Value::none());
  }
  if (key.is(Kind::String))
    return attribute(value, key.text(), false);
  if (value.is(Kind::Dict))
    return heap_.undefined("'dict object' has no attribute " +
                           repr(heap_, key));
  return heap_.undefined("'" + std::string(typeName(value)) +
                         " object' has no element " + repr(heap_, key));
}

Result Interpreter::path(const Value &value, const Value &path) {
  if (!path.is(Kind::String))
    return item(value, path);
  Value current = value;
  std::string_view rest = path.text();
  while (true) {
    size_t dot = std::min(rest.find('.'), rest.size());
    std::string_view part = rest.substr(0, dot);
    bool isNumber =
        !part.empty() && part.size() < 10 &&
        part.find_first_not_of("0123456789") == std::string_view::npos;
    Value key = isNumber ? Value::of(int64_t(std::stol(std::string(part))))
                         : heap_.string(std::string(part));
    MOE_ASSIGN_OR_RETURN(current, item(current, key));
    if (dot == rest.size())
      return current;
    rest.remove_prefix(dot + 1);
  }
}

Result Interpreter::loopAttribute(const Value &value, std::string_view name) {
  const Loop &loop = value.loop();
  auto count = [](size_t number) { return Value::of(int64_t(number)); };
  size_t size = loop.items.size();
  if (name == "index")
    return count(loop.index + 1);
  if (name == "index0")
    return count(loop.index);
  if (name == "revindex")
    return count(size - loop.index);
  if (name == "revindex0")
    return count(size - loop.index - 1);
  if (name == "first")
    return Value::of(loop.index == 0);
  if (name == "last")
    return Value::of(loop.index + 1 == size);
  if (name == "length")
    return count(size);
  if (name == "depth")
    return count(loop.depth + 1);
  if (name == "depth0")
    return count(loop.depth);
  if (name == "previtem")
    return loop.index > 0 ? loop.items[loop.index - 1]
                          : heap_.undefined("there is no previous item");
  if (name == "nextitem")
    return loop.index + 1 < size ? loop.items[loop.index + 1]
                                 : heap_.undefined("there is no next item");
  if (name == "cycle" || name == "changed") {
    Function *method = heap_.make<Function>(
        Function::Type::Method, name == "cycle" ? "cycle" : "changed");
    method->self = value;
    return Value(method);
  }
  return heap_.undefined(noAttribute(value, name));
}

} // namespace moert::jinja
