//===- Cluster.cpp - barrier.cluster, and waits of a cluster --------------===//

#include "test/softgpu/Cluster.h"

#include "test/softgpu/Decoder.h"
#include "test/softgpu/Mbarrier.h"

#include <algorithm>
#include <bit>

namespace softgpu {

/// Number of phases of barrier.cluster at which all threads that have not ended
/// have arrived.
static uint64_t completePhases(const Cluster &cluster) {
  uint64_t least = ~uint64_t(0);
  for (const auto &block : cluster.blocks)
    for (const Warp &warp : block->warps)
      if (!warp.isDone())
        least = std::min(least, warp.clusterArrivals);
  return least;
}

static void needWholeWarp(Warp &warp, const Op &op, Mask mask) {
  if (mask != warp.live)
    report(warp, op, std::countr_zero(mask), FindingKind::DivergentBarrier,
           fmt::format("lanes {:#x} of {:#x} come to the cluster's barrier",
                       mask, warp.live));
}

static void arriveAtCluster(Warp &warp, const Op &op, Mask mask) {
  needWholeWarp(warp, op, mask);
  if (warp.clusterArrivals != warp.clusterWaits)
    report(warp, op, std::countr_zero(mask), FindingKind::DivergentBarrier,
           "arrives again with no barrier.cluster.wait between");
  Cluster &cluster = *warp.block->cluster;
  ClusterPhase &phase = cluster.phases[warp.clusterArrivals % 2];
  if (phase.known.empty() || phase.number != warp.clusterArrivals)
    phase = {warp.clusterArrivals,
             std::vector<SharedMemory::Clocks>(cluster.blocks.size())};
  for (size_t rank = 0; rank < phase.known.size(); ++rank)
    joinClocks(phase.known[rank], warp.clocksOf(rank));
  ++warp.clocks[size_t(warp.index)];
  ++warp.clusterArrivals;
}

/// Returns whether the cluster has arrived; then the warp knows what all of it
/// has done before.
static bool waitForCluster(Warp &warp) {
  Cluster &cluster = *warp.block->cluster;
  if (completePhases(cluster) < warp.clusterArrivals)
    return false;
  const ClusterPhase &phase = cluster.phases[warp.clusterWaits % 2];
  for (size_t rank = 0; rank < phase.known.size(); ++rank)
    joinClocks(warp.clocksOf(rank), phase.known[rank]);
  ++warp.clocks[size_t(warp.index)];
  ++warp.clusterWaits;
  return true;
}

int awaitOthers(Warp &warp, const Op &op, Mask mask) {
  if (op.kind == kAtMbarrier)
    return waitForPhase(warp, op, mask) ? -1 : kAtMbarrier;
  needWholeWarp(warp, op, mask);
  if (warp.clusterArrivals == warp.clusterWaits)
    report(warp, op, std::countr_zero(mask), FindingKind::DivergentBarrier,
           "waits with no barrier.cluster.arrive before");
  return waitForCluster(warp) ? -1 : kAtCluster;
}

bool releaseWaits(Block &block) {
  bool any = false;
  for (Warp &warp : block.warps)
    for (LaneGroup &group : warp.groups) {
      if (group.barrier < kAtMbarrier)
        continue;
      const Op &op = block.launch->kernel->ops[group.pc - 1];
      if (group.barrier == kAtMbarrier ? waitForPhase(warp, op, group.lanes)
                                       : waitForCluster(warp)) {
        group.barrier = -1;
        any = true;
      }
    }
  return any;
}

std::string describeWait(Warp &warp, const Op &op, int barrier) {
  if (barrier == kAtMbarrier)
    return describePhase(warp, op);
  return barrier == kAtCluster
             ? "waits for threads of its cluster that do not come"
             : fmt::format("waits at barrier {} for threads that do not come",
                           barrier);
}

void decodeClusterBarrier(Decoder &decoder) {
  decoder.needArch(90);
  bool arrives = decoder.choose({"arrive", "wait"}) == 0;
  // The suffix states the default.
  decoder.accept(arrives ? "release" : "acquire");
  decoder.choose({"aligned"});
  decoder.needOperands(0, 0);
  Op &op = decoder.begin(arrives ? arriveAtCluster : nullptr,
                         OpClass::ClusterBarrier);
  op.kind = kAtCluster;
  if (!arrives)
    op.control = Control::Await;
  decoder.needAllLanes();
}

} // namespace softgpu
