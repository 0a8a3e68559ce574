// The operators + - * / // % ** and slices, with Python's types and errors.
#include "runtime/text/jinja/Format.h"
#include "runtime/text/jinja/Unicode.h"
#include "runtime/text/jinja/Value.h"

#include <algorithm>
#include <cmath>

namespace moert::jinja {

namespace {
std::string quotedType(const Value &value) {
  return "'" + std::string(typeName(value)) + "'";
}

Status unsupported(std::string_view op, const Value &a, const Value &b) {
  for (const Value &value : {a, b})
    if (value.is(Kind::Undefined))
      return failure(std::string(value.hint()));
  return failure("unsupported operand type(s) for " + std::string(op) + ": " +
                 quotedType(a) + " and " + quotedType(b));
}

Status tooLarge() {
  return failure("an integer grows beyond the 127 bits that are supported");
}

Status divisionByZero() { return failure("division by zero"); }

bool isListOrTuple(const Value &value) {
  return value.is(Kind::Sequence) && value.sequence().flavor <= Flavor::Tuple;
}

Result repeat(Heap &heap, const Value &value, const Value &times) {
  auto count =
      static_cast<uint64_t>(std::clamp<Integer>(times.integer(), 0, INT64_MAX));
  if (value.is(Kind::String)) {
    Text out(heap);
    out.append(count, value.text());
    MOE_RETURN_IF_ERROR(heap.status());
    return heap.string(std::move(out.str()));
  }
  const Sequence &sequence = value.sequence();
  size_t size = sequence.items.size();
  if (size > 0 &&
      (count > UINT32_MAX || !heap.charge(count * size * sizeof(Value)))) {
    heap.charge(UINT64_MAX);
    return heap.status();
  }
  std::vector<Value> items;
  if (size > 0)
    for (uint64_t i = 0; i < count; ++i)
      items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  return heap.list(std::move(items), sequence.flavor);
}

Result power(const Value &a, const Value &b) {
  bool isWhole = a.isInteger() && b.isInteger() && b.integer() >= 0;
  if (!isWhole) {
    if (a.number() == 0 && b.number() < 0)
      return failure("0.0 cannot be raised to a negative power");
    double result = std::pow(a.number(), b.number());
    if (std::isinf(result) && std::isfinite(a.number()) &&
        std::isfinite(b.number()))
      return failure("the result of ** is too large");
    if (std::isnan(result) && !std::isnan(a.number()) &&
        !std::isnan(b.number()))
      return failure("** of a negative number gives a complex one, which "
                     "templates cannot use");
    return Value::of(result);
  }
  Integer base = a.integer(), result = 1;
  if (base == 0 || base == 1 || base == -1)
    return Value::of(b.integer() == 0                     ? Integer(1)
                     : base == -1 && b.integer() % 2 == 0 ? Integer(1)
                                                          : base);
  // At most 127 iterations until a base other than 0, 1 and -1 overflows.
  for (Integer i = 0; i < b.integer(); ++i)
    if (__builtin_mul_overflow(result, base, &result))
      return tooLarge();
  return Value::of(result);
}

Result wholeArithmetic(char op, Integer a, Integer b) {
  Integer result = 0;
  switch (op) {
  case '-':
    if (__builtin_sub_overflow(a, b, &result))
      return tooLarge();
    return Value::of(result);
  case '*':
    if (__builtin_mul_overflow(a, b, &result))
      return tooLarge();
    return Value::of(result);
  case '/':
    if (b == 0)
      return divisionByZero();
    return Value::of(static_cast<double>(a) / static_cast<double>(b));
  default:
    break;
  }
  if (b == 0)
    return failure("integer division or modulo by zero");
  if (b == -1) { // The least integer has no negative, so b = -1 is separate.
    if (op == '%')
      return Value::of(Integer(0));
    if (__builtin_sub_overflow(Integer(0), a, &result))
      return tooLarge();
    return Value::of(result);
  }
  Integer quotient = a / b, remainder = a % b;
  // The quotient is rounded down.
  if (remainder != 0 && (remainder < 0) != (b < 0)) {
    --quotient;
    remainder += b;
  }
  return Value::of(op == 'f' ? quotient : remainder);
}

Result floatArithmetic(char op, double a, double b) {
  switch (op) {
  case '-':
    return Value::of(a - b);
  case '*':
    return Value::of(a * b);
  default:
    break;
  }
  if (b == 0)
    return op == '/' ? failure("float division by zero")
                     : failure("float floor division by zero");
  if (op == '/')
    return Value::of(a / b);
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0))
    remainder += b;
  if (op == '%')
    return Value::of(remainder);
  double quotient = (a - remainder) / b;
  return Value::of(std::floor(quotient) +
                   (quotient - std::floor(quotient) > 0.5));
}
} // namespace

