//===- TargetAttr.h - A target description as an attribute ------*- C++ -*-===//

#ifndef MOE_COMPILER_MACHINE_TARGETS_TARGETATTR_H
#define MOE_COMPILER_MACHINE_TARGETS_TARGETATTR_H

#include "compiler/Machine/Targets/Target.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

namespace moec {

/// Returns the module attribute `moe.target`, so that passes only need the IR:
///   {name = "4090+xeon", devices = [{name = "gpu0", model = "4090",
///    kind = "cuda", isa = "cuda", arch = 89 : i64, cores = 128 : i64,
///    memory_bytes = ... : i64, reserved_bytes = ... : i64,
///    read_bps = ... : f64, int8_ops = ... : f64, float_ops = ... : f64,
///    link_bps = ... : f64, link_latency = ... : f64,
///    kernels = [{kernel = "gemm_q4_k_avx512", at = array<f64: 1, 64>,
///                memory = array<f64: ...>, cache = array<f64: ...>}, ...]},
///   ...]}
/// Peaks are multiplied by their efficiencies. How certain these are is stored
/// under the peak's key plus "_basis".
mlir::DictionaryAttr toAttr(mlir::MLIRContext *context,
                            const TargetDesc &target);

/// Reads the attribute; emits an error on `module` that names what is missing
/// or wrong.
mlir::FailureOr<TargetDesc> targetOf(mlir::ModuleOp module);

} // namespace moec

#endif // MOE_COMPILER_MACHINE_TARGETS_TARGETATTR_H
