//===- MoeDialect.td - The model graph --------------------------*- tablegen -*-===//

#ifndef MOE_DIALECTS_MOE_DIALECT_TD
#define MOE_DIALECTS_MOE_DIALECT_TD

include "mlir/IR/OpBase.td"

def Moe_Dialect : Dialect {
  let name = "moe";
  let cppNamespace = "::mlir::moe";
  let summary = "A mixture-of-experts language model, at the level of a paper";
  let description = [{
    Says what to compute and nothing about where or how. Tensors of activations
    are `tensor<?xNxf32>`: the first dimension is the number of tokens T, known
    only as a range per phase. Weights are symbols of the module
    (`moe.weight`) that say where their bytes come from; their element type
    carries the quantised format, as in `tensor<64x1408x2048x!moe.q4_k>`, rows
    first, columns contiguous.

    Decisions of passes are recorded as discardable attributes, whose types and
    values are verified: `moe.label` (#moe.label: the name users see and the
    layer), `moe.device` and `moe.reason` (strings), `moe.kernels`
    (#moe.kernels). An attribute of the dialect with another name is an error.
  }];
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = "void registerTypes();";
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

#endif // MOE_DIALECTS_MOE_DIALECT_TD
