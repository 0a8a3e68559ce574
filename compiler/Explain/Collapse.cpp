#include "compiler/Explain/Collapse.h"

#include "runtime/base/Text.h"

#include <fmt/format.h>
#include <tuple>

namespace moec {

namespace {
constexpr std::string_view layerPrefix = "blk.";
} // namespace

void OpNames::add(const OpNames &op) {
  layers.insert(op.layers.begin(), op.layers.end());
  occurrences += op.occurrences;
}

std::string OpNames::text(bool brief) const {
  return layerText(brief) + moert::escaped(part);
}

std::string OpNames::layerText(bool brief) const {
  if (layers.empty())
    return "";
  std::vector<std::pair<int, int>> ranges;
  for (int layer : layers)
    if (!ranges.empty() && ranges.back().second + 1 == layer)
      ranges.back().second = layer;
    else
      ranges.emplace_back(layer, layer);
  std::string list;
  if (brief && ranges.size() > 3)
    list = fmt::format("{}..{}", *layers.begin(), *layers.rbegin());
  else
    for (auto [first, last] : ranges)
      list += fmt::format("{}{}{}", list.empty() ? "" : ",", first,
                          first == last ? "" : fmt::format("-{}", last));
  return fmt::format("{}{}.", layerPrefix, list);
}

std::string ofAnyLayer(std::string_view text, const OpCost &op) {
  std::string result;
  std::string_view rest = text;
  while (op.layer >= 0) {
    size_t at = rest.find(layerPrefix);
    if (at == std::string_view::npos)
      break;
    result += rest.substr(0, at);
    rest.remove_prefix(at);
    std::string own = fmt::format("{}{}.", layerPrefix, op.layer);
    std::string before = fmt::format("{}{}.", layerPrefix, op.layer - 1);
    std::string_view found = rest.starts_with(own)      ? own
                             : rest.starts_with(before) ? before
                                                        : layerPrefix;
    result += layerPrefix;
    if (found != layerPrefix)
      result += found == own ? "N." : "N-1.";
    rest.remove_prefix(found.size());
  }
  return result.append(rest);
}

std::string reasonOfAnyLayer(const OpCost &op) {
  return ofAnyLayer(op.reason, op);
}

/// The rejected alternatives of an op, to compare ops with.
using RejectedKey =
    std::vector<std::tuple<std::string_view, std::string_view, std::string,
                           double, std::string_view, double, std::string>>;

static RejectedKey rejectedOfAnyLayer(const OpCost &op) {
  RejectedKey key;
  for (const RejectedCost &rejected : op.rejected)
    key.emplace_back(rejected.kind, rejected.name, ofAnyLayer(rejected.of, op),
                     rejected.seconds.value_or(-1), rejected.chosen,
                     rejected.chosenSeconds, ofAnyLayer(rejected.reason, op));
  return key;
}

std::vector<OpRow> makeRows(const std::vector<OpCost> &ops, bool full,
                            std::vector<size_t> *rowOfOp) {
  std::vector<OpRow> rows;
  using Key = std::tuple<std::string_view, bool, std::string_view,
                         std::string_view, std::string, RejectedKey, double,
                         double, double, double, double>;
  std::map<Key, size_t> rowOf;
  for (const OpCost &op : ops) {
    OpNames names(op.part, op.layer);
    Key key{op.part,
            op.layer >= 0,
            op.device,
            op.kernel,
            reasonOfAnyLayer(op),
            rejectedOfAnyLayer(op),
            op.flops,
            op.weightBytes,
            op.activationBytes,
            op.kvBytes,
            op.seconds};
    auto [at, isNew] = rowOf.try_emplace(key, rows.size());
    if (rowOfOp)
      rowOfOp->push_back(full ? rows.size() : at->second);
    if (isNew || full) {
      rows.push_back({std::move(names), op});
      continue;
    }
    OpRow &row = rows[at->second];
    row.names.add(names);
    row.cost.flops += op.flops;
    row.cost.weightBytes += op.weightBytes;
    row.cost.activationBytes += op.activationBytes;
    row.cost.kvBytes += op.kvBytes;
    row.cost.heldBytes += op.heldBytes;
    row.cost.seconds += op.seconds;
    for (size_t i = 0; i < op.rejected.size(); ++i) {
      RejectedCost &sum = row.cost.rejected[i];
      if (sum.seconds)
        *sum.seconds += *op.rejected[i].seconds;
      sum.chosenSeconds += op.rejected[i].chosenSeconds;
    }
  }
  return rows;
}

Reasons::Reasons(const std::vector<PhaseCost> &phases) {
  // Maps (reason, layered or not, part) to an index into the entry's ops.
  std::map<std::tuple<size_t, bool, std::string_view>, size_t> placeOf;
  for (const PhaseCost &phase : phases)
    for (const OpCost &op : phase.ops) {
      if (op.reason.empty())
        continue;
      auto [number, isNew] =
          numbers_.try_emplace(reasonOfAnyLayer(op), entries.size() + 1);
      if (isNew)
        entries.push_back({number->first, {}});
      OpNames names(op.part, op.layer);
      std::vector<OpNames> &list = entries[number->second - 1].ops;
      auto [place, isFirst] = placeOf.try_emplace(
          {number->second, op.layer >= 0, op.part}, list.size());
      if (isFirst)
        list.push_back(std::move(names));
      else
        list[place->second].add(names);
    }
}

size_t Reasons::numberOf(const OpCost &op) const {
  auto it = numbers_.find(reasonOfAnyLayer(op));
  return it == numbers_.end() ? 0 : it->second;
}

} // namespace moec
