// moec architectures and moec formats: lists of supported architectures and
// formats.
#include "kernels/Registry.h"
#include "models/Model.h"
#include "runtime/base/Page.h"
#include "tools/common/Json.h"
#include "tools/moec/Commands.h"
#include "tools/moec/Options.h"

#include <fmt/ranges.h>
#include <memory>

using moert::Status;

namespace moec {

namespace {
Status printArchitectures(bool json) {
  if (json) {
    auto list = nlohmann::ordered_json::array();
    for (const ArchitectureInfo &info : supportedArchitectures())
      list.push_back({{"architecture", info.name}, {"models", info.models}});
    moetool::printDocument(list);
    return Status::ok();
  }
  moert::Page page;
  std::vector<std::vector<std::string>> rows;
  for (const ArchitectureInfo &info : supportedArchitectures())
    rows.push_back({std::string(info.name), std::string(info.models)});
  page.table({{.title = "architecture"}, {.title = "models", .widest = 100}},
             rows);
  moetool::printText(page.take());
  return Status::ok();
}

/// A format and, for each instruction set, the layouts for which there are
/// kernels.
struct FormatSupport {
  moek::FormatInfo info;
  std::vector<std::vector<std::string>> layouts{moek::isaTable().size()};

  double bitsPerWeight() const {
    return 8.0 * info.blockBytes / info.blockElements;
  }
};

std::vector<FormatSupport> formatSupport() {
  std::vector<FormatSupport> all;
  for (unsigned number = 0; number < 256; ++number) {
    std::optional<moek::Format> format = moek::formatFromNumber(number);
    if (!format)
      continue;
    FormatSupport support{.info = moek::formatInfo(*format)};
    for (const moek::GemmInfo &gemm : moek::gemmTable()) {
      if (gemm.format != *format)
        continue;
      std::vector<std::string> &layouts = support.layouts[size_t(gemm.isa)];
      std::string name(moek::layoutName(gemm.layout));
      if (std::ranges::find(layouts, name) == layouts.end())
        layouts.push_back(name);
    }
    all.push_back(std::move(support));
  }
  return all;
}

Status printFormats(bool json) {
  if (json) {
    auto list = nlohmann::ordered_json::array();
    for (const FormatSupport &format : formatSupport()) {
      auto kernels = nlohmann::ordered_json::object();
      for (const moek::IsaInfo &isa : moek::isaTable())
        kernels[std::string(isa.name)] = format.layouts[size_t(isa.isa)];
      list.push_back({{"format", format.info.name},
                      {"bits_per_weight", format.bitsPerWeight()},
                      {"compiles", format.info.hasKernels},
                      {"kernels", kernels}});
    }
    moetool::printDocument(list);
    return Status::ok();
  }
  std::vector<moert::Column> columns = {
      {.title = "format"}, {.title = "bits/weight", .right = true}};
  for (const moek::IsaInfo &isa : moek::isaTable())
    columns.push_back({.title = std::string(isa.name)});
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string_view> slow, others;
  for (const FormatSupport &format : formatSupport()) {
    if (!format.info.hasKernels) {
      others.push_back(format.info.name);
      continue;
    }
    std::vector<std::string> row = {
        std::string(format.info.name),
        fmt::format("{:.4g}", format.bitsPerWeight())};
    for (const std::vector<std::string> &layouts : format.layouts)
      row.push_back(
          layouts.empty() ? "-" : fmt::format("{}", fmt::join(layouts, ", ")));
    rows.push_back(std::move(row));
    if (format.layouts[size_t(moek::Isa::Avx2)].empty())
      slow.push_back(format.info.name);
  }
  moert::Page page;
  page.table(columns, rows);
  page.group("Kernels multiply weights as the model file has them (gguf) or as "
             "moec packs them (rows16).");
  if (!slow.empty())
    page.group(
        "On CPUs the reference kernel alone, which is slow, multiplies " +
        fmt::format("{}", fmt::join(slow, ", ")) +
        "; moec compile says what a model pays for it.");
  if (!others.empty())
    page.paragraph("No kernels: ",
                   fmt::format("{}", fmt::join(others, ", ")) +
                       "; moec compile refuses models with such weights.");
  moetool::printText(page.take());
  return Status::ok();
}

void addList(moetool::Tool &tool, const char *name, const char *description,
             Status (*print)(bool json)) {
  auto json = std::make_shared<bool>(false);
  CLI::App *command =
      tool.command(name, description, [json, print] { return print(*json); });
  moetool::addOption(*command, rows::json, *json);
}
} // namespace

void addArchitecturesCommand(moetool::Tool &tool) {
  addList(tool, "architectures", "List the model architectures that compile",
          printArchitectures);
}

void addFormatsCommand(moetool::Tool &tool) {
  addList(tool, "formats",
          "List tensor formats, with the instruction sets and layouts that "
          "there are kernels for",
          printFormats);
}

} // namespace moec
