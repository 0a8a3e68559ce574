#include "compiler/Driver/RuleFile.h"

#include "compiler/Driver/RuleDocument.h"
#include "llvm/ADT/StringRef.h"
#include "runtime/base/Suggest.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <span>

using mlir::moe::NamePattern;
using moert::Status;
using moert::StatusOr;

namespace moec {

namespace {
/// Files that people write have a few kilobytes.
constexpr uint64_t kMostRuleBytes = 1 << 18;
constexpr size_t kMostRules = 1000;

using Names = std::vector<std::string>;
using Node = RuleDocument::Node;
using Nodes = std::map<std::string, const Node *>;

/// Parses a flag as YAML 1.1 does, the version that Python reads.
std::optional<bool> flagOf(std::string_view word) {
  std::string small = llvm::StringRef(word).lower();
  if (small == "true" || small == "yes" || small == "on")
    return true;
  if (small == "false" || small == "no" || small == "off")
    return false;
  return std::nullopt;
}

struct Operator {
  std::string_view name;
  bool onCpu, onGpu;
};
constexpr Operator kOperators[] = {
    {"KExpertsCPU", true, false},
    {"KExpertsTorch", true, true},
    {"KExpertsMarlin", false, true},
    {"MLPCPUExperts", true, false},
    {"MLPCUDAExperts", false, true},
    {"MLPExpertsTorch", true, true},
    {"KLinearMarlin", false, true},
    {"KLinearTorch", true, true},
    {"KLinearCPUInfer", true, false},
    {"KLinearFP8", false, true},
    {"KLinearQ8", true, true},
    {"QuantizedLinearMarlin", false, true},
    {"QuantizedLinearTorch", true, true},
    {"VLinearMarlin", false, true},
};

/// Arguments of operators that are read, and the later names of old ones.
constexpr const char *kArguments[] = {
    "generate_device", "prefill_device", "generate_op",  "prefill_op",
    "out_device",      "device",         "transfer_map", kStreamKey};
constexpr std::pair<std::string_view, std::string_view> kOldArguments[] = {
    {"generate_mlp_type", "generate_op"}, {"prefill_mlp_type", "prefill_op"}};

/// Arguments that are known and do nothing, and what to do instead.
struct Ignored {
  std::string_view key, instead;
};
constexpr std::string_view kKeepsFormat =
    ": weights keep the model file's format, and kernels are chosen for the "
    "device";
constexpr std::string_view kDefers = ": --defer-experts {} defers experts";
constexpr Ignored kIgnored[] = {
    {"backend", kKeepsFormat},
    {"num_bits", kKeepsFormat},
    {"group_size", kKeepsFormat},
    {"act_order", kKeepsFormat},
    {"is_k_full", kKeepsFormat},
    {"weight_format", kKeepsFormat},
    {"n_deferred_experts", kDefers},
    {"n_deferred_experts_per_token", kDefers},
    {"absorb_for_prefill", ": the form of latent attention is chosen for each "
                           "phase; --mla sets it"},
};

/// Returns the known argument that `name` is a typo of, or "".
std::string typoOf(std::string_view name) {
  Names known(std::begin(kArguments), std::end(kArguments));
  for (auto [old, now] : kOldArguments)
    known.emplace_back(old);
  for (const Ignored &ignored : kIgnored)
    known.emplace_back(ignored.key);
  std::string best;
  size_t least = 3;
  for (const std::string &each : known)
    if (size_t distance = moert::editDistance(name, each); distance < least) {
      least = distance;
      best = each;
    }
  return best;
}

bool isArgument(std::string_view name) {
  return std::ranges::find(kArguments, name) != std::end(kArguments);
}

/// Returns the N of --defer-experts that a file asks for, or "N".
std::string deferredOf(const Node &node, RuleDocument &document) {
  const Node *number = &node;
  if (node.type == YAML_SEQUENCE_NODE &&
      node.data.sequence.items.top - node.data.sequence.items.start == 1)
    number = document.node(*node.data.sequence.items.start);
  std::string word = RuleDocument::scalar(*number).value_or("");
  unsigned count = 0;
  return llvm::StringRef(word).getAsInteger(10, count) || count == 0
             ? "N"
             : std::to_string(count);
}

class Reader {
public:
  Reader(const std::string &path, const TargetDesc &target)
      : document(path), target(target) {}

