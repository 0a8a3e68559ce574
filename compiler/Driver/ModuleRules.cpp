#include "compiler/Driver/ModuleRules.h"

#include "compiler/Driver/ModuleNames.h"
#include "llvm/ADT/StringRef.h"
#include "passes/moe/rules/NamePattern.h"
#include "passes/moe/rules/TensorRules.h"
#include "runtime/base/Suggest.h"
#include "runtime/base/Text.h"

#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <span>
#include <yaml.h>

using mlir::moe::NamePattern;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

namespace {
/// Files that people write have a few kilobytes.
constexpr uint64_t kMostRuleBytes = 1 << 18;
/// Most open brackets: the parser's time per token grows with them.
constexpr int kDeepest = 1000;
constexpr size_t kMostRules = 1000;

using Names = std::vector<std::string>;

struct Rule {
  size_t line = 0;
  std::optional<NamePattern> name;
  std::string nameText;
  std::optional<ModuleKind> kind;
  std::string device; ///< A device of the target; "" lets placement choose.
  bool recursive = true;
  bool matches = false, decides = false;
};

/// A parsed YAML document that reports errors with their lines.
class Document {
public:
  explicit Document(std::string path) : path_(std::move(path)) {}
  Document(const Document &) = delete;
  ~Document() {
    if (loaded_)
      yaml_document_delete(&document_);
  }

  Status load(const std::string &text) {
    // Brackets in patterns are balanced, so they do not add up.
    int depth = 0;
    for (char c : text) {
      depth += (c == '[' || c == '{') - (c == ']' || c == '}');
      if (depth > kDeepest)
        return error(1, fmt::format("has more than {} brackets that are open",
                                    kDeepest));
    }
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
      return Status(StatusCode::DoesNotFit, path_ + ": no memory for a parser");
    yaml_parser_set_input_string(
        &parser, reinterpret_cast<const unsigned char *>(text.data()),
        text.size());
    loaded_ = yaml_parser_load(&parser, &document_);
    Status status;
    yaml_document_t next;
    if (!loaded_ || !yaml_parser_load(&parser, &next)) {
      // A rule has its keys deeper than its dash.
      const bool isFlat =
          text.find("\n  ") == text.npos && text.find("- match") != text.npos;
      status = error(
          parser.problem_mark.line + 1,
          fmt::format("is not YAML: {}{}",
                      parser.problem ? parser.problem : "nothing is in it",
                      isFlat ? "; its indentation is lost, perhaps "
                               "in a copy: keys are to be indented "
                               "below the dash of their rule"
                             : ""));
    } else {
      if (const yaml_node_t *more = yaml_document_get_root_node(&next))
        status = error(*more, "begins a second document; put all rules in one");
      yaml_document_delete(&next);
    }
    yaml_parser_delete(&parser);
    return status;
  }

  const yaml_node_t *root() { return yaml_document_get_root_node(&document_); }
  const yaml_node_t *node(int index) {
    return yaml_document_get_node(&document_, index);
  }

  /// Returns the line of a node. For an alias and its contents, returns the
  /// line of its last use.
  size_t lineOf(const yaml_node_t &node) const {
    auto used = usedAs_.find(&node);
    return used == usedAs_.end() ? node.start_mark.line + 1 : used->second;
  }
  Status error(size_t line, const std::string &what) const {
    return Status(StatusCode::InvalidFile,
                  fmt::format("{}:{}: {}", moert::escaped(path_), line, what));
  }
  Status error(const yaml_node_t &node, const std::string &what) const {
    return error(lineOf(node), what);
  }

  /// Returns a scalar's text; none for other nodes.
  static std::optional<std::string> scalar(const yaml_node_t &node) {
    if (node.type != YAML_SCALAR_NODE)
      return std::nullopt;
    return std::string(reinterpret_cast<const char *>(node.data.scalar.value),
                       node.data.scalar.length);
  }

