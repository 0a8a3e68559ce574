//===- PlanInterfaces.td - Weights of a plan --------------------*- tablegen -*-===//

#ifndef MOE_DIALECTS_PLAN_PLANINTERFACES_TD
#define MOE_DIALECTS_PLAN_PLANINTERFACES_TD

include "mlir/IR/OpBase.td"

def Plan_WeightEntryInterface : OpInterface<"WeightEntryInterface"> {
  let cppNamespace = "::mlir::plan";
  let description = [{
    An entry of the weight table: bytes of a file, or a weight that packing still
    has to compute or to lay out. Its name is the symbol of the moe.weight that
    it was lowered from.
  }];
  let methods = [
    InterfaceMethod<"Returns the shape and layout in which instructions read it.",
                    "::mlir::plan::WeightShape", "getWeightShape", (ins)>,
    InterfaceMethod<[{
        Returns whether a file has its bytes as instructions read them. A program
        with other entries cannot be written; plan-pack-weights replaces them.
      }],
      "bool", "isInFile", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<"Returns the weight with the same rows as model files lay them out.",
                    "::mlir::Value", "getUnpacked", (ins), [{}],
                    [{ return $_op->getResult(0); }]>,
    InterfaceMethod<"", "::llvm::StringRef", "getWeightName", (ins), [{}],
                    [{ return $_op.getName(); }]>,
  ];
}

#endif // MOE_DIALECTS_PLAN_PLANINTERFACES_TD