  StatusOr<RuleFile> read(moert::InputTexts &texts) {
    MOE_ASSIGN_OR_RETURN(
        const std::string *text,
        texts.read("the file of rules", document.path(), kMostRuleBytes));
    MOE_RETURN_IF_ERROR(document.load(*text));
    static const std::string kBegin = "; each begins with \"- match:\"";
    const Node *root = document.root();
    if (root && root->type != YAML_SEQUENCE_NODE)
      return document.error(1, "is not a list of rules" + kBegin);
    std::span<const int> items;
    if (root)
      items = {root->data.sequence.items.start, root->data.sequence.items.top};
    if (items.empty())
      return document.error(1, "has no rules" + kBegin);
    if (items.size() > kMostRules)
      return document.error(1, fmt::format("has {} rules; at most {} are taken",
                                           items.size(), kMostRules));
    for (int item : items) {
      MOE_ASSIGN_OR_RETURN(FileRule rule, ruleOf(*document.node(item)));
      file.rules.push_back(std::move(rule));
    }
    return std::move(file);
  }

private:
  /// Returns the entries of a mapping, whose keys must be in `known`.
  StatusOr<Nodes> entries(const Node &mapping, const std::string &what,
                          const Names &known) {
    if (mapping.type != YAML_MAPPING_NODE)
      return document.error(mapping, fmt::format("{} is not a mapping of {}",
                                                 what, fmt::join(known, ", ")));
    MOE_ASSIGN_OR_RETURN(auto all, document.entriesOf(mapping, what));
    Nodes found;
    for (const RuleDocument::Entry &entry : all) {
      if (std::ranges::find(known, entry.key) == known.end())
        return document.error(entry.line,
                              fmt::format("unknown key {} of {}{}",
                                          moert::quoted(entry.key), what,
                                          fixOf(entry.key, what, known)));
      found[entry.key] = entry.value;
    }
    return found;
  }

  /// Says where an unknown key belongs, or which it may stand for.
  static std::string fixOf(const std::string &key, const std::string &what,
                           const Names &known) {
    std::string owner = isArgument(key)                     ? "kwargs"
                        : key == "kwargs" || key == "class" ? "replace"
                        : key == "name"                     ? "match"
                                                            : "a rule";
    static const Names kOfRules = {"match", "replace", "recursive"};
    if (owner != what && (owner != "a rule" ||
                          std::ranges::find(kOfRules, key) != kOfRules.end()))
      return owner == "a rule"
                 ? "; it belongs to the rule: indent it like \"match\""
                 : "; indent it below " + owner;
    auto meant = moert::closestMatch(key, known);
    return fmt::format("{}; expected one of {}",
                       meant ? ", did you mean \"" + *meant + "\"?" : "",
                       fmt::join(known, ", "));
  }

  StatusOr<FileRule> ruleOf(const Node &node) {
    FileRule rule;
    rule.line = document.lineOf(node);
    MOE_ASSIGN_OR_RETURN(
        Nodes parts,
        entries(node, "a rule", {"match", "replace", "recursive"}));
    for (const char *needed : {"match", "replace"})
      if (!parts.contains(needed))
        return document.error(node,
                              fmt::format("a rule without \"{}\"", needed));
    MOE_RETURN_IF_ERROR(readMatch(*parts["match"], rule));
    MOE_RETURN_IF_ERROR(readReplace(*parts["replace"], rule));
    if (auto it = parts.find("recursive"); it != parts.end()) {
      std::string word = RuleDocument::scalar(*it->second).value_or("");
      std::optional<bool> flag = flagOf(word);
      if (!flag)
        return document.error(*it->second, "recursive is True or False, not " +
                                               moert::quoted(word));
      rule.recursive = *flag;
    }
    return rule;
  }

  Status readMatch(const Node &node, FileRule &rule) {
    MOE_ASSIGN_OR_RETURN(Nodes parts,
                         entries(node, "match", {"name", "class"}));
    if (parts.empty())
      return document.error(node, "match needs a name, a class, or both");
    if (auto it = parts.find("name"); it != parts.end())
      MOE_RETURN_IF_ERROR(readName(*it->second, rule));
    if (auto it = parts.find("class"); it != parts.end()) {
      rule.className = RuleDocument::scalar(*it->second).value_or("");
      if (rule.className.empty())
        return document.error(*it->second, "class is not the name of a class");
      rule.kind = kindOfClass(rule.className);
    }
    return Status::ok();
  }