Result add(Heap &heap, const Value &a, const Value &b) {
  if (a.isInteger() && b.isInteger()) {
    Integer result = 0;
    if (__builtin_add_overflow(a.integer(), b.integer(), &result))
      return tooLarge();
    return Value::of(result);
  }
  if (a.isNumber() && b.isNumber())
    return Value::of(a.number() + b.number());
  if (a.is(Kind::String) && b.is(Kind::String)) {
    bool isMarkup = a.string().markup || b.string().markup;
    Text out(heap);
    for (const Value &part : {a, b})
      out += isMarkup && !part.string().markup ? escapeHtml(heap, part.text())
                                               : std::string(part.text());
    MOE_RETURN_IF_ERROR(heap.status());
    return heap.string(std::move(out.str()), isMarkup);
  }
  if (isListOrTuple(a) && isListOrTuple(b) &&
      a.sequence().flavor == b.sequence().flavor) {
    const auto &left = a.sequence().items, &right = b.sequence().items;
    if (!heap.charge((left.size() + right.size()) * sizeof(Value)))
      return heap.status();
    std::vector<Value> items(left);
    items.insert(items.end(), right.begin(), right.end());
    return heap.list(std::move(items), a.sequence().flavor);
  }
  if (a.is(Kind::String) && !b.is(Kind::Undefined))
    return failure("can only concatenate str (not \"" +
                   std::string(typeName(b)) + "\") to str");
  if (isListOrTuple(a) && !b.is(Kind::Undefined))
    return failure("can only concatenate " + std::string(typeName(a)) +
                   " (not \"" + std::string(typeName(b)) + "\") to " +
                   std::string(typeName(a)));
  return unsupported("+", a, b);
}

Result arithmetic(Heap &heap, char op, const Value &a, const Value &b) {
  if (op == '%' && a.is(Kind::String) && !b.is(Kind::Undefined))
    return formatPercent(heap, a, b);
  if (op == '*') {
    auto repeats = [](const Value &value) {
      return value.is(Kind::String) || isListOrTuple(value);
    };
    if (repeats(a) && b.isInteger())
      return repeat(heap, a, b);
    if (repeats(b) && a.isInteger())
      return repeat(heap, b, a);
  }
  if (!a.isNumber() || !b.isNumber()) {
    std::string_view names[] = {"-", "*", "/", "//", "%", "** or pow()"};
    return unsupported(names[std::string_view("-*/f%p").find(op)], a, b);
  }
  if (op == 'p')
    return power(a, b);
  if (a.isInteger() && b.isInteger())
    return wholeArithmetic(op, a.integer(), b.integer());
  return floatArithmetic(op, a.number(), b.number());
}

Result negate(const Value &value) {
  if (value.isInteger())
    return wholeArithmetic('-', 0, value.integer());
  if (value.is(Kind::Float))
    return Value::of(-value.number());
  if (value.is(Kind::Undefined))
    return failure(std::string(value.hint()));
  return failure("bad operand type for unary -: " + quotedType(value));
}

Result slice(Heap &heap, const Value &value, const Value &begin,
             const Value &end, const Value &step) {
  bool isText = value.is(Kind::String);
  bool isSequence =
      value.is(Kind::Sequence) && value.sequence().flavor <= Flavor::Range;
  if (value.is(Kind::Undefined))
    return failure(std::string(value.hint()));
  if (!isText && !isSequence)
    return failure(value.is(Kind::Dict)
                       ? "unhashable type: 'slice'"
                       : quotedType(value) + " object is not subscriptable");
  auto isOpen = [](const Value &bound) { return bound.is(Kind::None); };
  for (const Value &bound : {begin, end, step})
    if (!isOpen(bound) && !bound.isInteger())
      return failure("slice indices must be integers or None, not " +
                     std::string(typeName(bound)));
  std::u32string text;
  if (isText) {
    if (!heap.charge(4 * value.text().size()))
      return heap.status();
    text = decode(value.text());
  }
  auto size = static_cast<int64_t>(isText ? text.size()
                                          : value.sequence().items.size());
  Integer stride = isOpen(step) ? 1 : step.integer();
  if (stride == 0)
    return failure("slice step cannot be zero");
  bool isBackward = stride < 0;
  int64_t lowest = isBackward ? -1 : 0, highest = isBackward ? size - 1 : size;
  auto place = [&](const Value &bound, int64_t open) -> int64_t {
    if (isOpen(bound))
      return open;
    Integer index = bound.integer();
    if (index < 0)
      index += size;
    return static_cast<int64_t>(std::clamp<Integer>(index, lowest, highest));
  };
  int64_t from = place(begin, isBackward ? size - 1 : 0);
  int64_t to = place(end, isBackward ? -1 : size);
  auto by =
      static_cast<int64_t>(std::clamp<Integer>(stride, -size - 1, size + 1));
  std::u32string characters;
  std::vector<Value> items;
  for (int64_t i = from; isBackward ? i > to : i < to; i += by)
    if (isText)
      characters += text[static_cast<size_t>(i)];
    else
      items.push_back(value.sequence().items[static_cast<size_t>(i)]);
  if (isText)
    return heap.string(encode(characters), value.string().markup);
  Flavor flavor = value.sequence().flavor;
  return heap.list(std::move(items),
                   flavor == Flavor::Range ? Flavor::List : flavor);
}

} // namespace moert::jinja
