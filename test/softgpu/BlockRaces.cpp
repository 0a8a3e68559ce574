//===- BlockRaces.cpp - Detects races between blocks ----------------------===//
//
// Each granule of 4 bytes of global memory has a tag of its last writer and one
// of its last reader in this launch: from the top bit down launch (6 bits),
// agent (21), strong (1), and the bytes of the granule that it touched (4).
// Tags of earlier launches are ignored; before launch numbers repeat, an
// allocation's tags are cleared.
//===----------------------------------------------------------------------===//

#include "test/softgpu/DeviceMemory.h"

namespace softgpu {

static constexpr uint32_t kAgents = 1u << 21;
/// Stands for several agents that have read.
static constexpr uint32_t kMany = kAgents - 1;
static constexpr uint32_t kStrong = 16;
static constexpr uint32_t kLaunches = 64;

void BlockClock::View::join(const View &other) {
  for (auto [block, agent] : other.newest) {
    uint32_t &mine = newest[block];
    mine = std::max(mine, agent);
  }
}

void BlockRaces::beginLaunch() {
  ++launch_;
  blocks_.assign(1, ~0u); // Agent 0 does not exist.
  released_.clear();
  hasFenced_ = false;
}

void BlockRaces::newAgent(BlockClock &clock) {
  clock.agent = uint32_t(std::min<size_t>(blocks_.size(), kMany - 1));
  if (blocks_.size() < kMany)
    blocks_.push_back(clock.block);
}

void BlockRaces::beginBlock(BlockClock &clock, uint32_t block) {
  clock = {};
  clock.block = block;
  newAgent(clock);
}

uint32_t BlockRaces::launchTag(Allocation &allocation) {
  if (launch_ - allocation.raceBase >= kLaunches) {
    allocation.racePages.clear();
    allocation.raceBase = launch_ - 1;
  }
  return launch_ - allocation.raceBase;
}

bool BlockRaces::isBefore(uint32_t agent, const BlockClock &clock) const {
  // Agents without a number of their own share kMany - 1, and are never
  // reported. kMany stands for several readers: as long as no block has fenced
  // in this launch, nothing orders them; from then on they are taken for
  // ordered.
  if (agent >= kMany - 1)
    return hasFenced_ || agent != kMany;
  uint32_t block = blocks_[agent];
  if (block == clock.block)
    return true;
  auto it = clock.known.newest.find(block);
  return it != clock.known.newest.end() && it->second >= agent;
}

int64_t BlockRaces::read(Allocation &allocation, uint64_t offset,
                         uint64_t bytes, const BlockClock &clock,
                         bool isStrong) {
  uint32_t launch = launchTag(allocation) << 26;
  uint32_t mine = launch | clock.agent << 5 | (isStrong ? kStrong : 0);
  for (uint64_t end = offset + bytes; offset < end;) {
    uint64_t granule = offset >> 2;
    uint32_t from = offset & 3;
    uint32_t count = uint32_t(std::min<uint64_t>(4 - from, end - offset));
    uint32_t touched = ((1u << count) - 1) << from;
    offset += count;
    uint32_t writer = allocation.writers[granule];
    if ((writer ^ mine) >> 5 && (writer ^ launch) < 1u << 26 &&
        (writer & touched) && !(isStrong && (writer & kStrong)) &&
        !isBefore(writer >> 5 & (kAgents - 1), clock))
      return blocks_[writer >> 5 & (kAgents - 1)];
    uint32_t &reader = allocation.readers[granule];
    if ((reader ^ launch) >= 1u << 26)
      reader = mine | touched;
    else if ((reader ^ mine) >> 5)
      // Keep the newer reader, unless that would hide one that is not ordered.
      reader = isBefore(reader >> 5 & (kAgents - 1), clock) &&
                       (reader >> 5 & (kAgents - 1)) != kMany
                   ? (mine | touched)
                   : (launch | kMany << 5 | (reader & mine & kStrong) | 15);
    else
      reader = (reader | touched) & (isStrong ? ~0u : ~kStrong);
  }
  return -1;
}

int64_t BlockRaces::write(Allocation &allocation, uint64_t offset,
                          uint64_t bytes, const BlockClock &clock,
                          bool isStrong) {
  uint32_t launch = launchTag(allocation) << 26;
  uint32_t mine = launch | clock.agent << 5 | (isStrong ? kStrong : 0);
  for (uint64_t end = offset + bytes; offset < end;) {
    uint64_t granule = offset >> 2;
    uint32_t from = offset & 3;
    uint32_t count = uint32_t(std::min<uint64_t>(4 - from, end - offset));
    uint32_t touched = ((1u << count) - 1) << from;
    offset += count;
    uint32_t &writer = allocation.writers[granule];
    for (uint32_t other : {writer, allocation.readers[granule]}) {
      uint32_t agent = other >> 5 & (kAgents - 1);
      if ((other ^ launch) < 1u << 26 && agent != clock.agent &&
          (other & touched) && !(isStrong && (other & kStrong)) &&
          !isBefore(agent, clock))
        return agent == kMany ? kSeveral : blocks_[agent];
    }
    bool same = (writer ^ mine) >> 5 == 0;
    writer = (same ? writer | touched : mine | touched);
    if (!isStrong)
      writer &= ~kStrong;
  }
  return -1;
}

void BlockRaces::fence(BlockClock &clock) {
  hasFenced_ = true;
  clock.known.join(clock.pending);
  clock.pending.newest.clear();
  clock.fenced = clock.known;
  clock.fenced.newest[clock.block] = clock.agent;
  newAgent(clock);
}

/// A strong write to `address`: blocks that acquire it see what this block did
/// before its last fence or, if the write itself releases (`isOrdered`), all
/// that the block has done.
void BlockRaces::release(uint64_t address, BlockClock &clock, bool isOrdered) {
  if (isOrdered)
    fence(clock);
  released_[address].join(clock.fenced);
}

/// A strong read of `address`: the block now knows what the writers had fenced
/// before; unless the read acquires (`isOrdered`), only from its own next fence
/// on.
void BlockRaces::acquire(uint64_t address, BlockClock &clock, bool isOrdered) {
  auto it = released_.find(address);
  if (it != released_.end())
    (isOrdered ? clock.known : clock.pending).join(it->second);
}

} // namespace softgpu