  Status readName(const Node &node, FileRule &rule) {
    std::optional<std::string> text = RuleDocument::scalar(node);
    if (!text)
      return document.error(node, "name is not a regular expression; write "
                                  "alternatives as in \"(q|k)_proj$\"");
    if (text->empty() || RuleDocument::isNone(node))
      return document.error(node, "name is empty, which matches every module; "
                                  "write a part of a module's name, or leave "
                                  "it out");
    rule.nameText = *text;
    std::string why;
    rule.name =
        NamePattern::create(rule.nameText, NamePattern::Dialect::Perl, why);
    if (!rule.name)
      return document.error(
          node, fmt::format("name {} {}", moert::quoted(rule.nameText), why));
    return Status::ok();
  }

  Status readReplace(const Node &node, FileRule &rule) {
    MOE_ASSIGN_OR_RETURN(
        Nodes parts, entries(node, "replace", {"class", "kwargs", "device"}));
    // Some files have the device beside the class.
    if (auto it = parts.find("device"); it != parts.end()) {
      MOE_ASSIGN_OR_RETURN(rule.device, deviceOf(*it->second));
    }
    if (!parts.contains("kwargs"))
      return Status::ok();
    MOE_ASSIGN_OR_RETURN(Nodes words, argumentsOf(*parts["kwargs"]));
    std::map<std::string, NamedDevice> devices;
    for (const char *key :
         {"device", "generate_device", "prefill_device", "out_device"})
      if (auto it = words.find(key); it != words.end()) {
        MOE_ASSIGN_OR_RETURN(devices[key], deviceOf(*it->second));
      }
    for (const char *key : {"generate_device", "device"})
      if (auto it = devices.find(key); it != devices.end()) {
        rule.device = it->second;
        break;
      }
    rule.prefillDevice = devices["prefill_device"];
    for (auto [op, device] : {std::pair{"generate_op", "generate_device"},
                              std::pair{"prefill_op", "prefill_device"}})
      if (auto it = words.find(op); it != words.end())
        MOE_RETURN_IF_ERROR(
            checkOperator(*it->second, device, devices[device].name));
    if (auto it = words.find(kStreamKey); it != words.end())
      MOE_RETURN_IF_ERROR(readThreshold(*it->second));
    if (auto it = words.find("transfer_map"); it != words.end())
      MOE_RETURN_IF_ERROR(readTransfers(*it->second));
    return Status::ok();
  }

  Status readThreshold(const Node &node) {
    const std::string word = RuleDocument::scalar(node).value_or("");
    int64_t threshold = 0;
    if (llvm::StringRef(word).getAsInteger(10, threshold) || threshold < 0)
      return document.error(node,
                            fmt::format("{} is a number of tokens, not {}",
                                        kStreamKey, moert::quoted(word)));
    if (threshold > 0) {
      file.streamFrom = threshold;
      file.streamLine = document.lineOf(node);
    }
    return Status::ok();
  }

  /// Returns the arguments of an operator by their present names. Notes which
  /// do nothing here.
  StatusOr<Nodes> argumentsOf(const Node &node) {
    if (node.type != YAML_MAPPING_NODE)
      return document.error(node, RuleDocument::isNone(node)
                                      ? "kwargs is empty; indent its keys "
                                        "below it, or leave it out"
                                      : "kwargs is not a mapping");
    MOE_ASSIGN_OR_RETURN(auto all, document.entriesOf(node, "kwargs"));
    Nodes found;
    for (const RuleDocument::Entry &entry : all) {
      std::string name = entry.key;
      for (auto [old, now] : kOldArguments)
        if (name == old)
          name = now;
      if (!isArgument(name))
        MOE_RETURN_IF_ERROR(ignore(entry));
      else if (!found.try_emplace(name, entry.value).second)
        return document.error(entry.line, fmt::format("{} is there twice, once "
                                                      "by its old name",
                                                      name));
    }
    return found;
  }

  Status ignore(const RuleDocument::Entry &entry) {
    std::string instead;
    auto known = std::ranges::find(kIgnored, entry.key, &Ignored::key);
    if (known != std::end(kIgnored))
      instead = fmt::format(fmt::runtime(known->instead),
                            deferredOf(*entry.value, document));
    else if (std::string meant = typoOf(entry.key); !meant.empty())
      return document.error(entry.line,
                            fmt::format("unknown key {} of kwargs, did you "
                                        "mean \"{}\"?",
                                        moert::quoted(entry.key), meant));
    file.notes.add(entry.line,
                   moert::quoted(entry.key) + " has no effect here" + instead);
    return Status::ok();
  }

