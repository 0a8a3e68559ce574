#include "compiler/Driver/Doctor.h"
#include "runtime/base/Page.h"
#include "runtime/base/Text.h"
#include "tools/common/Json.h"
#include "tools/moec/Commands.h"
#include "tools/moec/Options.h"

#include <algorithm>
#include <memory>

using moert::Status;
using moert::StatusCode;

namespace moec {

namespace {
struct Options {
  DoctorOptions doctor;
  moert::RungRequest rung;
  std::string plan;
  bool json = false;
};

/// A finding and the advice, with the command or the reason why there is none.
struct FindingTexts {
  std::string value, hint;

  explicit FindingTexts(const Finding &finding)
      : value(finding.value), hint(finding.hint) {
    if (!finding.remedy)
      return;
    std::string ending = moetool::ending(*finding.remedy);
    bool isLine = ending.starts_with('\n');
    if (isLine && hint.empty())
      ending.erase(0, 1);
    (isLine ? hint : value) += ending;
  }
};

void printJson(const std::vector<Finding> &findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding &finding : findings) {
    FindingTexts texts(finding);
    list.push_back({{"check", finding.check},
                    {"value", texts.value},
                    {"hint", texts.hint},
                    {"level", nameOf(finding.level)}});
  }
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
    FindingTexts texts(finding);
    page.paragraph(lead, texts.value);
    if (!texts.hint.empty())
      page.paragraph(std::string(lead.size() + 2, ' '), texts.hint);
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
  moetool::addOption(*command, rows::doctorPlan, options->plan);
  moetool::addOption(*command, rows::rung, options->rung.number);
  moetool::addOption(*command, rows::context, options->rung.context);
  moetool::addOption(*command, rows::cuda, options->doctor.cudaLibrary);
  moetool::addOption(*command, rows::nvrtc, options->doctor.nvrtc);
  moetool::addOption(*command, rows::folder, options->doctor.folder);
  moetool::addOption(*command, rows::json, options->json);
}

} // namespace moec
