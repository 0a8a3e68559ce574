// Filters of lists and other containers.
#include "runtime/text/jinja/Interpreter.h"
#include "runtime/text/jinja/Unicode.h"

#include <algorithm>

namespace moert::jinja {

namespace {

StatusOr<std::vector<Value>> itemsOf(Call &call) {
  return iterate(call.heap, call.self);
}
Result list(Call &call, std::vector<Value> items) {
  return call.heap.list(std::move(items));
}
Result generator(Call &call, std::vector<Value> items) {
  return call.heap.list(std::move(items), Flavor::Generator);
}

Result runLength(Call &call) {
  MOE_ASSIGN_OR_RETURN(int64_t size, length(call.heap, call.self));
  return Value::of(size);
}
Result runList(Call &call) {
  MOE_ASSIGN_OR_RETURN(std::vector<Value> items, itemsOf(call));
  return list(call, std::move(items));
}
Result runFirst(Call &call) {
  if (call.self.is(Kind::Sequence) &&
      call.self.sequence().flavor == Flavor::Generator) {
    const Sequence &sequence = call.self.sequence();
    if (sequence.given < sequence.items.size())
      return sequence.items[sequence.given++];
  }
  MOE_ASSIGN_OR_RETURN(std::vector<Value> items, itemsOf(call));
  return items.empty()
             ? call.heap.undefined("No first item, sequence was empty.")
             : items.front();
}
Result runLast(Call &call) {
  if (call.self.is(Kind::Sequence) &&
      call.self.sequence().flavor == Flavor::Generator)
    return failure("'generator' object is not reversible");
  MOE_ASSIGN_OR_RETURN(std::vector<Value> items, itemsOf(call));
  return items.empty()
             ? call.heap.undefined("No last item, sequence was empty.")
             : items.back();
}
Result runReverse(Call &call) {
  MOE_ASSIGN_OR_RETURN(std::vector<Value> items, itemsOf(call));
  std::ranges::reverse(items);
  if (!call.self.is(Kind::String))
    return generator(call, std::move(items));
  Text out(call.heap);
  for (const Value &item : items)
    out += item.text();
  return call.heap.string(std::move(out.str()));
}

Result runJoin(Call &call) {
  std::string separator =
      call.has(0) ? str(call.heap, *call.arguments[0]) : std::string();
  MOE_ASSIGN_OR_RETURN(std::vector<Value> items, itemsOf(call));
  Text out(call.heap);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0)
      out += separator;
    Value item = items[i];
    if (call.has(1) && !call.arguments[1]->is(Kind::None)) {
      MOE_ASSIGN_OR_RETURN(item,
                           call.interpreter.path(item, *call.arguments[1]));
    }
    printStr(out, item);
  }
  return call.heap.string(std::move(out.str()));
}

/// Returns the key by which an item is sorted or compared: its attribute,
/// strings in lower case.
Result keyOf(Call &call, const Value &item, const Value &attribute,
             bool caseSensitive) {
  Value key = item;
  if (!attribute.is(Kind::None)) {
    MOE_ASSIGN_OR_RETURN(key, call.interpreter.path(item, attribute));
  }
  if (!caseSensitive && key.is(Kind::String)) {
    if (!call.heap.charge(8 * key.text().size()))
      return call.heap.status();
    return call.heap.string(lower(key.text()));
  }
  return key;
}

/// Returns the keys of an item; `attribute` may list several, separated by
/// commas.
StatusOr<std::vector<Value>> keysOf(Call &call, const Value &item,
                                    const Value &attribute,
                                    bool caseSensitive) {
  std::vector<Value> keys;
  if (!attribute.is(Kind::String)) {
    MOE_ASSIGN_OR_RETURN(Value key,
                         keyOf(call, item, attribute, caseSensitive));
    keys.push_back(key);
    return keys;
  }
  std::string_view rest = attribute.text();
  while (true) {
    size_t comma = std::min(rest.find(','), rest.size());
    Value part = call.heap.string(std::string(rest.substr(0, comma)));
    MOE_ASSIGN_OR_RETURN(Value key, keyOf(call, item, part, caseSensitive));
    keys.push_back(key);
    if (comma == rest.size())
      return keys;
    rest.remove_prefix(comma + 1);
  }
}

struct Keyed {
  Value item;
  std::vector<Value> keys;
};

