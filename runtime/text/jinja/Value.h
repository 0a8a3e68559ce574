//===- Value.h - Values of chat templates -----------------------*- C++ -*-===//
//
// Python's values as far as templates need them. A Value is small and can be
// copied freely. What it points to lives in a Heap, is immutable (except for
// namespaces and generators) and is freed with the heap, so values may refer to
// each other in any way.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_TEXT_JINJA_VALUE_H
#define MOE_RUNTIME_TEXT_JINJA_VALUE_H

#include "runtime/base/Deadline.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace moert::jinja {

/// Limits of rendering one template. The defaults are far above the needs of
/// any published template, and stop a runaway template in about a second.
struct Limits {
  /// Number of evaluated nodes and compared items.
  uint64_t steps = 10'000'000;
  uint64_t memory = uint64_t{256} << 20; ///< Bytes of all values ever created.
  uint64_t output = uint64_t{64} << 20;  ///< Bytes of text.
  uint32_t depth = 400; ///< Depth of expressions, calls and values.
  Deadline deadline = {};
};

enum class Kind : uint8_t {
  Undefined,
  None,
  Bool,
  Int,
  Float,
  String,
  Sequence, ///< Lists, tuples and all that is iterated over like them.
  Dict,
  Namespace,
  Loop,     ///< The variable `loop` inside a for.
  Function, ///< Macros, methods, global functions.
};

struct Object;
struct String;
struct Sequence;
struct Dict;
struct Loop;
struct Function;

/// Wide enough for all integers in JSON that other programs write.
using Integer = __int128;

class Value {
public:
  Value() : kind_(Kind::Undefined) { object_ = nullptr; }
  static Value none() { return Value(Kind::None, nullptr); }
  static Value of(bool value);
  static Value of(Integer value);
  static Value of(int64_t value) { return of(Integer(value)); }
  static Value of(double value);
  Value(const String *string);
  Value(const Sequence *sequence);
  /// Also creates a namespace.
  Value(const Dict *dict, Kind kind = Kind::Dict);
  Value(const Loop *loop);
  Value(const Function *function);
  /// The value of a missing name or attribute; `hint` says what is missing.
  static Value undefined(const String *hint);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  /// Int, Float or Bool, which is a number in Python.
  bool isNumber() const {
    return is(Kind::Int) || is(Kind::Float) || is(Kind::Bool);
  }
  bool isInteger() const { return is(Kind::Int) || is(Kind::Bool); }

  bool boolean() const { return boolean_; }
  Integer integer() const { return is(Kind::Bool) ? boolean_ : integer_; }
  double number() const {
    return is(Kind::Float) ? float_ : static_cast<double>(integer());
  }
  const String &string() const;
  std::string_view text() const; ///< Text of a String.
  const Sequence &sequence() const;
  const Dict &dict() const; ///< Entries of a Dict or Namespace.
  const Loop &loop() const;
  const Function &function() const;
  std::string_view hint() const; ///< Text of an Undefined; may be "".
  const void *identity() const { return object_; }

private:
  Value(Kind kind, const Object *object) : kind_(kind), object_(object) {}

  Kind kind_;
  union {
    bool boolean_;
    Integer integer_;
    double float_;
    const Object *object_;
  };
};

struct Object {
  virtual ~Object() = default;
};

struct String : Object {
  std::string text;    ///< Valid UTF-8.
  bool markup = false; ///< Whether it is escaped already, or declared safe.
  String(std::string text, bool markup)
      : text(std::move(text)), markup(markup) {}
};

enum class Flavor : uint8_t {
  List,
  Tuple,
  Range,
  Keys,
  Values,
  Items,
  Generator, ///< Can be iterated over only once.
};

struct Sequence : Object {
  Flavor flavor;
  std::vector<Value> items;
  mutable size_t given = 0; ///< For a generator: number of items taken.
  std::string shown = {};   ///< Text that a range or view prints as.
  Sequence(Flavor flavor, std::vector<Value> items)
      : flavor(flavor), items(std::move(items)) {}
  /// Returns the remaining items; a generator is then empty.
  std::span<const Value> take() const;
};

struct Dict : Object {
  std::vector<std::pair<Value, Value>> entries; ///< In order of insertion.
  /// Inserts a value, or replaces that of an existing key.
  void set(const Value &key, const Value &value);
  /// Returns null if there is no such key.
  const Value *find(const Value &key) const;
  const Value *find(std::string_view key) const;
  /// Removes a key, if it is there.
  void erase(const Value &key);
  void clear();

private:
  std::unordered_map<std::string_view, uint32_t> byText_;
};

struct Loop : Object {
  std::span<const Value> items;
  size_t index = 0; ///< Index in the loop, from 0.
  size_t depth = 0; ///< Depth of recursion, from 0.
  const Function *recurse = nullptr;
  mutable Value changed;
  mutable bool hasChanged = false;
};

struct MacroNode;
struct ForNode;
struct Scope;

