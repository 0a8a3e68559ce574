#include "passes/moe/rules/KvTypeRules.h"

#include "kernels/Registry.h"
#include "llvm/ADT/StringExtras.h"
#include "runtime/base/Suggest.h"
#include "runtime/base/Text.h"

using namespace mlir;
using namespace mlir::moe;

namespace {
constexpr StringLiteral kAuto = "auto";

std::vector<std::string> typeNames() {
  std::vector<std::string> names{kAuto.str()};
  for (unsigned type = 0; type < moek::kKvTypeCount; ++type)
    names.emplace_back(moek::kvTypeName(moek::KvType(type)));
  return names;
}

/// Parses "blk.3" or "blk.0-3".
std::optional<std::pair<int64_t, int64_t>> parseLayers(StringRef text) {
  if (!text.consume_front("blk."))
    return std::nullopt;
  auto [first, last] = text.split('-');
  std::pair<int64_t, int64_t> layers;
  if (first.getAsInteger(10, layers.first) || layers.first < 0)
    return std::nullopt;
  layers.second = layers.first;
  if (text.contains('-') &&
      (last.getAsInteger(10, layers.second) || layers.second < layers.first))
    return std::nullopt;
  return layers;
}
} // namespace

FailureOr<KvTypeRules> KvTypeRules::parse(
    StringRef text,
    function_ref<void(const Twine &cause, const Twine &fix)> report) {
  auto fail = [&](const Twine &cause, const Twine &fix) {
    report("kv-type \"" + moert::clipped(text) + "\" " + cause, fix);
    return failure();
  };
  KvTypeRules rules;
  bool hasRest = false;
  SmallVector<StringRef> entries;
  text.split(entries, ',');
  for (StringRef entry : entries) {
    KvTypeRule rule{entry, std::nullopt, std::nullopt};
    StringRef name = entry;
    if (entry.contains('=')) {
      auto [layers, type] = entry.split('=');
      rule.layers = parseLayers(layers);
      name = type;
      if (!rule.layers)
        return fail("has \"" + moert::clipped(layers) + "\" for layers",
                    "write them as in \"blk.3=f16\" or "
                    "\"blk.0-3=f16,q8_0\"");
    }
    if (name != kAuto) {
      rule.type = moek::kvTypeFromName({name.data(), name.size()});
      if (!rule.type) {
        std::vector<std::string> known = typeNames();
        auto meant = moert::closestMatch({name.data(), name.size()}, known);
        return fail("has \"" + moert::clipped(name) +
                        "\", which is not a type of a KV cache" +
                        (meant ? ", did you mean \"" + *meant + "\"?" : ""),
                    "types are " + llvm::join(known, ", "));
      }
    }
    if (rule.layers) {
      rules.named_.push_back(rule);
      continue;
    }
    if (hasRest)
      return fail("has two types for all other layers, " + rules.rest_.text +
                      " and " + entry,
                  "write layers before one of them, as in "
                  "\"blk.0-3=f16,q8_0\"");
    hasRest = true;
    rules.rest_ = rule;
  }
  return rules;
}

const KvTypeRule &KvTypeRules::of(int64_t layer) const {
  for (const KvTypeRule &rule : llvm::reverse(named_))
    if (layer >= rule.layers->first && layer <= rule.layers->second)
      return rule;
  return rest_;
}
