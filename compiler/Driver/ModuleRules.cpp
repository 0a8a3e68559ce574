#include "compiler/Driver/ModuleRules.h"

#include "compiler/Driver/RuleFile.h"
#include "compiler/Driver/UnusedRules.h"
#include "llvm/ADT/StringRef.h"
#include "passes/moe/rules/TensorRules.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <tuple>

using mlir::moe::NamePattern;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

namespace {
/// Returns the layer of a tensor, as of "blk.3.attn_q.weight"; none for others.
std::optional<int64_t> layerOf(llvm::StringRef tensor) {
  int64_t layer = 0;
  if (!tensor.consume_front("blk.") || tensor.consumeInteger(10, layer))
    return std::nullopt;
  return layer;
}

/// Turns a file's rules into rules about tensors and attention.
class Decider {
public:
  Decider(const std::string &path, RuleFile file, const RuledModel &model)
      : path(path), file(std::move(file)), model(model),
        uses(this->file.rules.size()) {}

  StatusOr<ModuleRules> decide() {
    for (const std::string &tensor : model.tensors)
      if (std::optional<int64_t> layer = layerOf(tensor))
        layers = std::max(layers, *layer + 1);
    for (const std::string &tensor : model.tensors)
      MOE_RETURN_IF_ERROR(decide(tensor));
    for (const auto &[layer, index] : attention)
      result.tensorRules.push_back(
          mlir::moe::attentionRuleFrom(sourceOf(file.rules[index].line), layer,
                                       file.rules[index].device.name));
    MOE_RETURN_IF_ERROR(checkUse());
    notePrefill();
    noteTransfers();
    stream();
    result.notes = file.notes.texts(path);
    return std::move(result);
  }

private:
  /// Returns the first rule that matches a module, or nothing.
  StatusOr<std::optional<size_t>> ruleOf(const Module &module, bool isLeaf) {
    const std::tuple key{module.name, module.kind, isLeaf};
    if (auto known = ruleOfModule.find(key); known != ruleOfModule.end())
      return known->second;
    modules.push_back(module);
    std::optional<size_t> first;
    for (size_t index = 0; index < file.rules.size(); ++index) {
      const FileRule &rule = file.rules[index];
      RuleUse &use = uses[index];
      const bool isOfClass =
          rule.className.empty() || (rule.kind && module.isOf(*rule.kind));
      // The name of a module of another class is for the messages.
      if (!isOfClass && (!rule.name || !use.ofOtherClass.empty()))
        continue;
      if (rule.name) {
        NamePattern::Found found = rule.name->search(module.name);
        if (found == NamePattern::Found::TooCostly)
          return tooCostly(rule, module.name);
        if (found == NamePattern::Found::No)
          continue;
      }
      if (!isOfClass) {
        use.ofOtherClass = module.name;
        continue;
      }
      use.matches = true;
      if (!first)
        first = index;
      else
        use.coveredBy.insert(*first);
      use.isCoveredLeaf |= isLeaf && first != index;
    }
    ruleOfModule[key] = first;
    return first;
  }

  /// Adds rules for the tensor, and for the attention that it belongs to, if
  /// module rules decide about them.
  Status decide(const std::string &tensor) {
    const std::vector<Module> chain = modulesOf(model.architecture, tensor);
    const std::optional<int64_t> layer = layerOf(tensor);
    std::optional<size_t> decision;
    std::vector<size_t> around;
    for (size_t i = 0; i < chain.size(); ++i) {
      const bool isLeaf = i + 1 == chain.size();
      MOE_ASSIGN_OR_RETURN(decision, ruleOf(chain[i], isLeaf));
      if (!decision)
        continue;
      const FileRule &rule = file.rules[*decision];
      if (layer && chain[i].isAttention() && !rule.device.name.empty()) {
        attention.try_emplace(*layer, *decision);
        uses[*decision].places = true;
      }
      if (isLeaf || !rule.recursive) {
        uses[*decision].places = true;
        uses[*decision].placesExperts |=
            chain.back().kind == ModuleKind::Experts;
        break;
      }
      if (uses[*decision].container.empty())
        uses[*decision].container = chain[i].name;
      around.push_back(*decision);
    }
    std::string device, source;
    if (decision && !file.rules[*decision].device.name.empty()) {
      device = file.rules[*decision].device.name;
      source = sourceOf(file.rules[*decision].line);
    } else if (layer && !file.transfers.empty()) {
      // The first layers are on the first GPU.
      auto next = file.transfers.upper_bound(*layer);
      const bool isFirst = next == file.transfers.begin();
      const RuleFile::Transfer &from =
          isFirst ? next->second : std::prev(next)->second;
      const bool hasGpu = model.target.gpuCount() > 0;
      device = !isFirst ? from.device
               : hasGpu ? "gpu0"
                        : model.target.host().name;
      source = sourceOf(from.line);
    }
    for (size_t index : around)
      uses[index].isPlacedWithin |= decision.has_value() || !device.empty();
    if (device.empty())
      return Status::ok();
    std::string pattern = "^";
    for (char c : tensor)
      pattern += c == '.' ? std::string("\\.") : std::string(1, c);
    result.tensorRules.push_back(
        mlir::moe::rulesFrom(source, pattern + "$=" + device));
    return Status::ok();
  }

