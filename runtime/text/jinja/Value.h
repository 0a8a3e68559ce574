//===- Value.h - What chat templates compute with ---------------*- C++ -*-===//
//
// Python's values as far as templates see them. A Value is small and copied
// freely; what it points to lives in a Heap, does not change (but for
// namespaces and generators), and is freed with it, so that values may refer
// to each other in any way a template likes.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_TEXT_JINJA_VALUE_H
#define MOE_RUNTIME_TEXT_JINJA_VALUE_H

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

/// What rendering one template may take. The defaults are far above what any
/// published template needs, and end a runaway one in about a second.
struct Limits {
  uint64_t steps = 10'000'000;           ///< Nodes evaluated, items compared.
  uint64_t memory = uint64_t{256} << 20; ///< Bytes of all values ever made.
  uint64_t output = uint64_t{64} << 20;  ///< Bytes of text.
  uint32_t depth = 400;                  ///< Of expressions, calls, values.
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

/// Wide enough for all integers of JSON that others write.
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
  Value(const Dict *dict, Kind kind = Kind::Dict); ///< Also a namespace.
  Value(const Loop *loop);
  Value(const Function *function);
  /// What a missing name or attribute is; `hint` says what is missing.
  static Value undefined(const String *hint);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  /// Int, Float or Bool, which Python counts as a number.
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
  std::string_view text() const; ///< Of a String.
  const Sequence &sequence() const;
  const Dict &dict() const; ///< Of a Dict or Namespace.
  const Loop &loop() const;
  const Function &function() const;
  std::string_view hint() const; ///< Of an Undefined; perhaps "".
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
  bool markup = false; ///< Escaped already, or declared safe.
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
  Generator, ///< Gives its items once.
};

struct Sequence : Object {
  Flavor flavor;
  std::vector<Value> items;
  mutable size_t given = 0; ///< Of a generator: items gone already.
  std::string shown = {};   ///< How a range or a view prints.
  Sequence(Flavor flavor, std::vector<Value> items)
      : flavor(flavor), items(std::move(items)) {}
  /// The items still to come; a generator has none after this.
  std::span<const Value> take() const;
};

struct Dict : Object {
  std::vector<std::pair<Value, Value>> entries; ///< In order of insertion.
  /// Replaces the value of a key that is there.
  void set(const Value &key, const Value &value);
  /// Null where there is none.
  const Value *find(const Value &key) const;
  const Value *find(std::string_view key) const;

private:
  std::unordered_map<std::string_view, uint32_t> byText_;
};

struct Loop : Object {
  std::span<const Value> items;
  size_t index = 0; ///< From 0.
  size_t depth = 0; ///< Of recursion, from 0.
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
  Value self = {};                  ///< Of a method; a cycler's items.
  const MacroNode *macro = nullptr; ///< Of a macro or call block.
  const ForNode *loop = nullptr;    ///< Of a recursive for.
  Scope *scope = nullptr;           ///< Where macro or loop was written.
  size_t depth = 0;                 ///< Of a recursive for.
  mutable size_t calls = 0;         ///< Of a cycler or joiner.
  Function(Type type, std::string_view name) : type(type), name(name) {}
};

/// Names and what they stand for, in one block of a template.
struct Scope : Object {
  Scope *parent;
  std::vector<std::pair<std::string_view, Value>> names;
  explicit Scope(Scope *parent) : parent(parent) {}
  void set(std::string_view name, const Value &value);
  const Value *find(std::string_view name) const; ///< Here and in parents.
};

/// Owns the objects of one rendering and counts what it spends. Once a limit is
/// passed, every further request fails; what was computed then is not used.
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
  /// Charges for the text; the text itself was bounded where it was built.
  Value string(std::string text, bool markup = false);
  Value list(std::vector<Value> items, Flavor flavor = Flavor::List);
  Value undefined(std::string hint);

  /// Whether `bytes` more may be made.
  bool charge(uint64_t bytes);
  /// Whether `count` more steps may be done.
  bool spend(uint64_t count = 1);
  bool exhausted() const { return !reason_.empty(); }
  Status status() const;
  const Limits &limits() const { return limits_; }

private:
  Limits limits_;
  uint64_t memory_ = 0, steps_ = 0;
  std::string reason_;
  std::vector<std::unique_ptr<Object>> objects_;
};

/// Text under construction; stops growing where the heap's memory ends.
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

/// A failure of a template, to which its place is still to be added.
Status failure(std::string message);

//===-- What Python does with values --------------------------------------===//

bool truth(const Value &value);
/// "str", "int", "list", ...
std::string_view typeName(const Value &value);
bool equal(Heap &heap, const Value &a, const Value &b, uint32_t depth = 0);
/// Below 0, 0 or above; fails for what has no order.
StatusOr<int> compare(Heap &heap, const Value &a, const Value &b,
                      uint32_t depth = 0);
/// What a for loop sees; fails for what cannot be iterated over.
StatusOr<std::vector<Value>> iterate(Heap &heap, const Value &value);
/// `value in container`.
StatusOr<bool> contains(Heap &heap, const Value &container, const Value &value);
/// len(value).
StatusOr<int64_t> length(Heap &heap, const Value &value);
Status checkHashable(const Value &key);

/// str(value), repr(value).
void printStr(Text &out, const Value &value);
void printRepr(Text &out, const Value &value, uint32_t depth = 0);
std::string str(Heap &heap, const Value &value);
std::string repr(Heap &heap, const Value &value);
std::string printInteger(Integer value);
std::string printFloat(double value);

struct JsonStyle {
  bool ensureAscii = false, sortKeys = false;
  std::string indent = {}; ///< What one level is indented by.
  bool isIndented = false;
  std::string itemSeparator = ", ", keySeparator = ": ";
};
/// json.dumps(value).
Status printJson(Text &out, const Value &value, const JsonStyle &style,
                 uint32_t depth = 0);
/// Reads a JSON text, at most `heap.limits().depth` deep. Messages name the
/// line and column.
Result parseJson(Heap &heap, std::string_view text);

Result add(Heap &heap, const Value &a, const Value &b);
/// - * / // % and **, as `op` says: '-', '*', '/', 'f', '%', 'p'.
Result arithmetic(Heap &heap, char op, const Value &a, const Value &b);
Result negate(const Value &value);
/// value[begin:end:step]; none or undefined bounds are open.
Result slice(Heap &heap, const Value &value, const Value &begin,
             const Value &end, const Value &step);

} // namespace moert::jinja

#endif // MOE_RUNTIME_TEXT_JINJA_VALUE_H
