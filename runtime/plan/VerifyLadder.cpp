#include "runtime/plan/Verify.h"
#include "runtime/plan/VerifyFields.h"

#include <algorithm>

namespace moert {

namespace {
/// Checks that a ladder has none of the fields that only its rungs have.
Status checkNothingElse(const fb::Plan &ladder) {
  return checkFields<fb::Plan>([&](auto field) {
    constexpr std::string_view own[] = {"schema_version", "compiler",
                                        "checksum", "tokenizer", "rungs"};
    if (field.stored(ladder) && std::ranges::find(own, field.name) == end(own))
      return invalidPlan("has rungs, but also {} of its own", field.name);
    return Status::ok();
  });
}

Status checkModel(const fb::Plan &rung, const fb::Plan &first) {
  if (text(rung.model_hash()) != text(first.model_hash()) ||
      rung.vocab() != first.vocab() || rung.hidden() != first.hidden() ||
      rung.layers() != first.layers() || logitsOf(rung) != logitsOf(first))
    return invalidPlan("is of another model than rung 1");
  return Status::ok();
}

Status checkOrder(const fb::Plan &rung, const fb::Plan &before) {
  if (rung.context() < before.context())
    return invalidPlan("has a context of {}, and the one before it {}",
                       rung.context(), before.context());
  if (rung.context() == before.context() && gpuBudget(rung) < gpuBudget(before))
    return invalidPlan("has less memory of GPUs than the one before it, with "
                       "the same context");
  return Status::ok();
}

Status verifyRung(const fb::Plan &ladder, uint32_t index) {
  const fb::Plan &rung = *ladder.rungs()->Get(index);
  if (count(rung.rungs()) > 0)
    return invalidPlan("has rungs itself");
  if (rung.schema_version() != ladder.schema_version())
    return invalidPlan("has schema version {}, the ladder has {}",
                       rung.schema_version(), ladder.schema_version());
  if (rung.tokenizer())
    return invalidPlan("has a tokenizer, which belongs to the ladder");
  MOE_RETURN_IF_ERROR(verifyPlan(rung));
  if (ladder.tokenizer())
    MOE_RETURN_IF_ERROR(
        verifyTokenizer(rung, *ladder.tokenizer()).at("tokenizer"));
  if (index == 0)
    return Status::ok();
  MOE_RETURN_IF_ERROR(checkModel(rung, *ladder.rungs()->Get(0)));
  return checkOrder(rung, *ladder.rungs()->Get(index - 1));
}
} // namespace

Status verifyPlan(const fb::Plan &plan) {
  MOE_RETURN_IF_ERROR(verifyTables(plan));
  return verifyPhases(plan);
}

Status verifyLadder(const fb::Plan &ladder) {
  MOE_RETURN_IF_ERROR(checkNothingElse(ladder));
  if (count(ladder.rungs()) > kMaxRungs)
    return invalidPlan("has {} rungs, at most {} are allowed",
                       count(ladder.rungs()), kMaxRungs);
  for (uint32_t i = 0; i < count(ladder.rungs()); ++i)
    MOE_RETURN_IF_ERROR(
        verifyRung(ladder, i).at(fmt::format("rung {}", i + 1)));
  return Status::ok();
}

} // namespace moert