/// Sorts stably, like Python. An undefined key is replaced by `otherwise`.
StatusOr<std::vector<Keyed>> sorted(Call &call, std::vector<Value> items,
                                    const Value &attribute, bool caseSensitive,
                                    bool isReverse,
                                    const Value &otherwise = {}) {
  std::vector<Keyed> keyed;
  for (const Value &item : items) {
    MOE_ASSIGN_OR_RETURN(std::vector<Value> keys,
                         keysOf(call, item, attribute, caseSensitive));
    for (Value &key : keys)
      if (key.is(Kind::Undefined))
        key = otherwise;
    keyed.push_back({item, std::move(keys)});
  }
  Status failed;
  auto before = [&](const Keyed &a, const Keyed &b) {
    for (size_t i = 0; i < a.keys.size() && failed; ++i) {
      StatusOr<int> order = compare(call.heap, a.keys[i], b.keys[i]);
      if (!order)
        failed = order.status();
      else if (*order != 0)
        return isReverse ? *order > 0 : *order < 0;
    }
    return false;
  };
  // A hand-written merge sort: std::sort does not allow comparisons that fail.
  for (size_t width = 1; width < keyed.size() && failed; width *= 2) {
    std::vector<Keyed> merged;
    merged.reserve(keyed.size());
    for (size_t begin = 0; begin < keyed.size(); begin += 2 * width) {
      size_t left = begin, middle = std::min(begin + width, keyed.size());
      size_t right = middle, end = std::min(begin + 2 * width, keyed.size());
      while (left < middle || right < end) {
        bool takesRight = left == middle ||
                          (right < end && before(keyed[right], keyed[left]));
        merged.push_back(std::move(keyed[takesRight ? right++ : left++]));
      }
    }
    keyed = std::move(merged);
  }
  MOE_RETURN_IF_ERROR(failed);
  return keyed;
}

Result runSort(Call &call) {
  MOE_ASSIGN_OR_RETURN(std::vector<Value> items, itemsOf(call));
  MOE_ASSIGN_OR_RETURN(std::vector<Keyed> keyed,
                       sorted(call, std::move(items),
                              call.get(2, Value::none()), call.flag(1),
                              call.flag(0)));
  std::vector<Value> result;
  for (const Keyed &entry : keyed)
    result.push_back(entry.item);
  return list(call, std::move(result));
}

Result runDictsort(Call &call) {
  if (!call.self.is(Kind::Dict))
    return failure("'" + std::string(typeName(call.self)) +
                   "' object has no items to sort");
  MOE_ASSIGN_OR_RETURN(std::string_view by, call.text(1, "key"));
  if (by != "key" && by != "value")
    return failure("You can only sort by either \"key\" or \"value\"");
  std::vector<Value> items;
  for (const auto &[key, value] : call.self.dict().entries)
    items.push_back(call.heap.list({key, value}, Flavor::Tuple));
  MOE_ASSIGN_OR_RETURN(std::vector<Keyed> keyed,
                       sorted(call, std::move(items),
                              Value::of(int64_t(by == "value")), call.flag(0),
                              call.flag(2)));
  std::vector<Value> result;
  for (const Keyed &entry : keyed)
    result.push_back(entry.item);
  return list(call, std::move(result));
}

Result runGroupby(Call &call) {
  if (!call.has(0))
    return failure("filter 'groupby' takes the attribute to group by");
  MOE_ASSIGN_OR_RETURN(std::vector<Value> items, itemsOf(call));
  MOE_ASSIGN_OR_RETURN(std::vector<Keyed> keyed,
                       sorted(call, std::move(items), *call.arguments[0],
                              call.flag(2), false, call.get(1, Value())));
  std::vector<Value> groups;
  for (size_t i = 0; i < keyed.size();) {
    std::vector<Value> members;
    MOE_ASSIGN_OR_RETURN(Value key,
                         keyOf(call, keyed[i].item, *call.arguments[0], true));
    if (key.is(Kind::Undefined))
      key = call.get(1, key);
    size_t first = i;
    for (; i < keyed.size() &&
           equal(call.heap, keyed[i].keys[0], keyed[first].keys[0]);
         ++i)
      members.push_back(keyed[i].item);
    if (i == first) // A NaN is not equal to itself.
      members.push_back(keyed[i++].item);
    groups.push_back(call.heap.list({key, call.heap.list(std::move(members))},
                                    Flavor::Tuple));
  }
  return list(call, std::move(groups));
}

