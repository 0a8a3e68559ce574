#include "compiler/Explain/IntensityTable.h"

#include "compiler/Explain/Figures.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>

namespace moec {

namespace {
struct Sums {
  double flops = 0, read = 0;
  double intensity() const { return read > 0 ? flops / read : 0; }
};

bool isGpu(std::string_view device) { return device.starts_with("gpu"); }

/// FLOPs and bytes of the row's ops in another phase.
Sums sumsOf(const PhaseCost *phase, const IntensityRow &row) {
  Sums sums;
  if (!phase)
    return sums;
  for (const OpCost &op : phase->ops)
    if (op.part == row.names.part &&
        (op.layer < 0 ? row.names.layers.empty()
                      : row.names.layers.contains(op.layer))) {
      sums.flops += op.flops;
      sums.read += op.weightBytes + op.kvBytes;
    }
  return sums;
}
} // namespace

IntensityTable intensityTable(const ExplainSummary &summary) {
  IntensityTable table;
  const PhaseCost *decode = summary.phase(moert::PhaseKind::Decode);
  const PhaseCost *logits = summary.phase(moert::PhaseKind::Logits);
  if (!decode)
    return table;
  std::vector<Sums> sums;
  std::map<std::tuple<std::string_view, bool, std::string_view>, size_t> rowOf;
  auto add = [&](const OpCost &op) {
    if (op.heldBytes <= 0)
      return; // Copies, sums and activations move wherever weights are.
    auto [at, isNew] = rowOf.try_emplace({op.part, op.layer >= 0, op.device},
                                         table.rows.size());
    OpNames names(op.part, op.layer);
    if (isNew) {
      table.rows.push_back({.names = std::move(names),
                            .device = op.device,
                            .first = &op,
                            .isOnGpu = isGpu(op.device)});
      sums.emplace_back();
    } else {
      table.rows[at->second].names.add(names);
    }
    table.rows[at->second].held += op.heldBytes;
    sums[at->second].flops += op.flops;
    sums[at->second].read += op.weightBytes + op.kvBytes;
  };
  for (const OpCost &op : decode->ops)
    add(op);
  if (logits && !decode->withHead)
    for (const OpCost &op : logits->ops)
      add(op);
  for (size_t i = 0; i < table.rows.size(); ++i) {
    IntensityRow &row = table.rows[i];
    row.perHeldByte = sums[i].flops / row.held;
    row.decode = sums[i].intensity();
    row.prefill = sumsOf(summary.prefill(), row).intensity();
    table.gpuBytes += row.isOnGpu ? row.held : 0;
  }
  if (std::ranges::all_of(table.rows, &IntensityRow::isOnGpu) ||
      std::ranges::none_of(table.rows, &IntensityRow::isOnGpu))
    return {};
  std::ranges::stable_sort(table.rows, [](const auto &a, const auto &b) {
    return std::tuple(-a.perHeldByte, !a.isOnGpu) <
           std::tuple(-b.perHeldByte, !b.isOnGpu);
  });
  double before = 0;
  for (IntensityRow &row : table.rows) {
    // A row of both sides counts to the one that has most of it.
    const bool isAbove = before + row.held / 2 < table.gpuBytes;
    before += row.held;
    table.line += isAbove;
    row.differs = row.isOnGpu != isAbove;
  }
  return table;
}

void addIntensityTable(moert::Page &page, const IntensityTable &table,
                       const Reasons &reasons) {
  if (table.rows.empty())
    return;
  page.group("arithmetic intensity, by FLOPs of a generated token per byte of "
             "memory");
  std::vector<std::vector<std::string>> cells;
  std::string others;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const IntensityRow &row = table.rows[i];
    if (i == table.line)
      cells.push_back({"---- the GPUs' memory ends ----", "", "",
                       shortBytes(table.gpuBytes)});
    const size_t reason = reasons.numberOf(*row.first);
    std::string name = row.names.text(/*brief=*/true);
    if (row.names.occurrences > 1)
      name += fmt::format(" x{}", row.names.occurrences);
    const std::string why = reason ? fmt::format("{}", reason) : "-";
    cells.push_back({name, moert::escaped(row.device),
                     humanFlops(row.perHeldByte), shortBytes(row.held),
                     humanFlops(row.decode),
                     row.prefill > 0 ? humanFlops(row.prefill) : "-",
                     row.differs ? "*" + why : why});
    if (row.differs)
      others += fmt::format("{}{} on {} (why {})", others.empty() ? "" : ", ",
                            row.names.text(/*brief=*/true),
                            moert::escaped(row.device), why);
  }
  page.table({{"op", false, 35},
              {"device", false, 6},
              {"FLOP/B held", true, 11},
              {"memory", true, 10},
              {"read", true, 6},
              {"prefill", true, 7},
              {"why", true, 5}},
             cells);
  page.paragraph("  ",
                 "FLOP/B held: of a generated token, by bytes of weights and "
                 "cache in memory; read, prefill: by bytes that a token, or a "
                 "step of a prompt, reads.");
  page.paragraph("  ", others.empty()
                           ? "Each op is on the side of the line that its "
                             "intensity gives it."
                           : "On the other side of the line: " + others + ".");
}

} // namespace moec
