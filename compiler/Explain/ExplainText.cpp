#include "compiler/Explain/Collapse.h"
#include "compiler/Explain/Explain.h"
#include "compiler/Explain/Figures.h"
#include "compiler/Explain/GpuCode.h"
#include "compiler/Explain/IntensityTable.h"
#include "compiler/Explain/LadderTable.h"
#include "compiler/Machine/CostModel/TypicalRequest.h"
#include "runtime/base/Page.h"
#include "runtime/plan/PlanAccess.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <vector>

using namespace moert;

namespace moec {

namespace {

/// Returns the word after an option of the command that made the plan; "" if
/// the command does not have it.
std::string_view wordAfter(std::string_view options, std::string_view name) {
  size_t at = options.find(name);
  if (at == std::string_view::npos)
    return "";
  options.remove_prefix(std::min(options.size(), at + name.size() + 1));
  return options.substr(0, options.find(' '));
}

/// Describes the requests for which placement chose devices.
std::string typicalRequest(std::string_view options, uint32_t context) {
  std::string_view goal = wordAfter(options, "--optimize-for");
  std::string_view prompt = wordAfter(options, "--typical-prompt");
  std::string tokens = fmt::format("{} generated tokens", kTypicalGenerated);
  if (goal == "decode")
    return tokens;
  std::vector<uint32_t> shortened;
  for (int64_t tokens : kTypicalPrompts)
    shortened.push_back(uint32_t(std::min<int64_t>(tokens, context)));
  std::string prompts =
      prompt.empty() || prompt == "mixed"
          ? fmt::format("a prompt of {} tokens, equally often",
                        fmt::join(shortened, " or "))
          : fmt::format("a prompt of {} tokens", prompt);
  return goal == "prefill" ? prompts : prompts + ", and " + tokens;
}

void modelGroup(Page &page, const fb::Plan &plan,
                const ExplainSummary &summary) {
  page.group("plan");
  page.line("model", printable(text(plan.model_name())));
  std::string shape =
      fmt::format("{}, {}", printable(text(plan.architecture())),
                  counted(uint64_t(plan.layers()), "layer"));
  if (plan.experts() > 0)
    shape += fmt::format(", {} of which a token uses {}",
                         counted(uint64_t(plan.experts()), "expert"),
                         plan.experts_used());
  page.line("architecture", shape);
  if (plan.parameters() > 0)
    page.line("parameters", humanCount(uint64_t(plan.parameters())));
  page.line("target", printable(text(plan.target())));
  page.line("context", counted(uint64_t(plan.context()), "token"));
  if (plan.sequences() > 1)
    page.line("sequences",
              fmt::format("{} decoded together", plan.sequences()));
  if (const PhaseCost *prefill = summary.prefill())
    page.line("ubatch", counted(uint64_t(prefill->maxTokens), "token"));
  page.line("compiler", printable(text(plan.compiler())));
  if (!text(plan.options()).empty())
    page.line("options", escaped(text(plan.options())));
  if (count(plan.devices()) > 1)
    page.line("placed for",
              escaped(typicalRequest(text(plan.options()), plan.context())));
  for (uint32_t i = 0; i < count(plan.files()); ++i) {
    const fb::File *file = plan.files()->Get(i);
    const bool isLoaded = file->kind() == fb::FileKind::Loaded;
    page.line(i == 0 ? "files" : "",
              fmt::format("{} ({}{})",
                          isLoaded ? "memory" : escaped(text(file->path())),
                          humanBytes(double(file->bytes())),
                          isLoaded ? ", weights laid out while they load"
                          : file->kind() == fb::FileKind::Packed
                              ? ", weights repacked for this target"
                              : ""));
  }
}

std::string memoryVerdict(const DeviceMemory &memory) {
  if (memory.device->shares_memory())
    return humanBytes(double(memory.used)) + " of the CPU's memory";
  std::string_view state = memory.state();
  uint64_t budget = memory.device->memory_bytes();
  if (state == "unknown")
    return "the plan records no budget";
  if (state == "over")
    return "does not fit: " + humanBytes(double(memory.used - budget)) +
           " over the budget";
  std::string left = humanBytes(double(budget - memory.used)) + " left";
  if (memory.usedByGpus > 0)
    left += " for CPU and GPU";
  return state == "tight" ? "tight: only " + left : "fits, " + left;
}

void memoryGroup(Page &page, const ExplainSummary &summary,
                 const fb::Plan &plan) {
  page.group("memory");
  std::vector<std::vector<std::string>> rows;
  for (const DeviceMemory &memory : summary.devices) {
    const fb::Device &device = *memory.device;
    auto fraction =
        device.shares_memory() ? std::nullopt : memory.usedFraction();
    rows.push_back({escaped(text(device.name())),
                    humanBytes(double(device.weight_bytes())),
                    humanBytes(double(device.kv_bytes())),
                    humanBytes(double(device.arena_bytes())),
                    humanBytes(double(memory.scratch)),
                    fraction ? humanBytes(double(device.memory_bytes())) : "-",
                    fraction ? shareText(*fraction, 1) + " %" : "-",
                    memoryVerdict(memory)});
  }
  page.table({{"device", false, 8},
              {"weights", true, 11},
              {"KV cache", true, 11},
              {"activations", true, 11},
              {"scratch", true, 11},
              {"budget", true, 11},
              {"used", true, 8},
              {"", false, 40}},
             rows);
  if (summary.kvBytes > 0)
    page.line("KV cache",
              fmt::format("{} per token in {}, {} for {}",
                          humanBytes(summary.kvBytesPerToken),
                          kvTypeNames(plan), humanBytes(summary.kvBytes),
                          summary.kvRoom));
  if (summary.windowBytes > 0)
    page.line("Windows",
              fmt::format("{} for the last {} tokens of sequences and of "
                          "checkpoints, in {} with a window",
                          humanBytes(summary.windowBytes), summary.windowRows,
                          moert::counted(summary.windowLayers, "layer")));
  if (summary.tableBytes > 0)
    page.line("Tables", fmt::format("{} stay in the model file, of which "
                                    "tokens read rows",
                                    humanBytes(summary.tableBytes)));
  if (summary.stateBytes > 0)
    page.line("States", fmt::format("{} for sequences and checkpoints of them",
                                    humanBytes(summary.stateBytes)));
}

void speedGroup(Page &page, const ExplainSummary &summary) {
  page.group("predicted speed");
  auto prefill = summary.prefillRate(), decode = summary.decodeRate();
  if (prefill)
    page.line("prefill", fmt::format("{}: {} take {}", rateText(*prefill),
                                     stepText(*summary.prefill()),
                                     humanSeconds(summary.prefill()->seconds)));
  if (decode)
    page.line("decode",
              fmt::format("{}: {}, logits included, takes {} a token",
                          rateText(*decode),
                          stepText(*summary.phase(moert::PhaseKind::Decode)),
                          humanSeconds(*summary.decodeSecondsPerToken())));
  if (auto batch = summary.batchRate())
    page.line(
        "batch",
        fmt::format(
            "{} in all: {}, logits included, take {}", rateText(*batch),
            stepText(*summary.phase(moert::PhaseKind::Batch)),
            humanSeconds(summary.phase(moert::PhaseKind::Batch)->seconds)));
  if (!prefill && !decode) {
    page.line("none", "the plan has no predicted times");
    return;
  }
  for (const PhaseCost &phase : summary.phases) {
    if (phase.seconds <= 0)
      continue;
    std::string shares;
    for (const auto &[device, seconds] : phase.deviceSeconds)
      shares +=
          fmt::format("{}{} % {}", shares.empty() ? "" : ", ",
                      shareText(seconds, phase.seconds), printable(device));
    page.line("time of " + escaped(phase.name), shares);
  }
  bool several =
      std::ranges::any_of(summary.phases, [](const PhaseCost &phase) {
        return phase.deviceSeconds.size() > 1;
      });
  page.line("", several ? "Each device runs its ops and copies one after "
                          "another, at the same time as other devices."
                        : "Ops run one after another at the target's rates.");
}

/// Returns one line per kernel of a text such as
/// "gemm_q4_k_avx512+gemm_q6_k_avx512".
std::vector<std::string> kernelLines(std::string_view kernels) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin <= kernels.size();) {
    size_t end = std::min(kernels.find('+', begin), kernels.size());
    lines.push_back(escaped(kernels.substr(begin, end - begin)));
    begin = end + 1;
  }
  return lines;
}

