//===- MoeAttrs.td - Attributes of the model graph --------------*- tablegen -*-===//

#ifndef MOE_DIALECTS_MOE_ATTRS_TD
#define MOE_DIALECTS_MOE_ATTRS_TD

include "dialects/moe/WeightAttrs.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Moe_Attr<string name, string mnemonic_> : AttrDef<Moe_Dialect, name> {
  let mnemonic = mnemonic_;
}

// A double, which MLIR has no parameter for.
class Moe_RealParameter<string default = ""> : AttrParameter<"::mlir::moe::Real", "", "double"> {
  let parser = "::mlir::moe::parseReal($_parser)";
  let printer = "$_printer.printFloat(::llvm::APFloat($_self))";
  let defaultValue = default;
}

class Moe_RealsParameter : OptionalArrayRefParameter<"::mlir::moe::Real"> {
  let parser = "::mlir::moe::parseReals($_parser)";
  let printer = "::mlir::moe::printReals($_printer, $_self)";
}

def Moe_RopeAttr : Moe_Attr<"Rope", "rope"> {
  let summary = "rotary position embedding, scaled when factor is not 1";
  let description = [{
    `dim` elements of a head turn by position * f, where f of pair i is
    base^(-2i/dim), divided by the i-th of `divisors` where there are some
    (Llama 3.1). Without an `original_context` every frequency is divided by
    `factor`. With one, YaRN (arXiv 2309.00071): frequencies whose period
    exceeds the original context are divided by `factor`, with a linear ramp
    between the dimensions that rotate `beta_fast` and `beta_slow` times over
    it; `rounded` says whether the ramp is from whole dimensions to whole ones.
    What was turned is multiplied by `magnitude`, YaRN's correction where the
    attention scale does not have it. `reversed` turns back what was turned.
  }];
  let parameters = (ins
    "int64_t":$dim, Moe_RealParameter<>:$base,
    Moe_RealParameter<"1.0">:$factor,
    DefaultValuedParameter<"int64_t", "0">:$original_context,
    Moe_RealParameter<"32.0">:$beta_fast,
    Moe_RealParameter<"1.0">:$beta_slow,
    DefaultValuedParameter<"bool", "true">:$rounded,
    Moe_RealParameter<"1.0">:$magnitude,
    Moe_RealsParameter<>:$divisors,
    DefaultValuedParameter<"bool", "false">:$neox,
    DefaultValuedParameter<"bool", "false">:$reversed);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Moe_ExpertSliceAttr : Moe_Attr<"ExpertSlice", "expert_slice"> {
  let summary = "the experts of a layer that one device has";
  let description = [{
    `#moe.expert_slice<experts = 64, begin = 16, count = 48, share = 0.75>`: of 64
    experts the 48 from the 16th on, which `share` of all choices are expected to
    be of. With a `map` it is any of them: of each expert the matrix of the weights
    that it has, which are `count`, or -1.0.
  }];
  let parameters = (ins "int64_t":$experts, "int64_t":$begin, "int64_t":$count,
                        Moe_RealParameter<>:$share, Moe_RealsParameter<>:$map);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Moe_PhaseAttr : Moe_Attr<"Phase", "phase"> {
  let summary = "the token range that a function is compiled for";
  let description = [{
    `#moe.phase<"decode", min_tokens = 1, max_tokens = 1, context = 4096>`; the
    name is that of a kind of phase (runtime/schema/PhaseKind.h). `context` is the most cached positions of a sequence, which costs are computed
    for. With `sequences = 8` the tokens of a step are spread over as many
    sequences, or over as many as there are tokens: each sees its own alone.
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$min_tokens,
                        "int64_t":$max_tokens, "int64_t":$context_length,
                        DefaultValuedParameter<"int64_t", "1">:$sequences);
  let assemblyFormat = [{
    `<` $name `,` `min_tokens` `=` $min_tokens `,` `max_tokens` `=` $max_tokens
    `,` `context` `=` $context_length (`,` `sequences` `=` $sequences^)? `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    ::moert::PhaseKind getKind() const;
  }];
}

def Moe_LabelAttr : Moe_Attr<"Label", "label"> {
  let summary = "the name of an op in messages: its part of the model, and the layer";
  let description = [{
    `#moe.label<"attn_q", layer = 3>` reads "blk.3.attn_q", `#moe.label<"output">`
    is outside the layers. Unique in a function.
  }];
  let parameters = (ins "::mlir::StringAttr":$part,
                        DefaultValuedParameter<"int64_t", "kNoLayer">:$layer);
  let assemblyFormat = "`<` $part (`,` `layer` `=` $layer^)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static constexpr int64_t kNoLayer = -1;
    /// Returns the name in the form of GGUF's tensor names.
    std::string text() const;
    std::optional<int64_t> layer() const {
      return getLayer() == kNoLayer ? std::nullopt : std::optional(getLayer());
    }
    /// Returns the label "<part>.<suffix>" for an op that replaces this one's.
    LabelAttr of(::llvm::StringRef suffix) const;
  }];
}

def Moe_KernelCallAttr : Moe_Attr<"KernelCall", "kernel_call"> {
  let summary = "the kernels of one instruction";
  let description = [{
    `<linear_avx512(gemm_q4_k_rows16_avx512)>`: the driver, and a gemm for each
    of the weights that the instruction multiplies. All names are in
    kernels/Gemms.def, and the gemms read one encoding of the activations.
  }];
  let parameters = (ins "::mlir::StringAttr":$driver,
                        OptionalArrayRefParameter<"::mlir::StringAttr">:$gemms);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    const ::moek::KernelInfo &driver() const;
    ::llvm::SmallVector<const ::moek::GemmInfo *, 2> gemms() const;
  }];
}

