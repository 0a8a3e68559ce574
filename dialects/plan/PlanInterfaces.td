//===- PlanInterfaces.td - Weights of a plan --------------------*- tablegen -*-===//

#ifndef MOE_DIALECTS_PLAN_PLANINTERFACES_TD
#define MOE_DIALECTS_PLAN_PLANINTERFACES_TD

include "mlir/IR/OpBase.td"

def Plan_WeightEntryInterface : OpInterface<"WeightEntryInterface"> {
  let cppNamespace = "::mlir::plan";
  let description = [{
    An entry of the weight table: in a file, or still to be computed or laid out
    anew. Its name is that of the `moe` weight that it was lowered from.
  }];
  let methods = [
    InterfaceMethod<"What instructions that read it find.",
                    "::mlir::plan::WeightShape", "getWeightShape", (ins)>,
    InterfaceMethod<[{
        Whether its bytes are in a file as instructions read them. A program with
        other entries cannot be written; plan-pack-weights replaces them.
      }],
      "bool", "isInFile", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<"", "::llvm::StringRef", "getWeightName", (ins), [{}],
                    [{ return $_op.getName(); }]>,
  ];
}

#endif // MOE_DIALECTS_PLAN_PLANINTERFACES_TD
