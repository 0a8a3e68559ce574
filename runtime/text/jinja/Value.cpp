#include "runtime/text/jinja/Value.h"

#include "runtime/text/jinja/Unicode.h"

#include <algorithm>
#include <cmath>

namespace moert::jinja {

Value Value::of(bool value) {
  Value result(Kind::Bool, nullptr);
  result.boolean_ = value;
  return result;
}
Value Value::of(Integer value) {
  Value result(Kind::Int, nullptr);
  result.integer_ = value;
  return result;
}
Value Value::of(double value) {
  Value result(Kind::Float, nullptr);
  result.float_ = value;
  return result;
}
Value::Value(const String *string) : Value(Kind::String, string) {}
Value::Value(const Sequence *sequence) : Value(Kind::Sequence, sequence) {}
Value::Value(const Dict *dict, Kind kind)
    : Value(kind, static_cast<const Object *>(dict)) {}
Value::Value(const Loop *loop) : Value(Kind::Loop, loop) {}
Value::Value(const Function *function) : Value(Kind::Function, function) {}
Value Value::undefined(const String *hint) {
  return Value(Kind::Undefined, hint);
}

const String &Value::string() const {
  return static_cast<const String &>(*object_);
}
std::string_view Value::text() const { return string().text; }
const Sequence &Value::sequence() const {
  return static_cast<const Sequence &>(*object_);
}
const Dict &Value::dict() const { return static_cast<const Dict &>(*object_); }
const Loop &Value::loop() const { return static_cast<const Loop &>(*object_); }
const Function &Value::function() const {
  return static_cast<const Function &>(*object_);
}
std::string_view Value::hint() const {
  return object_ ? text() : std::string_view();
}

std::span<const Value> Sequence::take() const {
  if (flavor != Flavor::Generator)
    return items;
  return std::span(items).subspan(std::exchange(given, items.size()));
}

const Value *Dict::find(std::string_view key) const {
  auto found = byText_.find(key);
  return found == byText_.end() ? nullptr : &entries[found->second].second;
}

/// Compares keys of a dict like Python: 1, 1.0 and True are the same key.
/// Tuples compare by identity, which no known template depends on.
static bool sameKey(const Value &a, const Value &b) {
  if (a.isNumber() && b.isNumber())
    return a.isInteger() && b.isInteger() ? a.integer() == b.integer()
                                          : a.number() == b.number();
  if (a.kind() != b.kind())
    return false;
  return a.is(Kind::String) ? a.text() == b.text()
                            : a.identity() == b.identity();
}

const Value *Dict::find(const Value &key) const {
  if (key.is(Kind::String))
    return find(key.text());
  for (const auto &[known, value] : entries)
    if (sameKey(known, key))
      return &value;
  return nullptr;
}

void Dict::set(const Value &key, const Value &value) {
  if (const Value *known = find(key)) {
    const_cast<Value &>(*known) = value;
    return;
  }
  if (key.is(Kind::String))
    byText_.emplace(key.text(), static_cast<uint32_t>(entries.size()));
  entries.emplace_back(key, value);
}

void Dict::erase(const Value &key) {
  const Value *known = find(key);
  if (!known)
    return;
  const auto kept = std::move(entries);
  clear();
  for (const auto &[name, value] : kept)
    if (&value != known)
      set(name, value);
}

void Dict::clear() {
  entries.clear();
  byText_.clear();
}

void Scope::set(std::string_view name, const Value &value) {
  for (auto &[known, current] : names)
    if (known == name) {
      current = value;
      return;
    }
  names.emplace_back(name, value);
}

const Value *Scope::find(std::string_view name) const {
  for (const Scope *scope = this; scope; scope = scope->parent)
    for (const auto &[known, value] : scope->names)
      if (known == name)
        return &value;
  return nullptr;
}

Value Heap::string(std::string text, bool markup) {
  charge(text.size());
  return make<String>(std::move(text), markup);
}

Value Heap::list(std::vector<Value> items, Flavor flavor) {
  charge(items.size() * sizeof(Value));
  return make<Sequence>(flavor, std::move(items));
}

Value Heap::undefined(std::string hint) {
  charge(hint.size());
  return Value::undefined(make<String>(std::move(hint), false));
}

/// Asks for the time where a sum passes a multiple of `often`: that takes as
/// long as to evaluate a node.
void Heap::watchTime(uint64_t before, uint64_t added, uint64_t often) {
  if (before / often != (before + added) / often && reason_.empty() &&
      limits_.deadline.hasPassed())
    reason_ = "takes longer than the " +
              std::to_string(limits_.deadline.time().count()) +
              " ms that a request may take before it is evaluated";
}

bool Heap::charge(uint64_t bytes) {
  watchTime(memory_, bytes, uint64_t{1} << 20);
  if (bytes > limits_.memory - memory_ && reason_.empty())
    reason_ = "makes values of more than " +
              std::to_string(limits_.memory >> 20) + " MiB";
  if (!reason_.empty())
    return false;
  memory_ += bytes;
  return true;
}

bool Heap::spend(uint64_t count) {
  watchTime(steps_, count, 4096);
  if (count > limits_.steps - steps_ && reason_.empty())
    reason_ = "takes more than " + std::to_string(limits_.steps) + " steps";
  if (!reason_.empty())
    return false;
  steps_ += count;
  return true;
}

Status Heap::status() const {
  if (!exhausted())
    return Status::ok();
  return failure("the template " + reason_ +
                 ", which is more than a template should need");
}

Text &Text::operator+=(std::string_view part) {
  if (heap_.charge(part.size()))
    text_ += part;
  return *this;
}

void Text::append(size_t count, std::string_view part) {
  if (part.empty() || count > SIZE_MAX / part.size() ||
      !heap_.charge(count * part.size())) {
    if (!part.empty())
      heap_.charge(UINT64_MAX);
    return;
  }
  for (size_t i = 0; i < count; ++i)
    text_ += part;
}

Status failure(std::string message) {
  return {StatusCode::InvalidFile, std::move(message)};
}

bool truth(const Value &value) {
  switch (value.kind()) {
  case Kind::Undefined:
  case Kind::None:
    return false;
  case Kind::Bool:
  case Kind::Int:
    return value.integer() != 0;
  case Kind::Float:
    return value.number() != 0;
  case Kind::String:
    return !value.text().empty();
  case Kind::Sequence:
    return value.sequence().flavor == Flavor::Generator ||
           !value.sequence().items.empty();
  case Kind::Dict:
    return !value.dict().entries.empty();
  case Kind::Namespace:
  case Kind::Loop:
  case Kind::Function:
    return true;
  }
  return true;
}

std::string_view typeName(const Value &value) {
  switch (value.kind()) {
  case Kind::Undefined:
    return "Undefined";
  case Kind::None:
    return "NoneType";
  case Kind::Bool:
    return "bool";
  case Kind::Int:
    return "int";
  case Kind::Float:
    return "float";
  case Kind::String:
    return "str";
  case Kind::Sequence:
    switch (value.sequence().flavor) {
    case Flavor::List:
      return "list";
    case Flavor::Tuple:
      return "tuple";
    case Flavor::Range:
      return "range";
    case Flavor::Keys:
      return "dict_keys";
    case Flavor::Values:
      return "dict_values";
    case Flavor::Items:
      return "dict_items";
    case Flavor::Generator:
      return "generator";
    }
    return "list";
  case Kind::Dict:
    return "dict";
  case Kind::Namespace:
    return "Namespace";
  case Kind::Loop:
    return "LoopContext";
  case Kind::Function:
    return value.function().type == Function::Type::Macro ? "Macro"
                                                          : "function";
  }
  return "object";
}

bool equal(Heap &heap, const Value &a, const Value &b, uint32_t depth) {
  if (!heap.spend() || depth > heap.limits().depth)
    return false;
  if (a.isNumber() && b.isNumber())
    return a.isInteger() && b.isInteger() ? a.integer() == b.integer()
                                          : a.number() == b.number();
  if (a.kind() != b.kind())
    return false;
  switch (a.kind()) {
  case Kind::Undefined:
  case Kind::None:
    return true;
  case Kind::String:
    return a.text() == b.text();
  case Kind::Sequence: {
    const Sequence &left = a.sequence(), &right = b.sequence();
    if (&left == &right)
      return true;
    if (left.flavor != right.flavor || left.flavor == Flavor::Generator)
      return false;
    return std::ranges::equal(left.items, right.items,
                              [&](const Value &x, const Value &y) {
                                return equal(heap, x, y, depth + 1);
                              });
  }
  case Kind::Dict: {
    const Dict &left = a.dict(), &right = b.dict();
    if (&left == &right)
      return true;
    return left.entries.size() == right.entries.size() &&
           std::ranges::all_of(left.entries, [&](const auto &entry) {
             const Value *other = right.find(entry.first);
             return other && equal(heap, entry.second, *other, depth + 1);
           });
  }
  default:
    return a.identity() == b.identity();
  }
}

static Status noOrder(const Value &a, const Value &b) {
  return failure("'<' not supported between instances of '" +
                 std::string(typeName(a)) + "' and '" +
                 std::string(typeName(b)) + "'");
}

StatusOr<int> compare(Heap &heap, const Value &a, const Value &b,
                      uint32_t depth) {
  if (!heap.spend())
    return heap.status();
  if (a.isNumber() && b.isNumber()) {
    if (a.isInteger() && b.isInteger())
      return a.integer() < b.integer() ? -1 : a.integer() > b.integer();
    return a.number() < b.number() ? -1 : a.number() > b.number();
  }
  // UTF-8 sorts as its code points do.
  if (a.is(Kind::String) && b.is(Kind::String))
    return a.text().compare(b.text());
  bool areLists = a.is(Kind::Sequence) && b.is(Kind::Sequence) &&
                  a.sequence().flavor == b.sequence().flavor &&
                  a.sequence().flavor <= Flavor::Tuple;
  if (!areLists || depth > heap.limits().depth)
    return noOrder(a, b);
  const auto &left = a.sequence().items, &right = b.sequence().items;
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (equal(heap, left[i], right[i], depth + 1))
      continue;
    return compare(heap, left[i], right[i], depth + 1);
  }
  return left.size() < right.size() ? -1 : left.size() > right.size();
}

