#include "runtime/plan/OutputRule.h"

#include "runtime/base/ShellCommand.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/PlanFiles.h"

#include <fmt/format.h>

namespace moert {

void OutputRule::addPlan(const Plan &plan) {
  addInput("the plan", plan.path());
  for (uint32_t rung = 0; rung <= plan.rungs(); ++rung) {
    const fb::Plan &table = plan.rung(rung);
    for (uint32_t i = 0; i < count(table.files()); ++i) {
      const fb::File &file = *table.files()->Get(i);
      for (const std::filesystem::path &place : placesOf(plan.path(), file))
        addInput(file.kind() == fb::FileKind::Packed ? "the plan's weights"
                                                     : "the plan's model",
                 place);
    }
  }
}

void OutputRule::addNeededFile(const std::string &role,
                               const std::string &planPath,
                               const std::string &recorded) {
  std::vector<std::string> plans = {planPath};
  // A symbolic link may point to a file that does not exist yet.
  if (auto place = OutputPlace::find(planPath); place && !place->isDescriptor())
    plans.push_back(place->path);
  for (const std::string &plan : plans)
    for (const std::filesystem::path &place : placesOf(plan, recorded))
      addInput(role, place);
}

/// Returns what to do instead, as the end of a sentence.
static std::string_view elsewhere(OutputKind kind) {
  return kind == OutputKind::Weights
             ? "write elsewhere with -o or --weights-file"
             : "choose another output";
}

Status OutputRule::mayReplace(const std::string &path, const OutputPlace &place,
                              OutputKind kind,
                              const std::string &pairedPlan) const {
  std::string shown = path == "-" ? "standard output" : path;
  MOE_RETURN_IF_ERROR(inputs_.refuse(path, place));
  if (!mayStream(kind) && place.isStream())
    return Status(StatusCode::Usage,
                  fmt::format("{}: {} is not written to a stream; name a "
                              "regular file",
                              shown, nameOf(kind)));
  // Appending to a stream destroys nothing, and OutputFile checks for other
  // things that it cannot replace.
  if (place.isStream() || !place.existing || !S_ISREG(place.existing->st_mode))
    return Status::ok();
  MOE_ASSIGN_OR_RETURN(ExistingFile content, existingFileAt(place.path));
  if (content.isEmpty)
    return Status::ok();
  if (content.kind == OutputKind::Weights) {
    MOE_ASSIGN_OR_RETURN(std::string header, weightsHeader(place.path));
    std::filesystem::path owner =
        ownerOtherThan(header, place.path, pairedPlan);
    if (!owner.empty() && mayNeed(owner, place.path))
      return Status(StatusCode::Usage,
                    fmt::format("{}: holds the weights of {}, which could not "
                                "run without them; {}",
                                shown, shellPath(owner.string()),
                                elsewhere(kind)));
  }
  if (force_ || content.kind == kind)
    return Status::ok();
  return Status(StatusCode::Usage,
                fmt::format("{}: is {}, and {} would replace it; {}{}", shown,
                            content.kind ? nameOf(*content.kind)
                                         : "no file that moec or moert wrote",
                            nameOf(kind), elsewhere(kind),
                            forceWord_.empty()
                                ? ""
                                : ", or replace it with " + forceWord_));
}

StatusOr<OutputTarget> OutputRule::target(const std::string &path,
                                          OutputKind kind,
                                          const std::string &pairedPlan) const {
  OutputTarget target(
      path, [rule = *this, path, kind, pairedPlan](const OutputPlace &place) {
        return rule.mayReplace(path, place, kind, pairedPlan);
      });
  MOE_RETURN_IF_ERROR(target.check().status());
  return target;
}

} // namespace moert
