#include "runtime/prove/Prove.h"

#include "runtime/plan/Verify.h"
#include "runtime/prove/OpProof.h"

namespace moert {

namespace {
/// The provers of all ops, indexed by OpCode.
constexpr Prover provers[moek::kOpCodeCount] = {
#define MOE_OP(op, name, number, kind) prove##op,
#include "kernels/Ops.def"
};
} // namespace

std::string placeOf(const Plan &plan, const fb::Phase &phase, uint32_t index) {
  return fmt::format("{}: phase {}, instruction {} ({})", plan.path(),
                     text(phase.name()), index,
                     findOp(phase.instructions()->Get(index)->op())->name);
}

StatusOr<ProvenPhase> provePhase(const Plan &plan, const fb::Phase &phase,
                                 const WeightFiles &files) {
  ProvenPhase proven{&phase, {}};
  proven.ops.reserve(count(phase.instructions()));
  for (uint32_t i = 0; i < count(phase.instructions()); ++i) {
    OpProof proof(plan.table(), phase, i, files);
    provers[phase.instructions()->Get(i)->op()](proof);
    StatusOr<ProvenOp> op = proof.finish();
    if (!op)
      return Status(op.status()).at(placeOf(plan, phase, i));
    proven.ops.push_back(*std::move(op));
  }
  return proven;
}

StatusOr<std::vector<ProvenPhase>> provePlan(const Plan &plan,
                                             const WeightFiles &files) {
  std::vector<ProvenPhase> proven;
  for (const fb::Phase *phase : *plan.table().phases()) {
    MOE_ASSIGN_OR_RETURN(ProvenPhase one, provePhase(plan, *phase, files));
    MOE_RETURN_IF_ERROR(
        verifyDataflow(plan.table(), *phase)
            .at(fmt::format("{}: phase {}", plan.path(), text(phase->name()))));
    proven.push_back(std::move(one));
  }
  return proven;
}

} // namespace moert