  /// Returns the entries of a mapping, whose keys must be in `known`.
  StatusOr<std::map<std::string, const yaml_node_t *>>
  entries(const yaml_node_t &mapping, const std::string &what,
          const Names &known) {
    if (mapping.type != YAML_MAPPING_NODE)
      return error(mapping, what + " is not a mapping of " +
                                fmt::format("{}", fmt::join(known, ", ")));
    std::map<std::string, const yaml_node_t *> found;
    for (const yaml_node_pair_t &pair :
         std::span(mapping.data.mapping.pairs.start,
                   mapping.data.mapping.pairs.top)) {
      const yaml_node_t &key = *node(pair.key);
      if (usedAs_.contains(&mapping))
        usedAs_[&key] = lineOf(mapping);
      std::string name = scalar(key).value_or("");
      if (std::ranges::find(known, name) == known.end()) {
        auto meant = moert::closestMatch(name, known);
        return error(
            key, fmt::format("unknown key {} of {}{}; expected one of {}",
                             moert::quoted(name), what,
                             meant ? ", did you mean \"" + *meant + "\"?" : "",
                             fmt::join(known, ", ")));
      }
      const yaml_node_t *value = node(pair.value);
      if (!found.try_emplace(name, value).second)
        return error(key, fmt::format("{} is there twice", name));
      // A value that starts before its key is an alias; report it at the key.
      if (value->start_mark.index < key.start_mark.index)
        usedAs_[value] = lineOf(key);
      else if (usedAs_.contains(&mapping))
        usedAs_[value] = lineOf(mapping);
    }
    return found;
  }

private:
  std::string path_;
  yaml_document_t document_ = {};
  bool loaded_ = false;
  std::map<const yaml_node_t *, size_t> usedAs_; ///< Lines of aliases.
};

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
    {"KLinearMarlin", false, true},
    {"KLinearTorch", true, true},
    {"KLinearCPUInfer", true, false},
    {"KLinearFP8", false, true},
    {"QuantizedLinearMarlin", false, true},
    {"QuantizedLinearTorch", true, true},
    {"VLinearMarlin", false, true},
};

/// Turns a file's rules into rules about tensors.
class Reader {
public:
  Reader(const std::string &path, std::string_view architecture,
         const TargetDesc &target)
      : path(path), document(path), architecture(architecture), target(target) {
  }

  StatusOr<ModuleRules> read(moert::InputTexts &texts, const Names &tensors,
                             bool allowUnmatched) {
    MOE_ASSIGN_OR_RETURN(const std::string *text,
                         texts.read("the file of rules", path, kMostRuleBytes));
    MOE_RETURN_IF_ERROR(document.load(*text));
    const yaml_node_t *root = document.root();
    if (!root || root->type != YAML_SEQUENCE_NODE)
      return document.error(1, "is not a list of rules; each begins with \"- "
                               "match:\"");
    std::span items(root->data.sequence.items.start,
                    root->data.sequence.items.top);
    if (items.size() > kMostRules)
      return document.error(1, fmt::format("has {} rules; at most {} are taken",
                                           items.size(), kMostRules));
    for (int item : items) {
      MOE_ASSIGN_OR_RETURN(Rule rule, ruleOf(*document.node(item)));
      rules.push_back(std::move(rule));
    }
    for (const std::string &tensor : tensors)
      MOE_RETURN_IF_ERROR(decide(tensor));
    MOE_RETURN_IF_ERROR(checkUse(allowUnmatched));
    return std::move(result);
  }

private:
  StatusOr<Rule> ruleOf(const yaml_node_t &node) {
    Rule rule;
    rule.line = document.lineOf(node);
    MOE_ASSIGN_OR_RETURN(
        auto parts,
        document.entries(node, "a rule", {"match", "replace", "recursive"}));
    for (const char *needed : {"match", "replace"})
      if (!parts.contains(needed))
        return document.error(node,
                              fmt::format("a rule without \"{}\"", needed));
    MOE_RETURN_IF_ERROR(readMatch(*parts["match"], rule));
    MOE_RETURN_IF_ERROR(readReplace(*parts["replace"], rule));
    if (auto it = parts.find("recursive"); it != parts.end()) {
      std::string word = Document::scalar(*it->second).value_or("");
      std::optional<bool> flag = flagOf(word);
      if (!flag)
        return document.error(*it->second, "recursive is True or False, not " +
                                               moert::quoted(word));
      rule.recursive = *flag;
    }
    return rule;
  }

  Status readMatch(const yaml_node_t &node, Rule &rule) {
    MOE_ASSIGN_OR_RETURN(auto parts,
                         document.entries(node, "match", {"name", "class"}));
    if (parts.empty())
      return document.error(node, "match needs a name, a class, or both");
    if (auto it = parts.find("name"); it != parts.end()) {
      rule.nameText = Document::scalar(*it->second).value_or("");
      std::string why;
      rule.name =
          NamePattern::create(rule.nameText, NamePattern::Dialect::Perl, why);
      if (!rule.name)
        return document.error(
            *it->second,
            fmt::format("name {} {}", moert::quoted(rule.nameText), why));
    }
    if (auto it = parts.find("class"); it != parts.end()) {
      std::string name = Document::scalar(*it->second).value_or("");
      rule.kind = kindOfClass(name);
      if (!rule.kind)
        return document.error(
            *it->second, fmt::format("class {} is not known; expected one of "
                                     "torch.nn.Linear, ...Attention, "
                                     "...MoE, ...RotaryEmbedding, ...Model",
                                     moert::quoted(name)));
    }
    return Status::ok();
  }

