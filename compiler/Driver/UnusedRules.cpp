#include "compiler/Driver/UnusedRules.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "runtime/base/Suggest.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

using mlir::moe::NamePattern;

namespace moec {

namespace {
constexpr llvm::StringLiteral kLayers = "model.layers.";

bool matches(const FileRule &rule, std::string_view name) {
  return rule.name->search(name) == NamePattern::Found::Yes;
}

/// Returns the words of a pattern: runs of letters, digits and "_" that begin
/// with no digit and are not escaped.
std::vector<std::string> wordsOf(std::string_view pattern) {
  std::vector<std::string> words(1);
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const bool isLetter = llvm::isAlpha(c) || c == '_';
    if (isLetter || (llvm::isDigit(c) && !words.back().empty()))
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
    if (c == '\\')
      ++i;
  }
  if (words.back().empty())
    words.pop_back();
  return words;
}

std::vector<std::string> partsOf(std::string_view name) {
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(name).split(parts, '.');
  return {parts.begin(), parts.end()};
}
} // namespace

UnusedRules::Verdict UnusedRules::of(size_t index) const {
  const FileRule &rule = rules[index];
  const RuleUse &use = uses[index];
  // Rope modules have no weights that a rule could place.
  if (use.places || rule.kind == ModuleKind::Rope)
    return {};
  if (!use.container.empty() &&
      (!use.isCoveredLeaf || rule.device.name.empty())) {
    if (use.isPlacedWithin || rule.device.name.empty())
      return {};
    return {fmt::format("this rule places nothing: {} has no weights of its "
                        "own, rules for its parts place them, as does "
                        "recursive: False",
                        use.container),
            false};
  }
  if (use.matches)
    return {coverOf(index), !isCoveredAlike(index)};
  if (!rule.name && rule.kind)
    return {fmt::format("this model has no {}: the rule has no effect",
                        moert::printable(rule.className)),
            false};
  return {unmatched(rule, use)};
}

/// Says which rules match what the rule matches.
std::string UnusedRules::coverOf(size_t index) const {
  std::vector<size_t> lines;
  for (size_t before : uses[index].coveredBy)
    lines.push_back(rules[before].line);
  return fmt::format(
      "this rule matches only modules that {} {} before it {}; "
      "leave it out or put it first",
      lines.size() > 1 ? "the rules of lines" : "the rule of line",
      fmt::join(lines, ", "), lines.size() > 1 ? "match" : "matches");
}

/// Whether a rule for a class, which files have for all classes of a model,
/// asks for nothing else than the rules before it.
bool UnusedRules::isCoveredAlike(size_t index) const {
  return !rules[index].name &&
         std::ranges::all_of(uses[index].coveredBy, [&](size_t before) {
           return rules[before].device.name == rules[index].device.name;
         });
}

std::string UnusedRules::unmatched(const FileRule &rule,
                                   const RuleUse &use) const {
  if (!rule.className.empty() && !rule.kind)
    return fmt::format("class {} is not known; known are {}",
                       moert::quoted(rule.className), knownClasses());
  std::string what = "this rule matches no module";
  if (!use.ofOtherClass.empty())
    return fmt::format("{}: {} matches by name, but is no {}", what,
                       use.ofOtherClass, moert::printable(rule.className));
  const bool hasHead =
      std::ranges::find(modules, "lm_head", &Module::name) != modules.end();
  if (!hasHead && matches(rule, "lm_head"))
    return what + ": lm_head has no weights of its own, the head is tied to "
                  "model.embed_tokens";
  if (isBeyondLayers(rule))
    return fmt::format("{}: the model has {}, from {}0 to {}{}", what,
                       moert::counted(uint64_t(layers), "layer"), kLayers.str(),
                       kLayers.str(), layers - 1);
  if (rule.nameText.find("\\\\") != rule.nameText.npos)
    return what + ": within single quotes or none, a backslash is not doubled";
  return what + nearest(rule);
}

/// Whether the name would match a module if the model had more layers.
bool UnusedRules::isBeyondLayers(const FileRule &rule) const {
  constexpr int64_t kMore = 128;
  std::set<std::string> ends;
  for (const Module &module : modules) {
    llvm::StringRef name = module.name;
    if (name.consume_front(kLayers))
      ends.insert(name.drop_while(llvm::isDigit).str());
  }
  for (int64_t layer = layers; layer < layers + kMore; ++layer)
    for (const std::string &end : ends)
      if (matches(rule, fmt::format("{}{}{}", kLayers.str(), layer, end)))
        return true;
  return false;
}

/// Returns a hint with the module that has most words of the rule's pattern, or
/// words like them.
std::string UnusedRules::nearest(const FileRule &rule) const {
  std::set<std::string> known;
  for (const Module &module : modules)
    for (std::string &part : partsOf(module.name))
      known.insert(std::move(part));
  const std::vector<std::string> parts(known.begin(), known.end());
  std::set<std::string> wanted;
  for (const std::string &word : wordsOf(rule.nameText))
    if (known.contains(word))
      wanted.insert(word);
    else if (auto meant = moert::closestMatch(word, parts))
      wanted.insert(*meant);
  // All modules of layers match these words.
  wanted.erase("model");
  wanted.erase("layers");
  const Module *best = nullptr;
  size_t most = 0;
  for (const Module &module : modules) {
    size_t count = 0;
    for (const std::string &part : partsOf(module.name))
      count += wanted.contains(part);
    if (count > most) {
      most = count;
      best = &module;
    }
  }
  if (best)
    return fmt::format(", the nearest is \"{}\"", best->name);
  auto example = std::ranges::max_element(modules, {}, [](const Module &each) {
    return partsOf(each.name).size();
  });
  return example == modules.end()
             ? ""
             : fmt::format("; names are Hugging Face's, as in \"{}\"",
                           example->name);
}

} // namespace moec
