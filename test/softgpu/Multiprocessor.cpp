#include "test/softgpu/Multiprocessor.h"

#include "test/softgpu/Flow.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>

namespace softgpu {

namespace {

using Cycle = int64_t;
constexpr Cycle kNever = std::numeric_limits<Cycle>::max() / 2;
constexpr int kParts = 4;
/// Cycles of work that the load and store unit queues before warps wait.
constexpr Cycle kMemoryQueue = 16;
/// Products of warpgroups that wait behind the one that runs, before warps do.
/// An assumption: measurements only show that it is more than one, as weights
/// of attention are made beside products of the same warpgroup, which makes it
/// 14 % faster (arXiv 2407.08608, table 2).
constexpr int kProductsQueued = 8;

/// A unit that serves bytes one after the other, with the cycle from which it
/// is free and its busy cycles.
struct Server {
  double perByte = 0, free = 0, busy = 0;
  double serve(double now, double bytes) {
    busy += bytes * perByte;
    free = std::max(now, free) + bytes * perByte;
    return free;
  }
};

struct ReplayWarp {
  const WarpTrace *trace = nullptr;
  size_t next = 0; ///< Index in the trace of the region that comes next.
  /// The next op, the end of its region, and the region's first access in the
  /// trace.
  uint32_t at = 0, end = 0, access = 0;
  std::vector<Cycle> ready; ///< Cycle at which each register has its value.
  Cycle earliest = 0;       ///< Cycle at which the op at `at` has its operands.
  Cycle own = 0;            ///< Cycle at which the warp may issue again.
  Cycle issued = 0;         ///< Cycle at which the warp issued last.
  int block = -1;
  /// Cycles at which committed groups of copies have landed.
  std::vector<Cycle> groups;
  Cycle open = 0; ///< Cycle at which copies after the last commit have landed.
  Cycle stores = 0; ///< Cycle at which the warp's stores have arrived.
  int index = 0;    ///< Index of the warp in its block.
  /// For each mbarrier, the number of phases that the warp has waited for.
  std::map<int, size_t> phases;
  /// Arrivals at the cluster's barrier, and waits there.
  size_t arrivals = 0, meetings = 0;
  Cycle products = 0; ///< Cycle at which the last wgmma ends.
  /// Cycles at which committed groups of wgmma end.
  std::vector<Cycle> productGroups;
  bool isDone = true;
};

struct ReplayBarrier {
  int arrived = 0;
  std::vector<int> waiting;
};

/// A phase of an mbarrier, or (without bytes) of the cluster's barrier.
struct ReplayPhase {
  double expected = 0, copied = 0; ///< Numbers of bytes.
  int arrived = 0;
  bool isComplete = false;
  Cycle ready = 0;
  std::vector<int> waiting;
};

struct ReplayBlock {
  std::vector<int> warps;
  int live = 0;
  ReplayBarrier barriers[16];
  ReplayBarrier productFences[8]; ///< wgmma.fence of each warpgroup.
  std::map<int, std::deque<ReplayPhase>> mbarriers;
  std::deque<ReplayPhase> meetings; ///< Phases of barrier.cluster.
};

/// One of the four schedulers with its pipes, and when each is free. `lite` and
/// `heavy` are the halves of the float lanes; integer products take the latter.
struct Part {
  std::vector<int> warps; ///< Warps, the oldest first.
  int last = -1;          ///< The warp that issued last.
  Cycle next = 0; ///< Cycle at which the scheduler looks for a warp again.
  int sinceBubble = 0;
  Cycle lite = 0, heavy = 0, integer = 0, special = 0, tensor = 0, fp64 = 0;
  double issued = 0, floats = 0, integers = 0, specials = 0, tensors = 0;
};

class Multiprocessor {
public:
  explicit Multiprocessor(const ReplayInput &input)
      : in_(input), code_(*input.code), gpu_(*input.gpu) {
    port_.perByte = 1 / kClockConstants.portBytes;
    l2_.perByte = 1 / std::min(input.l2Bytes, kClockConstants.portBytes);
    dram_.perByte = 1 / std::min(input.dramBytes, kClockConstants.portBytes);
    lineReady_.assign(code_.instructions / 8 + 2, -1);
    rest_.assign(in_.cold.size(), 0);
  }
  ReplayResult run();

private:
  void startBlock(Cycle now);
  void advance(ReplayWarp &w);
  Cycle free(const Part &part, const MachineOp &m) const;
  void issue(Part &part, int warp, Cycle now);
  void arithmetic(Part &part, const MachineOp &m, Cycle now);
  Cycle global(const MachineOp &m, const Access &a, Cycle now);
  double beyondL1(double start, uint32_t op, const Access &a);
  Cycle multiply(Part &part, const MachineOp &m, Cycle now);
  void readOperands(Cycle now);
  void meet(int warp, Cycle now);
  void arrive(int warp, const MachineOp &m, const Access &a, Cycle now);
  void release(ReplayBlock &block, int id, Cycle now);
  void count(ReplayPhase &phase, bool isComplete, Cycle now);
  void await(int warp, std::deque<ReplayPhase> &phases, size_t number);
  void copyBulk(ReplayBlock &block, const MachineOp &m, const Access &a,
                Cycle now);
  bool releaseAll(Cycle now);
  void end(int warp, Cycle now);
  Cycle fetch(uint32_t line, Cycle now);
  void wake(int warp, Cycle when) {
    ReplayWarp &w = warps_[size_t(warp)];
    w.own = when;
    advance(w);
    Part &part = parts_[warp % kParts];
    part.next = std::min(part.next, w.earliest);
  }

