#include "passes/moe/rules/TensorRules.h"

#include "dialects/moe/Moe.h"
#include "llvm/ADT/StringExtras.h"
#include "passes/moe/Support.h"
#include "runtime/base/Suggest.h"
#include "runtime/base/Text.h"

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Maps llama.cpp's names "CPU" and "CUDA0" to the target's host and "gpu0".
std::string deviceNamed(StringRef name, const moec::TargetDesc &target) {
  std::string lower = name.lower();
  StringRef number = lower;
  if (lower == "cpu")
    return target.host().name;
  if (number.consume_front("cuda"))
    lower = ("gpu" + number).str();
  return target.find(lower) ? lower : "";
}

std::string devicesOf(const moec::TargetDesc &target) {
  std::vector<std::string> names = {"CPU"};
  for (size_t gpu = 0; gpu < target.gpuCount(); ++gpu)
    names.push_back("CUDA" + std::to_string(gpu));
  for (const moec::DeviceDesc &device : target.devices)
    names.push_back(device.name);
  return llvm::join(names, ", ");
}

FailureOr<TensorRule> parseTensorRule(ModuleOp module,
                                      const moec::TargetDesc &target,
                                      StringRef text) {
  auto fail = [&](const Twine &cause, const Twine &fix) {
    return userError(
        module, "tensor rule \"" + moert::clipped(text) + "\" " + cause, fix);
  };
  // As in llama.cpp, the first "=" and every comma end a pattern.
  auto [pattern, device] = text.split('=');
  if (pattern.empty() || device.empty())
    return fail(device.empty() ? "names no device" : "has no pattern",
                "write it as in \"ffn_.*_exps=CPU\"; a pattern cannot hold a "
                "comma or a \"=\"");
  TensorRule rule;
  rule.text = moert::clipped(text);
  rule.device = deviceNamed(device, target);
  rule.patternText = pattern.str();
  if (rule.device.empty())
    return fail("is for device " + moert::clipped(device) + ", which " +
                    target.name + " does not have",
                "devices are " + devicesOf(target));
  std::string error;
  auto parsed =
      NamePattern::create(pattern, NamePattern::Dialect::EcmaScript, error);
  if (!parsed)
    return fail(error, "a literal dot is written \\.");
  rule.pattern = std::move(*parsed);
  return rule;
}

/// Returns the first tensor name that contains a match of the longest possible
/// prefix of the pattern, of more than half its length.
std::string matchedByBeginning(StringRef pattern,
                               ArrayRef<StringAttr> tensors) {
  for (size_t size = pattern.size() - 1; size >= 4 && size > pattern.size() / 2;
       --size) {
    std::string error;
    auto beginning = NamePattern::create(
        pattern.take_front(size), NamePattern::Dialect::EcmaScript, error);
    if (!beginning)
      continue;
    for (StringAttr tensor : tensors)
      if (beginning->search(tensor.getValue()) == NamePattern::Found::Yes)
        return tensor.str();
  }
  return "";
}

/// Returns the pattern without its special characters, to be compared with
/// names.
std::string plainText(StringRef pattern) {
  std::string text;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\' && i + 1 < pattern.size()) {
      char next = pattern[++i];
      text += next == 'd' ? '0' : next;
    } else if (!StringRef("^$()[]{}*+?|").contains(pattern[i])) {
      text += pattern[i];
    }
  }
  return text;
}

/// Returns the part between dots or the whole name that is closest to a pattern
/// without matches, or "".
std::string nearest(const TensorRule &rule, ArrayRef<StringAttr> tensors) {
  StringRef pattern = rule.patternText;
  if (auto name = matchedByBeginning(pattern, tensors); !name.empty())
    return name;
  std::string wanted = plainText(pattern);
  std::vector<std::string> parts, names;
  for (StringAttr tensor : tensors) {
    names.push_back(tensor.str());
    SmallVector<StringRef> split;
    tensor.getValue().split(split, '.');
    for (StringRef part : split)
      if (!llvm::is_contained(parts, part))
        parts.push_back(part.str());
  }
  if (auto meant = moert::closestMatch(wanted, names))
    return *meant;
  SmallVector<StringRef> words;
  StringRef(wanted).split(words, '.');
  for (StringRef word : words)
    if (!word.empty() && !llvm::is_contained(parts, word))
      if (auto meant = moert::closestMatch(std::string_view(word), parts))
        return *meant;
  return "";
}

} // namespace

