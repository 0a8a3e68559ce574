#include "runtime/plan/PlanWeights.h"

#include "kernels/quant/Format.h"
#include "runtime/plan/PlanAccess.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace moert {

namespace {
/// Returns the bytes of files that the weights marked in `counts` occupy.
uint64_t bytesOf(const Plan &plan, const std::vector<bool> &counts) {
  std::vector<std::tuple<uint32_t, uint64_t, uint64_t>> ranges;
  for (uint32_t i = 0; i < count(plan.table().weights()); ++i) {
    if (!counts[i])
      continue;
    const fb::Weight &w = *plan.table().weights()->Get(i);
    // Loading has verified that this does not overflow and lies in the file.
    uint64_t bytes = uint64_t(w.outer() - 1) * uint64_t(w.outer_stride()) +
                     uint64_t(w.rows() - 1) * uint64_t(w.row_stride()) +
                     rowBytesOf(w);
    ranges.emplace_back(w.file(), w.offset(), w.offset() + bytes);
  }
  std::sort(ranges.begin(), ranges.end());
  uint64_t total = 0, covered = 0;
  uint32_t current = 0;
  for (auto [file, begin, end] : ranges) {
    if (file != current)
      covered = 0;
    current = file;
    if (end <= covered)
      continue;
    total += end - std::max(begin, covered);
    covered = end;
  }
  return total;
}
} // namespace

/// Returns which weights instructions read: not those that others are only made
/// of, and not those that are made for nothing (MappedPlan.h).
static std::vector<bool> readWeights(const fb::Plan &table) {
  std::vector<bool> reads(count(table.weights()), true);
  for (uint32_t w = 0; w < reads.size(); ++w) {
    const auto *sources = table.weights()->Get(w)->sources();
    if (count(sources) > 0)
      reads[w] = false;
    for (uint32_t i = 0; i < count(sources); ++i)
      reads[sources->Get(i)] = false;
  }
  for (const fb::Phase *phase : *table.phases())
    for (const fb::Instruction *instruction : *phase->instructions())
      for (const fb::Operand *operand : *instruction->operands())
        if (operand->kind() == fb::OperandKind::Weight)
          reads[operand->index()] = true;
  return reads;
}

uint64_t weightBytes(const Plan &plan) {
  return bytesOf(plan, readWeights(plan.table()));
}

std::vector<bool> hostWeights(const Plan &plan) {
  const fb::Plan &table = plan.table();
  auto isOfHost = [&](const fb::Residency &residency) {
    const fb::Device &device = *table.devices()->Get(residency.device());
    return isStreamed(residency.mode()) ||
           (residency.mode() != fb::ResidencyMode::File &&
            (device.kind() == fb::DeviceKind::Cpu || device.shares_memory()));
  };
  // Weights without a residency entry are on the host.
  std::vector<bool> counts = readWeights(table);
  for (uint32_t i = 0; i < count(table.residency()); ++i)
    counts[table.residency()->Get(i)->weight()] = false;
  for (uint32_t i = 0; i < count(table.residency()); ++i)
    if (const fb::Residency &residency = *table.residency()->Get(i);
        isOfHost(residency))
      counts[residency.weight()] = true;
  return counts;
}

uint64_t hostWeightBytes(const Plan &plan) {
  return bytesOf(plan, hostWeights(plan));
}

uint64_t pinnedWeightBytes(const Plan &plan) {
  const fb::Plan &table = plan.table();
  std::vector<bool> counts(count(table.weights()));
  for (uint32_t i = 0; i < count(table.residency()); ++i)
    if (const fb::Residency &residency = *table.residency()->Get(i);
        table.devices()->Get(residency.device())->shares_memory())
      counts[residency.weight()] =
          count(table.weights()->Get(residency.weight())->sources()) == 0;
  return bytesOf(plan, counts);
}

uint64_t loadedWeightBytes(const Plan &plan) {
  std::vector<bool> counts = hostWeights(plan);
  for (uint32_t i = 0; i < counts.size(); ++i)
    if (count(plan.table().weights()->Get(i)->sources()) == 0)
      counts[i] = false;
  return bytesOf(plan, counts);
}

std::map<std::string, uint64_t> bytesByFormat(const Plan &plan) {
  std::map<std::string, uint64_t> bytes;
  const std::vector<bool> reads = readWeights(plan.table());
  for (uint32_t i = 0; i < count(plan.table().weights()); ++i) {
    if (!reads[i])
      continue;
    const fb::Weight &w = *plan.table().weights()->Get(i);
    bytes[std::string(moek::formatInfo(moek::Format(w.format())).name)] +=
        bytesOfRows(w);
  }
  return bytes;
}

uint64_t instructionWeightBytes(const Plan &plan,
                                const fb::Instruction &instruction) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < count(instruction.operands()); ++i)
    if (const fb::Operand &operand = *instruction.operands()->Get(i);
        operand.kind() == fb::OperandKind::Weight)
      bytes += bytesOfRows(*plan.table().weights()->Get(operand.index()));
  return bytes;
}

std::string modelType(const Plan &plan) {
  std::map<std::string, uint64_t> formats = bytesByFormat(plan);
  auto most = std::max_element(
      formats.begin(), formats.end(),
      [](const auto &a, const auto &b) { return a.second < b.second; });
  auto parameters = double(plan.table().parameters());
  std::string size = parameters >= 1e9
                         ? fmt::format("{:.1f}B", parameters / 1e9)
                         : fmt::format("{:.1f}M", parameters / 1e6);
  return fmt::format("{} {}{}", text(plan.table().architecture()), size,
                     most == formats.end() ? "" : " " + most->first);
}

} // namespace moert
