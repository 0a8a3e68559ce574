//===- Passes.td - What every pass decides ----------------------*- tablegen -*-===//
//
// One pass, one stated invariant: what holds after it ran. moe-compile
// (Pipelines.cpp) is the order.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_PASSES_TD
#define MOE_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

class Moe_Pass<string argument> : Pass<argument, "::mlir::ModuleOp"> {
  let dependentDialects = ["::mlir::moe::MoeDialect", "::mlir::func::FuncDialect"];
}

def SpecializePhasesPass : Moe_Pass<"moe-specialize-phases"> {
  let summary = "one function per phase of a run";
  let description = [{
    Clones `@forward` into `@decode` (1 to `decode-tokens` tokens) and `@prefill`
    (more, up to `ubatch`) of one sequence, and with `sequences` above 1 into
    `@batch`: a token of each of 2 to `sequences` of them. Gives `@logits` a range
    that holds them too.

    Invariant: there is no `@forward`, every function has a `#moe.phase`, and
    the ranges of decode and prefill cover 1 to the larger of `decode-tokens`
    and `ubatch` without a gap or an overlap. With `ubatch` at most
    `decode-tokens` there is no `@prefill`.

    All phases append to the same KV cache: a layer's rows do not depend on the
    phase that made them.
  }];
  let options = [
    Option<"ubatch", "ubatch", "int64_t", "512", "Most tokens of a prefill step">,
    Option<"context", "ctx", "int64_t", "4096", "Most positions of a sequence">,
    Option<"decodeTokens", "decode-tokens", "int64_t", "1", "Most tokens of a decode step">,
    Option<"sequences", "sequences", "int64_t", "1", "Most sequences that are decoded together">,
  ];
  let statistics = [Statistic<"numPhases", "phases", "Functions with a phase">];
}

def ChooseKvTypesPass : Moe_Pass<"moe-choose-kv-types"> {
  let summary = "of what elements each layer's cache is";
  let description = [{
    KvTypeRules.h says how `kv-type` is written. `auto` takes f16 for every layer and
    device. q8_0 takes about half the memory, and where it was measured it cost
    more than weights of few bits hide: the mean divergence (KL) of a plan's logits
    from the model's in float64 is with q8_0 1.4 times what it is with f16 on
    SmolLM2-135M (3 heads of 64, 30 layers, Q4_1; 3.9e-3 against 2.7e-3), 2 times
    on Gemma 3 270M (1 head of 256, 18 layers, Q4_K_M; 5.2e-3 against 2.6e-3), and
    the median 1.5 times on tiny-kjv (latents of 288, 4 layers, Q4_K_M to Q2_K;
    7e-5 against 4.5e-5). f32 is at most 7 % closer than f16.

    Invariant: a layer's `!moe.kv` has the element of the last rule for the layer,
    the same in every phase; every rule is for some layer.
  }];
  let options = [
    Option<"kvType", "kv-type", "std::string", "\"auto\"", "Types by layer, as in blk.0-3=f16,q8_0">,
  ];
  let statistics = [Statistic<"numCaches", "caches", "Layers with a cache">];
}

def SizeCachesPass : Moe_Pass<"moe-size-caches"> {
  let summary = "how many rows each layer's cache has";
  let description = [{
    Sequences share the rows of a layer's cache in whole pages. `moe.kv_rows` says
    how many there are: the context of each sequence; or, with `kv-budget`, as many
    as it holds of all layers, and it is an error if that is less than one
    context.

    Invariant: the module has `moe.kv_rows`, a multiple of a page.
  }];
  let options = [
    Option<"kvBudget", "kv-budget", "int64_t", "0", "Bytes of the KV cache; 0: what the contexts take">,
  ];
}

class Moe_FormOption<string cpp, string arg, string default, string desc>
    : Option<cpp, arg, "::mlir::moe::MlaForm", "::mlir::moe::MlaForm::" # default, desc,
             "::mlir::moe::mlaFormValues()">;