StatusOr<std::vector<Value>> iterate(Heap &heap, const Value &value) {
  std::vector<Value> items;
  switch (value.kind()) {
  case Kind::Undefined:
    return items;
  case Kind::String: {
    std::string_view text = value.text();
    if (!heap.charge(text.size() * (sizeof(Value) + sizeof(String))))
      return heap.status();
    for (size_t i = 0; i < text.size();) {
      size_t end = nextCharacter(text, i);
      items.push_back(heap.string(std::string(text.substr(i, end - i))));
      i = end;
    }
    return items;
  }
  case Kind::Sequence: {
    std::span<const Value> all = value.sequence().take();
    if (!heap.charge(all.size() * sizeof(Value)))
      return heap.status();
    items.assign(all.begin(), all.end());
    return items;
  }
  case Kind::Dict:
    if (!heap.charge(value.dict().entries.size() * sizeof(Value)))
      return heap.status();
    for (const auto &[key, _] : value.dict().entries)
      items.push_back(key);
    return items;
  case Kind::Loop: {
    const Loop &loop = value.loop();
    items.assign(loop.items.begin() + ptrdiff_t(loop.index), loop.items.end());
    return items;
  }
  default:
    return failure("'" + std::string(typeName(value)) +
                   "' object is not iterable");
  }
}

