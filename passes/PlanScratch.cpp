#include "passes/PlanScratch.h"

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
  return moert::findOp(unsigned(op))->scratchBytes([&](std::string_view name) {
    return parameter(StringRef(name.data(), name.size()));
  });
}
