//===- MachineSchedule.cpp - The order of instructions in a region --------===//
//
// List scheduling, as assemblers do it: of the instructions whose operands are
// ready, the one with the longest chain behind it goes first. So loads come
// early, as many as registers allow; then those go first that free registers.
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/MachineCode.h"

#include <algorithm>

namespace softgpu {

namespace {

/// Cycles that the scheduler assumes for a load of global and of shared memory.
constexpr int kGlobalCycles = 400, kSharedCycles = 30;

int cyclesOf(const MachineOp &m) {
  switch (m.pipe) {
  case Pipe::Free:
    return 0;
  case Pipe::Global:
    return m.writes ? kGlobalCycles : 1;
  case Pipe::Shared:
    return m.writes ? kSharedCycles : 1;
  default:
    return std::max<int>(m.latency, m.slots);
  }
}

struct Memory {
  int space = 0; ///< 1: global, 2: shared, 3: local.
  bool isWrite = false, isConstant = false;
  uint32_t base = ~0u, version = 0;
  int64_t begin = 0, end = 0;
  uint32_t at = 0;
};

/// Whether the two accesses must stay in their order: both are of one space,
/// one of them writes, and their addresses may overlap.
bool isOrdered(const Memory &a, const Memory &b) {
  if (a.space != b.space || (!a.isWrite && !b.isWrite) || a.isConstant ||
      b.isConstant)
    return false;
  bool isSameBase = a.base == b.base && a.version == b.version;
  return !isSameBase || (a.begin < b.end && b.begin < a.end);
}

struct Node {
  /// Successor, and the cycles until it can issue.
  std::vector<std::pair<uint32_t, int>> next;
  int before = 0; ///< Number of predecessors that are not scheduled yet.
  /// Earliest cycle; cycles of the longest chain after the node.
  int earliest = 0, height = 0;
};

class Scheduler {
public:
  Scheduler(const Kernel &kernel, const MachineCode &code,
            const std::vector<uint8_t> &widths, const std::vector<bool> &isLive,
            int limit, std::span<MachineOp> ops)
      : kernel_(kernel), code_(code), widths_(widths), isLive_(isLive),
        limit_(limit), ops_(ops), nodes_(ops.size()) {}

  void run() {
    connect();
    for (size_t i = ops_.size(); i-- > 0;) {
      int most = 0;
      for (auto [to, cycles] : nodes_[i].next)
        most = std::max(most, nodes_[to].height + cycles);
      nodes_[i].height = std::max(most, cyclesOf(ops_[i]));
    }
    order();
  }

private:
  const uint32_t *registersOf(const MachineOp &m) const {
    return &code_.registers[m.registers];
  }
  void edge(uint32_t from, uint32_t to, int cycles) {
    if (from == to)
      return;
    nodes_[from].next.emplace_back(to, cycles);
    ++nodes_[to].before;
  }
  void connect();
  Memory memoryOf(uint32_t index) const;
  /// How many more 32-bit registers are in use after the op than before it.
  int growth(const MachineOp &m) const;
  void take(const MachineOp &m);
  void order();

