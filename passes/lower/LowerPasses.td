//===- LowerPasses.td - From the placed graph to a plan ---------*- tablegen -*-===//

#ifndef MOE_PASSES_LOWER_LOWERPASSES_TD
#define MOE_PASSES_LOWER_LOWERPASSES_TD

include "mlir/Pass/PassBase.td"

def LowerToPlanPass : Pass<"moe-lower-to-plan", "::mlir::ModuleOp"> {
  let dependentDialects = ["::mlir::plan::PlanDialect"];
  let summary = "the placed graph as instructions over buffers";
  let description = [{
    Replaces the functions of a module, which have devices and kernels, by one
    `plan.program` with a phase per function.

    Weights, caches, constants and devices that several phases use are one entry
    of their table, and every entry is used. The two parts of attn_kv_b are views
    of it. A value is encoded as A8 once per phase for all of its readers, and
    there is one table of cosines per distinct `#moe.rope` and device. An op
    whose residual dies in it writes into the residual's buffer. Each op of the
    graph has one `plan.explain` per phase, with its costs for the phase's
    typical step; those of `@logits` have one of a batch too, for all its rows.

    Invariant: no op of the `moe` dialect is left. Buffers and caches have no
    offset, devices no sizes, instructions no barriers.

    Module attributes read: `moe.files`, an array of {path, bytes, header_bytes,
    header_hash}; `moe.model`, {architecture, name, hash, hidden, vocab, layers,
    experts, experts_used, parameters}; `moe.target`; `moe.notes`, optional
    strings.
  }];
  let options = [
    Option<"userOptions", "options", "std::string", "",
           "The user's options, kept in the plan for messages">,
  ];
}

#endif // MOE_PASSES_LOWER_LOWERPASSES_TD