  const ReplayInput &in_;
  const MachineCode &code_;
  const GpuModel &gpu_;
  Part parts_[kParts];
  std::vector<ReplayWarp> warps_;
  std::vector<ReplayBlock> blocks_;
  size_t nextBlock_ = 0;
  Cycle memoryFree_ = 0;
  double memoryBusy_ = 0;
  /// Reads of wgmma operands from shared memory, and writes of bulk copies:
  /// when they begin, and the cycles that they take.
  std::multimap<Cycle, double> operands_;
  double operandsFree_ = 0, operandRest_ = 0;
  Server port_, l2_, dram_;
  /// Time of arrival, and bytes.
  std::deque<std::pair<double, double>> inFlight_;
  double bytesInFlight_ = 0;
  /// For each op, fractions of cold sectors that are not served yet.
  std::vector<double> rest_;
  std::vector<Cycle> lineReady_;
  ReplayResult result_;
};

void Multiprocessor::startBlock(Cycle now) {
  if (nextBlock_ >= in_.blocks.size())
    return;
  const BlockTrace &trace = *in_.blocks[nextBlock_++];
  int index = int(blocks_.size());
  blocks_.emplace_back();
  for (const WarpTrace &own : trace.warps) {
    // A warp takes the lowest free slot, whose number says in which part it is.
    size_t slot = 0;
    while (slot < warps_.size() && !warps_[slot].isDone)
      ++slot;
    if (slot == warps_.size())
      warps_.emplace_back();
    ReplayWarp &w = warps_[slot];
    w = {};
    w.trace = &own;
    w.ready.assign(code_.registerCount, now);
    w.own = now;
    w.issued = now;
    w.block = index;
    w.index = int(blocks_.back().warps.size());
    w.isDone = false;
    blocks_.back().warps.push_back(int(slot));
    ++blocks_.back().live;
    Part &part = parts_[slot % kParts];
    part.warps.push_back(int(slot));
  }
  std::vector<int> started = blocks_.back().warps;
  for (int slot : started) {
    ReplayWarp &w = warps_[size_t(slot)];
    advance(w);
    if (w.at == w.end && w.next >= w.trace->regions.size())
      end(slot, now);
    else
      wake(slot, now);
  }
}

/// Goes to the next instruction and says when it can issue at the earliest.
void Multiprocessor::advance(ReplayWarp &w) {
  for (;;) {
    if (w.at == w.end) {
      if (w.next >= w.trace->regions.size())
        return;
      const MachineRegion &region = code_.regions[w.trace->regions[w.next]];
      w.access = w.trace->begins[w.next++];
      w.at = region.begin;
      w.end = region.end;
      continue;
    }
    const MachineOp &m = code_.ops[w.at];
    const uint32_t *r = &code_.registers[m.registers];
    Cycle ready = 0;
    for (int i = 0; i < m.reads; ++i)
      ready = std::max(ready, w.ready[r[i]]);
    if (m.pipe != Pipe::Free) {
      w.earliest = std::max(w.own, ready);
      return;
    }
    for (int i = 0; i < m.writes; ++i)
      w.ready[r[m.reads + i]] = ready;
    ++w.at;
  }
}

/// Returns when the instruction's pipe is free to take it.
Cycle Multiprocessor::free(const Part &part, const MachineOp &m) const {
  switch (m.pipe) {
  case Pipe::Float:
    return gpu_.floatLanes == 128 ? std::min(part.lite, part.heavy)
                                  : part.heavy;
  case Pipe::Multiply:
    return part.heavy;
  case Pipe::Integer:
    return part.integer;
  case Pipe::Adder:
    return std::min(part.integer, part.heavy);
  case Pipe::Special:
    return part.special;
  case Pipe::Double:
    return part.fp64;
  case Pipe::Tensor:
    return part.tensor;
  case Pipe::Product:
    return part.tensor - Cycle(kProductsQueued) * m.interval;
  case Pipe::Global:
  case Pipe::Shared:
  case Pipe::Copy:
  case Pipe::Shuffle:
    return memoryFree_ - kMemoryQueue;
  default:
    return 0;
  }
}

void Multiprocessor::arithmetic(Part &part, const MachineOp &m, Cycle now) {
  Cycle cycles = Cycle(m.interval) * m.slots;
  switch (m.pipe) {
  case Pipe::Float: {
    // A half of the float lanes takes two cycles for a warp.
    bool isLite = gpu_.floatLanes == 128 && part.lite <= part.heavy;
    (isLite ? part.lite : part.heavy) = now + 2 * m.slots;
    part.floats += gpu_.floatLanes == 128 ? m.slots : 2 * m.slots;
    break;
  }
  case Pipe::Adder:
    if (part.integer <= part.heavy) {
      part.integer = now + cycles;
      part.integers += double(cycles);
      break;
    }
    cycles = 2 * m.slots;
    [[fallthrough]];
  case Pipe::Multiply:
    part.heavy = now + cycles;
    part.floats += gpu_.floatLanes == 128 ? double(cycles) / 2 : double(cycles);
    break;
  case Pipe::Integer:
    part.integer = now + cycles;
    part.integers += double(cycles);
    break;
  case Pipe::Special:
    part.special = now + cycles;
    part.specials += double(cycles);
    break;
  case Pipe::Double:
    part.fp64 = now + cycles;
    break;
  case Pipe::Tensor:
    part.tensor = now + cycles;
    part.tensors += double(cycles);
    break;
  default:
    break;
  }
}

/// Returns when the sectors that L1 does not have arrive: they wait for room
/// among the bytes in flight, take their turn at the port, at L2 and (the cold
/// ones) at DRAM, and then the latency. What a bulk copy brings to a cluster
/// comes from L2 once and passes each port.
double Multiprocessor::beyondL1(double start, uint32_t op, const Access &a) {
  constexpr double kSector = 32;
  double bytes = kSector * a.beyondL1;
  while (!inFlight_.empty() &&
         (inFlight_.front().first <= start ||
          bytesInFlight_ + bytes > kClockConstants.bytesInFlight)) {
    start = std::max(start, inFlight_.front().first);
    bytesInFlight_ -= inFlight_.front().second;
    inFlight_.pop_front();
  }
  double cold = 0;
  if (!a.isWrite) {
    rest_[op] += a.beyondL1 * in_.cold[op];
    cold = std::floor(rest_[op]);
    rest_[op] -= cold;
  }
  double done = port_.serve(start, std::max<double>(bytes, a.copied));
  done = std::max(done, l2_.serve(start, bytes)) + gpu_.latency.l2;
  if (cold > 0)
    done =
        std::max(done, dram_.serve(start, kSector * cold) + gpu_.latency.dram);
  inFlight_.emplace_back(done, bytes);
  bytesInFlight_ += bytes;
  return done;
}

/// An access of global memory, or a cp.async. Returns when the result is there;
/// for a store, when it has arrived.
Cycle Multiprocessor::global(const MachineOp &m, const Access &a, Cycle now) {
  Cycle start = std::max(now, memoryFree_);
  // L1 looks up a line and moves four sectors in a cycle; cp.async passes
  // through shared memory too.
  Cycle cycles = std::max<Cycle>({1, a.lines, (a.sectors + 3) / 4});
  if (m.pipe == Pipe::Copy)
    cycles = std::max<Cycle>(cycles, a.wavefronts);
  memoryFree_ = start + cycles;
  memoryBusy_ += double(cycles);
  Cycle done = start + cycles - 1 + gpu_.latency.l1;
  if (a.beyondL1)
    done = std::max(done, Cycle(std::ceil(beyondL1(double(start), m.op, a))));
  return done;
}

/// Returns when a line of machine code is there; the first warp that needs it
/// fetches it.
Cycle Multiprocessor::fetch(uint32_t line, Cycle now) {
  Cycle &ready = lineReady_[line];
  if (ready >= 0)
    return ready;
  // A line follows the one before it, which is fetched in order; after a jump
  // it comes from L2.
  ready =
      line && lineReady_[line - 1] >= 0
          ? std::max(now, lineReady_[line - 1] + kClockConstants.fetchCycles)
          : now + gpu_.latency.l2;
  return ready;
}

/// A wgmma of one warp. Returns when it ends: it takes its turn on the tensor
/// cores of the part, and needs the operands that shared memory gives all parts
/// together.
Cycle Multiprocessor::multiply(Part &part, const MachineOp &m, Cycle now) {
  // Operands are read in pieces during the multiplication.
  constexpr int kPieces = 4;
  Cycle start = std::max(now, part.tensor);
  double cycles = m.operandBytes / kClockConstants.sharedBytes;
  for (int i = 0; i < kPieces; ++i)
    operands_.emplace(start + i * m.interval / kPieces, cycles / kPieces);
  operandsFree_ =
      std::max(operandsFree_, double(std::max(start, memoryFree_))) + cycles;
  part.tensor = std::max(start + m.interval, Cycle(std::ceil(operandsFree_)));
  part.tensors += m.interval;
  return part.tensor;
}

/// Occupies shared memory for the operands that wgmma have read until now, so
/// that loads and stores wait for it.
void Multiprocessor::readOperands(Cycle now) {
  double cycles = 0;
  while (!operands_.empty() && operands_.begin()->first <= now) {
    cycles += operands_.begin()->second;
    operands_.erase(operands_.begin());
  }
  operandRest_ += cycles;
  auto whole = Cycle(operandRest_);
  operandRest_ -= double(whole);
  if (whole)
    memoryFree_ = std::max(now, memoryFree_) + whole;
  memoryBusy_ += cycles;
}

/// wgmma.fence: products begin when all four warps have come.
void Multiprocessor::meet(int warp, Cycle now) {
  constexpr int kWarps = 4;
  ReplayWarp &w = warps_[size_t(warp)];
  ReplayBarrier &fence =
      blocks_[size_t(w.block)].productFences[w.index / kWarps];
  fence.waiting.push_back(warp);
  w.own = kNever;
  w.earliest = kNever;
  if (++fence.arrived < kWarps)
    return;
  std::vector<int> waiting = std::move(fence.waiting);
  fence = {};
  for (int each : waiting)
    wake(each, now + gpu_.latency.arithmetic);
}

/// Wakes the warps that wait for a phase that is complete now.
void Multiprocessor::count(ReplayPhase &phase, bool isComplete, Cycle ready) {
  phase.ready = std::max(phase.ready, ready);
  if (!isComplete || phase.isComplete)
    return;
  phase.isComplete = true;
  std::vector<int> waiting = std::move(phase.waiting);
  for (int warp : waiting)
    wake(warp, phase.ready);
}

/// The warp waits for the phase with this number.
void Multiprocessor::await(int warp, std::deque<ReplayPhase> &phases,
                           size_t number) {
  if (phases.size() <= number)
    phases.resize(number + 1);
  ReplayPhase &phase = phases[number];
  ReplayWarp &w = warps_[size_t(warp)];
  if (phase.isComplete) {
    w.own = std::max(w.own, phase.ready);
    return;
  }
  phase.waiting.push_back(warp);
  w.own = kNever;
  w.earliest = kNever;
}

/// A bulk copy by this block. The other blocks of its cluster are taken to be
/// in step with it and to copy as much, so that all bytes of the phase that are
/// for this block arrive together with its own. They are written to shared
/// memory as they come through the port.
void Multiprocessor::copyBulk(ReplayBlock &block, const MachineOp &m,
                              const Access &a, Cycle now) {
  constexpr int kPieces = 16;
  double done = beyondL1(double(now), m.op, a);
  double cycles = a.copied / kClockConstants.sharedBytes;
  double time = a.copied / kClockConstants.portBytes;
  for (int i = 0; i < kPieces; ++i)
    operands_.emplace(Cycle(done - time * (kPieces - i) / kPieces),
                      cycles / kPieces);
  std::deque<ReplayPhase> &phases = block.mbarriers[a.barrier];
  size_t number = 0;
  while (number < phases.size() && phases[number].isComplete)
    ++number;
  if (number == phases.size())
    phases.emplace_back();
  ReplayPhase &phase = phases[number];
  phase.copied += a.copied;
  count(phase, phase.arrived && phase.copied >= phase.expected,
        Cycle(std::ceil(done)));
}

/// Lets one wait end that nothing else will end, as of a barrier whose warps do
/// not all come. Returns whether there was any.
bool Multiprocessor::releaseAll(Cycle now) {
  for (ReplayBlock &block : blocks_) {
    for (int id = 0; id < 16; ++id)
      if (!block.barriers[id].waiting.empty()) {
        release(block, id, now);
        return true;
      }
    auto end = [&](std::deque<ReplayPhase> &phases) {
      for (ReplayPhase &phase : phases)
        if (!phase.waiting.empty()) {
          count(phase, true, now);
          return true;
        }
      return false;
    };
    if (end(block.meetings))
      return true;
    for (auto &[at, phases] : block.mbarriers)
      if (end(phases))
        return true;
  }
  return false;
}

void Multiprocessor::release(ReplayBlock &block, int id, Cycle now) {
  ReplayBarrier &barrier = block.barriers[id];
  std::vector<int> waiting = std::move(barrier.waiting);
  barrier = {};
  for (int warp : waiting)
    wake(warp, now + kClockConstants.barrierCycles);
}

void Multiprocessor::arrive(int warp, const MachineOp &m, const Access &a,
                            Cycle now) {
  ReplayWarp &w = warps_[size_t(warp)];
  ReplayBlock &block = blocks_[size_t(w.block)];
  ReplayBarrier &barrier = block.barriers[a.barrier & 15];
  int expected = a.threads ? a.threads / kLanes : block.live;
  ++barrier.arrived;
  if ((in_.kernel->ops[m.op].kind & 3) != kArrive) {
    barrier.waiting.push_back(warp);
    w.own = kNever;
    w.earliest = kNever;
  }
  if (barrier.arrived >= expected)
    release(block, a.barrier & 15, now);
}

void Multiprocessor::end(int warp, Cycle now) {
  ReplayWarp &w = warps_[size_t(warp)];
  w.isDone = true;
  std::erase(parts_[warp % kParts].warps, warp);
  ReplayBlock &block = blocks_[size_t(w.block)];
  if (--block.live == 0) {
    result_.ends.push_back(double(now));
    startBlock(now + kClockConstants.blockStart);
    return;
  }
  for (int id = 0; id < 16; ++id)
    if (!block.barriers[id].waiting.empty() &&
        block.barriers[id].arrived >= block.live)
      release(block, id, now);
}

void Multiprocessor::issue(Part &part, int warp, Cycle now) {
  ReplayWarp *w = &warps_[size_t(warp)];
  const MachineOp &m = code_.ops[w->at];
  static const Access kNone;
  const Access *a = &kNone;
  if (m.record >= 0 && w->access + size_t(m.record) < w->trace->accesses.size())
    a = &w->trace->accesses[w->access + size_t(m.record)];
  ++w->at;
  if (in_.leastStall && now - w->issued >= in_.leastStall &&
      size_t(w->block) + 1 == in_.blocks.size())
    result_.stalls.push_back(
        {w->index, double(now), double(now - w->issued), m.op});
  w->issued = now;
  w->own = now + m.slots;
  Cycle result = now + m.latency + (m.slots - 1);
  part.issued += m.slots;
  part.last = warp;
  part.next = now + m.slots;
  part.sinceBubble += m.slots;
  if (part.sinceBubble >= kClockConstants.issuesPerBubble) {
    part.sinceBubble = 0;
    ++part.next;
  }
  switch (m.pipe) {
  case Pipe::Global:
    result = a->isActive ? global(m, *a, now) : now + 1;
    if (!m.writes)
      w->stores = std::max(w->stores, result);
    break;
  case Pipe::Shared:
  case Pipe::Shuffle: {
    Cycle cycles = std::max<Cycle>(1, a->wavefronts);
    Cycle start = std::max(now, memoryFree_);
    memoryFree_ = start + cycles;
    memoryBusy_ += double(cycles);
    result = start + m.latency + cycles - 1;
    break;
  }
  case Pipe::Copy:
    if (a->isActive)
      w->open = std::max(w->open, global(m, *a, now));
    break;
  case Pipe::Commit:
    w->groups.push_back(w->open);
    w->open = 0;
    break;
  case Pipe::Wait: {
    // wait_all waits for copies that were not committed too.
    bool isAll = in_.kernel->texts[m.op].find("wait_all") != std::string::npos;
    Cycle until = isAll ? w->open : 0;
    size_t due =
        w->groups.size() - std::min<size_t>(m.groups, w->groups.size());
    for (size_t i = 0; i < due; ++i)
      until = std::max(until, w->groups[i]);
    w->groups.erase(w->groups.begin(), w->groups.begin() + long(due));
    w->own = std::max(w->own, until);
    break;
  }
  case Pipe::Product:
    w->products = std::max(w->products, multiply(part, m, now));
    break;
  case Pipe::ProductFence:
    meet(warp, now);
    break;
  case Pipe::ProductCommit:
    w->productGroups.push_back(w->products);
    break;
  case Pipe::ProductWait: {
    size_t due = w->productGroups.size() -
                 std::min<size_t>(m.groups, w->productGroups.size());
    // The last sums come as late as those of an mma.
    if (due)
      w->own = std::max(w->own, w->productGroups[due - 1] + gpu_.latency.mma);
    w->productGroups.erase(w->productGroups.begin(),
                           w->productGroups.begin() + long(due));
    break;
  }
  case Pipe::BulkCopy:
    if (a->isActive)
      copyBulk(blocks_[size_t(w->block)], m, *a, now);
    break;
  case Pipe::ExpectBytes:
    if (a->isActive) {
      std::deque<ReplayPhase> &phases =
          blocks_[size_t(w->block)].mbarriers[a->barrier];
      size_t number = 0;
      while (number < phases.size() && phases[number].arrived)
        ++number;
      if (number == phases.size())
        phases.emplace_back();
      ReplayPhase &phase = phases[number];
      phase.arrived = 1;
      phase.expected = a->copied;
      count(phase, phase.copied >= phase.expected, now);
    }
    break;
  case Pipe::AwaitBytes:
    if (a->isActive)
      await(warp, blocks_[size_t(w->block)].mbarriers[a->barrier],
            w->phases[a->barrier]++);
    break;
  case Pipe::ClusterArrive: {
    ReplayBlock &block = blocks_[size_t(w->block)];
    size_t number = w->arrivals++;
    if (block.meetings.size() <= number)
      block.meetings.resize(number + 1);
    ReplayPhase &phase = block.meetings[number];
    count(phase, ++phase.arrived >= block.live,
          now + kClockConstants.clusterCycles);
    break;
  }
  case Pipe::ClusterWait:
    await(warp, blocks_[size_t(w->block)].meetings, w->meetings++);
    break;
  case Pipe::Fence:
    w->own = std::max(now + m.latency, w->stores);
    break;
  case Pipe::Branch: {
    bool isNear =
        w->next < w->trace->regions.size() &&
        w->trace->regions[w->next] == w->trace->regions[w->next - 1] + 1;
    w->own = now + (isNear ? 2 : kClockConstants.branchCycles);
    break;
  }
  case Pipe::Barrier:
    if (a->isActive)
      arrive(warp, m, *a, now);
    break;
  default:
    arithmetic(part, m, now);
    break;
  }
  const uint32_t *r = &code_.registers[m.registers];
  for (int i = 0; i < m.writes; ++i)
    w->ready[r[m.reads + i]] = result;
  // A region's spilled registers: stores and loads that hit L1.
  if (w->at == w->end && w->next)
    if (uint32_t spills =
            code_.regions[w->trace->regions[w->next - 1]].spills) {
      memoryFree_ = std::max(now, memoryFree_) + Cycle(spills);
      memoryBusy_ += spills;
      part.issued += spills;
      part.next += spills;
      w->own = std::max(w->own, memoryFree_ + gpu_.latency.l1);
    }
  advance(*w);
  if (w->at == w->end && w->next >= w->trace->regions.size())
    end(warp, std::min(std::max(w->own, now + 1), kNever));
}

ReplayResult Multiprocessor::run() {
  for (int i = 0; i < in_.resident; ++i)
    startBlock(0);
  Cycle now = 0;
  while (result_.ends.size() < in_.blocks.size()) {
    Cycle next = kNever;
    for (Part &part : parts_)
      next = std::min(next, part.next);
    // Some warps never come to the barrier that others wait at.
    if (next >= kNever) {
      if (!releaseAll(now))
        break;
      continue;
    }
    now = std::max(now, next);
    readOperands(now);
    for (Part &part : parts_) {
      if (part.next > now)
        continue;
      int chosen = -1;
      Cycle soonest = kNever;
      auto consider = [&](int warp) {
        ReplayWarp &w = warps_[size_t(warp)];
        if (w.earliest >= kNever)
          return;
        const MachineOp &m = code_.ops[w.at];
        Cycle when = std::max(w.earliest, free(part, m));
        if (when <= now)
          when = std::max(when, fetch(m.line, now));
        if (when <= now && chosen < 0)
          chosen = warp;
        soonest = std::min(soonest, when);
      };
      if (part.last >= 0 && !warps_[size_t(part.last)].isDone)
        consider(part.last);
      for (size_t i = 0; i < part.warps.size() && chosen < 0; ++i)
        consider(part.warps[i]);
      if (chosen >= 0)
        issue(part, chosen, now);
      else
        part.next = soonest;
    }
  }
  std::sort(result_.ends.begin(), result_.ends.end());
  result_.cycles = result_.ends.empty() ? 0 : result_.ends.back();
  for (const Part &part : parts_) {
    result_.issue = std::max(result_.issue, part.issued);
    result_.floats = std::max(result_.floats, part.floats);
    result_.integers = std::max(result_.integers, part.integers);
    result_.special = std::max(result_.special, part.specials);
    result_.tensor = std::max(result_.tensor, part.tensors);
  }
  result_.shared = memoryBusy_;
  result_.l2 = l2_.busy;
  result_.dram = dram_.busy;
  return result_;
}

} // namespace

ReplayResult replay(const ReplayInput &input) {
  return Multiprocessor(input).run();
}

} // namespace softgpu
