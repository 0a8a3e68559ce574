//===- MoeInterfaces.td - What ops cost, how types are stored ---*- tablegen -*-===//

#ifndef MOE_DIALECTS_MOE_INTERFACES_TD
#define MOE_DIALECTS_MOE_INTERFACES_TD

include "mlir/IR/OpBase.td"

def Moe_LowerableOpInterface : OpInterface<"LowerableOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    The instructions of a plan that the op becomes. Kernel selection names a
    kernel for each, lower-to-plan emits them in this order.
  }];
  let methods = [
    InterfaceMethod<[{
        Without Quantize: whether an activation is encoded depends on the gemms
        that are chosen (passes/moe/kernels/KernelSelection.h adds it). The last
        instruction of an op whose residual dies in it accumulates into the
        residual's buffer; otherwise the list ends with Add.
      }],
      "::llvm::SmallVector<::mlir::moe::PlanStep>", "getPlanSteps", (ins)>,
  ];
}

def Moe_ResidualOpInterface : OpInterface<"ResidualOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    The op adds an optional `residual` to its result as it writes it.
  }];
  let methods = [
    InterfaceMethod<"The summand, or null.", "::mlir::Value", "getResidual">,
    InterfaceMethod<"", "::mlir::MutableOperandRange", "getResidualMutable">,
  ];
}

def Moe_CacheOpInterface : OpInterface<"CacheOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    The op appends a row per token to the cache of its layer. The only place
    that knows what a cache is made of.
  }];
  let methods = [
    InterfaceMethod<"Bytes of `rows` rows.",
                    "int64_t", "getCacheBytes", (ins "int64_t":$rows)>,
    InterfaceMethod<"Whose cache it is.", "int64_t", "getCacheLayer">,
    InterfaceMethod<"Which of the layer's caches.", "int64_t", "getCachePart", (ins), [{}],
                    [{ return 0; }]>,
    InterfaceMethod<"What stands for the cache; its type says of what it is.",
                    "::mlir::Value", "getCache">,
  ];
}

def Moe_StateOpInterface : OpInterface<"StateOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    The op keeps a state of each sequence, of one size, for its layer.
  }];
  let methods = [
    InterfaceMethod<"Floats of a sequence's state.",
                    "int64_t", "getStateWidth">,
    InterfaceMethod<"Whose state it is.", "int64_t", "getStateLayer">,
    InterfaceMethod<"Which of the layer's states.", "int64_t", "getStatePart", (ins), [{}],
                    [{ return 0; }]>,
  ];
}

def Moe_CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    Work and traffic of one execution of the op, as a function of the tokens of
    the step and the positions already cached. The only place that knows how
    expensive an op is; rates come from the target description.
  }];
  let methods = [
    InterfaceMethod<[{
        What each of the op's instructions (getPlanSteps(), in their order) does
        for `tokens` tokens after `context` cached positions of the sequence of
        each: FLOPs (a multiply-accumulate is 2), weights that must be read (for
        routed experts the expectation over independent uniform choices), bytes
        of activations and of KV cache read and written.
      }],
      "::llvm::SmallVector<::mlir::moe::StepWork>", "getWork",
      (ins "int64_t":$tokens, "int64_t":$context)>,
    InterfaceMethod<"The sum of getWork().",
      "::mlir::moe::Cost", "getCost", (ins "int64_t":$tokens, "int64_t":$context), [{}],
      [{ return ::mlir::moe::sumWork($_op.getWork(tokens, context)); }]>,
    InterfaceMethod<"Bytes of weights that must be resident to run the op.",
      "int64_t", "getResidentWeightBytes", (ins), [{}],
      [{ return ::mlir::moe::sumWeightBytes($_op.getOperation()); }]>,
  ];
}

def Moe_QuantTypeInterface : TypeInterface<"QuantTypeInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    An element type stored in blocks: a row of N elements takes
    N / blockElements * blockBytes bytes.
  }];
  let methods = [
    InterfaceMethod<"The format's number, name and kernels.",
                    "::moek::Format", "getFormat">,
    InterfaceMethod<"Elements per block; row lengths are multiples of it.",
                    "int64_t", "getBlockElements", (ins), [{}],
                    [{ return ::moek::formatInfo($_type.getFormat()).blockElements; }]>,
    InterfaceMethod<"Bytes per block.", "int64_t", "getBlockBytes", (ins), [{}],
                    [{ return ::moek::formatInfo($_type.getFormat()).blockBytes; }]>,
  ];
}

#endif // MOE_DIALECTS_MOE_INTERFACES_TD
