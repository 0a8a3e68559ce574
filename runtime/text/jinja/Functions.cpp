// Tests, methods of containers, global functions, and helpers of calls.
#include "runtime/text/jinja/Interpreter.h"
#include "runtime/text/jinja/Unicode.h"

#include <algorithm>
#include <cmath>

namespace moert::jinja {

StatusOr<std::string_view> Call::text(size_t i,
                                      std::string_view otherwise) const {
  if (!has(i))
    return otherwise;
  if (arguments[i]->is(Kind::Undefined))
    return failure(std::string(arguments[i]->hint()));
  if (!arguments[i]->is(Kind::String))
    return failure("expected a string as argument " + std::to_string(i + 1) +
                   ", found " + std::string(typeName(*arguments[i])));
  return arguments[i]->text();
}

StatusOr<int64_t> Call::integer(size_t i, int64_t otherwise) const {
  if (!has(i) || arguments[i]->is(Kind::None))
    return otherwise;
  if (!arguments[i]->isInteger())
    return failure("expected an integer as argument " + std::to_string(i + 1) +
                   ", found " + std::string(typeName(*arguments[i])));
  return static_cast<int64_t>(
      std::clamp<Integer>(arguments[i]->integer(), -furthest, furthest));
}

namespace {

//===-- Tests -------------------------------------------------------------===//

template <Kind... kinds> Result isKind(Call &call) {
  return Value::of((call.self.is(kinds) || ...));
}
template <bool wanted> Result isTruth(Call &call) {
  return Value::of(call.self.is(Kind::Bool) && call.self.boolean() == wanted);
}
Result isDefined(Call &call) {
  return Value::of(!call.self.is(Kind::Undefined));
}
Result isIterable(Call &call) {
  return Value::of(call.self.is(Kind::Undefined) ||
                   call.self.is(Kind::String) || call.self.is(Kind::Sequence) ||
                   call.self.is(Kind::Dict) || call.self.is(Kind::Loop));
}
/// Returns whether the value has a length and items.
Result isSequence(Call &call) {
  bool isList = call.self.is(Kind::Sequence) &&
                call.self.sequence().flavor <= Flavor::Range;
  return Value::of(isList || call.self.is(Kind::String) ||
                   call.self.is(Kind::Dict) || call.self.is(Kind::Undefined));
}
Result isNumber(Call &call) { return Value::of(call.self.isNumber()); }
Result isEscaped(Call &call) {
  return Value::of(call.self.is(Kind::String) && call.self.string().markup);
}
Result isUpperText(Call &call) {
  return call.interpreter.call(
      *call.interpreter.attribute(call.heap.string(str(call.heap, call.self)),
                                  "isupper"),
      {});
}
Result isLowerText(Call &call) {
  return call.interpreter.call(
      *call.interpreter.attribute(call.heap.string(str(call.heap, call.self)),
                                  "islower"),
      {});
}
template <int rest> Result hasRest(Call &call) {
  MOE_ASSIGN_OR_RETURN(Value value, arithmetic(call.heap, '%', call.self,
                                               Value::of(int64_t(2))));
  return Value::of(equal(call.heap, value, Value::of(int64_t(rest))));
}
Result isDivisibleBy(Call &call) {
  MOE_ASSIGN_OR_RETURN(Value value, arithmetic(call.heap, '%', call.self,
                                               call.get(0, Value::none())));
  return Value::of(equal(call.heap, value, Value::of(int64_t(0))));
}
Status needOther(const Call &call) {
  return call.has(0) ? Status::ok()
                     : failure("the test needs a value to compare with");
}
template <bool wanted> Result isEqual(Call &call) {
  MOE_RETURN_IF_ERROR(needOther(call));
  return Value::of(equal(call.heap, call.self, *call.arguments[0]) == wanted);
}
/// Compares two values: whether the first is less if `sign` is 1, or greater if
/// it is -1; equal values count with `orEqual`.
template <int sign, bool orEqual> Result isOrdered(Call &call) {
  MOE_RETURN_IF_ERROR(needOther(call));
  MOE_ASSIGN_OR_RETURN(int order,
                       compare(call.heap, call.self, *call.arguments[0]));
  return Value::of(sign * order < 0 || (orEqual && order == 0));
}
Result isIn(Call &call) {
  MOE_RETURN_IF_ERROR(needOther(call));
  MOE_ASSIGN_OR_RETURN(bool found,
                       contains(call.heap, *call.arguments[0], call.self));
  return Value::of(found);
}
Result isSame(Call &call) {
  MOE_RETURN_IF_ERROR(needOther(call));
  const Value &other = *call.arguments[0];
  bool isObject = call.self.kind() >= Kind::Sequence;
  return Value::of(call.self.kind() == other.kind() &&
                   (isObject ? call.self.identity() == other.identity()
                             : equal(call.heap, call.self, other)));
}
Result isFilter(Call &call) {
  std::string name = str(call.heap, call.self);
  for (auto table : {stringFilters(), listFilters()})
    for (const Builtin &builtin : table)
      if (builtin.name == name)
        return Value::of(true);
  return Value::of(false);
}
Result isTest(Call &call) {
  std::string name = str(call.heap, call.self);
  return Value::of(std::ranges::any_of(
      tests(), [&](const Builtin &builtin) { return builtin.name == name; }));
}

constexpr Builtin testTable[] = {
    {"defined", "", isDefined},
    {"undefined", "", isKind<Kind::Undefined>},
    {"none", "", isKind<Kind::None>},
    {"string", "", isKind<Kind::String>},
    {"mapping", "", isKind<Kind::Dict>},
    {"sequence", "", isSequence},
    {"iterable", "", isIterable},
    {"number", "", isNumber},
    {"integer", "", isKind<Kind::Int>},
    {"float", "", isKind<Kind::Float>},
    {"boolean", "", isKind<Kind::Bool>},
    {"true", "", isTruth<true>},
    {"false", "", isTruth<false>},
    {"callable", "", isKind<Kind::Function>},
    {"escaped", "", isEscaped},
    {"upper", "", isUpperText},
    {"lower", "", isLowerText},
    {"odd", "", hasRest<1>},
    {"even", "", hasRest<0>},
    {"divisibleby", "num", isDivisibleBy},
    {"eq", "other", isEqual<true>},
    {"equalto", "other", isEqual<true>},
    {"==", "other", isEqual<true>},
    {"ne", "other", isEqual<false>},
    {"!=", "other", isEqual<false>},
    {"lt", "other", isOrdered<1, false>},
    {"lessthan", "other", isOrdered<1, false>},
    {"<", "other", isOrdered<1, false>},
    {"le", "other", isOrdered<1, true>},
    {"<=", "other", isOrdered<1, true>},
    {"gt", "other", isOrdered<-1, false>},
    {"greaterthan", "other", isOrdered<-1, false>},
    {">", "other", isOrdered<-1, false>},
    {"ge", "other", isOrdered<-1, true>},
    {">=", "other", isOrdered<-1, true>},
    {"in", "seq", isIn},
    {"sameas", "other", isSame},
    {"filter", "", isFilter},
    {"test", "", isTest},
};

//===-- Methods of containers ---------------------------------------------===//

/// The items of a list that a method changes. All lists are objects of the heap
/// of their rendering; the variables of a template are converted for each.
std::vector<Value> &changedItems(Call &call) {
  return const_cast<Sequence &>(call.self.sequence()).items;
}
Dict &changedDict(Call &call) { return const_cast<Dict &>(call.self.dict()); }

/// The index of an item that an argument names, from the end if it is negative;
/// between 0 and the size.
StatusOr<size_t> placeOf(Call &call, size_t argument, int64_t otherwise) {
  const auto size = int64_t(changedItems(call).size());
  MOE_ASSIGN_OR_RETURN(int64_t at, call.integer(argument, otherwise));
  return size_t(std::clamp<int64_t>(at < 0 ? at + size : at, 0, size));
}
Result insertItems(Call &call, size_t at, std::span<const Value> items) {
  if (!call.heap.charge(items.size() * sizeof(Value)))
    return call.heap.status();
  // Moving the items that follow takes time, too.
  call.heap.spend((changedItems(call).size() - at) / 64);
  changedItems(call).insert(changedItems(call).begin() + int64_t(at),
                            items.begin(), items.end());
  return Value::none();
}
Result runAppend(Call &call) {
  if (!call.has(0))
    return failure("append() takes a value");
  return insertItems(call, changedItems(call).size(), {call.arguments[0], 1});
}
Result runInsert(Call &call) {
  if (!call.has(1))
    return failure("insert() takes an index and a value");
  MOE_ASSIGN_OR_RETURN(size_t at, placeOf(call, 0, 0));
  return insertItems(call, at, {call.arguments[1], 1});
}
Result runExtend(Call &call) {
  if (!call.has(0))
    return failure("extend() takes values");
  MOE_ASSIGN_OR_RETURN(std::vector<Value> items,
                       iterate(call.heap, *call.arguments[0]));
  return insertItems(call, changedItems(call).size(), items);
}
Result runPopItem(Call &call) {
  std::vector<Value> &items = changedItems(call);
  MOE_ASSIGN_OR_RETURN(int64_t at, call.integer(0, -1));
  if (at < 0)
    at += int64_t(items.size());
  if (at < 0 || at >= int64_t(items.size()))
    return failure("pop() of an index that the list does not have");
  const Value item = items[size_t(at)];
  call.heap.spend((items.size() - size_t(at)) / 64);
  items.erase(items.begin() + at);
  return item;
}
Result runReverseList(Call &call) {
  call.heap.spend(changedItems(call).size() / 64);
  std::ranges::reverse(changedItems(call));
  return Value::none();
}
Result runClearList(Call &call) {
  changedItems(call).clear();
  return Value::none();
}
Result runCopyList(Call &call) {
  if (!call.heap.charge(changedItems(call).size() * sizeof(Value)))
    return call.heap.status();
  return call.heap.list(changedItems(call));
}
Result cannotSort(Call &) {
  return failure("templates cannot sort a list in place; use the filter sort");
}

constexpr uint64_t kEntryBytes = 2 * sizeof(Value) + 64;
Result setEntry(Call &call, const Value &key, const Value &value) {
  MOE_RETURN_IF_ERROR(checkHashable(key));
  if (!call.heap.charge(kEntryBytes))
    return call.heap.status();
  changedDict(call).set(key, value);
  return Value::none();
}
Result runUpdate(Call &call) {
  // Copies, because a dict may be updated with itself.
  std::vector<std::pair<Value, Value>> more;
  for (const Value &from : call.values.positional) {
    if (!from.is(Kind::Dict))
      return failure("update() takes a dict");
    more.insert(more.end(), from.dict().entries.begin(),
                from.dict().entries.end());
  }
  more.insert(more.end(), call.values.named.entries.begin(),
              call.values.named.entries.end());
  for (const auto &[key, value] : more)
    MOE_RETURN_IF_ERROR(setEntry(call, key, value).status());
  return Value::none();
}
Result runSetDefault(Call &call) {
  if (!call.has(0))
    return failure("setdefault() takes a key");
  MOE_RETURN_IF_ERROR(checkHashable(*call.arguments[0]));
  if (const Value *known = call.self.dict().find(*call.arguments[0]))
    return *known;
  const Value value = call.get(1, Value::none());
  MOE_RETURN_IF_ERROR(setEntry(call, *call.arguments[0], value).status());
  return value;
}
Result runPopKey(Call &call) {
  if (!call.has(0))
    return failure("pop() of a dict takes a key");
  MOE_RETURN_IF_ERROR(checkHashable(*call.arguments[0]));
  const Value *known = call.self.dict().find(*call.arguments[0]);
  if (!known && call.has(1))
    return *call.arguments[1];
  if (!known)
    return failure("pop() of a key that the dict does not have: " +
                   repr(call.heap, *call.arguments[0]));
  const Value value = *known;
  call.heap.spend(call.self.dict().entries.size() / 16);
  changedDict(call).erase(*call.arguments[0]);
  return value;
}
Result runClearDict(Call &call) {
  changedDict(call).clear();
  return Value::none();
}
Result runCopyDict(Call &call) {
  if (!call.heap.charge(call.self.dict().entries.size() * kEntryBytes))
    return call.heap.status();
  Dict *copy = call.heap.make<Dict>();
  for (const auto &[key, value] : call.self.dict().entries)
    copy->set(key, value);
  return Value(copy);
}
Result runGet(Call &call) {
  if (!call.has(0))
    return failure("get() takes a key");
  MOE_RETURN_IF_ERROR(checkHashable(*call.arguments[0]));
  const Value *found = call.self.dict().find(*call.arguments[0]);
  return found ? *found : call.get(1, Value::none());
}
Result runKeys(Call &call) {
  std::vector<Value> items;
  for (const auto &[key, _] : call.self.dict().entries)
    items.push_back(key);
  return call.heap.list(std::move(items), Flavor::Keys);
}
Result runValues(Call &call) {
  std::vector<Value> items;
  for (const auto &[_, value] : call.self.dict().entries)
    items.push_back(value);
  return call.heap.list(std::move(items), Flavor::Values);
}
Result runItems(Call &call) {
  std::vector<Value> items;
  for (const auto &[key, value] : call.self.dict().entries)
    items.push_back(call.heap.list({key, value}, Flavor::Tuple));
  return call.heap.list(std::move(items), Flavor::Items);
}
Result runItemIndex(Call &call) {
  const std::vector<Value> &items = call.self.sequence().items;
  for (size_t i = 0; call.has(0) && i < items.size(); ++i)
    if (equal(call.heap, items[i], *call.arguments[0]))
      return Value::of(int64_t(i));
  return failure(repr(call.heap, call.get(0, Value::none())) +
                 " is not in list");
}
Result runRemove(Call &call) {
  MOE_ASSIGN_OR_RETURN(Value at, runItemIndex(call));
  std::vector<Value> &items = changedItems(call);
  call.heap.spend(items.size() / 64);
  items.erase(items.begin() + int64_t(at.integer()));
  return Value::none();
}
Result runItemCount(Call &call) {
  int64_t count = 0;
  for (const Value &item : call.self.sequence().items)
    count += call.has(0) && equal(call.heap, item, *call.arguments[0]);
  return Value::of(count);
}
Result runCycle(Call &call) {
  if (call.values.positional.empty())
    return failure("no items for cycling given");
  return call.values
      .positional[call.self.loop().index % call.values.positional.size()];
}
Result runChanged(Call &call) {
  const Loop &loop = call.self.loop();
  Value now = call.heap.list(call.values.positional, Flavor::Tuple);
  if (loop.hasChanged && equal(call.heap, loop.changed, now))
    return Value::of(false);
  loop.hasChanged = true;
  loop.changed = now;
  return Value::of(true);
}
Result runCyclerNext(Call &call) {
  return call.interpreter.call(call.self, {});
}
Result runCyclerReset(Call &call) {
  call.self.function().calls = 0;
  return Value::none();
}

constexpr Builtin dictMethods[] = {
    {"get", "key default", runGet},
    {"keys", "", runKeys},
    {"values", "", runValues},
    {"items", "", runItems},
    {"copy", "", runCopyDict},
    {"pop", "key default", runPopKey},
    {"update", "*", runUpdate},
    {"setdefault", "key default", runSetDefault},
    {"clear", "", runClearDict},
};
constexpr Builtin listMethods[] = {
    {"index", "value", runItemIndex},  {"count", "value", runItemCount},
    {"copy", "", runCopyList},         {"append", "object", runAppend},
    {"extend", "iterable", runExtend}, {"insert", "index object", runInsert},
    {"pop", "index", runPopItem},      {"remove", "value", runRemove},
    {"reverse", "", runReverseList},   {"sort", "*", cannotSort},
    {"clear", "", runClearList},
};
constexpr Builtin tupleMethods[] = {
    {"index", "value", runItemIndex},
    {"count", "value", runItemCount},
};
constexpr Builtin loopMethods[] = {
    {"cycle", "*", runCycle},
    {"changed", "*", runChanged},
};
constexpr Builtin cyclerMethods[] = {
    {"next", "", runCyclerNext},
    {"reset", "", runCyclerReset},
};

//===-- Global functions --------------------------------------------------===//

Result runRange(Call &call) {
  MOE_ASSIGN_OR_RETURN(int64_t first, call.integer(0, 0));
  MOE_ASSIGN_OR_RETURN(int64_t second, call.integer(1, 0));
  MOE_ASSIGN_OR_RETURN(int64_t step, call.integer(2, 1));
  if (!call.has(0))
    return failure("range() takes 1 to 3 numbers");
  int64_t begin = call.has(1) ? first : 0, end = call.has(1) ? second : first;
  if (step == 0)
    return failure("range() arg 3 must not be zero");
  for (int64_t number : {begin, end, step})
    if (std::abs(number) == Call::furthest)
      return failure("range() takes numbers of up to 62 bits");
  Integer span = step > 0 ? Integer(end) - begin : Integer(begin) - end;
  Integer stride = step > 0 ? Integer(step) : -Integer(step);
  Integer count = span <= 0 ? 0 : (span + stride - 1) / stride;
  if (count > 100'000) // The sandbox of Hugging Face has the same limit.
    return failure("range too big: the sandbox blocks ranges larger than "
                   "100000");
  std::vector<Value> items;
  for (Integer i = 0; i < count; ++i)
    items.push_back(Value::of(Integer(begin) + i * step));
  Sequence *range = call.heap.make<Sequence>(Flavor::Range, std::move(items));
  range->shown = "range(" + std::to_string(begin) + ", " + std::to_string(end) +
                 (step == 1 ? "" : ", " + std::to_string(step)) + ")";
  call.heap.charge(static_cast<uint64_t>(count) * sizeof(Value));
  return Value(range);
}

/// Fills a dict from an optional mapping or list of pairs, and keyword
/// arguments.
Result fill(Call &call, Dict *dict) {
  if (call.values.positional.size() > 1)
    return failure("expected at most 1 argument");
  for (const Value &from : call.values.positional) {
    if (from.is(Kind::Dict)) {
      for (const auto &[key, value] : from.dict().entries)
        dict->set(key, value);
      continue;
    }
    MOE_ASSIGN_OR_RETURN(std::vector<Value> pairs, iterate(call.heap, from));
    for (const Value &pair : pairs) {
      MOE_ASSIGN_OR_RETURN(std::vector<Value> both, iterate(call.heap, pair));
      if (both.size() != 2)
        return failure("expected pairs of a key and a value");
      MOE_RETURN_IF_ERROR(checkHashable(both[0]));
      call.heap.spend(both[0].is(Kind::String) ? 1 : dict->entries.size());
      dict->set(both[0], both[1]);
    }
  }
  for (const auto &[key, value] : call.values.named.entries)
    dict->set(key, value);
  call.heap.charge(dict->entries.size() * 64);
  return Value(dict);
}
Result runDict(Call &call) { return fill(call, call.heap.make<Dict>()); }
Result runNamespace(Call &call) {
  Dict *names = call.heap.make<Dict>();
  MOE_RETURN_IF_ERROR(fill(call, names).status());
  return Value(names, Kind::Namespace);
}
Result runCycler(Call &call) {
  if (call.values.positional.empty())
    return failure("at least one item has to be provided");
  Function *cycler = call.heap.make<Function>(Function::Type::Cycler, "cycler");
  cycler->self = call.heap.list(call.values.positional);
  return Value(cycler);
}
Result runJoiner(Call &call) {
  Function *joiner = call.heap.make<Function>(Function::Type::Joiner, "joiner");
  MOE_ASSIGN_OR_RETURN(std::string_view separator, call.text(0, ", "));
  joiner->self = call.heap.string(std::string(separator));
  return Value(joiner);
}
Result runRaise(Call &call) {
  if (!call.has(0))
    return failure("raise_exception() takes a message");
  std::string message = str(call.heap, *call.arguments[0]);
  return call.interpreter.raise(
      message.empty() ? "the template raises an exception without a message"
                      : std::move(message));
}
Result runStrftimeNow(Call &call) {
  if (!call.has(0))
    return failure("strftime_now() takes a format");
  MOE_ASSIGN_OR_RETURN(std::string_view format, call.text(0, ""));
  return call.heap.string(
      formatTime(call.heap, call.interpreter.now(), format));
}

constexpr Builtin functions[] = {
    {"range", "start stop step", runRange},
    {"dict", "*", runDict},
    {"namespace", "*", runNamespace},
    {"cycler", "*", runCycler},
    {"joiner", "sep", runJoiner},
    {"raise_exception", "message", runRaise},
    {"strftime_now", "format", runStrftimeNow},
};

} // namespace

std::span<const Builtin> tests() { return testTable; }
std::span<const Builtin> globalFunctions() { return functions; }

std::span<const Builtin> containerMethods(const Value &self) {
  if (self.is(Kind::Dict))
    return dictMethods;
  if (self.is(Kind::Loop))
    return loopMethods;
  if (self.is(Kind::Function) && self.function().type == Function::Type::Cycler)
    return cyclerMethods;
  if (!self.is(Kind::Sequence))
    return {};
  if (self.sequence().flavor == Flavor::List)
    return listMethods;
  if (self.sequence().flavor <= Flavor::Range)
    return tupleMethods;
  return {};
}

} // namespace moert::jinja