Result runUnique(Call &call) {
  MOE_ASSIGN_OR_RETURN(std::vector<Value> items, itemsOf(call));
  Dict seen;
  std::vector<Value> result;
  for (const Value &item : items) {
    MOE_ASSIGN_OR_RETURN(
        Value key, keyOf(call, item, call.get(1, Value::none()), call.flag(0)));
    MOE_RETURN_IF_ERROR(checkHashable(key));
    if (!call.heap.spend(key.is(Kind::String) ? 1 : seen.entries.size()))
      break;
    if (seen.find(key))
      continue;
    seen.set(key, item);
    result.push_back(item);
  }
  return generator(call, std::move(result));
}

Result extreme(Call &call, int sign) {
  MOE_ASSIGN_OR_RETURN(std::vector<Value> items, itemsOf(call));
  if (items.empty())
    return call.heap.undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  Value bestKey;
  for (size_t i = 0; i < items.size(); ++i) {
    MOE_ASSIGN_OR_RETURN(
        Value key,
        keyOf(call, items[i], call.get(1, Value::none()), call.flag(0)));
    if (i > 0) {
      MOE_ASSIGN_OR_RETURN(int order, compare(call.heap, key, bestKey));
      if (sign * order >= 0)
        continue;
    }
    best = i;
    bestKey = key;
  }
  return items[best];
}
Result runMin(Call &call) { return extreme(call, 1); }
Result runMax(Call &call) { return extreme(call, -1); }

Result runSum(Call &call) {
  MOE_ASSIGN_OR_RETURN(std::vector<Value> items, itemsOf(call));
  Value total = call.get(1, Value::of(int64_t(0)));
  for (Value item : items) {
    if (call.has(0) && !call.arguments[0]->is(Kind::None)) {
      MOE_ASSIGN_OR_RETURN(item,
                           call.interpreter.path(item, *call.arguments[0]));
    }
    MOE_ASSIGN_OR_RETURN(total, add(call.heap, total, item));
  }
  return total;
}

/// Returns the arguments after the first `count`, which name a filter or test.
StatusOr<CallValues> after(const Call &call, size_t count) {
  if (call.values.positional.size() < count)
    return failure("the name of " +
                   std::string(count > 1 ? "an attribute" : "a filter") +
                   " is missing");
  CallValues rest;
  rest.positional.assign(call.values.positional.begin() + ptrdiff_t(count),
                         call.values.positional.end());
  rest.named = call.values.named;
  return rest;
}

Result runMap(Call &call) {
  MOE_ASSIGN_OR_RETURN(std::vector<Value> items, itemsOf(call));
  const Value *attribute = call.values.named.find("attribute");
  std::vector<Value> result;
  if (call.values.positional.empty() && attribute) {
    const Value *otherwise = call.values.named.find("default");
    for (const Value &item : items) {
      MOE_ASSIGN_OR_RETURN(Value value,
                           call.interpreter.path(item, *attribute));
      result.push_back(value.is(Kind::Undefined) && otherwise ? *otherwise
                                                              : value);
    }
    return generator(call, std::move(result));
  }
  MOE_ASSIGN_OR_RETURN(CallValues rest, after(call, 1));
  std::string name = str(call.heap, call.values.positional[0]);
  for (const Value &item : items) {
    MOE_ASSIGN_OR_RETURN(Value value,
                         call.interpreter.applyFilter(name, item, rest));
    result.push_back(value);
  }
  return generator(call, std::move(result));
}

/// Implements select, reject, selectattr and rejectattr.
Result selected(Call &call, bool wanted, bool byAttribute) {
  MOE_ASSIGN_OR_RETURN(std::vector<Value> items, itemsOf(call));
  size_t skipped = byAttribute;
  if (byAttribute && call.values.positional.empty())
    return failure("the name of an attribute is missing");
  bool hasTest = call.values.positional.size() > skipped;
  CallValues rest;
  std::string name;
  if (hasTest) {
    MOE_ASSIGN_OR_RETURN(rest, after(call, skipped + 1));
    name = str(call.heap, call.values.positional[skipped]);
  }
  std::vector<Value> result;
  for (const Value &item : items) {
    Value value = item;
    if (byAttribute) {
      MOE_ASSIGN_OR_RETURN(
          value, call.interpreter.path(item, call.values.positional[0]));
    }
    bool holds = truth(value);
    if (hasTest) {
      MOE_ASSIGN_OR_RETURN(holds,
                           call.interpreter.applyTest(name, value, rest));
    }
    if (holds == wanted)
      result.push_back(item);
  }
  return generator(call, std::move(result));
}
Result runSelect(Call &call) { return selected(call, true, false); }
Result runReject(Call &call) { return selected(call, false, false); }
Result runSelectattr(Call &call) { return selected(call, true, true); }
Result runRejectattr(Call &call) { return selected(call, false, true); }

