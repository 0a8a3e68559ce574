//===- PlanDialect.td - The scheduled, bufferised program -------*- tablegen -*-===//

#ifndef MOE_DIALECTS_PLAN_PLAN_TD
#define MOE_DIALECTS_PLAN_PLAN_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::mlir::plan";
  let summary = "What runs where, when, in which bytes: 1:1 with plan.fbs";
  let description = [{
    One `plan.program` holds the tables of a plan as ops whose results the
    phases use. Nothing here is decided by the serialiser: every field of the
    flatbuffer is an attribute or an operand.

    ```mlir
    plan.program attributes {compiler = "moec 0.1.0", target = "xeon", ...} {
      %f0 = plan.file model "tiny.gguf" {bytes = 1024, header_bytes = 512, header_hash = "..."}
      %w0 = plan.weight "output_norm.weight" in %f0 {offset = 512, format = "F32", ...}
      plan.device "cpu0" {kind = 0, isa = "avx512", ...}
      %kv0 = plan.kv {device = 0, layer = 0, ...}
      plan.phase "decode" tokens 1 to 1 {
        %x = plan.buffer "x" {device = 0, encoding = "f32", cols = 256, ...}
        plan.inst rms_norm kernels ["rms_norm_avx512"] (%x, %w0, %y) {groups = 1, eps = 1.0e-6} ...
      } 
      plan.explain {...}
    }
    ```
  }];
  let useDefaultTypePrinterParser = 1;
}

#endif // MOE_DIALECTS_PLAN_PLAN_TD