def AbsorbMlaPass : Moe_Pass<"moe-absorb-mla"> {
  let summary = "the form of multi-head latent attention, per phase";
  let description = [{
    A cached latent c gives a head's key W_UK c and value W_UV c. Three programs
    compute the same attention (DeepSeek-V2, arXiv 2405.04434, section 2.1.2):

    * `none`: `moe.mla_attention`, which decompresses keys and values.
    * `factored`: (W_UK c) . q = c . (W_UK^T q), so W_UK goes to the query side
      (`moe.absorb_query`), W_UV to the output side (`moe.expand_value`), and
      attention works on latents.
    * `folded`: as factored, with W_UK multiplied into W_Q ahead of time
      (`moe.fold_query`). The product has heads * (latent + rope) rows instead
      of heads * (nope + rope): usually many more bytes.

    A gemm computes W_UK^T q only if W_UK is there transposed. On a device with
    gemms on packed rows `factored` therefore has a copy made when weights are
    packed (`moe.transpose`; passes/moe/graph/KeyUp.h), unless `weights=reference` or the
    format has no such gemm.

    `auto` takes the form with the fewest predicted seconds for the phase's
    typical step on the target's first device, where attention goes if it fits; a
    batch takes the form of decode.
    A remark states the seconds of each form and the weight bytes of folded.
    Folded weights are not in the model file, so `weights=reference` excludes
    them.

    Invariant: a `moe.mla_attention` is left only where the form is `none`. The
    cache keeps latents in every form.
  }];
  let options = [
    Moe_FormOption<"mla", "mla", "Auto", "Form in every phase">,
    Moe_FormOption<"decodeForm", "decode-form", "Unset", "Form of decode and batch instead">,
    Moe_FormOption<"prefillForm", "prefill-form", "Unset", "Form of prefill instead">,
    Option<"weights", "weights", "::mlir::moe::WeightsMode", "::mlir::moe::WeightsMode::Auto",
           "Whether weights may be computed and packed", "::mlir::moe::weightsModeValues()">,
  ];
  let statistics = [
    Statistic<"numNone", "none", "Attentions left as they are">,
    Statistic<"numFactored", "factored", "Attentions factored">,
    Statistic<"numFolded", "folded", "Attentions folded">,
    Statistic<"numTransposed", "transposed", "Attentions with a transposed copy of W_UK">,
  ];
}

def ReduceExpertsPass : Moe_Pass<"moe-reduce-experts"> {
  let summary = "fewer experts per token than the model was trained with";
  let description = [{
    Invariant: every router selects `experts` experts, and `experts_used` of
    `moe.model` says so. It is an error to ask for less than one or more than
    the model uses.
  }];
  let options = [Option<"experts", "experts", "int64_t", "0", "Experts per token">];
  let statistics = [Statistic<"numRouters", "routers", "Routers changed">];
}

def StreamExpertsPass : Moe_Pass<"moe-stream-experts"> {
  let summary = "long prompts: experts of the host brought to the GPU";
  let description = [{
    Steps from a length on bring experts' matrices over the link and let the GPU
    multiply; passes/moe/placement/ExpertStreaming.h says from which length that
    takes less time. moe-place-devices leaves room for the slots where it pays.

    Invariant: `@streamed_prefill` takes the steps of `@prefill` from that length
    on if any step is shorter, else `@prefill` itself does. In it, experts of the
    host are on the GPU of their layer's router and have `moe.streamed`, if that
    GPU reads their weights as the CPU has them and has room for the slots that
    they come to (kernels/cuda/Bring.cuh). The module gets a note instead where a
    step would have to be longer than any, where there are no experts to stream,
    where it never pays, or where nobody asked and it would pay.
  }];
  let options = [
    Option<"streamExperts", "stream-experts", "int64_t", "-1",
           "Tokens of the shortest step that streams experts to the GPU; -1: where it pays; 0: none">,
    Option<"weights", "weights", "::mlir::moe::WeightsMode", "::mlir::moe::WeightsMode::Auto",
           "Whether weights may be packed, by which kernels are counted on", "::mlir::moe::weightsModeValues()">,
  ];
}

def DeferExpertsPass : Moe_Pass<"moe-defer-experts"> {
  let summary = "what a token's least experts give comes one layer later";
  let description = [{
    Where experts are on the CPU, the GPU waits for them in every layer. Without
    the experts of the least weights it waits for less, and has the next layer's
    attention to do while the CPU goes on with these. Their sum is added to that
    of the next layer's experts, which is no longer what the model defines, so
    that this is the user's to ask for, and the same on all devices: its price
    is measured anywhere.

    Invariant: in `@decode` and `@batch` every `moe.experts` but those of the
    last layer with any have the choices of a token with the largest weights,
    and `moe.deferred` ones beside them the other `defer-experts`, whose results
    are added to experts of the next such layer. Prompts are as they were. It is
    an error to defer none or all of a token's experts of a layer.
  }];
  let options = [Option<"deferExperts", "defer-experts", "int64_t", "0",
                        "Experts per token and layer that are added one layer later">];
  let statistics = [Statistic<"numDeferred", "deferred", "Ops of experts that are late">];
}

