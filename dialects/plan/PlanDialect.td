//===- PlanDialect.td - The scheduled, bufferised program -------*- tablegen -*-===//

#ifndef MOE_DIALECTS_PLAN_PLANDIALECT_TD
#define MOE_DIALECTS_PLAN_PLANDIALECT_TD

include "mlir/IR/OpBase.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::mlir::plan";
  let summary = "What runs where, when, in which bytes: 1:1 with plan.fbs";
  let description = [{
    One `plan.program` holds the tables of a plan as ops whose results the phases
    use, so an index of the flatbuffer is an SSA value here. The serialiser decides
    nothing: every field of the flatbuffer is an attribute or an operand, and the
    order of a table is the order of its ops.

    ```mlir
    plan.program attributes {compiler = "moec 0.1.0", target = "xeon", ...} {
      %cpu0 = plan.device "cpu0" cpu isa "avx512" memory 8589934592
      %cpu0.compute = plan.queue compute of %cpu0
      %gguf = plan.file model "tiny.gguf" bytes 1024 header 512 hash "0123..."
      %norm = plan.weight "output_norm.weight" in %gguf at 512 : 1x1x256xF32 strides [1024, 1024]
      %why = plan.explain "output_norm" phase "logits" ...
      plan.phase "logits" tokens 1 to 16 {
        %x = plan.buffer "hidden" on %cpu0 f32 cols 256 rows [1, 0] at 0
        %y = plan.buffer "output_norm" on %cpu0 f32 cols 256 rows [1, 0] at 16384
        plan.inst rms_norm on %cpu0.compute ["rms_norm_avx512"] (x = %x, weight = %norm, out = %y)
          {groups = 1, eps = 1.000000e-06} barrier for %why
        plan.bind input %x output %y
      }
    }
    ```
  }];
  // Sources of weights are attributes of the moe dialect.
  let dependentDialects = ["::mlir::moe::MoeDialect"];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

#endif // MOE_DIALECTS_PLAN_PLANDIALECT_TD
