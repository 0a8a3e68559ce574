#include "compiler/Driver/Driver.h"
#include "compiler/Driver/PlacedRules.h"
#include "compiler/Machine/Targets/Target.h"
#include "runtime/base/Page.h"
#include "runtime/base/Text.h"
#include "tools/common/Json.h"
#include "tools/common/ModelPath.h"
#include "tools/moec/Commands.h"
#include "tools/moec/CompileOptions.h"
#include "tools/moec/Options.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

using moert::Status;
using moert::StatusCode;

namespace moec {

namespace {
struct Options {
  CompileRequest request;
  std::vector<std::string> models, targets;
  bool json = false;
};

/// The result for a model on a machine.
struct Row {
  std::string model, target;
  Status status;
  Forecast forecast;
};

std::string memoryText(const Forecast &forecast) {
  std::string text, sharing; // `sharing`: the GPUs that share the CPU's memory.
  for (const Forecast::Device &device : forecast.devices)
    sharing += device.sharesMemory ? device.name + " and " : "";
  for (const Forecast::Device &device : forecast.devices)
    if (!device.sharesMemory)
      text +=
          fmt::format("{}{}{} {} of {}{}", text.empty() ? "" : ", ",
                      device.isCpu ? sharing : "", device.name,
                      moert::humanBytes(double(device.usedBytes)),
                      moert::humanBytes(double(device.budgetBytes)),
                      device.isCpu && !sharing.empty() ? ", one memory" : "");
  return text;
}

/// Returns only the cause; other things to try are in other rows.
std::string causeOf(const Status &status) {
  std::string line = status.message().substr(0, status.message().find('\n'));
  return line.substr(0, line.find(';'));
}

nlohmann::ordered_json jsonOf(const Row &row) {
  nlohmann::ordered_json json = {{"model", row.model},
                                 {"target", row.target},
                                 {"fits", row.status.isOk()}};
  if (!row.status.isOk()) {
    json["why"] = causeOf(row.status);
    return json;
  }
  json["prefill_tokens_per_second"] = row.forecast.prefillRate;
  json["decode_tokens_per_second"] = row.forecast.decodeRate;
  json["bottleneck"] = row.forecast.bottleneck;
  for (const Forecast::Device &device : row.forecast.devices)
    json["devices"].push_back({{"name", device.name},
                               {"shares_memory", device.sharesMemory},
                               {"used_bytes", device.usedBytes},
                               {"budget_bytes", device.budgetBytes},
                               {"decode_seconds", device.decodeSeconds}});
  return json;
}

void printTable(const std::vector<Row> &rows) {
  std::vector<std::vector<std::string>> cells;
  for (const Row &row : rows) {
    std::string model = row.model.substr(row.model.find_last_of('/') + 1);
    if (!row.status.isOk()) {
      cells.push_back({moert::escaped(model), moert::escaped(row.target), "no",
                       "", "", causeOf(row.status)});
      continue;
    }
    cells.push_back({moert::escaped(model), moert::escaped(row.target), "yes",
                     fmt::format("{:.4g}", row.forecast.prefillRate),
                     fmt::format("{:.4g}", row.forecast.decodeRate),
                     row.forecast.bottleneck, memoryText(row.forecast)});
  }
  moert::Page page;
  page.table({{"model", false, 32},
              {"machine", false, 32},
              {"fits", false, 4},
              {"prompt t/s", true, 10},
              {"decode t/s", true, 10},
              {"slowest part", false, 60},
              {"memory", false, 100}},
             cells);
  moetool::printText(page.take());
}

/// Returns whether another machine may succeed where this one fails.
bool isMachineDependent(const Status &status) {
  constexpr StatusCode codes[] = {StatusCode::DoesNotFit,
                                  StatusCode::Unsupported, StatusCode::Usage,
                                  StatusCode::InvalidFile};
  return std::ranges::find(codes, status.code()) != std::end(codes);
}

/// Returns an error that is the same on all machines, such as a malformed
/// pattern or a broken model file, or ok. Lack of memory or kernels is not such
/// an error; rows show it.
Status sharedFailure(std::span<const Row> rows) {
  const Status &first = rows.front().status;
  bool isMistake = first.code() == StatusCode::Usage ||
                   first.code() == StatusCode::InvalidFile;
  bool isShared = std::ranges::all_of(rows, [&](const Row &row) {
    return row.status.message() == first.message();
  });
  return isMistake && isShared ? first : Status::ok();
}

Status run(Options &options) {
  const std::string &file = options.request.targetFile;
  if (options.targets.empty())
    options.targets = {file.empty() ? "native" : file};
  MOE_ASSIGN_OR_RETURN(
      std::vector<std::string> place,
      readRules(options.request.place, *options.request.texts));
  // A misspelt machine name is an error of its own, not a result for a machine.
  for (const std::string &target : options.targets)
    if (file.empty())
      MOE_RETURN_IF_ERROR(unmeasuredTarget(target).status());
  std::vector<Row> rows;
  std::optional<CompileRequest> fitting; // The first request whose plan fits.
  Status failed;
  for (const std::string &model : options.models) {
    for (const std::string &target : options.targets) {
      CompileRequest request = options.request;
      request.model = model;
      if (file.empty())
        request.target = target;
      request.place = place;
      request.emit = Emit::Forecast;
      auto report = compileModel(request);
      if (!report && !isMachineDependent(report.status()))
        return report.status();
      rows.push_back({model, target, report.status(),
                      report ? *report->forecast : Forecast()});
      if (report && !fitting)
        fitting = std::move(request);
      if (!report)
        failed = Status(report.status().code(),
                        "none of these models fits any of these machines");
    }
    MOE_RETURN_IF_ERROR(
        sharedFailure(std::span(rows).last(options.targets.size())));
  }
  if (options.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Row &row : rows)
      list.push_back(jsonOf(row));
    moetool::printDocument(list);
  } else {
    printTable(rows);
  }
  if (!fitting)
    return failed;
  fitting->emit = Emit::Fb;
  if (!options.json && canRunAgain(*fitting))
    moetool::noteNext(moetool::commandLine(compileCommand(*fitting)));
  return Status::ok();
}
} // namespace

void addPlanCommand(moetool::Tool &tool) {
  auto options = std::make_shared<Options>();
  CompileRequest &r = options->request;
  CLI::App *command = tool.command(
      "plan", "Compare machines: does a model fit, how fast, what is slowest",
      [options] { return run(*options); });
  moetool::addReader(
      *command, rows::models, [options](const std::string &text) {
        MOE_ASSIGN_OR_RETURN(std::string path, moetool::modelPathAt(text));
        options->models.push_back(std::move(path));
        return Status::ok();
      });
  moetool::addReader(*command, rows::targets,
                     [options](const std::string &text) {
                       for (size_t at = 0; at <= text.size();) {
                         size_t end = std::min(text.find(',', at), text.size());
                         options->targets.push_back(text.substr(at, end - at));
                         at = end + 1;
                       }
                       return Status::ok();
                     });
  addCompileOptions(*command, r, moert::kPredicts);
  moetool::addOption(*command, rows::json, options->json);
}

} // namespace moec
