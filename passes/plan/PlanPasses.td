//===- PlanPasses.td - What a plan needs to be written ----------*- tablegen -*-===//
//
// Of the passes on `plan`. moe-plan (PlanPasses.cpp) is the order.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_PLANPASSES_TD
#define MOE_PASSES_PLANPASSES_TD

include "mlir/Pass/PassBase.td"

class Plan_Pass<string argument> : Pass<argument, "::mlir::ModuleOp"> {
  let dependentDialects = ["::mlir::plan::PlanDialect"];
}

def PlanReplicatePass : Plan_Pass<"plan-replicate"> {
  let summary = "small instructions done by every worker for itself";
  let description = [{
    Between an instruction whose work is shared out and one that reads its result
    there is a barrier. For a token or a few, a norm, an encoding or a choice of experts
    takes a core less time than that, so each worker does all of it, into memory
    of its own, and goes on.

    Invariant: a buffer is per worker exactly if every instruction that writes
    it touches at most `max-bytes` in the phase's longest step, reads no cache, has
    no gemm, and writes nothing but such buffers. A phase's input and output, what
    another device copies, and buffers of other devices than CPUs or of phases of
    more than `max-tokens` tokens, are shared.
  }];
  let options = [
    Option<"maxBytes", "max-bytes", "int64_t", "64 * 1024",
           "What a core reads and writes in about the time of a barrier">,
    Option<"maxTokens", "max-tokens", "int64_t", "8",
           "Phases of longer steps have barriers to spare">,
  ];
  let statistics = [
    Statistic<"numReplicated", "replicated", "Instructions done by every worker">,
  ];
}

def PlanOrderPass : Plan_Pass<"plan-order"> {
  let summary = "independent instructions next to each other";
  let description = [{
    Every instruction moves to the earliest level that its operands allow: after
    the level of the last write of what it reads, and of the last use of what it
    writes. Instructions of one level need no barrier between them, so that a
    phase has as many stretches between barriers as its longest chain of
    dependences.

    What goes through a buffer per worker may stay on one level: a worker waits
    for nobody but itself. On a GPU only products and long copies begin a level;
    what else follows them stays on theirs, behind what it needs, for
    plan-launches to put it into one launch with them.

    What has `plan.late`, for which nobody waits for long, goes behind all that
    was before it in its queue; the attribute is gone then.

    Invariant: instructions are in the order of their levels, those of one level
    in the order they had or, on a GPU, that their operands ask for; what each reads
    is what it read before.
  }];
  let statistics = [Statistic<"numMoved", "moved", "Places with another instruction">];
}

def PlanAllocatePass : Plan_Pass<"plan-allocate"> {
  let summary = "offsets of buffers and caches, sizes of devices";
  let description = [{
    An arena per device, and another per worker for the buffers of which each
    has a copy; all phases share them. Buffers share bytes only if all uses of
    the one have ended when the first of the other begins, by barriers and events
    that their data alone asks for: reuse never needs one of its own. The largest
    buffer is placed first, each in the smallest gap that holds it.

    Invariant: every buffer and cache has an offset, a multiple of 64, and every
    device knows its bytes of arenas (the largest phase at its most tokens),
    cache, weights and scratch per worker. Every weight is resident on each
    device whose instructions read it.
  }];
  let statistics = [
    Statistic<"numBufferBytes", "buffer-bytes", "Bytes of all buffers">,
    Statistic<"numArenaBytes", "arena-bytes", "Bytes of the arenas that hold them">,
  ];
}

def PlanSchedulePass : Plan_Pass<"plan-schedule"> {
  let summary = "barriers and events where instructions depend on each other";
  let description = [{
    Two instructions conflict if one writes bytes (of buffers, at the phase's most
    tokens, or of a cache) that the other reads or writes, on whatever devices
    they run. Between those of one queue there is a barrier, or a path of events
    over another queue; between those of two queues there is a path of events and
    barriers.

    Invariant: without any one of the barriers and waits, some conflicting pair
    would not be ordered.
  }];
  let statistics = [
    Statistic<"numInstructions", "instructions", "Instructions">,
    Statistic<"numBarriers", "barriers", "Barriers">,
    Statistic<"numEvents", "events", "Events">,
    Statistic<"numWaits", "waits", "Waits for events">,
  ];
}

def PlanOverheadPass : Plan_Pass<"plan-overhead"> {
  let summary = "what a step takes beside its instructions";
  let description = [{
    Waking the workers, going from instruction to instruction and meeting at the
    barriers that plan-schedule set, at what the target says each takes.

    Invariant: each phase has a `plan.explain` called "overhead" for every device
    that it uses, which says where the seconds of the others come from too, and,
    where it has several queues, one called "overlap", whose seconds are less
    than none: what they save by working at the same time. The target is gone.
  }];
  let statistics = [Statistic<"numEntries", "entries", "Explanations added">];
}

def PlanLaunchesPass : Plan_Pass<"plan-launches"> {
  let summary = "kernels and grids of what GPUs run";
  let description = [{
    An instruction of a CUDA device becomes one or more launches of kernels that
    are compiled for its shapes, formats and parameters (kernels/cuda/Launch.h),
    for the most tokens of its phase. That none does it is an error of the user's.
    Neighbours of a queue between which no other is waited for or told become one
    launch where kernels/cuda/Fuse.h can.

    Invariant: every instruction of a CUDA device has launches that any GPU takes, or
    none, and then the next one of its queue that has any does it too; each kernel is
    one `plan.module`, and the device knows the bytes of its workspace. Modules have no
    images.
  }];
  let statistics = [
    Statistic<"numModules", "modules", "Different kernels">,
    Statistic<"numLaunches", "launches", "Launches of all phases">,
    Statistic<"numFused", "fused", "Instructions that go along in another's launch">,
  ];
}

def PlanPackWeightsPass : Plan_Pass<"plan-pack-weights"> {
  let summary = "what plan.weights holds, and where";
  let description = [{
    Weights that are computed or have another layout than the model file's are
    written to a file of their own, plan.weights: those that instructions read,
    in the order in which programs have them, so that weights read one after
    another lie one behind another. They begin at cache lines, and those of a huge
    page or more at pages. With `all`, every weight is copied, so that a plan does
    not need the model. All programs of the module, such as rungs of a ladder, have
    one file, in which equal bytes are once: those of weights with the same name,
    layout and origin.

    It is not in moe-plan: rungs are in one module after they have been lowered.

    Invariant: every entry of a weight table that an instruction reads is in a
    file, and with `all` in plan.weights. A program has no files and weights that
    nothing uses. `plan.packing` says what plan.weights is to hold; there is none
    where nothing is to be written.
  }];
  let options = [
    Option<"all", "all", "bool", "false", "Copy weights of the model file too">,
  ];
  let statistics = [
    Statistic<"numPacked", "packed", "Weights to be written">,
    Statistic<"numShared", "shared", "Weights that another program has written">,
  ];
}

def PlanCheckMemoryPass : Plan_Pass<"plan-check-memory"> {
  let summary = "whether devices hold what the plan needs";
  let description = [{
    Placement keeps to budgets by an estimate from above; here it is held
    against the bytes that plan-allocate and plan-launches gave out.

    Invariant: weights, caches, arena, scratch of all workers and workspace of
    every device are at most its memory.
  }];
}

#endif // MOE_PASSES_PLANPASSES_TD
