#include "passes/PlanScratch.h"

#include "kernels/Scratch.h"

using namespace mlir;
using namespace mlir::plan;
using moek::OpCode;

int64_t plan::scratchBytes(InstOp inst) {
  const moert::OpSpec &spec = *inst.getSpec();
  auto value = [&](std::string_view wanted) -> int64_t {
    for (auto [name, value] : llvm::zip(spec.ints, inst.getInts()))
      if (name == wanted)
        return value;
    llvm_unreachable("a parameter of the op's signature");
  };
  switch (spec.op) {
  case OpCode::Linear:
  case OpCode::ExpertsLinear:
    return moek::gemmScratchBytes();
  case OpCode::GateUp:
  case OpCode::ExpertsGateUp:
    return moek::gateUpScratchBytes();
  case OpCode::AbsorbQuery:
    return moek::headLinearScratchBytes(value("nope"), value("latent"));
  case OpCode::ExpandValue:
    return moek::headLinearScratchBytes(value("value"), value("latent"));
  case OpCode::LatentAttention:
    return moek::latentAttentionScratchBytes(value("heads"), value("latent"),
                                             value("rope"));
  case OpCode::MlaAttention:
    return moek::mlaAttentionScratchBytes(value("nope"), value("rope"),
                                          value("latent"), value("value"));
  case OpCode::Router:
    return moek::routerScratchBytes(value("experts"));
  default:
    return 0;
  }
}
