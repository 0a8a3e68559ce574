//===- Interpreter.cpp - The loop over a warp's instructions --------------===//
//
// Lanes that diverge form groups. The group whose op is first in the order
// (Reconverge.h) runs until it arrives where another group waits; then they
// continue as one. So code between a branch and its point of reconvergence runs
// before the code after it.
//
//===----------------------------------------------------------------------===//

#include "test/softgpu/Flow.h"
#include "test/softgpu/Recording.h"
#include "test/softgpu/Warp.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>

namespace softgpu {

/// Selects the next group that may run, together with those at the same place.
static bool pickGroup(Warp &warp) {
  const Op *ops = warp.launch->kernel->ops.data();
  auto isBefore = [&](const LaneGroup &a, const LaneGroup &b) {
    uint32_t first = ops[a.pc].turn, second = ops[b.pc].turn;
    return warp.runsLast ? first > second : first < second;
  };
  const LaneGroup *best = nullptr;
  for (const LaneGroup &group : warp.groups)
    if (group.barrier < 0 && (!best || isBefore(group, *best)))
      best = &group;
  warp.active = 0;
  warp.nextTurn = ~0u;
  if (!best)
    return false;
  warp.pc = best->pc;
  std::erase_if(warp.groups, [&](const LaneGroup &group) {
    bool joins = group.barrier < 0 && group.pc == warp.pc;
    warp.active |= joins ? group.lanes : 0;
    return joins;
  });
  if (!warp.runsLast)
    for (const LaneGroup &group : warp.groups)
      if (group.barrier < 0)
        warp.nextTurn = std::min(warp.nextTurn, ops[group.pc].turn);
  return true;
}

/// Suspends the running group; returns false if no other may run.
static bool switchGroup(Warp &warp) {
  if (warp.active)
    warp.groups.push_back({warp.pc, warp.active, -1});
  return pickGroup(warp);
}

/// Sends the lanes `taken` to `target`; the others continue.
static void diverge(Warp &warp, Mask taken, uint32_t target) {
  Mask others = warp.active & ~taken;
  if (!others) {
    warp.pc = target;
    return;
  }
  warp.groups.push_back({target, taken, -1});
  warp.active = others;
  ++warp.pc;
  switchGroup(warp);
}

static void branchIndexed(Warp &warp, const Op &op, Mask mask) {
  const uint32_t *index = warp.lanes<uint32_t>(op.r[0]);
  const Kernel &kernel = *warp.launch->kernel;
  if (Mask others = warp.active & ~mask)
    warp.groups.push_back({warp.pc + 1, others, -1});
  for (Mask left = mask; left; left &= left - 1) {
    int lane = std::countr_zero(left);
    if (index[lane] >= uint64_t(op.imm))
      report(warp, op, lane, FindingKind::OutOfBounds,
             fmt::format("branch {} of {}", index[lane], op.imm));
    warp.groups.push_back(
        {kernel.targets[op.target + index[lane]], left & -left, -1});
  }
  warp.active = 0;
  pickGroup(warp);
}

/// Executes a control op; returns false if the warp has to stop for now.
static bool act(Warp &warp, const Op &op, Mask mask) {
  if (!mask) {
    ++warp.pc;
    return true;
  }
  switch (op.control) {
  case Control::Branch:
    if (op.isUniform && mask != warp.active && warp.launch->isChecked)
      report(warp, op, std::countr_zero(mask), FindingKind::DivergentWarp,
             fmt::format("bra.uni is taken by lanes {:#x} of {:#x}", mask,
                         warp.active));
    diverge(warp, mask, op.target);
    return true;
  case Control::Indexed:
    branchIndexed(warp, op, mask);
    return true;
  case Control::Exit:
    warp.live &= ~mask;
    warp.active &= ~mask;
    if (!warp.live && warp.launch->isChecked)
      checkEnd(warp, op);
    ++warp.pc;
    return warp.active || pickGroup(warp);
  case Control::Barrier: {
    bool waits = arriveAtBarrier(warp, op, mask);
    int id =
        int(warp.lanes<uint32_t>(op.r[op.results])[std::countr_zero(mask)]);
    ++warp.pc;
    if (!waits)
      return true;
    warp.groups.push_back({warp.pc, mask, id});
    warp.active &= ~mask;
    return warp.active || pickGroup(warp);
  }
  case Control::Await: {
    int at = awaitOthers(warp, op, mask);
    ++warp.pc;
    if (at < 0)
      return true;
    warp.groups.push_back({warp.pc, mask, at});
    warp.active &= ~mask;
    return warp.active || pickGroup(warp);
  }
  case Control::Trap:
    report(warp, op, std::countr_zero(mask), FindingKind::Trap, "trap");
  case Control::Pause:
    ++warp.pc;
    switchGroup(warp);
    return false;
  case Control::None:
    break;
  }
  return true;
}

/// Whether other lanes that may still arrive also have to execute `op`.
static bool isEarly(Warp &warp, const Op &op, Mask mask) {
  if (op.members == kNowhere)
    return false;
  Mask named = warp.lanes<uint32_t>(op.members)[std::countr_zero(mask)];
  return named & warp.live & ~mask;
}

/// Returns the lanes of `mask` whose sources were all written.
static inline Mask definedLanes(Warp &warp, const Op &op, Mask mask) {
  Mask defined = ~Mask(0);
  const Place *source = &op.r[op.results];
  auto written = [&](Place place) {
    return place & kConstant ? ~Mask(0) : warp.written[place / kUnit];
  };
  if (op.isSelect) {
    Mask c = warp.predicate(source[2]);
    return written(source[2]) &
           ((c & written(source[0])) | (~c & written(source[1])));
  }
  for (int i = op.isShuffle ? 1 : 0; i < op.sources; ++i)
    defined &= written(source[i]);
  if (op.isStrict && (mask & ~defined))
    report(warp, op, std::countr_zero(mask & ~defined),
           FindingKind::Uninitialised,
           "uses a register that was never written");
  return defined;
}

template <bool Checked, bool Recorded>
static bool loop(Warp &warp, uint64_t quantum) {
  const Op *ops = warp.launch->kernel->ops.data();
  uint64_t *executed = warp.launch->executed.data();
  uint64_t start = warp.executed, limit = start + quantum;
  while (warp.executed < limit) {
    const Op &op = ops[warp.pc];
    Mask mask = warp.active;
    if (op.guard != kNowhere) {
      Mask guard = warp.predicate(op.guard);
      mask &= op.guardNegated ? ~guard : guard;
      if constexpr (Checked)
        if (Mask unknown = warp.active & ~warp.written[op.guard / kUnit])
          report(warp, op, std::countr_zero(unknown),
                 FindingKind::Uninitialised,
                 "is guarded by a predicate that was never written");
    }
    ++warp.executed;
    if (warp.runsLast && mask && isEarly(warp, op, mask)) {
      // The group ran so that others could arrive; now the first ones have
      // priority again.
      warp.runsLast = false;
      switchGroup(warp);
      continue;
    }
    Recorder *recorder = Recorded ? warp.launch->recorder : nullptr;
    uint32_t pc = warp.pc;
    if constexpr (Recorded)
      recorder->beginOp(warp, pc);
    if (mask) {
      ++executed[warp.pc];
      Mask defined = ~Mask(0);
      if constexpr (Checked)
        defined = definedLanes(warp, op, mask);
      if constexpr (Checked)
        if (!warp.warpgroup.uses.empty())
          checkRegisters(warp, op, mask);
      if (op.run)
        op.run(warp, op, mask);
      if constexpr (Checked) {
        if (op.isShuffle)
          defined &= ~warp.shuffleUndefined;
        for (int i = 0; i < op.results; ++i) {
          uint32_t &written = warp.written[op.r[i] / kUnit];
          written = (written & ~mask) | (mask & defined);
        }
      }
    }
    if constexpr (Recorded)
      recorder->endOp(warp, pc, mask);
    if (op.control == Control::None)
      ++warp.pc;
    else if (!act(warp, op, mask))
      return true;
    if (ops[warp.pc].turn >= warp.nextTurn)
      switchGroup(warp);
  }
  return true;
}

bool runWarp(Warp &warp, uint64_t quantum) {
  if (!warp.active && !pickGroup(warp))
    return false;
  uint64_t before = warp.executed;
  bool isChecked = warp.launch->isChecked;
  if (warp.launch->recorder)
    isChecked ? loop<true, true>(warp, quantum)
              : loop<false, true>(warp, quantum);
  else
    isChecked ? loop<true, false>(warp, quantum)
              : loop<false, false>(warp, quantum);
  if (warp.executed - before >= quantum) {
    // A group may be waiting for another one: alternate which has priority.
    warp.runsLast = !warp.runsLast && !warp.groups.empty();
    switchGroup(warp);
  } else {
    warp.runsLast = false;
  }
  return true;
}

void Block::thread(const Warp &warp, int lane, uint32_t out[3]) const {
  const uint32_t *size = launch->shape.threads;
  uint32_t linear = uint32_t(warp.index * kLanes + lane);
  out[0] = linear % size[0];
  out[1] = linear / size[0] % size[1];
  out[2] = linear / size[0] / size[1];
}

void report(const Warp &warp, const Op &op, int lane, FindingKind kind,
            std::string what, uint64_t address) {
  const Launch &launch = *warp.launch;
  const Block &block = *warp.block;
  Finding finding;
  finding.kind = kind;
  finding.line = op.line;
  finding.address = address;
  std::copy_n(block.id, 3, finding.block);
  block.thread(warp, lane, finding.thread);
  // Handlers may work on copies of an op, so its text is found by the program
  // counter.
  const std::string &text = launch.kernel->texts[warp.pc];
  std::string source =
      op.sourceLine ? fmt::format(" (source line {})", op.sourceLine) : "";
  finding.text =
      fmt::format("{}: kernel '{}', PTX line {}{}, {}: block ({}, {}, {}) "
                  "thread ({}, {}, {}) {}",
                  findingName(kind), launch.kernel->name, op.line, source, text,
                  block.id[0], block.id[1], block.id[2], finding.thread[0],
                  finding.thread[1], finding.thread[2], what);
  throw finding;
}

} // namespace softgpu
