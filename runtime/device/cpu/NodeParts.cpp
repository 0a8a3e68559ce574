#include "runtime/device/cpu/NodeParts.h"

#include "kernels/NodeShare.h"
#include "runtime/device/cpu/Team.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/schema/OpTable.h"

#include <algorithm>
#include <set>

namespace moert {

namespace {
/// Returns the weights that instructions of `device` read through a GEMM.
std::set<uint32_t> gemmWeights(const fb::Plan &plan, uint32_t device) {
  std::set<uint32_t> weights;
  for (const fb::Phase *phase : *plan.phases())
    for (const fb::Instruction *instruction : *phase->instructions()) {
      if (deviceOf(plan, *instruction) != device)
        continue;
      const OpSpec &spec = *findOp(instruction->op());
      for (uint32_t i = 0; i < spec.operands.size(); ++i)
        if (spec.operands[i].gemm)
          weights.insert(instruction->operands()->Get(i)->index());
    }
  return weights;
}

bool onOneNode(std::span<const std::vector<int>> nodes) {
  std::set<int> all;
  for (const std::vector<int> &ofDevice : nodes)
    all.insert(ofDevice.begin(), ofDevice.end());
  return all.size() <= 1;
}

/// Adds the ranges that workers of one device, which run on `nodes`, read.
void addParts(const fb::Plan &plan, uint32_t device, std::span<const int> nodes,
              std::vector<std::vector<NodeBytes>> &parts) {
  std::vector<moek::Worker> team = makeWorkers(int32_t(nodes.size()), nodes);
  for (uint32_t index : gemmWeights(plan, device)) {
    const fb::Weight &w = *plan.weights()->Get(index);
    uint64_t rowStride = uint64_t(w.row_stride());
    int64_t grains = (w.rows() + moek::kRowGrain - 1) / moek::kRowGrain;
    for (int64_t o = 0; o < w.outer(); ++o)
      for (size_t first = 0; first < team.size();
           first = size_t(team[first].nodeEnd)) {
        moek::Range share = moek::nodeShare(grains, team[first]);
        auto at = [&](int64_t grain) {
          int64_t row = std::min(grain * moek::kRowGrain, w.rows());
          return w.offset() + uint64_t(o * w.outer_stride()) +
                 uint64_t(row) * rowStride;
        };
        if (share.begin < share.end)
          parts[w.file()].push_back(
              {at(share.begin), at(share.end), nodes[first]});
      }
  }
}
} // namespace

std::vector<std::vector<NodeBytes>>
nodeParts(const fb::Plan &plan, std::span<const std::vector<int>> nodes) {
  std::vector<std::vector<NodeBytes>> parts(count(plan.files()));
  if (onOneNode(nodes))
    return parts;
  for (uint32_t device = 0; device < nodes.size(); ++device)
    addParts(plan, device, nodes[device], parts);
  // If several weights or devices read the same bytes, the first one decides.
  for (std::vector<NodeBytes> &file : parts) {
    std::ranges::stable_sort(file, {}, &NodeBytes::begin);
    uint64_t end = 0;
    std::erase_if(file, [&](NodeBytes &part) {
      part.begin = std::max(part.begin, end);
      end = std::max(end, part.end);
      return part.begin >= part.end;
    });
  }
  return parts;
}

} // namespace moert
