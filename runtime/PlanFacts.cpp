#include "runtime/PlanFacts.h"

#include "kernels/quant/Format.h"
#include "runtime/PlanAccess.h"
#include "runtime/schema/OpTable.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

namespace moert {

/// Of the rows alone, without gaps between them.
static uint64_t bytesOf(const fb::Weight &weight) {
  return uint64_t(weight.outer()) * uint64_t(weight.rows()) *
         moek::rowBytes(moek::Format(weight.format()), weight.cols());
}

uint64_t weightBytes(const Plan &plan) {
  std::vector<std::tuple<uint32_t, uint64_t, uint64_t>> ranges;
  for (uint32_t i = 0; i < count(plan.table().weights()); ++i) {
    const fb::Weight &w = *plan.table().weights()->Get(i);
    // Verified when the plan was loaded: no overflow, inside the file.
    uint64_t bytes = uint64_t(w.outer() - 1) * uint64_t(w.outer_stride()) +
                     uint64_t(w.rows() - 1) * uint64_t(w.row_stride()) +
                     moek::rowBytes(moek::Format(w.format()), w.cols());
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

std::map<std::string, uint64_t> bytesByFormat(const Plan &plan) {
  std::map<std::string, uint64_t> bytes;
  for (uint32_t i = 0; i < count(plan.table().weights()); ++i) {
    const fb::Weight &w = *plan.table().weights()->Get(i);
    bytes[std::string(moek::formatInfo(moek::Format(w.format())).name)] +=
        bytesOf(w);
  }
  return bytes;
}

namespace {
/// Multiplies and adds of one token's queries with the keys, and of its weights
/// with the values, of one cached row.
double attentionOps(const fb::Instruction &instruction, const OpSpec &spec) {
  auto parameter = [&](std::string_view name) {
    return double(intOf(instruction, spec, name));
  };
  switch (spec.op) {
  case moek::OpCode::LatentAttention:
    return 2 * parameter("heads") *
           (2 * parameter("latent") + parameter("rope"));
  case moek::OpCode::MlaAttention:
    return 2 * parameter("heads") *
           (parameter("nope") + parameter("rope") + parameter("value"));
  default:
    return 0;
  }
}
} // namespace

uint64_t instructionWeightBytes(const Plan &plan,
                                const fb::Instruction &instruction) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < count(instruction.operands()); ++i)
    if (const fb::Operand &operand = *instruction.operands()->Get(i);
        operand.kind() == fb::OperandKind::Weight)
      bytes += bytesOf(*plan.table().weights()->Get(operand.index()));
  return bytes;
}

StepWork instructionWork(const Plan &plan, const fb::Instruction &instruction,
                         StepSize step) {
  using moek::OpCode;
  // Verified when the plan was loaded: the op, operands and parameters exist.
  const OpSpec &spec = *findOp(instruction.op());
  StepWork work{0,
                step.tokens * step.attended * attentionOps(instruction, spec)};
  for (uint32_t i = 0; i < count(instruction.operands()); ++i) {
    const fb::Operand &operand = *instruction.operands()->Get(i);
    if (operand.kind() != fb::OperandKind::Weight)
      continue;
    const fb::Weight &weight = *plan.table().weights()->Get(operand.index());
    double rows = double(weight.outer()) * double(weight.rows());
    double rowSize = double(
        moek::rowBytes(moek::Format(weight.format()), uint64_t(weight.cols())));
    double bytes = rows * rowSize;
    double applied = 2.0 * step.tokens * rows * double(weight.cols());
    bool matrix = spec.operands[i].gemm;
    switch (spec.op) {
    case OpCode::Embed:
      bytes = step.tokens * rowSize;
      break;
    case OpCode::ExpertsLinear:
    case OpCode::ExpertsGateUp: {
      // Both have top_k as their first parameter.
      double used = double(instruction.ints()->Get(0)) / double(weight.outer());
      bytes *= 1 - std::pow(1 - std::min(used, 1.0), step.tokens);
      applied *= used;
      break;
    }
    case OpCode::AbsorbQuery:
    case OpCode::MlaAttention:
      matrix = true; // multiplied by the driver itself
      break;
    default:
      break;
    }
    work += {bytes, matrix ? applied : 0};
  }
  return work;
}

StepWork phaseWork(const Plan &plan, std::string_view name, StepSize step) {
  StepWork work;
  for (const fb::Phase *phase : *plan.table().phases())
    if (text(phase->name()) == name)
      for (const fb::Instruction *instruction : *phase->instructions())
        work += instructionWork(plan, *instruction, step);
  return work;
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
