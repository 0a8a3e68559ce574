//===- Passes.td - The passes on the moe dialect ----------------*- tablegen -*-===//
//
// Each pass states one invariant that holds after it has run. The pipeline
// moe-compile (Pipelines.cpp) defines their order.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_PASSES_PASSES_TD
#define MOE_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

class Moe_Pass<string argument> : Pass<argument, "::mlir::ModuleOp"> {
  let dependentDialects = ["::mlir::moe::MoeDialect", "::mlir::func::FuncDialect"];
}

def SpecializePhasesPass : Moe_Pass<"moe-specialize-phases"> {
  let summary = "create one function per phase";
  let description = [{
    Clones `@forward` into `@decode` (steps of 1 to `decode-tokens` tokens) and
    `@prefill` (longer steps, up to `ubatch` tokens) for one sequence. If
    `sequences` is above 1, also clones it into `@batch`, which decodes one token
    for each of 2 to `sequences` sequences. `@logits` gets a range that covers
    all of these, and so do `@draft` and `@draft_logits`, if there is a layer for
    multi-token prediction.

    All phases append to the same KV cache: the rows that a layer caches do not
    depend on the phase that computed them.

    Invariant: there is no `@forward`, every function has a `#moe.phase`, and
    the ranges of decode and prefill cover 1 to the larger of `decode-tokens`
    and `ubatch` without a gap or an overlap. If `ubatch` is at most
    `decode-tokens`, there is no `@prefill`.
  }];
  let options = [
    Option<"ubatch", "ubatch", "int64_t", "0", "Most tokens of a prefill step; 0: 512, or what moe-place-devices chooses">,
    Option<"context", "ctx", "int64_t", "4096", "Most positions of a sequence">,
    Option<"decodeTokens", "decode-tokens", "int64_t", "1", "Most tokens of a decode step">,
    Option<"sequences", "sequences", "int64_t", "1", "Most sequences that are decoded together">,
  ];
  let statistics = [Statistic<"numPhases", "phases", "Functions with a phase">];
}

def ChooseKvTypesPass : Moe_Pass<"moe-choose-kv-types"> {
  let summary = "choose the element type of each layer's KV cache";
  let description = [{
    KvTypeRules.h defines the syntax of `kv-type`. `auto` selects f16 for every
    layer and device. q8_0 takes about half the memory, but where it was measured,
    it cost more accuracy than weights with few bits hide. The mean divergence (KL)
    of a plan's logits from the model's in float64 was, compared with f16, 1.4 times
    as large on SmolLM2-135M (3 heads of 64, 30 layers, Q4_1; 3.9e-3 against 2.7e-3)
    and twice as large on Gemma 3 270M (1 head of 256, 18 layers, Q4_K_M; 5.2e-3
    against 2.6e-3); the median was 1.5 times as large on tiny-kjv (latents of 288,
    4 layers, Q4_K_M to Q2_K; 7e-5 against 4.5e-5). f32 is at most 7 % closer than
    f16.

    Invariant: a layer's `!moe.kv` has, in every phase, the element type of the
    last rule for the layer, and every rule names at least one layer with a cache.
  }];
  let options = [
    Option<"kvType", "kv-type", "std::string", "\"auto\"", "Types by layer, as in blk.0-3=f16,q8_0">,
  ];
  let statistics = [Statistic<"numCaches", "caches", "Layers with a cache">];
}

def SizeCachesPass : Moe_Pass<"moe-size-caches"> {
  let summary = "choose the number of rows of the KV cache";
  let description = [{
    Sequences share the rows of a layer's cache in whole pages. The module
    attribute `moe.kv_rows` is the number of rows: one context per sequence or,
    with `kv-budget`, as many rows as the caches of all layers can have within
    that many bytes. It is an error if these are fewer than one context.

    Invariant: the module has `moe.kv_rows`, a multiple of the page size.
  }];
  let options = [
    Option<"kvBudget", "kv-budget", "int64_t", "0",
           "Bytes of the KV cache; 0: as many as the contexts need">,
  ];
}

class Moe_FormOption<string cpp, string arg, string default, string desc>
    : Option<cpp, arg, "::mlir::moe::MlaForm", "::mlir::moe::MlaForm::" # default, desc,
             "::mlir::moe::mlaFormValues()">;