StatusOr<bool> contains(Heap &heap, const Value &container,
                        const Value &value) {
  if (container.is(Kind::String)) {
    if (!value.is(Kind::String))
      return failure("'in <string>' requires string as left operand, not " +
                     std::string(typeName(value)));
    heap.spend(container.text().size() / 16);
    return container.text().find(value.text()) != std::string_view::npos;
  }
  if (container.is(Kind::Dict)) {
    MOE_RETURN_IF_ERROR(checkHashable(value));
    return container.dict().find(value) != nullptr;
  }
  if (!container.is(Kind::Sequence) && !container.is(Kind::Undefined))
    return failure("argument of type '" + std::string(typeName(container)) +
                   "' is not iterable");
  if (container.is(Kind::Undefined))
    return false;
  for (const Value &item : container.sequence().take())
    if (equal(heap, item, value))
      return true;
  return false;
}

StatusOr<int64_t> length(Heap &heap, const Value &value) {
  switch (value.kind()) {
  case Kind::Undefined:
    return 0;
  case Kind::String:
    heap.spend(value.text().size() / 64);
    return static_cast<int64_t>(countCharacters(value.text()));
  case Kind::Dict:
    return static_cast<int64_t>(value.dict().entries.size());
  case Kind::Loop:
    return static_cast<int64_t>(value.loop().items.size());
  case Kind::Sequence:
    if (value.sequence().flavor != Flavor::Generator)
      return static_cast<int64_t>(value.sequence().items.size());
    [[fallthrough]];
  default:
    return failure("object of type '" + std::string(typeName(value)) +
                   "' has no len()");
  }
}

Status checkHashable(const Value &key) {
  bool isList =
      key.is(Kind::Sequence) && (key.sequence().flavor == Flavor::List);
  if (!isList && !key.is(Kind::Dict))
    return Status::ok();
  return failure("unhashable type: '" + std::string(typeName(key)) + "'");
}

} // namespace moert::jinja