struct Function : Object {
  enum class Type : uint8_t { Global, Method, Macro, LoopBody, Cycler, Joiner };
  Type type;
  std::string_view name;
  Value self = {}; ///< Object of a method, or items of a cycler.
  const MacroNode *macro = nullptr; ///< Definition of a macro or call block.
  const ForNode *loop = nullptr;    ///< Loop of a recursive for.
  Scope *scope = nullptr;   ///< The scope in which macro or loop was written.
  size_t depth = 0;         ///< Depth of a recursive for.
  mutable size_t calls = 0; ///< Number of calls of a cycler or joiner.
  Function(Type type, std::string_view name) : type(type), name(name) {}
};

/// The names and values of one block of a template.
struct Scope : Object {
  Scope *parent;
  std::vector<std::pair<std::string_view, Value>> names;
  explicit Scope(Scope *parent) : parent(parent) {}
  void set(std::string_view name, const Value &value);
  /// Searches the parent scopes, too.
  const Value *find(std::string_view name) const;
};

/// Owns the objects of one rendering and counts resources. Once a limit is
/// exceeded, every further request fails, and the results are discarded.
class Heap {
public:
  explicit Heap(const Limits &limits) : limits_(limits) {}

  template <class T, class... Args> T *make(Args &&...args) {
    charge(sizeof(T) + 32);
    auto object = std::make_unique<T>(std::forward<Args>(args)...);
    T *result = object.get();
    objects_.push_back(std::move(object));
    return result;
  }
  /// Charges for the text, whose size was bounded when it was built.
  Value string(std::string text, bool markup = false);
  Value list(std::vector<Value> items, Flavor flavor = Flavor::List);
  Value undefined(std::string hint);

  /// Returns whether `bytes` more may be allocated.
  bool charge(uint64_t bytes);
  /// Returns whether `count` more steps may be executed.
  bool spend(uint64_t count = 1);
  bool exhausted() const { return !reason_.empty(); }
  Status status() const;
  const Limits &limits() const { return limits_; }

private:
  void watchTime(uint64_t before, uint64_t added, uint64_t often);

  Limits limits_;
  uint64_t memory_ = 0, steps_ = 0;
  std::string reason_;
  std::vector<std::unique_ptr<Object>> objects_;
};

/// Text under construction; stops growing when the heap's memory is used up.
class Text {
public:
  explicit Text(Heap &heap) : heap_(heap) {}
  Text &operator+=(std::string_view part);
  Text &operator+=(char c) { return *this += std::string_view(&c, 1); }
  void append(size_t count, std::string_view part);
  std::string &str() { return text_; }
  Heap &heap() { return heap_; }

private:
  Heap &heap_;
  std::string text_;
};

using Result = StatusOr<Value>;

/// Returns an error of a template, to which the position is added later.
Status failure(std::string message);

//===-- Python operations on values ---------------------------------------===//

bool truth(const Value &value);
/// Returns the name of the type: "str", "int", "list", ...
std::string_view typeName(const Value &value);
bool equal(Heap &heap, const Value &a, const Value &b, uint32_t depth = 0);
/// Returns a number below, equal to or above 0; fails for values without an
/// order.
StatusOr<int> compare(Heap &heap, const Value &a, const Value &b,
                      uint32_t depth = 0);
/// Returns the items that a for loop visits; fails for values that have none.
StatusOr<std::vector<Value>> iterate(Heap &heap, const Value &value);
/// Evaluates `value in container`.
StatusOr<bool> contains(Heap &heap, const Value &container, const Value &value);
/// Evaluates len(value).
StatusOr<int64_t> length(Heap &heap, const Value &value);
Status checkHashable(const Value &key);

/// str(value) and repr(value).
void printStr(Text &out, const Value &value);
void printRepr(Text &out, const Value &value, uint32_t depth = 0);
std::string str(Heap &heap, const Value &value);
std::string repr(Heap &heap, const Value &value);
std::string printInteger(Integer value);
std::string printFloat(double value);

struct JsonStyle {
  bool ensureAscii = false, sortKeys = false;
  std::string indent = {}; ///< Indentation of one level.
  bool isIndented = false;
  std::string itemSeparator = ", ", keySeparator = ": ";
};
/// Prints like json.dumps(value).
Status printJson(Text &out, const Value &value, const JsonStyle &style,
                 uint32_t depth = 0);
/// Parses a JSON text, at most `heap.limits().depth` deep. Errors give line and
/// column.
Result parseJson(Heap &heap, std::string_view text);

Result add(Heap &heap, const Value &a, const Value &b);
/// Evaluates - * / // % and **; `op` is '-', '*', '/', 'f', '%' or 'p'.
Result arithmetic(Heap &heap, char op, const Value &a, const Value &b);
Result negate(const Value &value);
/// Evaluates value[begin:end:step]; none or undefined bounds are open.
Result slice(Heap &heap, const Value &value, const Value &begin,
             const Value &end, const Value &step);

} // namespace moert::jinja

#endif // MOE_RUNTIME_TEXT_JINJA_VALUE_H