void phaseGroup(Page &page, const PhaseCost &phase, const Reasons &reasons,
                bool full) {
  page.group(fmt::format("{}: {}, {}", printable(phase.name), stepText(phase),
                         humanSeconds(phase.seconds)));
  if (phase.ops.empty()) {
    page.line("", "the plan explains no op of this phase");
    return;
  }
  std::vector<std::vector<std::string>> rows;
  for (const OpRow &row : makeRows(phase.ops, full)) {
    const OpCost &cost = row.cost;
    std::string name = row.names.text(/*brief=*/true);
    if (row.names.occurrences > 1)
      name += fmt::format(" x{}", row.names.occurrences);
    size_t reason = reasons.numberOf(cost);
    auto intensity = cost.intensity();
    std::vector<std::string> kernels = kernelLines(cost.kernel);
    rows.push_back(
        {name, escaped(cost.device), kernels[0], humanFlops(cost.flops),
         shortBytes(cost.weightBytes), intensity ? humanFlops(*intensity) : "-",
         humanSeconds(cost.seconds), shareText(cost.seconds, phase.seconds),
         reason ? fmt::format("{}", reason) : "-"});
    for (size_t i = 1; i < kernels.size(); ++i)
      rows.push_back({"", "", "+" + kernels[i]});
  }
  rows.push_back({"total", "", "", humanFlops(phase.flops),
                  shortBytes(phase.weightBytes), "",
                  humanSeconds(phase.seconds)});
  page.table({{"op", false, 35},
              {"device", false, 6},
              {"kernel", false, 25},
              {"FLOP", true, 6},
              {"weights", true, 8},
              {"FLOP/B", true, 6},
              {"time", true, 8},
              {"%", true, 5},
              {"why", true, 4}},
             rows);
}

