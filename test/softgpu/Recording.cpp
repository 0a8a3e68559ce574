#include "test/softgpu/Recording.h"

#include "test/softgpu/Warp.h"

#include <algorithm>
#include <bit>

namespace softgpu {

static constexpr int kSectorBytes = 32;
/// Number of blocks of a class that are kept.
static constexpr size_t kKept = 3;

SectorCache::SectorCache() : slots_(1 << 10) {}

void SectorCache::clear() {
  used_ = 0;
  ++generation_;
  bytes_ = 0;
}

void SectorCache::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot &slot : old) {
    if (slot.generation != generation_)
      continue;
    size_t at =
        (slot.sector * 0x9E3779B97F4A7C15ull >> 20) & (slots_.size() - 1);
    while (slots_[at].generation == generation_)
      at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }
}

bool SectorCache::touch(uint64_t sector, uint64_t capacity) {
  if (2 * used_ >= slots_.size())
    grow();
  size_t at = (sector * 0x9E3779B97F4A7C15ull >> 20) & (slots_.size() - 1);
  while (slots_[at].generation == generation_ && slots_[at].sector != sector)
    at = (at + 1) & (slots_.size() - 1);
  Slot &slot = slots_[at];
  bool isHit = slot.generation == generation_ && bytes_ - slot.stamp < capacity;
  used_ += slot.generation != generation_;
  bytes_ += isHit ? 0 : kSectorBytes;
  slot = {sector, bytes_, generation_};
  return isHit;
}

bool Recording::isWarm(uint64_t address) const {
  return std::ranges::any_of(warm, [&](const Range &range) {
    return range.begin <= address && address < range.end;
  });
}

uint64_t Recording::warmBetween(uint64_t begin, uint64_t end) const {
  uint64_t bytes = 0;
  for (const Range &range : warm) {
    uint64_t from = std::max(begin, range.begin), to = std::min(end, range.end);
    bytes += to > from ? to - from : 0;
  }
  return bytes;
}

Recorder::Recorder(Recording &recording, const Kernel &kernel)
    : recording_(recording), kernel_(kernel) {
  recording.regions = regionsOf(kernel);
  recording.sources.assign(kernel.ops.size(), {});
}

void Recorder::beginBlock(const Block &block) {
  Open &open = open_[block.linear];
  open.trace = {};
  open.trace.block = block.linear;
  open.trace.warps.resize(block.warps.size());
  open.hash.assign(block.warps.size(), block.warps.size());
  open.at.assign(block.warps.size(), ~0u);
  open.l1.clear();
  // L1 has what shared memory leaves of it, as if the block had the
  // multiprocessor for itself.
  uint64_t shared = const_cast<Block &>(block).shared.size();
  uint64_t all = uint64_t(recording_.gpu->l1Kilobytes) << 10;
  l1Bytes_ = all > shared ? all - shared : 0;
  lastBlock_ = nullptr;
}

void Recorder::endBlock(const Block &block) {
  Open &open = open_[block.linear];
  uint64_t hash = 0;
  for (const Warp &warp : block.warps)
    open.trace.instructions += warp.executed;
  for (uint64_t h : open.hash)
    hash = (hash ^ h) * 0x9E3779B97F4A7C15ull;
  auto [it, isNew] =
      classes_.try_emplace(hash, uint32_t(recording_.classes.size()));
  if (isNew)
    recording_.classes.emplace_back();
  BlockClass &of = recording_.classes[it->second];
  recording_.executed.emplace_back(block.linear, it->second);
  ++of.executed;
  auto average = [&](uint64_t &mean, uint64_t value) {
    mean = uint64_t(double(mean) +
                    (double(value) - double(mean)) / double(of.executed));
  };
  average(of.instructions, open.trace.instructions);
  for (int i = 0; i < 3; ++i)
    average(of.bytes[i], open.trace.bytes[i]);
  // The first blocks find caches empty; the newest replaces the last kept.
  if (of.kept.size() < kKept)
    of.kept.push_back(std::move(open.trace));
  else
    of.kept.back() = std::move(open.trace);
  open_.erase(block.linear);
  lastBlock_ = nullptr;
}

