//===- UnusedRules.h - Why a module rule does nothing -----------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_UNUSEDRULES_H
#define MOE_COMPILER_DRIVER_UNUSEDRULES_H

#include "compiler/Driver/RuleFile.h"

#include <set>
#include <span>
#include <string>
#include <vector>

namespace moec {

/// The effect of a rule of a file on a model.
struct RuleUse {
  bool matches = false;
  /// Whether it decides about a tensor or the attention of a layer.
  bool places = false;
  bool placesExperts = false;
  /// A module without weights of its own that took the rule, or "", and whether
  /// rules for its parts place some of them.
  std::string container;
  bool isPlacedWithin = false;
  /// Earlier rules that took modules which it matches, and whether one of these
  /// has weights.
  std::set<size_t> coveredBy;
  bool isCoveredLeaf = false;
  /// A module that its name matches, but not its class; or "".
  std::string ofOtherClass;
};

/// Explains rules without effect. The rules, their uses and the model's
/// modules must outlive it.
class UnusedRules {
public:
  UnusedRules(std::span<const FileRule> rules, std::span<const RuleUse> uses,
              std::span<const Module> modules, int64_t layers)
      : rules(rules), uses(uses), modules(modules), layers(layers) {}

  struct Verdict {
    /// The part that has no effect; "" if the whole rule has an effect.
    std::string what;
    /// Whether the author has to know: the rule may be meant for something.
    bool isError = true;
  };
  Verdict of(size_t index) const;

private:
  std::string coverOf(size_t index) const;
  bool isCoveredAlike(size_t index) const;
  std::string unmatched(const FileRule &rule, const RuleUse &use) const;
  bool isBeyondLayers(const FileRule &rule) const;
  std::string nearest(const FileRule &rule) const;

  std::span<const FileRule> rules;
  std::span<const RuleUse> uses;
  std::span<const Module> modules;
  int64_t layers;
};

} // namespace moec

#endif // MOE_COMPILER_DRIVER_UNUSEDRULES_H