def AbsorbMlaPass : Moe_Pass<"moe-absorb-mla"> {
  let summary = "choose the form of multi-head latent attention (MLA) per phase";
  let description = [{
    From a cached latent c, a head's key is W_UK c and its value W_UV c. Three
    programs compute the same attention (DeepSeek-V2, arXiv 2405.04434, section
    2.1.2):

    * `none`: `moe.mla_attention`, which decompresses keys and values.
    * `factored`: (W_UK c) . q = c . (W_UK^T q), so W_UK moves to the query side
      (`moe.absorb_query`), W_UV to the output side (`moe.expand_value`), and
      attention works on latents.
    * `folded`: like factored, but W_UK is multiplied into W_Q in advance
      (`#moe.fold_query`). The product has heads * (latent + rope) rows instead
      of heads * (nope + rope), which is usually many more bytes.

    A gemm can only compute W_UK^T q if W_UK is stored transposed. On a device
    with gemms on packed rows, `factored` therefore uses a copy that is made when
    weights are packed (`#moe.transpose`; passes/moe/graph/KeyUpCopy.h), unless
    `weights=reference` or the format has no such gemm.

    `auto` takes, for each device of the target, the form with the fewest predicted
    seconds for the phase's typical step there. A batch takes the form of decode. A
    remark states the seconds of each form and the weight bytes of folded. Folded
    weights are not in the model file, so `weights=reference` excludes them.

    Where devices get different forms, or a transposed copy on some of them only, all
    are built: a `moe.alternatives` stands for the result, their ops have
    `moe.only_on`, and moe-place-devices keeps the one of the device that it chooses.

    Invariant: a `moe.mla_attention` is left only where the form is `none`. The
    cache contains latents in every form.
  }];
  let options = [
    Moe_FormOption<"mla", "mla", "Auto", "Form of attention in every phase">,
    Moe_FormOption<"decodeForm", "decode-form", "Unset", "Form in decode and batch, instead of mla">,
    Moe_FormOption<"prefillForm", "prefill-form", "Unset", "Form in prefill, instead of mla">,
    Option<"weights", "weights", "::mlir::moe::WeightsMode", "::mlir::moe::WeightsMode::Auto",
           "Whether weights may be computed and packed", "::mlir::moe::weightsModeValues()">,
  ];
  let statistics = [
    Statistic<"numNone", "none", "Attention ops left unchanged">,
    Statistic<"numFactored", "factored", "Attention ops in factored form">,
    Statistic<"numFolded", "folded", "Attention ops in folded form">,
    Statistic<"numTransposed", "transposed", "Attention ops with a transposed copy of W_UK">,
  ];
}

def ReduceExpertsPass : Moe_Pass<"moe-reduce-experts"> {
  let summary = "use fewer experts per token than the model was trained with";
  let description = [{
    Lowers the number of experts that each router selects. It is an error to ask
    for less than one expert or for more than the model uses.

    Invariant: every router selects `experts` experts, or with `layer-experts` as
    many as the list gives for its layer, and `experts_used` of `moe.model` is the
    largest of these numbers.
  }];
  let options = [
    Option<"experts", "experts", "int64_t", "0", "Experts per token, where layer-experts gives none">,
    ListOption<"layerExperts", "layer-experts", "int64_t",
               "Experts per token by layer; 0, and layers that the list lacks: as many as the model uses">,
  ];
  let statistics = [Statistic<"numRouters", "routers", "Routers changed">];
}

def StreamExpertsPass : Moe_Pass<"moe-stream-experts"> {
  let summary = "copy the host's experts to a GPU in long prefill steps";
  let description = [{
    A step of many tokens has much to multiply with each expert: from some length
    on it is faster to copy the experts' matrices over the link and to multiply on
    the GPU than to multiply on the CPU. moe-place-devices finds that length, and
    leaves room for the slots where streaming pays.

    Invariant: `@streamed_prefill` takes the steps of `@prefill` that are at least
    as long; shorter steps stay in `@prefill`. In it the host's experts are on the
    GPU of their layer's router and have `moe.streamed`, if that GPU reads their
    weights in the layout that the CPU uses (kernels/cuda/Bring.cuh), and with
    `pin-weights` also `moe.pinned`. The module does not change if there is nothing to
    gain, or if a step would have to be longer than any.
  }];
  let options = [
    Option<"streamExperts", "stream-experts", "int64_t", "-1",
           "Shortest step that streams experts; -1: where it pays; 0: none">,
    Option<"pinWeights", "pin-weights", "bool", "false",
           "The GPU reads streamed experts in pinned memory, not through a ring">,
    Option<"streamSource", "stream-source", "std::string", "",
           "The line that sets stream-experts, if a file does; then no experts to stream are a note">,
    Option<"weights", "weights", "::mlir::moe::WeightsMode", "::mlir::moe::WeightsMode::Auto",
           "Whether weights may be packed", "::mlir::moe::weightsModeValues()">,
  ];
}