/// Stands before and after a rule's source; no file name or pattern has it.
static constexpr StringLiteral kSourceMark = "\x1f";
/// Stands before the layer and the device of a rule about attention.
static constexpr StringLiteral kAttentionMark = "\x1e";

std::string moe::rulesFrom(const std::string &source, const std::string &rule) {
  return kSourceMark.str() + source + kSourceMark.str() + rule;
}

std::string moe::attentionRuleFrom(const std::string &source, int64_t layer,
                                   const std::string &device) {
  return rulesFrom(source,
                   kAttentionMark.str() + std::to_string(layer) + "=" + device);
}

/// Parses a rule of rulesFrom() or attentionRuleFrom().
static FailureOr<TensorRule> parseRuleOfFile(ModuleOp module,
                                             const moec::TargetDesc &target,
                                             StringRef text) {
  auto [source, rest] = text.drop_front().split(kSourceMark);
  FailureOr<TensorRule> rule = TensorRule();
  if (rest.consume_front(kAttentionMark)) {
    int64_t layer = 0;
    if (rest.consumeInteger(10, layer) || !rest.consume_front("=") ||
        !target.find(std::string_view(rest)))
      return module.emitError() << "not a rule about attention: " << text;
    rule->attentionOf = layer;
    rule->device = rest.str();
  } else {
    rule = parseTensorRule(module, target, rest);
    if (failed(rule))
      return failure();
  }
  rule->text = source.str();
  rule->isOfFile = true;
  return rule;
}

FailureOr<SmallVector<TensorRule>>
moe::parseTensorRules(ModuleOp module, const moec::TargetDesc &target,
                      ArrayRef<std::string> texts) {
  SmallVector<TensorRule> rules;
  for (const std::string &text : texts) {
    if (StringRef(text).starts_with(kSourceMark)) {
      FailureOr<TensorRule> rule = parseRuleOfFile(module, target, text);
      if (failed(rule))
        return failure();
      rules.push_back(std::move(*rule));
      continue;
    }
    SmallVector<StringRef> parts;
    StringRef(text).split(parts, ',');
    for (StringRef part : parts) {
      FailureOr<TensorRule> rule = parseTensorRule(module, target, part);
      if (failed(rule))
        return failure();
      rules.push_back(std::move(*rule));
    }
  }
  return rules;
}

std::string moe::cpuMoeRule(int64_t layers) {
  // Experts are one tensor per layer, or in old files of Mixtral one each.
  std::string experts =
      "\\.ffn_(up|down|gate|gate_up)(_(ch|)exps|\\.[0-9]+\\.)=CPU";
  if (layers < 0)
    return experts;
  std::string first;
  for (int64_t layer = 0; layer < layers; ++layer)
    first += (layer ? "|" : "") + std::to_string(layer);
  return "blk\\.(" + first + ")" + experts;
}

/// Returns a tensor of the file that the rule matches and no op reads, or "".
static StringRef unusedMatch(ModuleOp module, const TensorRule &rule) {
  if (auto unused = module->getAttrOfType<ArrayAttr>(kUnusedTensorsAttr))
    for (auto name : unused.getAsRange<StringAttr>())
      if (rule.pattern.search(name.getValue()) == NamePattern::Found::Yes)
        return name.getValue();
  return "";
}