Result runDictItems(Call &call) {
  if (call.self.is(Kind::Undefined))
    return generator(call, {});
  if (!call.self.is(Kind::Dict))
    return failure("Can only get item pairs from a mapping.");
  std::vector<Value> items;
  for (const auto &[key, value] : call.self.dict().entries)
    items.push_back(call.heap.list({key, value}, Flavor::Tuple));
  return generator(call, std::move(items));
}

/// Returns rows of `linecount` items; the last row is filled up.
Result runBatch(Call &call) {
  MOE_ASSIGN_OR_RETURN(int64_t size, call.integer(0, 0));
  MOE_ASSIGN_OR_RETURN(std::vector<Value> items, itemsOf(call));
  if (size <= 0)
    return failure("filter 'batch' takes how many items a row has");
  std::vector<Value> rows, row;
  auto flush = [&] { rows.push_back(call.heap.list(std::exchange(row, {}))); };
  for (const Value &item : items) {
    if (static_cast<int64_t>(row.size()) == size)
      flush();
    row.push_back(item);
  }
  if (row.empty())
    return generator(call, std::move(rows));
  bool fills = call.has(1) && !call.arguments[1]->is(Kind::None);
  while (fills && static_cast<int64_t>(row.size()) < size &&
         call.heap.charge(sizeof(Value)))
    row.push_back(*call.arguments[1]);
  flush();
  return generator(call, std::move(rows));
}

/// Returns the given number of lists; the first ones are longer.
Result runSlice(Call &call) {
  MOE_ASSIGN_OR_RETURN(int64_t count, call.integer(0, 0));
  MOE_ASSIGN_OR_RETURN(std::vector<Value> items, itemsOf(call));
  if (count <= 0 || !call.heap.charge(static_cast<uint64_t>(count) * 64))
    return failure("filter 'slice' takes a number of lists");
  auto lists = static_cast<size_t>(count);
  size_t each = items.size() / lists, longer = items.size() % lists;
  std::vector<Value> rows;
  size_t at = 0;
  for (size_t i = 0; i < lists; ++i) {
    size_t size = each + (i < longer);
    std::vector<Value> row(items.begin() + ptrdiff_t(at),
                           items.begin() + ptrdiff_t(at + size));
    at += size;
    bool fills = call.has(1) && !call.arguments[1]->is(Kind::None);
    if (fills && i >= longer && longer > 0)
      row.push_back(*call.arguments[1]);
    rows.push_back(call.heap.list(std::move(row)));
  }
  return generator(call, std::move(rows));
}

constexpr Builtin filters[] = {
    {"length", "", runLength},
    {"count", "", runLength},
    {"list", "", runList},
    {"first", "", runFirst},
    {"last", "", runLast},
    {"reverse", "", runReverse},
    {"join", "d attribute", runJoin},
    {"sort", "reverse case_sensitive attribute", runSort},
    {"dictsort", "case_sensitive by reverse", runDictsort},
    {"groupby", "attribute default case_sensitive", runGroupby},
    {"unique", "case_sensitive attribute", runUnique},
    {"min", "case_sensitive attribute", runMin},
    {"max", "case_sensitive attribute", runMax},
    {"sum", "attribute start", runSum},
    {"map", "*", runMap},
    {"select", "*", runSelect},
    {"reject", "*", runReject},
    {"selectattr", "*", runSelectattr},
    {"rejectattr", "*", runRejectattr},
    {"items", "", runDictItems},
    {"batch", "linecount fill_with", runBatch},
    {"slice", "slices fill_with", runSlice},
};

} // namespace

std::span<const Builtin> listFilters() { return filters; }

} // namespace moert::jinja