def Moe_KernelsAttr : Moe_Attr<"Kernels", "kernels"> {
  let summary = "the kernels of an op, one call per instruction";
  let description = [{
    `moe.kernels = #moe.kernels<quantize_avx512, linear_avx512(gemm_q8_0_avx512)>`
    on an op with LowerableOpInterface: its instructions in order, with the
    Quantize that the gemms ask for (dialects/moe/KernelCalls.h).
  }];
  let parameters = (ins OptionalArrayRefParameter<"::mlir::moe::KernelCallAttr">:$calls);
  let hasCustomAssemblyFormat = 1;
}

def Moe_Scoring : I32EnumAttr<"Scoring", "how router logits become scores", [
    I32EnumAttrCase<"Softmax", 1, "softmax">,
    I32EnumAttrCase<"Sigmoid", 2, "sigmoid">,
    I32EnumAttrCase<"SoftmaxTopK", 3, "softmax_topk">,
    I32EnumAttrCase<"SqrtSoftplus", 4, "sqrt_softplus">,
    I32EnumAttrCase<"SparseMixer", 5, "sparse_mixer">]> {
  let cppNamespace = "::mlir::moe";
  let genSpecializedAttr = 0;
}
def Moe_Activation : I32EnumAttr<"Activation", "the function of gate and up in an FFN (kernels/Abi.h)", [
    I32EnumAttrCase<"Silu", 0, "silu">,
    I32EnumAttrCase<"Gelu", 1, "gelu">,
    I32EnumAttrCase<"ClampedSwiglu", 2, "clamped_swiglu">,
    I32EnumAttrCase<"Relu", 3, "relu">,
    I32EnumAttrCase<"GeluErf", 4, "gelu_erf">]> {
  let cppNamespace = "::mlir::moe";
  let genSpecializedAttr = 0;
}
def Moe_Gate : I32EnumAttr<"Gate", "the factor that a gate is (kernels/Types.h)", [
    I32EnumAttrCase<"Sigmoid", 0, "sigmoid">,
    I32EnumAttrCase<"Softplus", 1, "softplus">,
    I32EnumAttrCase<"Identity", 2, "identity">]> {
  let cppNamespace = "::mlir::moe";
  let genSpecializedAttr = 0;
}
def Moe_GateAttr : EnumAttr<Moe_Dialect, Moe_Gate, "gate"> {
  let assemblyFormat = "`<` $value `>`";
}
def Moe_ActivationAttr : EnumAttr<Moe_Dialect, Moe_Activation, "activation"> {
  let assemblyFormat = "`<` $value `>`";
}

def Moe_ScoringAttr : EnumAttr<Moe_Dialect, Moe_Scoring, "scoring"> {
  let assemblyFormat = "`<` $value `>`";
}

def Moe_Alternative : I32EnumAttr<"Alternative", "the kind of alternatives that a pass chose from", [
    I32EnumAttrCase<"Device", 0, "device">,
    I32EnumAttrCase<"Kernel", 1, "kernel">,
    I32EnumAttrCase<"Layout", 2, "layout">]> {
  let cppNamespace = "::mlir::moe";
  let genSpecializedAttr = 0;
}

def Moe_RejectedAttr : Moe_Attr<"Rejected", "rejected"> {
  let summary = "an alternative that a pass did not choose, and why";
  let description = [{
    `#moe.rejected<device "gpu0" for "" seconds 1.2e-3 chosen "cpu0" seconds 1.0e-3, "...">`
    on an op, in the list moe.rejected: the device, kernel or layout that was not
    taken for the op, or for one of the weights that it reads, with what the op,
    or that weight's product, is predicted to take of the phase's typical step,
    beside what was taken instead. Seconds are -1.0 where nothing can do it.
  }];
  let parameters = (ins
    EnumParameter<Moe_Alternative>:$kind, "::mlir::StringAttr":$name, "::mlir::StringAttr":$of,
    Moe_RealParameter<>:$seconds, "::mlir::StringAttr":$chosen, Moe_RealParameter<>:$chosen_seconds,
    "::mlir::StringAttr":$reason);
  let assemblyFormat = [{
    `<` $kind $name `for` $of `seconds` $seconds `chosen` $chosen `seconds` $chosen_seconds `,` $reason `>`
  }];
}

def Moe_StreamingAttr : Moe_Attr<"Streaming", "streaming"> {
  let summary = "what streaming the host's experts is predicted to gain";
  let description = [{
    `#moe.streaming<from = 1923, streamed = 9.1, kept = 20.3>` on a module with
    devices: steps of a prompt from `from` tokens on take less time if the host's
    experts are copied to GPUs, 0 if none do. The longest step takes `streamed`
    seconds, or `kept` if the experts are kept on the host.
  }];
  let parameters = (ins "int64_t":$from, Moe_RealParameter<>:$streamed,
                        Moe_RealParameter<>:$kept);
  let assemblyFormat = "`<` struct(params) `>`";
}

#endif // MOE_DIALECTS_MOE_ATTRS_TD