  Status readReplace(const yaml_node_t &node, Rule &rule) {
    MOE_ASSIGN_OR_RETURN(
        auto parts,
        document.entries(node, "replace", {"class", "kwargs", "device"}));
    std::map<std::string, std::string> devices;
    // Some files have the device beside the class.
    if (auto it = parts.find("device"); it != parts.end()) {
      MOE_ASSIGN_OR_RETURN(rule.device, deviceOf(*it->second));
    }
    if (!parts.contains("kwargs"))
      return Status::ok();
    MOE_ASSIGN_OR_RETURN(auto words, argumentsOf(*parts["kwargs"]));
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
    for (auto [op, device] : {std::pair{"generate_op", "generate_device"},
                              std::pair{"prefill_op", "prefill_device"}})
      if (auto it = words.find(op); it != words.end())
        MOE_RETURN_IF_ERROR(
            checkOperator(*it->second, device, devices[device]));
    if (auto it = devices.find("prefill_device"); it != devices.end() &&
                                                  !rule.device.empty() &&
                                                  it->second != rule.device)
      noteOnce(rule.line,
               fmt::format("prefill_device is {}, generate_device is {}: both "
                           "phases run on {}, where the weights are; "
                           "--stream-experts auto copies them to a GPU for "
                           "long prompts",
                           it->second, rule.device, rule.device));
    if (auto it = words.find("per_layer_prefill_intput_threshold");
        it != words.end()) {
      const std::string word = Document::scalar(*it->second).value_or("");
      int64_t threshold = 0;
      if (llvm::StringRef(word).getAsInteger(10, threshold) || threshold < 0)
        return document.error(*it->second,
                              "per_layer_prefill_intput_threshold is a number "
                              "of tokens, not " +
                                  moert::quoted(word));
      if (threshold > 0)
        result.streamFrom = threshold;
    }
    if (auto it = words.find("transfer_map"); it != words.end())
      MOE_RETURN_IF_ERROR(readTransfers(*it->second));
    return Status::ok();
  }

  /// Returns the arguments of an operator. Those that do nothing here are said
  /// once.
  StatusOr<std::map<std::string, const yaml_node_t *>>
  argumentsOf(const yaml_node_t &node) {
    if (node.type != YAML_MAPPING_NODE)
      return document.error(node, "kwargs is not a mapping");
    static const std::set<std::string> known = {
        "generate_device", "prefill_device",
        "generate_op",     "prefill_op",
        "out_device",      "device",
        "transfer_map",    "per_layer_prefill_intput_threshold"};
    std::map<std::string, const yaml_node_t *> found;
    for (const yaml_node_pair_t &pair : std::span(
             node.data.mapping.pairs.start, node.data.mapping.pairs.top)) {
      const yaml_node_t &key = *document.node(pair.key);
      const std::string name = Document::scalar(key).value_or("");
      if (!known.contains(name))
        noteOnce(document.lineOf(key),
                 moert::quoted(name) + " has no effect here");
      else if (!found.try_emplace(name, document.node(pair.value)).second)
        return document.error(key, fmt::format("{} is there twice", name));
    }
    return found;
  }

  /// Maps "cpu", "cuda" and "cuda:1" to devices of the target.
  StatusOr<std::string> deviceOf(const yaml_node_t &node) {
    std::string word = Document::scalar(node).value_or("");
    if (word == "cpu")
      return target.host().name;
    std::string name = word == "cuda" ? "gpu0" : "";
    if (word.starts_with("cuda:"))
      name = "gpu" + word.substr(5);
    if (!name.empty() && target.find(name))
      return name;
    Names known = {"cpu"};
    for (const DeviceDesc &device : target.devices)
      if (device.kind == DeviceKind::Cuda)
        known.push_back("cuda:" + device.name.substr(3));
    return document.error(node,
                          fmt::format("{} has no device {}; expected one of {}",
                                      target.name, moert::quoted(word),
                                      fmt::join(known, ", ")));
  }

  Status checkOperator(const yaml_node_t &node, const char *key,
                       const std::string &device) {
    std::string word = Document::scalar(node).value_or("");
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
    auto meant = moert::closestMatch(word, known);
    return document.error(
        node,
        fmt::format("operator {} is not known{}", moert::quoted(word),
                    meant ? ", did you mean \"" + *meant + "\"?"
                          : "; expected one of " +
                                fmt::format("{}", fmt::join(known, ", "))));
  }