std::string registersText(const fb::Image &image) {
  std::string text = std::to_string(image.registers());
  return image.spilled_bytes() > 0
             ? text + fmt::format(" ({} B spilled)", image.spilled_bytes())
             : text;
}

void gpuGroup(Page &page, const GpuCode &code, bool full) {
  if (code.kernels.empty())
    return;
  page.group("code of GPUs");
  std::string archs;
  for (int arch : code.archs)
    archs += fmt::format("{}sm_{}", archs.empty() ? "" : ", ", arch);
  page.line("kernels",
            archs.empty() ? fmt::format("{}, not compiled", code.kernels.size())
                          : fmt::format("{} for {}, {}, compiled by NVRTC {}",
                                        code.kernels.size(), archs,
                                        humanBytes(double(code.bytes)),
                                        printable(code.nvrtc)));
  std::string launches;
  for (const auto &[phase, launched] : code.launches)
    launches +=
        fmt::format("{}{} in a step of {}", launches.empty() ? "" : ", ",
                    launched, printable(phase));
  page.line("launches", launches);
  if (!full)
    return;
  std::vector<std::vector<std::string>> rows;
  for (const KernelUse &use : code.kernels)
    rows.push_back(
        {escaped(text(use.module->entry())), escaped(use.device),
         use.image ? registersText(*use.image) : "-",
         fmt::format("{}", use.threads), shortBytes(double(use.shared)),
         use.image ? fmt::format("{} of {}", use.warps, use.mostWarps) : "-",
         fmt::format("{}", use.launches)});
  page.table({{"kernel", false, 40},
              {"device", false, 6},
              {"registers", true, 18},
              {"threads", true, 7},
              {"shared", true, 8},
              {"warps/SM", true, 8},
              {"launches", true, 8}},
             rows);
}

void reasonsGroup(Page &page, const Reasons &reasons) {
  if (reasons.entries.empty())
    return;
  page.group("why (N is the layer of the op)");
  for (size_t i = 0; i < reasons.entries.size(); ++i) {
    const Reasons::Entry &entry = reasons.entries[i];
    page.paragraph(fmt::format("{:>4}. ", i + 1), escaped(entry.reason));
    std::string ops;
    for (const OpNames &names : entry.ops)
      ops += (ops.empty() ? "" : ", ") + names.text(/*brief=*/false);
    page.paragraph("      for ", ops);
  }
}

} // namespace

std::string explainText(const fb::Plan &plan, bool full) {
  ExplainSummary summary(plan);
  Reasons reasons(summary.phases);
  Page page;
  modelGroup(page, plan, summary);
  memoryGroup(page, summary, plan);
  speedGroup(page, summary);
  addIntensityTable(page, intensityTable(summary), reasons);
  for (const PhaseCost &phase : summary.phases)
    phaseGroup(page, phase, reasons, full);
  if (!full && !reasons.entries.empty())
    page.line("", "A row of several ops gives their sums; --full gives every "
                  "op a row, --json all figures.");
  reasonsGroup(page, reasons);
  gpuGroup(page, GpuCode(plan), full);
  if (!summary.notes.empty()) {
    page.group("notes");
    for (std::string_view note : summary.notes)
      page.paragraph("  ", escaped(note));
  }
  return page.take();
}

std::string explainText(const Plan &plan, bool full) {
  std::string report = explainText(plan.table(), full);
  if (plan.rungs() == 0)
    return report;
  return fmt::format(
      "{}\n{}, with a context of {}:\n\n{}", ladderText(plan), plan.rungName(),
      counted(uint64_t(plan.table().context()), "token"), report);
}

} // namespace moec