FailureOr<TensorDevices> TensorDevices::create(ModuleOp module,
                                               ArrayRef<TensorRule> rules,
                                               bool allowIdle) {
  TensorDevices devices(module);
  SmallVector<StringAttr> tensors = fileTensorsOf(module);
  std::vector<const TensorRule *> shadowedBy(rules.size(), nullptr);
  std::vector<bool> decides(rules.size(), false);
  for (StringAttr tensor : tensors) {
    const TensorRule *first = nullptr;
    for (auto [index, rule] : llvm::enumerate(rules)) {
      NamePattern::Found found = rule.pattern.search(tensor.getValue());
      if (found == NamePattern::Found::TooCostly)
        return userError(module,
                         "tensor rule \"" + rule.text +
                             "\" takes too long to match \"" +
                             tensor.getValue() + "\"",
                         "a repetition within a repetition, as in (a+)+, tries "
                         "all ways to divide a name; leave out one of them");
      if (found == NamePattern::Found::No)
        continue;
      if (!first) {
        first = &rule;
        decides[index] = true;
      } else if (!shadowedBy[index]) {
        shadowedBy[index] = first;
      }
    }
    if (first)
      devices.ruleOf[tensor.getValue()] = first;
  }
  for (auto [index, rule] : llvm::enumerate(rules)) {
    if (decides[index])
      continue;
    std::string cause, fix;
    if (const TensorRule *before = shadowedBy[index]) {
      // One tensor's part of a file's rule, where the user decides otherwise.
      if (rule.isOfFile)
        continue;
      cause =
          "matches only tensors that \"" + before->text + "\" before it places";
      fix = "leave it out or put it first";
    } else if (StringRef unused = unusedMatch(module, rule); !unused.empty()) {
      addNote(module, "tensor rule \"" + rule.text +
                          "\" changes nothing: the model does not use " +
                          unused + " of the file");
      continue;
    } else if (StringRef(rule.patternText).contains("exps") &&
               !hasExperts(module)) {
      addNote(module, "tensor rule \"" + rule.text +
                          "\" changes nothing: the model has no experts");
      continue;
    } else {
      cause = "matches no tensor";
      if (std::string meant = nearest(rule, tensors); !meant.empty())
        cause += ", did you mean \"" + meant + "\"?";
      fix = "moec compile --emit moe shows the names; with "
            "--allow-unmatched-rules this is a note";
    }
    if (!allowIdle)
      return userError(module, "tensor rule \"" + rule.text + "\" " + cause,
                       fix);
    addNote(module, "tensor rule \"" + rule.text + "\" " + cause);
  }
  return devices;
}

SmallVector<StringRef> TensorDevices::tensorsOf(Operation *op) const {
  SmallVector<WeightOp> pending;
  for (Value operand : op->getOperands())
    if (isWeight(operand))
      pending.push_back(weights.of(operand));
  SmallVector<StringRef> names;
  while (!pending.empty()) {
    WeightOp weight = pending.pop_back_val();
    if (weight.isFileTensor())
      names.push_back(weight.getSymName());
    else
      pending.append(weights.partsOf(weight));
  }
  return names;
}

bool TensorDevices::reads(Operation *op,
                          function_ref<bool(StringRef)> which) const {
  return llvm::any_of(tensorsOf(op), which);
}

FailureOr<TensorDevices::Decision> TensorDevices::of(Operation *op) const {
  Decision decision;
  for (StringRef name : tensorsOf(op)) {
    const TensorRule *rule = ruleOf.lookup(name);
    if (!rule)
      continue;
    if (decision.rule && decision.rule->device != rule->device)
      return userError(op->getParentOfType<ModuleOp>(),
                       labelOf(op) + " reads " + decision.tensor +
                           ", which \"" + decision.rule->text + "\" puts on " +
                           decision.rule->device + ", and " + name +
                           ", which \"" + rule->text + "\" puts on " +
                           rule->device,
                       "an op that reads several tensors is on one device: "
                       "give them the same device");
    decision = {rule, name};
  }
  return decision;
}