  StatusOr<NamedDevice> deviceOf(const Node &node) {
    const std::string word = RuleDocument::scalar(node).value_or("");
    if (word == "cpu")
      return NamedDevice{target.host().name, word};
    std::string name = word == "cuda" ? "gpu0" : "";
    if (word.starts_with("cuda:"))
      name = "gpu" + word.substr(5);
    if (!name.empty() && target.find(name))
      return NamedDevice{name, word};
    Names known = {"cpu"};
    for (const DeviceDesc &device : target.devices)
      if (device.kind == DeviceKind::Cuda)
        known.push_back("cuda:" + device.name.substr(3));
    return document.error(node,
                          fmt::format("{} has no device {}; expected one of {}",
                                      target.name, moert::quoted(word),
                                      fmt::join(known, ", ")));
  }

  /// Checks that an operator runs on its device. Only the device is used, so an
  /// unknown operator is a note.
  Status checkOperator(const Node &node, const char *key,
                       const std::string &device) {
    if (RuleDocument::isNone(node))
      return Status::ok();
    std::string word = RuleDocument::scalar(node).value_or("");
    Names known;
    for (const Operator &op : kOperators) {
      known.emplace_back(op.name);
      if (op.name != word)
        continue;
      bool isCpu = device == target.host().name;
      if (device.empty() || (isCpu ? op.onCpu : op.onGpu))
        return Status::ok();
      return document.error(
          node, fmt::format("{} does not run on a {}, which is its {}; give it "
                            "another device or operator",
                            word, isCpu ? "CPU" : "GPU", key));
    }
    auto nearest =
        std::ranges::min_element(known, {}, [&](const std::string &name) {
          return moert::editDistance(std::string_view(word).substr(0, 256),
                                     name);
        });
    file.notes.add(document.lineOf(node),
                   fmt::format("operator {} is not known, the nearest is {}; "
                               "only devices are used",
                               moert::quoted(word), *nearest));
    return Status::ok();
  }

  Status readTransfers(const Node &node) {
    if (node.type != YAML_MAPPING_NODE)
      return document.error(node, "transfer_map is not a mapping of layers to "
                                  "devices, as in {30: \"cuda:1\"}");
    MOE_ASSIGN_OR_RETURN(auto all, document.entriesOf(node, "transfer_map"));
    for (const RuleDocument::Entry &entry : all) {
      int64_t layer = 0;
      if (llvm::StringRef(entry.key).getAsInteger(10, layer) || layer < 0)
        return document.error(entry.line,
                              moert::quoted(entry.key) + " is no layer");
      MOE_ASSIGN_OR_RETURN(NamedDevice device, deviceOf(*entry.value));
      if (!file.transfers
               .try_emplace(layer, RuleFile::Transfer{device.name, entry.line})
               .second)
        return document.error(
            entry.line,
            fmt::format("transfer_map: layer {} is there twice", layer));
    }
    return Status::ok();
  }

  RuleDocument document;
  const TargetDesc &target;
  RuleFile file;
};

} // namespace

void LineNotes::add(size_t line, const std::string &what) {
  auto known = std::ranges::find(notes_, what, &Note::what);
  if (known == notes_.end())
    known = notes_.insert(notes_.end(), Note{what, {}});
  if (known->lines.empty() || known->lines.back() != line)
    known->lines.push_back(line);
}

std::vector<std::string> LineNotes::texts(const std::string &path) const {
  std::vector<std::string> texts;
  for (const Note &note : notes_) {
    std::string text = fmt::format("{}:{}: {}", moert::escaped(path),
                                   note.lines.front(), note.what);
    std::span others = std::span(note.lines).subspan(1);
    if (!others.empty())
      text += fmt::format(" (as in line{} {})", others.size() > 1 ? "s" : "",
                          fmt::join(others, ", "));
    texts.push_back(std::move(text));
  }
  return texts;
}

StatusOr<RuleFile> readRuleFile(moert::InputTexts &texts,
                                const std::string &path,
                                const TargetDesc &target) {
  return Reader(path, target).read(texts);
}

} // namespace moec
