#include "compiler/Driver/Doctor.h"
#include "runtime/base/Page.h"
#include "runtime/base/Text.h"
#include "tools/common/Json.h"
#include "tools/common/Numbers.h"
#include "tools/moec/Commands.h"

#include <algorithm>
#include <memory>

using moert::Status;
using moert::StatusCode;

namespace moec {

namespace {
struct Options {
  DoctorOptions doctor;
  moert::RungWish rung;
  std::string plan;
  bool json = false;
};

void printJson(const std::vector<Finding> &findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding &finding : findings)
    list.push_back({{"check", finding.check},
                    {"value", finding.value},
                    {"hint", finding.hint},
                    {"level", nameOf(finding.level)}});
  moetool::printDocument(list);
}

void printText(const std::vector<Finding> &findings) {
  moert::Page page;
  size_t widest = 16;
  for (const Finding &finding : findings)
    widest = std::max(widest, finding.check.size());
  for (const Finding &finding : findings) {
    std::string lead = fmt::format("{:7} {:{}}  ", nameOf(finding.level),
                                   finding.check, widest);
    page.paragraph(lead, finding.value);
    if (!finding.hint.empty())
      page.paragraph(std::string(lead.size() + 2, ' '), finding.hint);
  }
  moetool::printText(moetool::pasteable(page.take()));
}

Status run(const Options &options) {
  std::vector<Finding> findings = examineMachine(options.doctor);
  if (!options.plan.empty()) {
    MOE_ASSIGN_OR_RETURN(moert::Plan plan, moert::Plan::load(options.plan));
    std::ranges::move(
        examinePlan(std::move(plan), options.rung, options.doctor),
        std::back_inserter(findings));
  }
  if (options.json)
    printJson(findings);
  else
    printText(findings);
  auto blocks =
      std::ranges::count(findings, Finding::Level::Blocks, &Finding::level);
  if (blocks == 0)
    return Status::ok();
  return Status(StatusCode::WrongMachine,
                fmt::format("{} this plan from running here",
                            blocks == 1
                                ? std::string("one thing keeps")
                                : fmt::format("{} things keep", blocks)));
}
} // namespace

void addDoctorCommand(moetool::Tool &tool) {
  auto options = std::make_shared<Options>();
  CLI::App *command = tool.command(
      "doctor",
      "Look at what may keep plans from running here, or from running well",
      [options] { return run(*options); });
  command->add_option("plan", options->plan, "A plan that is to run here");
  moetool::addRung(*command, options->rung.number);
  moetool::addNumber(*command, "-c,--ctx", options->rung.context,
                     "Tokens that the rung of a ladder has to hold", int64_t(0),
                     int64_t(1) << 24);
  command
      ->add_option("--cuda", options->doctor.cudaLibrary,
                   "NVIDIA's driver library")
      ->capture_default_str();
  command->add_option("--nvrtc", options->doctor.nvrtc,
                      "NVIDIA's compiler of kernels");
  command
      ->add_option("--folder", options->doctor.folder,
                   "Where plans and weights would be written")
      ->capture_default_str();
  command->add_flag("--json", options->json, "A list with one object each");
}

} // namespace moec
