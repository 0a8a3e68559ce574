#include "passes/PlanScratch.h"

#include "kernels/Scratch.h"

using namespace mlir;
using namespace mlir::plan;
using moek::OpCode;

int64_t plan::scratchBytes(InstOp inst) {
  const moert::OpSpec &spec = *inst.getSpec();
  return scratchBytes(spec.op, [&](StringRef wanted) -> int64_t {
    for (auto [name, value] : llvm::zip(spec.ints, inst.getInts()))
      if (wanted == StringRef(name.data(), name.size()))
        return value;
    llvm_unreachable("a parameter of the op's signature");
  });
}

int64_t plan::scratchBytes(OpCode op,
                           llvm::function_ref<int64_t(StringRef)> parameter) {
  switch (op) {
  case OpCode::Linear:
  case OpCode::ExpertsLinear:
    return moek::gemmScratchBytes();
  case OpCode::GateUp:
  case OpCode::ExpertsGateUp:
    return moek::gateUpScratchBytes();
  case OpCode::AbsorbQuery:
    return moek::absorbQueryScratchBytes(parameter("latent"));
  case OpCode::HeadLinear:
    return moek::headLinearScratchBytes(parameter("cols"));
  case OpCode::LatentAttention:
    return moek::latentAttentionScratchBytes(
        parameter("heads"), parameter("latent"), parameter("rope"));
  case OpCode::MlaAttention:
    return moek::mlaAttentionScratchBytes(parameter("nope"), parameter("rope"),
                                          parameter("latent"),
                                          parameter("value"));
  case OpCode::Router:
    return moek::routerScratchBytes(parameter("experts"));
  default:
    return 0;
  }
}
