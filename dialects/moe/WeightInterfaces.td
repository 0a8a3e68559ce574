//===- WeightInterfaces.td - Where weights come from ------------*- tablegen -*-===//

#ifndef MOE_DIALECTS_MOE_WEIGHTINTERFACES_TD
#define MOE_DIALECTS_MOE_WEIGHTINTERFACES_TD

include "mlir/IR/OpBase.td"

def Moe_WeightSourceInterface : AttrInterface<"WeightSourceInterface"> {
  let cppNamespace = "::mlir::moe";
  let description = [{
    Says where the bytes of a weight (moe.weight, plan.derived) come from: a
    tensor of the model file, a view of another weight, or a computation that
    packing does. The weights that it reads are its parts; the op that holds the
    attribute names them.

    A new kind of weight is an attribute with this interface and, if packing
    computes its bytes, a producer in compiler/Pack/WeightRows.cpp.
  }];
  let methods = [
    InterfaceMethod<[{
        Checks that a weight of type `type` can be made of parts of these types.
        Errors begin with emitError(), which names the weight.
      }],
      "::llvm::LogicalResult", "verifyParts",
      (ins "::llvm::function_ref<::mlir::InFlightDiagnostic()>":$emitError,
           "::llvm::ArrayRef<::mlir::RankedTensorType>":$parts,
           "::mlir::RankedTensorType":$type)>,
    InterfaceMethod<[{
        Returns where the weight's bytes are in a model file, or nothing if
        packing computes them. `part` says the same about the first part; a
        weight without parts ignores it.
      }],
      "::std::optional<::mlir::moe::StoredBytes>", "locate",
      (ins "::mlir::RankedTensorType":$type,
           "const ::std::optional<::mlir::moe::StoredBytes> &":$part), [{}],
      [{ return std::nullopt; }]>,
    InterfaceMethod<[{
        Returns whether memory holds the whole part rather than the weight alone:
        views of one fused tensor count as that tensor.
      }],
      "bool", "keepsWholePart", (ins "::mlir::RankedTensorType":$type), [{}],
      [{ return false; }]>,
  ];
}

#endif // MOE_DIALECTS_MOE_WEIGHTINTERFACES_TD