void Recorder::beginOp(const Warp &warp, uint32_t pc) {
  if (lastBlock_ != warp.block) {
    lastBlock_ = warp.block;
    last_ = &open_[warp.block->linear];
  }
  uint32_t &at = last_->at[size_t(warp.index)];
  const Regions &regions = recording_.regions;
  uint32_t region = regions.of[pc];
  WarpTrace &trace = last_->trace.warps[size_t(warp.index)];
  if (at != pc || regions.all[region].begin == pc) {
    // Accesses of ops that this group does not execute are inactive ones.
    size_t full =
        trace.regions.empty()
            ? 0
            : trace.begins.back() + regions.all[trace.regions.back()].records;
    trace.accesses.resize(full);
    trace.begins.push_back(uint32_t(full));
    trace.regions.push_back(region);
    uint64_t &hash = last_->hash[size_t(warp.index)];
    hash = (hash ^ region) * 0x9E3779B97F4A7C15ull + 1;
  }
  at = pc + 1;
  if (regions.record[pc] < 0)
    return;
  current_ = {};
  op_ = pc;
  const Counters &counters = warp.launch->counters;
  wavefronts_ = counters.sharedLoads.wavefronts +
                counters.sharedStores.wavefronts +
                counters.matrixLoads.wavefronts;
}

void Recorder::endOp(Warp &warp, uint32_t pc, Mask mask) {
  const Regions &regions = recording_.regions;
  int32_t record = regions.record[pc];
  if (record < 0)
    return;
  const Op &op = kernel_.ops[pc];
  if (mask) {
    const Counters &counters = warp.launch->counters;
    uint64_t now = counters.sharedLoads.wavefronts +
                   counters.sharedStores.wavefronts +
                   counters.matrixLoads.wavefronts;
    current_.isActive = true;
    current_.wavefronts = uint8_t(std::min<uint64_t>(now - wavefronts_, 255));
    if (op.control == Control::Barrier) {
      int first = std::countr_zero(mask);
      const Place *s = &op.r[op.results];
      current_.barrier = uint16_t(warp.lanes<uint32_t>(s[0])[first]);
      current_.threads =
          op.imm ? uint16_t(warp.lanes<uint32_t>(s[1])[first]) : 0;
    }
  }
  WarpTrace &trace = last_->trace.warps[size_t(warp.index)];
  size_t place = trace.begins.back() + size_t(record);
  if (trace.accesses.size() <= place)
    trace.accesses.resize(place + 1);
  trace.accesses[place] = current_;
}

void Recorder::background(uint32_t barrier, uint32_t bytes) {
  current_.barrier = uint16_t(barrier / 8);
  current_.copied += bytes;
}

void Recorder::global(Warp &warp, const uint64_t *address, Mask mask,
                      uint32_t bytes, bool isWrite, bool isBeyondL1) {
  uint64_t sectors[2 * kLanes] = {};
  int count = 0;
  for (Mask left = mask; left; left &= left - 1) {
    uint64_t at = address[std::countr_zero(left)];
    uint64_t last = (at + bytes - 1) / kSectorBytes;
    for (uint64_t s = at / kSectorBytes; s <= last; ++s)
      if (!count || sectors[count - 1] != s)
        sectors[count++] = s;
    if (count > 2 * kLanes - 2)
      break;
  }
  std::sort(sectors, sectors + count);
  count = int(std::unique(sectors, sectors + count) - sectors);
  current_.isWrite |= isWrite;
  Recording::Source &source = recording_.sources[op_];
  Allocation *allocation = warp.launch->memory->find(sectors[0] * kSectorBytes);
  bool isWarm = allocation && allocation->bytes < recording_.warmBytes;
  SectorCache &l2 = recording_.l2 ? *recording_.l2 : ownL2_;
  uint64_t l2Bytes = uint64_t(recording_.gpu->l2Megabytes) << 20;
  uint64_t line = ~uint64_t(0);
  for (int i = 0; i < count; ++i) {
    if (sectors[i] / 4 != line) {
      line = sectors[i] / 4;
      ++current_.lines;
    }
    ++current_.sectors;
    bool isHit = last_->l1.touch(sectors[i], l1Bytes_);
    if (isHit && !isWrite && !isBeyondL1)
      continue;
    ++current_.beyondL1;
    bool isCold = !l2.touch(sectors[i], l2Bytes) && !isWrite && !isWarm &&
                  !recording_.isWarm(sectors[i] * kSectorBytes);
    current_.beyondL2 += isCold;
    if (isWrite)
      continue;
    source.begin = std::min(source.begin, sectors[i] * kSectorBytes);
    source.end = std::max(source.end, (sectors[i] + 1) * kSectorBytes);
    source.requested += kSectorBytes;
    source.cold += isCold ? kSectorBytes : 0;
  }
  BlockTrace &trace = last_->trace;
  trace.bytes[0] += uint64_t(current_.sectors) * kSectorBytes;
  trace.bytes[1] += uint64_t(current_.beyondL1) * kSectorBytes;
  trace.bytes[2] += uint64_t(current_.beyondL2) * kSectorBytes;
}

} // namespace softgpu
