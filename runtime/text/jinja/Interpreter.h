//===- Interpreter.h - Renders the tree of a template -----------*- C++ -*-===//

#ifndef MOE_RUNTIME_TEXT_JINJA_INTERPRETER_H
#define MOE_RUNTIME_TEXT_JINJA_INTERPRETER_H

#include "runtime/text/jinja/Ast.h"
#include "runtime/text/jinja/Format.h"

#include <optional>

namespace moert::jinja {

struct CallValues {
  std::vector<Value> positional;
  Dict named;
};

class Interpreter;

/// A call of a filter, test, method or global function with its arguments
/// assigned to parameters.
struct Call {
  Interpreter &interpreter;
  Heap &heap;
  const Value &self; ///< The filtered or tested value, or the method's object.
  const CallValues &values;
  /// One for each parameter; null if not given.
  const Value *arguments[6] = {};

  bool has(size_t i) const { return arguments[i] != nullptr; }
  Value get(size_t i, const Value &otherwise) const {
    return has(i) ? *arguments[i] : otherwise;
  }
  bool flag(size_t i, bool otherwise = false) const {
    return has(i) ? truth(*arguments[i]) : otherwise;
  }
  /// Returns a string argument; fails for any other type.
  StatusOr<std::string_view> text(size_t i, std::string_view otherwise) const;
  /// Returns an integer argument, clamped to `furthest` from 0. Nothing is
  /// longer than that, and sums with it fit in 64 bits.
  StatusOr<int64_t> integer(size_t i, int64_t otherwise) const;
  static constexpr int64_t furthest = INT64_MAX / 2;
};

struct Builtin {
  std::string_view name;
  /// Names of parameters, separated by blanks; "*": takes any arguments.
  std::string_view parameters;
  Result (*run)(Call &call);
};

std::span<const Builtin> stringFilters();
std::span<const Builtin> listFilters();
std::span<const Builtin> tests();
std::span<const Builtin> stringMethods();
std::span<const Builtin> containerMethods(const Value &self);
std::span<const Builtin> globalFunctions();

class Interpreter {
public:
  /// `names` has the variables of the template, and `now` is the time of
  /// strftime_now.
  Interpreter(Heap &heap, Scope *names, const DateTime &now)
      : heap_(heap), scope_(names), now_(now) {}

  /// Renders `body`. On failure place() is the position of the error, unless
  /// the template itself raised it.
  StatusOr<std::string> run(const Body &body);
  std::optional<Place> place() const { return place_; }
  bool wasRaised() const { return raised_; }

  Heap &heap() { return heap_; }
  const DateTime &now() const { return now_; }

  Result call(const Value &callee, const CallValues &values);
  Result applyFilter(std::string_view name, const Value &value,
                     const CallValues &values);
  StatusOr<bool> applyTest(std::string_view name, const Value &value,
                           const CallValues &values);
  /// Evaluates value.name: attribute, then key; undefined if there is neither.
  Result attribute(const Value &value, std::string_view name,
                   bool withItems = true);
  /// Evaluates value[key]: key, then attribute.
  Result item(const Value &value, const Value &key);
  /// Follows a path of keys and indices such as "function.name".
  Result path(const Value &value, const Value &path);
  Status raise(std::string message);

private:
  enum class Flow : uint8_t { Normal, Break, Continue };
  struct Nested {
    uint32_t &depth;
    explicit Nested(uint32_t &depth) : depth(++depth) {}
    ~Nested() { --depth; }
  };

  Result eval(const Expr &expr);
  Result evalAny(const Expr &expr);
  Result evalName(const Expr &expr);
  Result evalLogic(const Expr &expr);
  Result evalItems(const Expr &expr);
  Result evalDict(const Expr &expr);
  Result evalCompare(const Expr &expr);
  Result evalConcat(const Expr &expr);
  Result evalArithmetic(const Expr &expr);
  Result evalConditional(const Expr &expr);
  Result evalSubscript(const Expr &expr);
  Result evalSlice(const Expr &expr);
  Result evalCall(const Expr &expr, const Value *caller);
  Result evalFilter(const Expr &expr, const Value *blockText);
  Result evalTest(const Expr &expr);
  StatusOr<CallValues> evalArguments(const Arguments &arguments);

  Status exec(const Body &body);
  Status exec(const Node &node);
  Status execIf(const IfNode &node);
  Status execFor(const ForNode &node);
  Status execLoop(const ForNode &node, const std::vector<Value> &items,
                  size_t depth, const Function *recurse);
  Status execSet(const SetNode &node);
  Status execScope(const ScopeNode &node);
  Status execCall(const CallNode &node);
  Result capture(const Body &body, Scope *scope);
  Status assign(const Target &target, const Value &value);
  Function *makeMacro(const MacroNode &node);

  Result callMacro(const Function &macro, const CallValues &values);
  Result callLoop(const Function &function, const CallValues &values);
  Result callBuiltin(const Builtin &builtin, const Value &self,
                     const CallValues &values, std::string_view what);
  Result loopAttribute(const Value &value, std::string_view name);

  Heap &heap_;
  Scope *scope_;
  DateTime now_;
  Text *out_ = nullptr;
  Flow flow_ = Flow::Normal;
  uint32_t depth_ = 0;
  uint64_t captures_ = 0; ///< Number of scopes captured by macros.
  std::optional<Place> place_;
  bool raised_ = false;
};

} // namespace moert::jinja

#endif // MOE_RUNTIME_TEXT_JINJA_INTERPRETER_H