  const Kernel &kernel_;
  const MachineCode &code_;
  const std::vector<uint8_t> &widths_;
  const std::vector<bool> &isLive_;
  int limit_;
  std::span<MachineOp> ops_;
  std::vector<Node> nodes_;
  /// The registers that the region uses. The arrays below are indexed by a
  /// register's place in this list, which localOf_ has.
  std::vector<std::pair<uint32_t, uint32_t>> local_;
  std::vector<uint32_t> uses_;  ///< Number of reads that are not scheduled yet.
  std::vector<uint8_t> isHeld_; ///< Whether the value occupies a register now.
  std::vector<uint8_t> isConstant_;
  std::vector<uint32_t> version_, localOf_;
  int pressure_ = 0;
};

Memory Scheduler::memoryOf(uint32_t index) const {
  const MachineOp &m = ops_[index];
  const Op &op = kernel_.ops[m.op];
  Memory memory;
  memory.at = index;
  switch (m.pipe) {
  case Pipe::Global:
    memory.space = op.opClass == OpClass::LocalAccess ? 3 : 1;
    memory.isWrite = !m.writes;
    memory.isConstant = kernel_.texts[m.op].find(".nc") != std::string::npos;
    break;
  case Pipe::Shared:
    memory.space = 2;
    memory.isWrite = !m.writes;
    break;
  // The op writes shared memory, and its address is the first source.
  case Pipe::Copy:
    memory.space = 2;
    memory.isWrite = true;
    break;
  default:
    return memory;
  }
  if (op.addressBytes && m.reads) {
    memory.base = registersOf(m)[0];
    memory.version = version_[localOf_[memory.base]];
  }
  memory.begin = op.imm;
  int lanes = op.opClass == OpClass::MatrixLoad ? 4 : 1;
  memory.end =
      op.imm + std::max<int>(op.bytes, 4) * std::max<int>(op.count, 1) * lanes;
  return memory;
}

void Scheduler::connect() {
  localOf_.assign(code_.registerCount, ~0u);
  for (const MachineOp &m : ops_)
    for (int i = 0; i < m.reads + m.writes; ++i) {
      uint32_t r = registersOf(m)[i];
      if (localOf_[r] == ~0u) {
        localOf_[r] = uint32_t(local_.size());
        local_.emplace_back(r, 0);
      }
    }
  size_t count = local_.size();
  uses_.assign(count, 0);
  isHeld_.assign(count, 0);
  isConstant_.assign(count, 0);
  version_.assign(count, 0);
  std::vector<int64_t> writer(count, -1);
  std::vector<std::vector<uint32_t>> readers(count);
  std::vector<Memory> accesses;
  for (uint32_t i = 0; i < ops_.size(); ++i) {
    const MachineOp &m = ops_[i];
    const uint32_t *r = registersOf(m);
    bool hasRegisters = m.pipe != Pipe::Free;
    for (int k = 0; k < m.reads; ++k) {
      uint32_t at = localOf_[r[k]];
      ++uses_[at];
      if (writer[at] >= 0)
        edge(uint32_t(writer[at]), i, cyclesOf(ops_[size_t(writer[at])]));
      else if (!isHeld_[at]) {
        isHeld_[at] = 1; // The value comes from before the region.
        pressure_ += widths_[r[k]];
      }
      hasRegisters |= !isConstant_[at];
      readers[at].push_back(i);
    }
    Memory memory = memoryOf(i);
    if (memory.space) {
      for (const Memory &other : accesses)
        if (isOrdered(other, memory))
          edge(other.at, i, 1);
      accesses.push_back(memory);
    }
    for (int k = 0; k < m.writes; ++k) {
      uint32_t at = localOf_[r[m.reads + k]];
      for (uint32_t reader : readers[at])
        edge(reader, i, 0);
      if (writer[at] >= 0)
        edge(uint32_t(writer[at]), i, 1);
      readers[at].clear();
      writer[at] = i;
      ++version_[at];
      isConstant_[at] = !hasRegisters;
    }
  }
  for (size_t r = 0; r < isLive_.size(); ++r)
    if (isLive_[r] && (localOf_[r] == ~0u || writer[localOf_[r]] < 0)) {
      if (localOf_[r] != ~0u && isHeld_[localOf_[r]])
        continue;
      if (localOf_[r] != ~0u)
        isHeld_[localOf_[r]] = 1;
      pressure_ += widths_[r];
    }
  // The op that ends the region comes last.
  uint32_t last = uint32_t(ops_.size() - 1);
  if (endsRegion(kernel_.ops[ops_[last].op]))
    for (uint32_t i = 0; i < last; ++i)
      edge(i, last, 0);
}

int Scheduler::growth(const MachineOp &m) const {
  const uint32_t *r = registersOf(m);
  int more = 0;
  for (int k = 0; k < m.writes; ++k) {
    uint32_t at = localOf_[r[m.reads + k]];
    more += isHeld_[at] || isConstant_[at] ? 0 : widths_[r[m.reads + k]];
  }
  for (int k = 0; k < m.reads; ++k) {
    uint32_t at = localOf_[r[k]];
    bool isLast = uses_[at] == 1 && !isLive_[r[k]];
    more -= isLast && isHeld_[at] ? widths_[r[k]] : 0;
  }
  return more;
}

void Scheduler::take(const MachineOp &m) {
  const uint32_t *r = registersOf(m);
  pressure_ += growth(m);
  for (int k = 0; k < m.reads; ++k) {
    uint32_t at = localOf_[r[k]];
    if (uses_[at] && --uses_[at] == 0 && !isLive_[r[k]])
      isHeld_[at] = 0;
  }
  for (int k = 0; k < m.writes; ++k)
    isHeld_[localOf_[r[m.reads + k]]] = 1;
}

void Scheduler::order() {
  // Some registers hold addresses and counters that PTX does not show.
  int most = std::max(16, limit_ - 4);
  std::vector<uint32_t> ready;
  for (uint32_t i = 0; i < nodes_.size(); ++i)
    if (!nodes_[i].before)
      ready.push_back(i);
  std::vector<MachineOp> result;
  result.reserve(ops_.size());
  int now = 0;
  while (!ready.empty()) {
    auto isBetter = [&](uint32_t a, uint32_t b) {
      bool early = nodes_[a].earliest <= now, other = nodes_[b].earliest <= now;
      if (early != other)
        return early;
      if (!early && nodes_[a].earliest != nodes_[b].earliest)
        return nodes_[a].earliest < nodes_[b].earliest;
      if (nodes_[a].height != nodes_[b].height)
        return nodes_[a].height > nodes_[b].height;
      return a < b;
    };
    size_t best = 0;
    for (size_t i = 1; i < ready.size(); ++i)
      if (isBetter(ready[i], ready[best]))
        best = i;
    int more = growth(ops_[ready[best]]);
    if (more > 0 && pressure_ + more > most)
      for (size_t i = 0; i < ready.size(); ++i) {
        int other = growth(ops_[ready[i]]);
        if (other < more || (other == more && ready[i] < ready[best]))
          best = i, more = other;
      }
    uint32_t chosen = ready[best];
    ready.erase(ready.begin() + long(best));
    const MachineOp &m = ops_[chosen];
    now = std::max(now, nodes_[chosen].earliest);
    take(m);
    result.push_back(m);
    for (auto [to, cycles] : nodes_[chosen].next) {
      nodes_[to].earliest = std::max(nodes_[to].earliest, now + cycles);
      if (!--nodes_[to].before)
        ready.push_back(to);
    }
    now += m.pipe == Pipe::Free ? 0 : m.slots;
  }
  std::copy(result.begin(), result.end(), ops_.begin());
}

} // namespace

void scheduleRegion(const Kernel &kernel, const MachineCode &code,
                    const std::vector<uint8_t> &widths,
                    const std::vector<bool> &isLive, int limit,
                    std::span<MachineOp> ops) {
  if (ops.size() > 1)
    Scheduler(kernel, code, widths, isLive, limit, ops).run();
}

} // namespace softgpu