  /// Reads a transfer_map, which says from which layer on values are on which
  /// device: what no rule places is there, too.
  Status readTransfers(const yaml_node_t &node) {
    if (node.type != YAML_MAPPING_NODE)
      return document.error(node, "transfer_map is not a mapping of layers to "
                                  "devices, as in {30: \"cuda:1\"}");
    for (const yaml_node_pair_t &pair : std::span(
             node.data.mapping.pairs.start, node.data.mapping.pairs.top)) {
      const yaml_node_t &key = *document.node(pair.key);
      std::string layer = Document::scalar(key).value_or("");
      int64_t number = 0;
      if (llvm::StringRef(layer).getAsInteger(10, number) || number < 0)
        return document.error(key, moert::quoted(layer) + " is no layer");
      MOE_ASSIGN_OR_RETURN(transfers[number],
                           deviceOf(*document.node(pair.value)));
      transfersLine = document.lineOf(key);
    }
    return Status::ok();
  }

  /// The device of the tensor's layer by the transfer_map, whose first layers
  /// are on the first GPU; "" without a map.
  std::string transferredTo(llvm::StringRef tensor) const {
    int64_t layer = 0;
    if (transfers.empty() || !tensor.consume_front("blk.") ||
        tensor.consumeInteger(10, layer))
      return "";
    auto next = transfers.upper_bound(layer);
    return next == transfers.begin() ? "gpu0" : std::prev(next)->second;
  }

  void noteOnce(size_t line, const std::string &what) {
    result.notes.push_back(
        fmt::format("{}:{}: {}", moert::escaped(path), line, what));
  }

  /// Adds a rule for the tensor if a module rule decides about it.
  Status decide(const std::string &tensor) {
    Rule *decision = nullptr;
    for (const Module &module : modulesOf(architecture, tensor)) {
      if (seen.insert(module.name).second)
        names.push_back(module.name);
      decision = nullptr;
      for (Rule &rule : rules) {
        if (rule.kind && rule.kind != module.kind)
          continue;
        if (rule.name) {
          NamePattern::Found found = rule.name->search(module.name);
          if (found == NamePattern::Found::TooCostly)
            return document.error(
                rule.line, fmt::format("name {} takes too long to match {}: a "
                                       "repetition within a repetition tries "
                                       "all ways to divide a name",
                                       moert::quoted(rule.nameText),
                                       moert::quoted(module.name)));
          if (found == NamePattern::Found::No)
            continue;
        }
        rule.matches = true;
        if (!decision)
          decision = &rule;
      }
      if (decision) {
        decision->decides = true;
        if (!decision->recursive)
          break;
      }
    }
    const bool isPlaced = decision && !decision->device.empty();
    const std::string device =
        isPlaced ? decision->device : transferredTo(tensor);
    if (device.empty())
      return Status::ok();
    std::string pattern = "^";
    for (char c : tensor)
      pattern += c == '.' ? std::string("\\.") : std::string(1, c);
    result.tensorRules.push_back(mlir::moe::rulesFrom(
        fmt::format("{}:{}", std::filesystem::path(path).filename().string(),
                    isPlaced ? decision->line : transfersLine),
        pattern + "$=" + device));
    return Status::ok();
  }

  Status checkUse(bool allowUnmatched) {
    for (const Rule &rule : rules) {
      // Rope modules have no weights.
      if (rule.decides || rule.kind == ModuleKind::Rope)
        continue;
      std::string what =
          rule.matches ? "matches only modules that rules before it match; "
                         "leave it out or put it first"
                       : "matches no module" + nearest(rule);
      if (!allowUnmatched)
        return document.error(
            rule.line, "this rule " + what +
                           (rule.matches ? ""
                                         : "; with --allow-unmatched-rules "
                                           "this is a note"));
      noteOnce(rule.line, "this rule " + what);
    }
    return Status::ok();
  }

  /// Returns a hint with the module whose name is closest to the rule's
  /// pattern.
  std::string nearest(const Rule &rule) const {
    std::string plain;
    for (char c : rule.nameText)
      if (std::string_view("\\^$()[]{}*+?|").find(c) == std::string_view::npos)
        plain += c;
    std::string best;
    size_t least = plain.size();
    for (const std::string &name : names)
      if (size_t distance = moert::editDistance(plain, name);
          distance < least) {
        least = distance;
        best = name;
      }
    return best.empty() ? "" : ", the nearest is \"" + best + "\"";
  }

  const std::string &path;
  Document document;
  std::string_view architecture;
  const TargetDesc &target;
  std::vector<Rule> rules;
  Names names; ///< Modules in the order of their first tensor.
  std::set<std::string> seen;
  /// By the first layer on it: devices of transfer_map, and where it is.
  std::map<int64_t, std::string> transfers;
  size_t transfersLine = 0;
  ModuleRules result;
};

} // namespace

StatusOr<ModuleRules>
readModuleRules(moert::InputTexts &texts, const std::string &path,
                std::string_view architecture, const Names &tensors,
                const TargetDesc &target, bool allowUnmatched) {
  return Reader(path, architecture, target)
      .read(texts, tensors, allowUnmatched);
}

} // namespace moec
