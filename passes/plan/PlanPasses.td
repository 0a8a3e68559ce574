//===- PlanPasses.td - The passes on the plan dialect -----------*- tablegen -*-===//
//
// The pipeline moe-plan (PlanPasses.cpp) defines their order.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_PLANPASSES_TD
#define MOE_PASSES_PLANPASSES_TD

include "mlir/Pass/PassBase.td"

class Plan_Pass<string argument> : Pass<argument, "::mlir::ModuleOp"> {
  let dependentDialects = ["::mlir::plan::PlanDialect"];
}

def PlanJoinHeadPass : Plan_Pass<"plan-join-head"> {
  let summary = "let a decode step compute its logits";
  let description = [{
    Phases hand over hidden states through the host. If a GPU computes both the
    hidden state of a generated token and its logits, the instructions of "logits"
    are appended to "decode", with explanations of their own, and the hidden state
    stays on the GPU. Nothing changes if a decode step may have several tokens, or
    if there is no "prefill": then "decode" also runs prompts, which need the logits
    of their last token only.

    Invariant: a "decode" phase of one token, in a program with "prefill" and with
    the head on the GPU that computes the last layer, is `with_head`: its output is
    the logits. No instruction copies its hidden state to the host and back.
  }];
  let statistics = [Statistic<"numJoined", "joined", "Phases that got a head">];
}

def PlanReplicatePass : Plan_Pass<"plan-replicate"> {
  let summary = "run small instructions on every worker instead of sharing them";
  let description = [{
    A barrier separates an instruction whose work is divided among workers from one
    that reads its result. For one or a few tokens, a norm, an encoding or a choice
    of experts takes a core less time than a barrier. So each worker computes all of
    it into its own memory and goes on without waiting.

    Invariant: a buffer is per worker exactly if every instruction that writes
    it touches at most `max-bytes` in the phase's longest step, reads no cache, has
    no gemm, and writes only such buffers. Shared buffers are the input and output
    of a phase, buffers that another device copies, buffers of devices other than
    CPUs, and those of phases with more than `max-tokens` tokens.
  }];
  let options = [
    Option<"maxBytes", "max-bytes", "int64_t", "64 * 1024",
           "Bytes that a core reads and writes in about the time of a barrier">,
    Option<"maxTokens", "max-tokens", "int64_t", "8",
           "Most tokens of a phase whose instructions are replicated">,
  ];
  let statistics = [
    Statistic<"numReplicated", "replicated", "Instructions that every worker runs">,
  ];
}

def PlanOrderPass : Plan_Pass<"plan-order"> {
  let summary = "move independent instructions next to each other";
  let description = [{
    Every instruction moves to the earliest level that its operands allow: after
    the level of the last write of what it reads, and after the last use of what it
    writes. Instructions of one level need no barrier between them, so a phase has
    one stretch between barriers per level of its longest chain of dependences.

    Instructions that only communicate through a per-worker buffer may share a
    level, because a worker only waits for itself. On a GPU, only products and long
    copies begin a level. Other instructions that follow them stay on their level,
    behind the instructions that they need, so that plan-launches can put them into
    one launch.

    Instructions with `plan.late`, whose results are needed late, go behind all
    instructions that were before them in their queue. The attribute is removed.

    Invariant: instructions are in the order of their levels. Within a level they
    keep their order or, on a GPU, the order of their dependences. Every instruction
    reads the same values as before.
  }];
  let statistics = [Statistic<"numMoved", "moved", "Positions whose instruction changed">];
}

def PlanAllocatePass : Plan_Pass<"plan-allocate"> {
  let summary = "assign offsets to buffers and caches, and sizes to devices";
  let description = [{
    Each device has one arena, and another one per worker for the buffers of which
    each worker has a copy. All phases share them. Two buffers share bytes only if
    all uses of one have ended when the first use of the other begins, according to
    barriers and events that their data needs anyway: reuse never adds a barrier.
    The largest buffer is placed first, each in the smallest gap that holds it.

    Invariant: every buffer and cache has an offset, a multiple of 64. Every device
    has its bytes of arenas (for the largest phase with its most tokens), caches,
    weights and scratch per worker. Every weight is resident on each device whose
    instructions read it.
  }];
  let statistics = [
    Statistic<"numBufferBytes", "buffer-bytes", "Bytes of all buffers">,
    Statistic<"numArenaBytes", "arena-bytes", "Bytes of the arenas that hold them">,
  ];
}

