//===- Barrier.cpp - Barriers of a warp and of a block --------------------===//

#include "test/softgpu/Flow.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>

namespace softgpu {

void syncWarp(Warp &warp, const Op &op, Mask mask) {
  const uint32_t *members = warp.lanes<uint32_t>(op.r[0]);
  Mask named = members[std::countr_zero(mask)];
  if (warp.launch->isChecked)
    if (Mask missing = (named & warp.live & ~mask) | (mask & ~named))
      report(warp, op, std::countr_zero(mask), FindingKind::DivergentWarp,
             fmt::format(
                 "names lanes {:#x}, of which {:#x} are elsewhere or not named",
                 named, missing));
  ++warp.clocks[warp.index];
}

bool arriveAtBarrier(Warp &warp, const Op &op, Mask mask) {
  Block &block = *warp.block;
  const Place *s = &op.r[op.results];
  int first = std::countr_zero(mask);
  uint32_t id = warp.lanes<uint32_t>(s[0])[first];
  int what = op.kind & 3;
  if (id >= block.barriers.size())
    report(warp, op, first, FindingKind::DivergentBarrier,
           fmt::format("barrier {} of {}", id, block.barriers.size()));
  if (op.isUniform && mask != warp.live)
    report(warp, op, first, FindingKind::DivergentBarrier,
           fmt::format("lanes {:#x} of {:#x} come to barrier {}", mask,
                       warp.live, id));
  Barrier &barrier = block.barriers[id];
  uint32_t expected = op.imm ? warp.lanes<uint32_t>(s[1])[first] : 0;
  if (op.imm && (expected % kLanes || !expected))
    report(warp, op, first, FindingKind::DivergentBarrier,
           fmt::format("{} threads, not a multiple of 32", expected));
  if (barrier.lanes && barrier.expected != expected)
    report(warp, op, first, FindingKind::DivergentBarrier,
           fmt::format("barrier {} is of {} threads here and of {} elsewhere",
                       id, expected, barrier.expected));
  barrier.expected = expected;
  barrier.lanes += uint32_t(std::popcount(mask));
  barrier.arrived += op.isUniform ? kLanes : uint32_t(std::popcount(mask));
  barrier.members |= Mask(1) << warp.index;
  joinClocks(barrier.clocks, warp.clocks);
  joinClocks(barrier.fences, warp.fences);
  barrier.peers.resize(std::max(barrier.peers.size(), warp.peers.size()));
  for (size_t rank = 0; rank < warp.peers.size(); ++rank)
    joinClocks(barrier.peers[rank], warp.peers[rank]);
  if (what == kReduce) {
    Mask set = warp.predicate(s[op.sources - 1]);
    barrier.count +=
        uint32_t(std::popcount((op.kind & 16 ? ~set : set) & mask));
  }
  if (what == kArrive)
    ++warp.clocks[warp.index];
  return what != kArrive;
}

/// Writes the result of bar.red for lanes that waited.
static void reduce(Warp &warp, const Op &op, const LaneGroup &group,
                   const Barrier &barrier) {
  if ((op.kind & 3) != kReduce)
    return;
  int reduction = op.kind >> 2 & 3;
  if (reduction == 0) {
    uint32_t out[kLanes];
    std::fill_n(out, kLanes, barrier.count);
    store(warp.lanes<uint32_t>(op.r[0]), out, group.lanes);
  } else {
    bool holds =
        reduction == 1 ? barrier.count == barrier.lanes : barrier.count != 0;
    Mask &to = warp.predicate(op.r[0]);
    to = holds ? to | group.lanes : to & ~group.lanes;
  }
  warp.written[op.r[0] / kUnit] |= group.lanes;
}

bool releaseBarriers(Block &block) {
  uint32_t live = 0;
  for (const Warp &warp : block.warps)
    live += uint32_t(std::popcount(warp.live));
  bool any = false;
  for (size_t id = 0; id < block.barriers.size(); ++id) {
    Barrier &barrier = block.barriers[id];
    if (!barrier.lanes || (barrier.expected ? barrier.arrived < barrier.expected
                                            : barrier.lanes < live))
      continue;
    any = true;
    if (!barrier.expected) {
      ++block.shared.barrierEpoch;
      block.shared.atBarrier = barrier.clocks;
    }
    for (Warp &warp : block.warps) {
      bool waited = false;
      for (LaneGroup &group : warp.groups) {
        if (group.barrier != int(id))
          continue;
        waited = true;
        group.barrier = -1;
        reduce(warp, block.launch->kernel->ops[group.pc - 1], group, barrier);
      }
      if (waited) {
        joinClocks(warp.clocks, barrier.clocks);
        joinClocks(warp.fences, barrier.fences);
        for (size_t rank = 0; rank < barrier.peers.size(); ++rank)
          if (rank != block.rank)
            joinClocks(warp.clocksOf(rank), barrier.peers[rank]);
        ++warp.clocks[warp.index];
      }
    }
    barrier = {};
  }
  return any;
}

} // namespace softgpu