def ApplyRulesPass : Moe_Pass<"moe-apply-rules"> {
  let summary = "the devices that the user's rules ask for";
  let description = [{
    PlacementRules.h says what a rule is. A layer's cache is one for all phases:
    only rules for all of them place what appends to it or reads it, together.

    Invariant: an op that a rule covers has the `moe.device` of the last such
    rule, but for ops that use a cache, which have that of the last rule for any
    of them in all phases, or none; every rule covers an op that it may place.
    moe-place-devices leaves them there, and counts them.

    TensorRules.h says what a rule about tensors is; what reads a tensor has the
    device of the first that matches it, whatever the phase. `n-gpu-layers` decides
    about all that is left.
  }];
  let options = [
    ListOption<"place", "place", "std::string", "The user's rules">,
    ListOption<"tensorRules", "override-tensor", "std::string", "Rules about tensors, REGEX=DEVICE">,
    Option<"cpuMoeLayers", "n-cpu-moe", "int64_t", "0",
           "Layers whose routed experts are the host's; -1: all">,
    Option<"gpuLayers", "n-gpu-layers", "int64_t", "-1",
           "Layers that are to be on GPUs, the last of them; one more: the head too; -1: as is best">,
    Option<"allowUnmatchedRules", "allow-unmatched-rules", "bool", "false",
           "Whether a rule about tensors may place none">,
  ];
  let statistics = [Statistic<"numPlaced", "placed", "Ops placed">];
}

def ChooseNodesPass : Moe_Pass<"moe-choose-nodes"> {
  let summary = "how a host with several memory nodes holds its weights";
  let description = [{
    Of what moec::withNodes (compiler/Machine/CostModel/MemoryNodes.h) makes of
    the host (each node with what its cores read, pages of all in turn, one node
    alone) takes the one with which placement is predicted to be fastest, or the
    one that `numa` names. A host with one node stays as it is.

    Invariant: `node_use` of the host in `moe.target` says what was chosen, and
    its other figures are those of a machine that is used so; a note tells what
    was compared.
  }];
  let options = [
    Option<"numa", "numa", "std::string", "\"auto\"", "auto, any, split, interleaved or one">,
    Option<"optimizeFor", "optimize-for", "::mlir::moe::Objective", "::mlir::moe::Objective::Balanced",
           "What is to be fast", "::mlir::moe::objectiveValues()">,
    Option<"typicalPrompt", "typical-prompt", "int64_t", "1024", "Tokens of a typical prompt">,
    Option<"deferExperts", "defer-experts", "int64_t", "0",
           "Of a token's experts of a layer, how many moe-defer-experts will make late">,
    Option<"weights", "weights", "::mlir::moe::WeightsMode", "::mlir::moe::WeightsMode::Auto",
           "Whether weights may be packed, by which kernels are counted on", "::mlir::moe::weightsModeValues()">,
  ];
}

