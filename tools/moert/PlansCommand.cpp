// moert plans: lists and removes the plans of models that moert compiled.
#include "runtime/base/Text.h"
#include "tools/common/Json.h"
#include "tools/common/Options.h"
#include "tools/moert/Commands.h"
#include "tools/moert/KeptPlans.h"
#include "tools/moert/Options.h"

#include <filesystem>
#include <fmt/ranges.h>
#include <memory>

namespace moert {

namespace {
using Json = nlohmann::ordered_json;
namespace stdfs = std::filesystem;

struct PlansFlags {
  std::vector<std::string> models;
  bool clear = false, clearOld = false, json = false;
};

/// Whether a plan is of one of the models that the user named, if any.
bool isOf(const KeptPlan &plan, const std::vector<std::string> &models) {
  if (models.empty())
    return true;
  return std::ranges::any_of(models, [&](const std::string &model) {
    std::error_code error;
    return plan.origin.model == stdfs::weakly_canonical(model, error) ||
           plan.path == stdfs::weakly_canonical(model, error);
  });
}

std::string contextsText(const KeptPlan &plan) {
  return plan.contexts.empty()
             ? "-"
             : fmt::format("{}", fmt::join(plan.contexts, ","));
}

void printPlans(const std::vector<KeptPlan> &plans) {
  uint64_t bytes = 0;
  std::string model;
  for (const KeptPlan &plan : plans) {
    bytes += plan.bytes;
    const PlanOrigin &origin = plan.origin;
    if (&plan == &plans.front() || model != origin.model) {
      model = origin.model;
      moetool::print("{}\n", model.empty() ? "(unknown model)" : model);
    }
    moetool::print(
        "  {:>10}  context {}, {}{}{}\n    {}\n",
        humanBytes(double(plan.bytes)), contextsText(plan),
        counted(uint64_t(plan.sequences), "sequence"),
        origin.options.empty()
            ? ""
            : fmt::format(", {}", fmt::join(origin.options, " ")),
        plan.stale.empty() ? "" : fmt::format(" (not used: {})", plan.stale),
        plan.path);
  }
  moetool::print("{}, {}\n", counted(plans.size(), "kept plan"),
                 humanBytes(double(bytes)));
}

Json jsonOf(const KeptPlan &plan) {
  const PlanOrigin &origin = plan.origin;
  return {{"plan", plan.path},           {"model", origin.model},
          {"bytes", plan.bytes},         {"contexts", plan.contexts},
          {"sequences", plan.sequences}, {"options", origin.options},
          {"machine", origin.machine},   {"stale", plan.stale}};
}

Status plans(const PlansFlags &flags) {
  MOE_ASSIGN_OR_RETURN(std::vector<KeptPlan> kept, keptPlans());
  std::erase_if(kept, [&](const KeptPlan &plan) {
    return !isOf(plan, flags.models) || (flags.clearOld && plan.stale.empty());
  });
  if (flags.clear || flags.clearOld)
    for (const KeptPlan &plan : kept)
      MOE_RETURN_IF_ERROR(removeKept(plan));
  if (flags.json) {
    Json list = Json::array();
    for (const KeptPlan &plan : kept)
      list.push_back(jsonOf(plan));
    const bool removed = flags.clear || flags.clearOld;
    moetool::printDocument({{removed ? "removed" : "plans", std::move(list)}});
    return Status::ok();
  }
  if (flags.clear || flags.clearOld)
    moetool::print("removed:\n");
  printPlans(kept);
  return Status::ok();
}
} // namespace

void addPlansCommand(moetool::Tool &tool) {
  auto flags = std::make_shared<PlansFlags>();
  CLI::App *command = tool.command(
      "plans",
      "List the plans that were compiled because a model was given in place of "
      "a plan, with their sizes, or remove them",
      [flags] { return plans(*flags); });
  moetool::addOption(*command, rows::keptModels, flags->models);
  moetool::addOption(*command, rows::clearPlans, flags->clear);
  moetool::addOption(*command, rows::clearOldPlans, flags->clearOld);
  moetool::addOption(*command, rows::json, flags->json);
}

} // namespace moert
