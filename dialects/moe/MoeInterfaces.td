//===- MoeInterfaces.td - What ops cost, how types are stored ---*- tablegen -*-===//

#ifndef MOE_DIALECTS_MOE_INTERFACES_TD
#define MOE_DIALECTS_MOE_INTERFACES_TD

include "mlir/IR/OpBase.td"

def Moe_LowerableOpInterface : OpInterface<"LowerableOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    The instructions of a plan that the op becomes, described once: their
    operands, parameters and work. Kernel selection names a kernel for each, the
    cost model predicts its seconds, and lower-to-plan emits them in this order.
  }];
  let methods = [
    InterfaceMethod<[{
        The instructions for one execution, with what each does: FLOPs (a
        multiply-accumulate is 2), weights that must be read (of routed experts
        the expected number for independent choices), bytes of activations
        and of KV cache read and written.
        There is no Quantize among them: whether an activation is encoded
        depends on the gemms that are chosen (withQuantize,
        dialects/moe/KernelCalls.h). Number and kind of instructions do not
        depend on the execution.
      }],
      "::mlir::moe::Instructions", "getInstructions",
      (ins "const ::mlir::moe::Execution &":$execution)>,
  ];
  // This runs after the op's own verifier, since a description needs a valid
  // op.
  let verify = [{ return ::mlir::moe::verifyKernels($_op); }];
  let verifyWithRegions = 1;
}

def Moe_ResidualOpInterface : OpInterface<"ResidualOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    The op adds an optional `residual` to its result as it writes it.
  }];
  let methods = [
    InterfaceMethod<"The summand, or null.", "::mlir::Value", "getResidual">,
    InterfaceMethod<"The operand of the summand, to set or clear it.", "::mlir::MutableOperandRange", "getResidualMutable">,
  ];
}

def Moe_CacheOpInterface : OpInterface<"CacheOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    The op appends a row per token to the cache of its layer. Nothing else knows
    what a cache consists of.
  }];
  let methods = [
    InterfaceMethod<"Bytes of `rows` rows.",
                    "int64_t", "getCacheBytes", (ins "int64_t":$rows)>,
    InterfaceMethod<"The layer that the cache belongs to.", "int64_t", "getCacheLayer">,
    InterfaceMethod<"The number of the cache among those of its layer.", "int64_t", "getCachePart", (ins), [{}],
                    [{ return 0; }]>,
    InterfaceMethod<"The value that stands for the cache; its type says what a row is.",
                    "::mlir::Value", "getCache">,
    InterfaceMethod<"Whether rows are exact numbers, which have to stay in F32.",
                    "bool", "isExact", (ins), [{}], [{ return false; }]>,
  ];
}

def Moe_FileRowsOpInterface : OpInterface<"FileRowsOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    The op reads rows of a table from the model file when tokens need them. The
    table is mapped and never resident.
  }];
  let methods = [
    InterfaceMethod<"The table.", "::mlir::Value", "getFileTable">,
  ];
}

def Moe_StateOpInterface : OpInterface<"StateOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    The op keeps a state of a fixed size for its layer in each sequence.
  }];
  let methods = [
    InterfaceMethod<"Number of floats of the state of a sequence.",
                    "int64_t", "getStateWidth">,
    InterfaceMethod<"The layer that the state belongs to.", "int64_t", "getStateLayer">,
    InterfaceMethod<"The number of the state among those of its layer.", "int64_t", "getStatePart", (ins), [{}],
                    [{ return 0; }]>,
  ];
}

def Moe_CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    Work and traffic of one execution of the op, as a function of the tokens of
    the step and the positions already cached. Derived from the op's
    instructions; rates come from the target description.
  }];
  let methods = [
    InterfaceMethod<"The sum of the work of the op's instructions for `tokens` tokens after `context` cached positions of each sequence.",
      "::mlir::moe::Cost", "getCost", (ins "int64_t":$tokens, "int64_t":$context), [{}],
      [{ return ::mlir::moe::sumWork($_op.getInstructions({tokens, context})); }]>,
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