def PlaceDevicesPass : Moe_Pass<"moe-place-devices"> {
  let summary = "a device for every op, within the memory of each";
  let description = [{
    What has a device is the label (an op of the model), the same in all phases:
    weights and cache are resident once. Parts of the model (a layer's attention
    with its cache, its shared experts or dense FFN, its routed experts, the head,
    the embedding) are assigned so that the predicted seconds of a request are
    fewest: a step's ops and copies are simulated, with devices that overlap and
    a copy's latency at every crossing (passes/moe/placement/StepTimes.h). What is looked
    at does not depend on the memory (passes/moe/placement/PlacementSearch.h); all on the
    host and only experts on the host are among it. Ops that have a device
    already stay there. Where `stream-experts` says that experts of the host are
    to be streamed and the mix is faster so, GPUs keep room for the slots.

    `optimize-for` is the request: a prompt of `typical-prompt` tokens, 256
    tokens generated, or both.

    Budgets count weights (once per device), the cache of all sequences,
    activations at the largest step, scratch and staging of transfers.

    Invariant: every op with a cost has `moe.device`, `moe.reason` and, in
    `moe.rejected`, each other device with what the op would take there; an
    attention has the device of its cache; no device is over its budget.
  }];
  let options = [
    Option<"optimizeFor", "optimize-for", "::mlir::moe::Objective", "::mlir::moe::Objective::Balanced",
           "What is to be fast", "::mlir::moe::objectiveValues()">,
    Option<"typicalPrompt", "typical-prompt", "int64_t", "1024", "Tokens of a typical prompt">,
    Option<"streamExperts", "stream-experts", "int64_t", "0",
           "Tokens of the shortest step that streams experts to the GPU; -1: where it pays; 0: none">,
    Option<"deferExperts", "defer-experts", "int64_t", "0",
           "Of a token's experts of a layer, how many moe-defer-experts will make late">,
    Option<"weights", "weights", "::mlir::moe::WeightsMode", "::mlir::moe::WeightsMode::Auto",
           "Whether weights may be packed, by which kernels are counted on", "::mlir::moe::weightsModeValues()">,
  ];
  let statistics = [
    Statistic<"numHost", "host", "Ops on the host">,
    Statistic<"numGpu", "gpu", "Ops on GPUs">,
  ];
}

def FusePass : Moe_Pass<"moe-fuse"> {
  let summary = "sums into the ops that produce a summand, gate with up";
  let description = [{
    A sum costs a read and a write of both summands; the op that produces one of
    them can add the other as it writes (`residual`). Chains of sums are
    reordered so that each summand finds a producer. Only ops on one device are
    joined: a GPU need not wait for what the host adds.

    FFNs whose gate and up have one shape and gemms that read the same encoding
    of the activation get `fused`, if the device has a kernel that keeps both
    factors in registers.

    Invariant: a `moe.add` is left only where no producer of a summand on its
    device can take the other one.
  }];
  let statistics = [
    Statistic<"numResiduals", "residuals", "Sums moved into a producer">,
    Statistic<"numGateUp", "gate-up", "FFNs with gate and up fused">,
  ];
}

def InsertTransfersPass : Moe_Pass<"moe-insert-transfers"> {
  let summary = "copies between devices, explicit";
  let description = [{
    Invariant: every activation that an op reads is on the op's device; what a
    function takes and returns is on the host. A value is copied once per
    destination. Weights are not copied: they are loaded where they are used.
  }];
  let statistics = [Statistic<"numTransfers", "transfers", "Copies inserted">];
}

def SelectKernelsPass : Moe_Pass<"moe-select-kernels"> {
  let summary = "kernels by op, format, device and token range";
  let description = [{
    Takes from the kernel table, among those that the device runs and whose
    range holds the phase's tokens, the kernel of the best instruction set.
    passes/moe/kernels/KernelSelection.h says what is recorded.

    Before that it gives every weight that gemms read a layout, one per device
    for all phases: one that kernels read faster than the model file's rows,
    where there is such a gemm for each use (passes/moe/kernels/WeightLayouts.h).
    `weights=reference` keeps all weights as they are in the file.

    Invariant: every op with a cost has `moe.kernels` and `moe.gemms`, from which
    `selectedSteps` gives its instructions. No kernel is an error that names the
    op, the format, the device and the phase, and what there is.
  }];
  let options = [
    Option<"weights", "weights", "::mlir::moe::WeightsMode", "::mlir::moe::WeightsMode::Auto",
           "Whether weights may be packed in another layout", "::mlir::moe::weightsModeValues()">,
  ];
  let statistics = [Statistic<"numGemms", "gemms", "Weights read by a gemm">];
}

def PrintCostPass : Moe_Pass<"moe-print-cost"> {
  let summary = "prints what every op costs";
  let description = [{
    One line per op of each function, and a total: FLOPs; bytes of weights,
    activations and KV cache for `tokens` tokens after `context` cached
    positions; bytes of weights that must be resident. `moe.label` names the op.

    Invariant: the module does not change.
  }];
  let options = [
    Option<"tokens", "tokens", "int64_t", "1", "Tokens of the step">,
    Option<"context", "context", "int64_t", "0", "Positions cached before it">,
  ];
}

#endif // MOE_PASSES_PASSES_TD