def DeferExpertsPass : Moe_Pass<"moe-defer-experts"> {
  let summary = "add a token's least weighted experts one layer later";
  let description = [{
    If experts are on the CPU, the GPU waits for them in every layer. If the
    experts with the smallest weights are left out, it waits for less, and it can
    compute the next layer's attention while the CPU goes on with these. Their sum
    is added to that of the next layer's experts. This is no longer what the model
    defines, so only the user can ask for it. The result is the same on all
    devices, so its effect on quality can be measured on any.

    Invariant: in `@decode` and `@batch`, every `moe.experts` except in the last
    layer with experts has the token's choices with the largest weights. Ops with
    `moe.deferred` have the other `defer-experts` choices, and their results are
    added to experts of the next such layer. Prefill does not change. It is an
    error to defer none or all of a token's experts in a layer.
  }];
  let options = [Option<"deferExperts", "defer-experts", "int64_t", "0",
                        "Experts per token and layer whose results are added one layer later">];
  let statistics = [Statistic<"numDeferred", "deferred", "Deferred expert ops">];
}

def ApplyRulesPass : Moe_Pass<"moe-apply-rules"> {
  let summary = "place the ops that the user's rules name";
  let description = [{
    PlacementRules.h defines the rules about ops. All phases share a layer's cache,
    so only rules for all phases place the ops that append to it or read it, and
    they place these together.

    TensorRules.h defines the rules about tensors: an op that reads a tensor gets
    the device of the first rule that matches the tensor, in every phase.
    `n-gpu-layers` places all remaining ops.

    Invariant: an op that a rule covers has the `moe.device` of the last such
    rule. Ops that use a cache instead have the device of the last rule for all
    phases that covers any of them, or none. Every rule covers an op that it may
    place. moe-place-devices keeps these devices and counts their memory.
  }];
  let options = [
    ListOption<"place", "place", "std::string", "The user's rules">,
    ListOption<"tensorRules", "override-tensor", "std::string", "Rules about tensors, REGEX=DEVICE">,
    Option<"cpuMoeLayers", "n-cpu-moe", "int64_t", "0",
           "Layers whose routed experts stay on the host; -1: all">,
    Option<"gpuLayers", "n-gpu-layers", "int64_t", "-1",
           "Number of last layers on GPUs; one more than the layers: also the head; -1: automatic">,
    Option<"allowUnmatchedRules", "allow-unmatched-rules", "bool", "false",
           "Whether a rule about tensors may match none">,
  ];
  let statistics = [Statistic<"numPlaced", "placed", "Ops placed">];
}

def UseNodesPass : Moe_Pass<"moe-use-nodes"> {
  let summary = "use a host's memory nodes as the user says";
  let description = [{
    moec::withNodes (compiler/Machine/CostModel/MemoryNodes.h) describes the host
    for a use of its nodes. With `auto`, moe-place-devices chooses one.

    Invariant: `node_use` of the host in `moe.target` is what `numa` says, and its
    other numbers are those of a machine that is used in this way.
  }];
  let options = [
    Option<"numa", "numa", "std::string", "\"auto\"", "auto, any, split, interleaved or one">,
  ];
}

def PlaceDevicesPass : Moe_Pass<"moe-place-devices"> {
  let summary = "choose a device for every op within each device's memory";
  let description = [{
    Ops with the same label get the same device in all phases, so that weights and
    cache are resident once. The units of placement (a layer's attention with its
    cache, its shared experts or dense FFN, its routed experts, the head, the
    embedding) are assigned so that the predicted seconds of a request are fewest.
    The prediction simulates a step's ops and copies; devices overlap, and every
    crossing has the latency of a copy (passes/moe/placement/StepPrediction.h). What is
    compared always contains "all on the host"
    (passes/moe/placement/README.md). Ops that already have
    a device keep it, and what reads a table of the model file gets the host.

    Some choices hold for the whole plan. The use of a host's memory nodes: each node
    has the rows that its cores read, pages alternate between nodes, or only one node is
    used (compiler/Machine/CostModel/MemoryNodes.h); `node_use` of the host in
    `moe.target` tells the choice, and a note what was compared. Whether steps of a
    prompt stream experts, for which GPUs keep memory free, and how long steps are:
    `moe.streaming` tells moe-stream-experts. Streaming is chosen if that takes 2 %
    from a request.

    `optimize-for` defines the request: a prompt of `typical-prompt` tokens, or of 256,
    2048 or 16384 tokens, equally often, 256 generated tokens, or both.

    A `moe.alternatives` is replaced by what its device computes.

    Budgets count weights (once per device), the cache of all sequences,
    activations of the largest step, scratch memory and staging of copies.

    Invariant: every op with a cost has `moe.device`, `moe.reason` and, in
    `moe.rejected`, the predicted seconds on each other device. An attention has the
    device of its cache. No device exceeds its budget.
  }];
  let options = [
    Option<"optimizeFor", "optimize-for", "::mlir::moe::Objective", "::mlir::moe::Objective::Balanced",
           "The request to optimise for", "::mlir::moe::objectiveValues()">,
    Option<"typicalPrompt", "typical-prompt", "int64_t", "0", "Tokens of a typical prompt; 0: several lengths">,
    Option<"numa", "numa", "std::string", "\"auto\"", "Use of memory nodes: auto, any, split, interleaved or one">,
    Option<"ubatch", "ubatch", "int64_t", "0", "Most tokens of a prompt's step, as the phases have it; 0: may grow where experts are streamed">,
    Option<"streamExperts", "stream-experts", "int64_t", "0",
           "Tokens of the shortest step that streams experts to the GPU; -1: computed; 0: none">,
    Option<"pinWeights", "pin-weights", "bool", "false",
           "The GPU reads streamed experts in pinned memory, not through a ring">,
    Option<"deferExperts", "defer-experts", "int64_t", "0",
           "Experts per token and layer that moe-defer-experts will defer">,
    Option<"weights", "weights", "::mlir::moe::WeightsMode", "::mlir::moe::WeightsMode::Auto",
           "Whether weights may be packed, which decides the kernels", "::mlir::moe::weightsModeValues()">,
  ];
  let statistics = [
    Statistic<"numHost", "host", "Ops on the host">,
    Statistic<"numGpu", "gpu", "Ops on GPUs">,
  ];
}