def PlanSchedulePass : Plan_Pass<"plan-schedule"> {
  let summary = "insert barriers and events between dependent instructions";
  let description = [{
    Two instructions conflict if one writes bytes (of a cache, or of buffers at the
    phase's most tokens) that the other reads or writes, on whatever devices they
    run. Conflicting instructions of one queue are ordered by a barrier, or by a
    path of events through another queue. Those of two queues are ordered by a path
    of events and barriers.

    Invariant: all conflicting instructions are ordered, and each barrier and wait
    is needed: without it, some of them would not be ordered.
  }];
  let statistics = [
    Statistic<"numInstructions", "instructions", "Instructions">,
    Statistic<"numBarriers", "barriers", "Barriers">,
    Statistic<"numEvents", "events", "Events">,
    Statistic<"numWaits", "waits", "Waits for events">,
  ];
}

def PlanOverheadPass : Plan_Pass<"plan-overhead"> {
  let summary = "explain the time of a step besides the work of its instructions";
  let description = [{
    Adds the time to wake the workers, to go from instruction to instruction and to
    wait at the barriers that plan-schedule set. The target gives the time of each.

    Invariant: each phase has, for every device that it uses, a `plan.explain` called
    "overhead", which also says how the seconds of the other entries were computed.
    A phase with several queues also has one called "overlap", whose negative seconds
    are what queues save by working at the same time. The target is removed.
  }];
  let statistics = [Statistic<"numEntries", "entries", "Explanations added">];
}

def PlanLaunchesPass : Plan_Pass<"plan-launches"> {
  let summary = "choose the kernels and grids of GPU instructions";
  let description = [{
    An instruction of a CUDA device becomes one or more launches of kernels that
    are compiled for its shapes, formats and parameters (kernels/cuda/Launch.h),
    for the most tokens of its phase. If no kernel can run the instruction, that is
    a user error. Neighbouring instructions of a queue become one launch if
    kernels/cuda/Fuse.h can fuse them and no wait or event is between them.

    Invariant: every instruction of a CUDA device has launches that any GPU accepts,
    or none; in that case, the next instruction of its queue with launches includes
    its work. Each kernel is one `plan.module`, without images yet, and the device
    has the bytes of its workspace.
  }];
  let statistics = [
    Statistic<"numModules", "modules", "Distinct kernels">,
    Statistic<"numLaunches", "launches", "Launches of all phases">,
    Statistic<"numFused", "fused", "Instructions included in the launch of another one">,
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
    layout and origin. With `load`, plan.weights has only what is computed: a
    weight that is to have another layout, or rows of several weights, is in a
    `loaded` file of its program, which has no bytes on the disk.

    It is not in moe-plan: rungs are in one module after they have been lowered.

    Invariant: every entry of a weight table that an instruction reads is in a
    file, and with `all` in plan.weights. A program has no files and weights that
    nothing uses. `plan.packing` says what plan.weights is to hold; there is none
    where nothing is to be written.
  }];
  let options = [
    Option<"all", "all", "bool", "false", "Copy weights of the model file too">,
    Option<"load", "load", "bool", "false",
           "Leave to moert what only gets another layout or is put together">,
  ];
  let statistics = [
    Statistic<"numPacked", "packed", "Weights to be written">,
    Statistic<"numShared", "shared", "Weights that another program has written">,
    Statistic<"numLoaded", "loaded", "Weights to be laid out while they load">,
  ];
}

def PlanCheckMemoryPass : Plan_Pass<"plan-check-memory"> {
  let summary = "check that the plan fits the memory of its devices";
  let description = [{
    Placement keeps budgets with an upper estimate. This pass compares the budgets
    with the bytes that plan-allocate and plan-launches assigned.

    Invariant: weights, caches, arena, scratch of all workers and workspace of
    every device are at most its memory.
  }];
}

#endif // MOE_PASSES_PLANPASSES_TD