  std::string sourceOf(size_t line) const {
    return fmt::format("{}:{}", std::filesystem::path(path).filename().string(),
                       line);
  }
  Status error(size_t line, const std::string &what) const {
    return Status(StatusCode::InvalidFile,
                  fmt::format("{}:{}: {}", moert::escaped(path), line, what));
  }
  Status tooCostly(const FileRule &rule, const std::string &module) const {
    return error(rule.line,
                 fmt::format("name {} takes too long to match {}: a repetition "
                             "within a repetition tries all ways to divide a "
                             "name",
                             moert::quoted(rule.nameText),
                             moert::quoted(module)));
  }

  /// Reports all rules that have no effect.
  Status checkUse() {
    const UnusedRules unused(file.rules, uses, modules, layers);
    LineNotes errors;
    for (size_t index = 0; index < file.rules.size(); ++index) {
      const UnusedRules::Verdict verdict = unused.of(index);
      if (verdict.what.empty())
        continue;
      LineNotes &notes =
          verdict.isError && !model.allowUnmatched ? errors : file.notes;
      notes.add(file.rules[index].line, verdict.what);
    }
    const std::vector<std::string> texts = errors.texts(path);
    if (texts.empty())
      return Status::ok();
    return Status(StatusCode::InvalidFile,
                  texts.size() == 1
                      ? texts.front() + "; with --allow-unmatched-rules this "
                                        "is a note"
                      : fmt::format("{}\nwith --allow-unmatched-rules these "
                                    "are notes",
                                    fmt::join(texts, "\n")));
  }

  /// Notes where both phases run, for rules that ask for two devices.
  void notePrefill() {
    struct Asked {
      bool isExperts;
      std::string generate;
      std::vector<std::string> prefill;
      std::vector<size_t> lines;
    };
    std::vector<Asked> all;
    for (size_t index = 0; index < file.rules.size(); ++index) {
      const auto &[name, word] = file.rules[index].prefillDevice;
      const NamedDevice &generate = file.rules[index].device;
      if (!uses[index].places || name.empty() || generate.name.empty())
        continue;
      if (name == generate.name) {
        result.keepsExperts |=
            uses[index].placesExperts && name == model.target.host().name;
        continue;
      }
      // Experts are streamed from the CPU to a GPU, and nothing else is.
      const bool isExperts = uses[index].placesExperts &&
                             generate.name == model.target.host().name;
      auto known = std::ranges::find_if(all, [&](const Asked &asked) {
        return asked.isExperts == isExperts && asked.generate == generate.word;
      });
      if (known == all.end())
        known = all.insert(all.end(), Asked{isExperts, generate.word, {}, {}});
      if (std::ranges::find(known->prefill, word) == known->prefill.end())
        known->prefill.push_back(word);
      known->lines.push_back(file.rules[index].line);
    }
    const bool streams = model.streams || file.streamFrom > 0;
    for (const Asked &asked : all)
      for (size_t line : asked.lines)
        file.notes.add(
            line,
            fmt::format("prefill_device is {} and generate_device {}: both "
                        "phases run on {}, where the weights are{}",
                        fmt::join(asked.prefill, ", "), asked.generate,
                        asked.generate,
                        asked.isExperts && !streams
                            ? "; --stream-experts says when long prompts "
                              "copy experts to a GPU"
                            : ""));
  }

  void noteTransfers() {
    for (const auto &[layer, transfer] : file.transfers)
      if (layer >= layers)
        file.notes.add(transfer.line,
                       fmt::format("transfer_map: layer {} is beyond the "
                                   "model's, which are 0 to {}",
                                   layer, layers - 1));
  }

  /// Streams layers, unless no step is that long.
  void stream() {
    if (file.streamFrom == 0 || model.streams)
      return;
    if (file.streamFrom <= model.ubatch) {
      result.streamFrom = file.streamFrom;
      result.streamSource = fmt::format("{}:{}: {}", moert::escaped(path),
                                        file.streamLine, kStreamKey);
      return;
    }
    result.keepsExperts = true; // Shorter steps are not to stream.
    std::string more = fmt::format("--ubatch {}", file.streamFrom);
    if (file.streamFrom > model.context)
      more = fmt::format("--ctx {} {}", file.streamFrom, more);
    file.notes.add(file.streamLine,
                   fmt::format("{} is {}, but steps have at most {}, so "
                               "nothing is streamed; {} streams",
                               kStreamKey, file.streamFrom,
                               moert::counted(uint64_t(model.ubatch), "token"),
                               more));
  }

  const std::string &path;
  RuleFile file;
  const RuledModel &model;
  int64_t layers = 0;
  /// The effect of each rule.
  std::vector<RuleUse> uses;
  /// Index of the rule of each module; the key is its name, its kind, and
  /// whether it holds tensors itself.
  std::map<std::tuple<std::string, ModuleKind, bool>, std::optional<size_t>>
      ruleOfModule;
  std::vector<Module> modules; ///< Sorted by the first tensor of each module.
  /// Index of the rule that places each layer's attention.
  std::map<int64_t, size_t> attention;
  ModuleRules result;
};

} // namespace

StatusOr<ModuleRules> readModuleRules(moert::InputTexts &texts,
                                      const std::string &path,
                                      const RuledModel &model) {
  MOE_ASSIGN_OR_RETURN(RuleFile file, readRuleFile(texts, path, model.target));
  return Decider(path, std::move(file), model).decide();
}

} // namespace moec
