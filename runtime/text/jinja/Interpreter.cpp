// Statements, scopes and calls; Evaluate.cpp has the expressions.
#include "runtime/text/jinja/Interpreter.h"

#include "runtime/base/Suggest.h"

#include <algorithm>

namespace moert::jinja {

StatusOr<std::string> Interpreter::run(const Body &body) {
  Text out(heap_);
  out_ = &out;
  scope_ = heap_.make<Scope>(scope_);
  MOE_RETURN_IF_ERROR(exec(body));
  MOE_RETURN_IF_ERROR(heap_.status());
  return std::move(out.str());
}

Status Interpreter::raise(std::string message) {
  raised_ = true;
  return {StatusCode::Usage, std::move(message)};
}

Status Interpreter::exec(const Body &body) {
  Nested nested(depth_);
  if (depth_ > heap_.limits().depth)
    return failure("blocks and calls are nested too deeply");
  for (const auto &node : body) {
    if (!heap_.spend())
      return heap_.status();
    Status status = exec(*node);
    if (!status) {
      if (!place_)
        place_ = node->place;
      return status;
    }
    if (flow_ != Flow::Normal)
      break;
  }
  if (out_->str().size() > heap_.limits().output)
    return failure("the text grows beyond " +
                   std::to_string(heap_.limits().output >> 20) + " MiB");
  return heap_.status();
}

Status Interpreter::exec(const Node &node) {
  if (auto *text = dynamic_cast<const TextNode *>(&node)) {
    *out_ += text->text;
    return Status::ok();
  }
  if (auto *output = dynamic_cast<const OutputNode *>(&node)) {
    MOE_ASSIGN_OR_RETURN(Value value, eval(*output->value));
    printStr(*out_, value);
    return Status::ok();
  }
  if (auto *branches = dynamic_cast<const IfNode *>(&node))
    return execIf(*branches);
  if (auto *loop = dynamic_cast<const ForNode *>(&node))
    return execFor(*loop);
  if (auto *set = dynamic_cast<const SetNode *>(&node))
    return execSet(*set);
  if (auto *scope = dynamic_cast<const ScopeNode *>(&node))
    return execScope(*scope);
  if (auto *macro = dynamic_cast<const MacroNode *>(&node)) {
    scope_->set(macro->name, Value(makeMacro(*macro)));
    return Status::ok();
  }
  if (auto *call = dynamic_cast<const CallNode *>(&node))
    return execCall(*call);
  if (auto *filter = dynamic_cast<const FilterNode *>(&node)) {
    MOE_ASSIGN_OR_RETURN(Value text,
                         capture(filter->body, heap_.make<Scope>(scope_)));
    MOE_ASSIGN_OR_RETURN(Value value, evalFilter(*filter->filter, &text));
    printStr(*out_, value);
    return Status::ok();
  }
  flow_ = dynamic_cast<const BreakNode *>(&node) ? Flow::Break : Flow::Continue;
  return Status::ok();
}

Status Interpreter::execIf(const IfNode &node) {
  for (const auto &[condition, body] : node.branches) {
    MOE_ASSIGN_OR_RETURN(Value value, eval(*condition));
    if (truth(value))
      return exec(body);
  }
  return exec(node.otherwise);
}

Status Interpreter::execFor(const ForNode &node) {
  MOE_ASSIGN_OR_RETURN(Value over, eval(*node.over));
  MOE_ASSIGN_OR_RETURN(std::vector<Value> items, iterate(heap_, over));
  Function *recurse = nullptr;
  if (node.isRecursive) {
    recurse = heap_.make<Function>(Function::Type::LoopBody, "loop");
    recurse->loop = &node;
    ++captures_;
    recurse->scope = scope_;
  }
  return execLoop(node, items, 0, recurse);
}

Status Interpreter::execLoop(const ForNode &node,
                             const std::vector<Value> &items, size_t depth,
                             const Function *recurse) {
  Scope *outer = scope_;
  Sequence *kept = heap_.make<Sequence>(Flavor::List, std::vector<Value>());
  if (node.condition) {
    for (const Value &item : items) {
      scope_ = heap_.make<Scope>(outer);
      MOE_RETURN_IF_ERROR(assign(node.target, item));
      MOE_ASSIGN_OR_RETURN(Value value, eval(*node.condition));
      if (truth(value))
        kept->items.push_back(item);
    }
    scope_ = outer;
  } else {
    kept->items = items;
  }
  // The whole loop has one object, because loop.changed() has a memory. Copies
  // of the variable `loop` therefore advance with it.
  Loop *loop = heap_.make<Loop>();
  loop->items = kept->items;
  loop->depth = depth;
  loop->recurse = recurse;
  Scope *names = heap_.make<Scope>(outer);
  uint64_t captures = captures_;
  bool finishedRound = false;
  for (; loop->index < kept->items.size(); ++loop->index) {
    // Each iteration has its own scope; a scope that no macro captured is
    // reused.
    if (captures_ != captures)
      names = heap_.make<Scope>(outer);
    captures = captures_;
    names->names.clear();
    scope_ = names;
    if (heap_.exhausted())
      return heap_.status();
    scope_->set("loop", Value(loop));
    MOE_RETURN_IF_ERROR(assign(node.target, kept->items[loop->index]));
    MOE_RETURN_IF_ERROR(exec(node.body));
    Flow flow = std::exchange(flow_, Flow::Normal);
    finishedRound |= flow == Flow::Normal;
    if (flow == Flow::Break)
      break;
  }
  Status status = Status::ok();
  if (!finishedRound) {
    // The else branch of a loop has its own scope, too.
    scope_ = heap_.make<Scope>(outer);
    status = exec(node.otherwise);
  }
  scope_ = outer;
  return status;
}

Status Interpreter::assign(const Target &target, const Value &value) {
  if (!target.parts.empty()) {
    MOE_ASSIGN_OR_RETURN(std::vector<Value> items, iterate(heap_, value));
    if (items.size() != target.parts.size())
      return failure((items.size() > target.parts.size()
                          ? "too many values to unpack (expected "
                          : "not enough values to unpack (expected ") +
                     std::to_string(target.parts.size()) + ", got " +
                     std::to_string(items.size()) + ")");
    for (size_t i = 0; i < items.size(); ++i)
      MOE_RETURN_IF_ERROR(assign(target.parts[i], items[i]));
    return Status::ok();
  }
  if (target.attribute.empty()) {
    scope_->set(target.name, value);
    return Status::ok();
  }
  const Value *object = scope_->find(target.name);
  if (!object || !object->is(Kind::Namespace))
    return failure("cannot assign attribute '" + target.attribute + "' of '" +
                   target.name + "': it is not a namespace()");
  const_cast<Dict &>(object->dict()).set(heap_.string(target.attribute), value);
  return Status::ok();
}

/// Returns the rendered `body`, evaluated in `scope`.
Result Interpreter::capture(const Body &body, Scope *scope) {
  Text text(heap_);
  Text *out = std::exchange(out_, &text);
  Scope *outer = std::exchange(scope_, scope);
  Status status = exec(body);
  out_ = out;
  scope_ = outer;
  MOE_RETURN_IF_ERROR(status);
  return heap_.string(std::move(text.str()));
}

Status Interpreter::execSet(const SetNode &node) {
  if (node.value) {
    MOE_ASSIGN_OR_RETURN(Value value, eval(*node.value));
    return assign(node.target, value);
  }
  MOE_ASSIGN_OR_RETURN(Value text,
                       capture(node.body, heap_.make<Scope>(scope_)));
  if (node.filter) {
    MOE_ASSIGN_OR_RETURN(text, evalFilter(*node.filter, &text));
  }
  return assign(node.target, text);
}

Status Interpreter::execScope(const ScopeNode &node) {
  // The expressions of `with` do not see each other's names.
  std::vector<Value> values;
  for (const auto &[_, expr] : node.names) {
    MOE_ASSIGN_OR_RETURN(Value value, eval(*expr));
    values.push_back(value);
  }
  Scope *outer = std::exchange(scope_, heap_.make<Scope>(scope_));
  for (size_t i = 0; i < values.size(); ++i)
    MOE_RETURN_IF_ERROR(assign(node.names[i].first, values[i]));
  Status status = exec(node.body);
  scope_ = outer;
  return status;
}

Function *Interpreter::makeMacro(const MacroNode &node) {
  Function *macro = heap_.make<Function>(Function::Type::Macro, node.name);
  macro->macro = &node;
  ++captures_;
  macro->scope = scope_;
  return macro;
}

Status Interpreter::execCall(const CallNode &node) {
  Value caller(makeMacro(*node.caller));
  MOE_ASSIGN_OR_RETURN(Value value, evalCall(*node.call, &caller));
  printStr(*out_, value);
  return Status::ok();
}

Result Interpreter::call(const Value &callee, const CallValues &values) {
  if (callee.is(Kind::Undefined))
    return failure(std::string(callee.hint()));
  if (callee.is(Kind::Loop) && callee.loop().recurse)
    return callLoop(*callee.loop().recurse, values);
  if (!callee.is(Kind::Function))
    return failure("'" + std::string(typeName(callee)) +
                   "' object is not callable");
  const Function &function = callee.function();
  switch (function.type) {
  case Function::Type::Macro:
    return callMacro(function, values);
  case Function::Type::LoopBody:
    return callLoop(function, values);
  case Function::Type::Cycler: {
    const std::vector<Value> &items = function.self.sequence().items;
    return items[function.calls++ % items.size()];
  }
  case Function::Type::Joiner:
    return function.calls++ == 0 ? heap_.string("") : function.self;
  case Function::Type::Global:
    for (const Builtin &builtin : globalFunctions())
      if (builtin.name == function.name)
        return callBuiltin(builtin, function.self, values, "function");
    break;
  case Function::Type::Method:
    for (const Builtin &builtin : function.self.is(Kind::String)
                                      ? stringMethods()
                                      : containerMethods(function.self))
      if (builtin.name == function.name)
        return callBuiltin(builtin, function.self, values, "method");
    break;
  }
  return failure("'" + std::string(function.name) + "' cannot be called");
}

Result Interpreter::callMacro(const Function &macro, const CallValues &values) {
  const MacroNode &node = *macro.macro;
  if (values.positional.size() > node.parameters.size() && !node.usesVarargs)
    return failure("macro '" + node.name + "' takes not more than " +
                   std::to_string(node.parameters.size()) + " argument(s)");
  Scope *scope = heap_.make<Scope>(macro.scope);
  Scope *outer = std::exchange(scope_, scope);
  size_t count = node.parameters.size();
  size_t given = std::min(values.positional.size(), count);
  std::vector<bool> isGiven(count);
  for (size_t i = 0; i < given; ++i) {
    scope->set(node.parameters[i], values.positional[i]);
    isGiven[i] = true;
  }
  Dict *others = heap_.make<Dict>();
  Status status;
  bool hasCaller = false;
  for (const auto &[key, value] : values.named.entries) {
    auto parameter = std::ranges::find(node.parameters, key.text());
    if (parameter != node.parameters.end()) {
      auto i = static_cast<size_t>(parameter - node.parameters.begin());
      if (isGiven[i])
        status = failure("macro '" + node.name + "' got several values for '" +
                         node.parameters[i] + "'");
      scope->set(node.parameters[i], value);
      isGiven[i] = true;
    } else if (key.text() == "caller" && node.usesCaller) {
      scope->set("caller", value);
      hasCaller = true;
    } else if (node.usesKwargs) {
      others->set(key, value);
    } else {
      status = failure("macro '" + node.name + "' takes no keyword argument '" +
                       std::string(key.text()) + "'");
    }
  }
  size_t required = count - node.defaults.size();
  for (size_t i = 0; i < count && status; ++i) {
    if (isGiven[i])
      continue;
    if (i < required) {
      scope->set(node.parameters[i],
                 heap_.undefined("parameter '" + node.parameters[i] +
                                 "' was not provided"));
      continue;
    }
    Result value = eval(*node.defaults[i - required]);
    status = value.status();
    if (value)
      scope->set(node.parameters[i], *value);
  }
  std::vector<Value> rest(values.positional.begin() + ptrdiff_t(given),
                          values.positional.end());
  scope->set("varargs", heap_.list(std::move(rest), Flavor::Tuple));
  scope->set("kwargs", Value(others));
  if (!hasCaller)
    scope->set("caller", heap_.undefined("No caller defined"));
  scope_ = outer;
  MOE_RETURN_IF_ERROR(status);
  Flow flow = std::exchange(flow_, Flow::Normal);
  Result text = capture(node.body, scope);
  flow_ = flow;
  return text;
}

Result Interpreter::callLoop(const Function &function,
                             const CallValues &values) {
  if (values.positional.size() != 1)
    return failure("loop() takes the list to go through");
  MOE_ASSIGN_OR_RETURN(std::vector<Value> items,
                       iterate(heap_, values.positional[0]));
  Function *deeper = heap_.make<Function>(Function::Type::LoopBody, "loop");
  deeper->loop = function.loop;
  deeper->scope = function.scope;
  deeper->depth = function.depth + 1;
  Text text(heap_);
  Text *out = std::exchange(out_, &text);
  Scope *outer = std::exchange(scope_, function.scope);
  Status status = depth_ > heap_.limits().depth
                      ? failure("loops are nested too deeply")
                      : execLoop(*function.loop, items, deeper->depth, deeper);
  out_ = out;
  scope_ = outer;
  MOE_RETURN_IF_ERROR(status);
  return heap_.string(std::move(text.str()));
}

/// Assigns arguments to the parameters in `builtin.parameters`.
Result Interpreter::callBuiltin(const Builtin &builtin, const Value &self,
                                const CallValues &values,
                                std::string_view what) {
  Call call{*this, heap_, self, values};
  std::string shown =
      std::string(what) + " '" + std::string(builtin.name) + "'";
  if (builtin.parameters != "*") {
    std::string_view rest = builtin.parameters;
    size_t count = 0;
    size_t usedNames = 0;
    while (!rest.empty()) {
      size_t space = std::min(rest.find(' '), rest.size());
      std::string_view name = rest.substr(0, space);
      rest.remove_prefix(std::min(space + 1, rest.size()));
      const Value *named = values.named.find(name);
      if (count < values.positional.size())
        call.arguments[count] = &values.positional[count];
      if (named && call.arguments[count])
        return failure(shown + " got several values for '" + std::string(name) +
                       "'");
      if (named) {
        call.arguments[count] = named;
        ++usedNames;
      }
      ++count;
    }
    if (values.positional.size() > count)
      return failure(shown + " takes at most " + std::to_string(count) +
                     " arguments, " + std::to_string(values.positional.size()) +
                     " given");
    if (usedNames < values.named.entries.size())
      return failure(shown + " got an argument with an unknown name; it has " +
                     (count ? std::string(builtin.parameters) : "none"));
  }
  MOE_ASSIGN_OR_RETURN(Value result, builtin.run(call));
  MOE_RETURN_IF_ERROR(heap_.status());
  return result;
}

/// Returns the error "unknown filter 'x'" with the nearest known name.
static Status unknown(std::string_view what, std::string_view name,
                      std::initializer_list<std::span<const Builtin>> tables) {
  std::vector<std::string> names;
  for (auto table : tables)
    for (const Builtin &builtin : table)
      names.emplace_back(builtin.name);
  std::string message = "no " + std::string(what) + " named '" +
                        std::string(name.substr(0, 40)) + "'";
  if (auto nearest = closestMatch(name.substr(0, 40), names))
    message += "; did you mean '" + *nearest + "'?";
  return failure(message);
}

Result Interpreter::applyFilter(std::string_view name, const Value &value,
                                const CallValues &values) {
  for (auto table : {stringFilters(), listFilters()})
    for (const Builtin &builtin : table)
      if (builtin.name == name)
        return callBuiltin(builtin, value, values, "filter");
  return unknown("filter", name, {stringFilters(), listFilters()});
}

StatusOr<bool> Interpreter::applyTest(std::string_view name, const Value &value,
                                      const CallValues &values) {
  for (const Builtin &builtin : tests())
    if (builtin.name == name) {
      MOE_ASSIGN_OR_RETURN(Value result,
                           callBuiltin(builtin, value, values, "test"));
      return truth(result);
    }
  return unknown("test", name, {tests()});
}

} // namespace moert::jinja