def FusePass : Moe_Pass<"moe-fuse"> {
  let summary = "fuse sums into the producer of a summand, and gate with up";
  let description = [{
    A sum costs a read and a write of both summands. The op that produces one of
    them can instead add the other one as it writes its result (`residual`). Chains
    of sums are reordered so that each summand finds a producer. Only ops on one
    device are fused, so that a GPU does not wait for a value from the host.

    FFNs get `fused` if gate and up have the same shape, their gemms read the same
    encoding of the activation, and the device has a kernel that keeps both factors
    in registers.

    Invariant: a `moe.add` is left only if no producer of a summand on its device
    can add the other summand.
  }];
  let statistics = [
    Statistic<"numResiduals", "residuals", "Sums moved into a producer">,
    Statistic<"numGateUp", "gate-up", "FFNs with gate and up fused">,
  ];
}

def InsertTransfersPass : Moe_Pass<"moe-insert-transfers"> {
  let summary = "make copies between devices explicit";
  let description = [{
    Inserts a `moe.transfer` where an op reads an activation that is on another
    device. A value is copied once per destination. Weights are not copied: they
    are loaded on the devices that use them.

    Invariant: every activation that an op reads is on the op's device. Arguments
    and results of functions are on the host.
  }];
  let statistics = [Statistic<"numTransfers", "transfers", "Copies inserted">];
}

def SelectKernelsPass : Moe_Pass<"moe-select-kernels"> {
  let summary = "select kernels by op, format, device and number of tokens";
  let description = [{
    Selects from the kernel table, among the kernels that the device can run and
    whose range contains the phase's tokens, the one for the best instruction set,
    unless another one was measured to be clearly faster. The decisions are recorded
    as described in dialects/moe/KernelCalls.h.

    Before that, every weight that gemms read gets one layout per device, the same in
    all phases: a layout that kernels read faster than the model file's rows, if there
    is such a gemm for each use (passes/moe/kernels/WeightLayouts.h). With
    `weights=reference`, weights of the host keep the file's layout.

    Invariant: every op with a cost has `moe.kernels`, which `selectedInstructions`
    joins with its instructions. A missing kernel is an error that names the op, the
    format, the device and the phase's range of tokens.
  }];
  let options = [
    Option<"weights", "weights", "::mlir::moe::WeightsMode", "::mlir::moe::WeightsMode::Auto",
           "Whether weights may be packed in another layout", "::mlir::moe::weightsModeValues()">,
  ];
  let statistics = [Statistic<"numGemms", "gemms", "Weights read by a gemm">];
}

def PrintCostPass : Moe_Pass<"moe-print-cost"> {
  let summary = "print the cost of every op";
  let description = [{
    Prints one line per op of each function, and a total: FLOPs; bytes of weights,
    activations and KV cache for `tokens` tokens after `context` cached positions;
    bytes of weights that must be resident. `moe.label` names the op.

    Invariant: the module does not change.
  }];
  let options = [
    Option<"tokens", "tokens", "int64_t", "1", "Tokens of the step">,
    Option<"context", "context", "int64_t", "0", "Positions cached before the step">,
  ];
}

#endif // MOE_PASSES_PASSES_TD
