#include "compiler/Machine/Targets/TargetAttr.h"
#include "llvm/ADT/DenseMap.h"
#include "passes/moe/Passes.h"
#include "passes/moe/Support.h"
#include "passes/moe/graph/SliceExperts.h"
#include "passes/moe/rules/PlacementRules.h"
#include "passes/moe/rules/TensorRules.h"
#include "runtime/base/Text.h"

namespace mlir::moe {
#define GEN_PASS_DEF_APPLYRULESPASS
#include "passes/moe/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {

struct ApplyRules : moe::impl::ApplyRulesPassBase<ApplyRules> {
  using ApplyRulesPassBase::ApplyRulesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto target = moec::targetOf(module);
    if (failed(target))
      return signalPassFailure();
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      if (!phaseOf(function)) {
        function.emitError() << "@" << function.getName() << " has no "
                             << kPhaseAttr << "; run moe-specialize-phases "
                             << "first";
        return signalPassFailure();
      }
    caches.emplace(module);
    std::vector<std::string> texts(place.begin(), place.end());
    auto parsed = parsePlacementRules(module, *target, texts);
    if (failed(parsed))
      return signalPassFailure();
    noteCaches(module, *parsed);
    if (failed(checkUse(module, *parsed)))
      return signalPassFailure();
    if (failed(slice(module, *parsed)))
      return signalPassFailure();
    module.walk([&](CostOpInterface op) { placeOp(op, *parsed); });
    if (failed(placeTensors(module, *target)))
      return signalPassFailure();
    if (gpuLayers >= 0 && failed(placeLayers(module, *target)))
      return signalPassFailure();
  }

private:
  std::optional<CacheLayers> caches;

  /// Returns the layer whose caches `op` uses; see CacheLayers.
  std::optional<int64_t> cacheOf(Operation *op) const { return caches->of(op); }

  /// For each layer's cache, the index of the rule that places it.
  llvm::DenseMap<int64_t, size_t> ruleOfCache;

  /// Finds the rule that places each cache. All phases share a cache, so only a
  /// rule for all phases can place it: the last one that covers an op that uses
  /// it.
  void noteCaches(ModuleOp module, ArrayRef<PlacementRule> parsed) {
    ruleOfCache.clear();
    module.walk([&](CostOpInterface op) {
      std::optional<int64_t> layer = cacheOf(op);
      if (!layer)
        return;
      for (auto [index, rule] : llvm::enumerate(parsed))
        if (rule.phase.empty() && rule.covers(op)) {
          size_t &last = ruleOfCache.try_emplace(*layer, index).first->second;
          last = std::max(last, index);
        }
    });
  }

  /// Checks that each rule covers an op that it may place.
  LogicalResult checkUse(ModuleOp module, ArrayRef<PlacementRule> parsed) {
    for (const PlacementRule &rule : parsed) {
      bool matches = false, places = false;
      module.walk([&](CostOpInterface op) {
        if (!rule.covers(op))
          return;
        matches = true;
        places |= rule.phase.empty() || !cacheOf(op);
      });
      if (!matches)
        return matchesNothing(module, rule);
      if (!places)
        return userError(module,
                         "rule \"" + rule.shown() +
                             "\" matches only ops that use the KV cache, which "
                             "all phases share",
                         "leave out \"" + rule.phase +
                             ":\" to move them in all phases");
    }
    return success();
  }

  /// Returns the last rule that covers `op`, or with `forAll` the last one that
  /// places all experts.
  static const PlacementRule *
  lastFor(Operation *op, ArrayRef<PlacementRule> parsed, bool forAll = false) {
    const PlacementRule *last = nullptr;
    for (const PlacementRule &rule : parsed)
      if (rule.covers(op) && !(forAll && rule.experts != 0))
        last = &rule;
    return last;
  }

  /// Splits routed experts if a rule places only some of them: the first ones,
  /// or the most used ones. A rule for all experts of a layer places the op as
  /// a whole.
  LogicalResult slice(ModuleOp module, ArrayRef<PlacementRule> parsed) {
    SmallVector<std::pair<ExpertsOp, const PlacementRule *>> sliced;
    WalkResult checked = module.walk([&](CostOpInterface op) {
      const PlacementRule *rule = lastFor(op, parsed);
      if (!rule || rule->experts == 0)
        return WalkResult::advance();
      auto experts = dyn_cast<ExpertsOp>(op.getOperation());
      if (!experts) {
        (void)userError(module,
                        "rule \"" + rule->shown() +
                            "\" places a number of experts, but matches " +
                            labelOf(op),
                        "name routed experts alone, as in "
                        "\"blk.*.ffn_experts=" +
                            rule->device + ":" + Twine(rule->experts) + "\"");
        return WalkResult::interrupt();
      }
      if (rule->experts > expertCount(experts)) {
        (void)userError(module,
                        "rule \"" + rule->shown() + "\" places " +
                            Twine(rule->experts) + " experts, but " +
                            labelOf(op) + " has " + Twine(expertCount(experts)),
                        "give a number from 1 to " +
                            Twine(expertCount(experts)));
        return WalkResult::interrupt();
      }
      if (rule->experts < expertCount(experts))
        sliced.push_back({experts, rule});
      return WalkResult::advance();
    });
    WeightTable weights(module);
    for (auto [op, rule] : sliced) {
      const PlacementRule *others = lastFor(op, parsed, /*forAll=*/true);
      SlicedExperts sliced =
          sliceExperts(op, hottestExperts(op, rule->experts), weights);
      set(sliced.first, *rule, "");
      if (others)
        set(sliced.rest, *others, "");
    }
    return failure(checked.wasInterrupted());
  }

  void placeOp(Operation *op, ArrayRef<PlacementRule> parsed) {
    if (fileTableOf(op))
      return; // moe-place-devices keeps it on the host.
    if (auto experts = dyn_cast<ExpertsOp>(op);
        experts && experts.getSliceAttr())
      return; // slice() has placed the op by the label that it had before.
    const PlacementRule *last = lastFor(op, parsed);
    std::optional<int64_t> layer = cacheOf(op);
    if (!layer)
      return last ? set(op, *last, "") : void();
    if (auto found = ruleOfCache.find(*layer); found != ruleOfCache.end())
      set(op, parsed[found->second], ", with its layer's cache");
    else if (last)
      appendReason(op, "It stays with its layer's cache, which all phases "
                       "share: the rule '" +
                           last->text + "' does not move it.");
  }

  void set(Operation *op, const PlacementRule &rule, StringRef ofWhat) {
    set(op, rule.device,
        "the rule '" + rule.shown() + "' asks for it" + ofWhat);
  }

  void set(Operation *op, StringRef device, const Twine &why) {
    op->setAttr(kDeviceAttr, StringAttr::get(&getContext(), device));
    appendReason(op, "On " + device + ": " + why + ".");
    ++numPlaced;
  }

  /// For each layer: the rule that decides about its cache, and why.
  using DecisionsOfCaches = llvm::DenseMap<int64_t, TensorDevices::Decision>;

  static bool isOfAttentionRule(const DecisionsOfCaches &ofCache,
                                int64_t layer) {
    const TensorRule *rule = ofCache.lookup(layer).rule;
    return rule && rule->attentionOf;
  }

  /// Lets a decision place the cache of a layer. Another one may have placed it
  /// before, on the same device.
  static LogicalResult decideCache(ModuleOp module, int64_t layer,
                                   const TensorDevices::Decision &decision,
                                   DecisionsOfCaches &ofCache) {
    auto [known, isNew] = ofCache.try_emplace(layer, decision);
    const TensorDevices::Decision &first = known->second;
    if (first.rule->device == decision.rule->device)
      return success();
    return userError(
        module,
        "\"" + first.rule->text + "\" puts " + first.tensor + " on " +
            first.rule->device + ", and \"" + decision.rule->text + "\" puts " +
            decision.tensor + " on " + decision.rule->device +
            ", but both work on the cache of layer " + std::to_string(layer),
        "give them the same device");
  }

  /// Decides about the caches of layers that have a rule about attention.
  LogicalResult placeAttention(ModuleOp module, ArrayRef<TensorRule> rules,
                               DecisionsOfCaches &ofCache) {
    llvm::DenseMap<int64_t, const TensorRule *> ruleOf;
    for (const TensorRule &rule : rules)
      ruleOf.try_emplace(*rule.attentionOf, &rule);
    WalkResult walked = module.walk([&](CostOpInterface op) {
      std::optional<int64_t> cache = cacheOf(op), layer = layerOf(op);
      const TensorRule *rule = cache && layer ? ruleOf.lookup(*layer) : nullptr;
      if (rule &&
          failed(decideCache(module, *cache,
                             {rule, "the attention of its layer"}, ofCache)))
        return WalkResult::interrupt();
      return WalkResult::advance();
    });
    return failure(walked.wasInterrupted());
  }

  /// Applies the rules about tensors to ops that have no device yet. All ops
  /// that use a layer's cache follow the first of them that a rule places.
  LogicalResult placeTensors(ModuleOp module, const moec::TargetDesc &target) {
    std::vector<std::string> texts(tensorRules.begin(), tensorRules.end());
    if (cpuMoeLayers != 0) {
      if (hasExperts(module))
        texts.push_back(cpuMoeRule(cpuMoeLayers));
      else
        addNote(module, "the model has no experts, so --n-cpu-moe changes "
                        "nothing");
    }
    if (texts.empty())
      return success();
    auto parsed = parseTensorRules(module, target, texts);
    if (failed(parsed))
      return failure();
    // Rules about attention first, the others in their order.
    auto others =
        std::ranges::stable_partition(*parsed, [](const TensorRule &rule) {
          return rule.attentionOf.has_value();
        }).begin();
    auto devices = TensorDevices::create(
        module, ArrayRef<TensorRule>(others, parsed->end()),
        allowUnmatchedRules);
    if (failed(devices))
      return failure();
    DecisionsOfCaches ofCache;
    if (failed(placeAttention(
            module, ArrayRef<TensorRule>(parsed->begin(), others), ofCache)))
      return failure();
    SmallVector<std::pair<Operation *, TensorDevices::Decision>> decisions;
    LogicalResult result = success();
    module.walk([&](CostOpInterface op) {
      if (fileTableOf(op))
        return WalkResult::advance();
      std::optional<int64_t> layer = cacheOf(op);
      if (layer && isOfAttentionRule(ofCache, *layer)) {
        decisions.push_back({op.getOperation(), {}});
        return WalkResult::advance();
      }
      auto decision = devices->of(op);
      if (failed(decision)) {
        result = failure();
        return WalkResult::interrupt();
      }
      decisions.push_back({op.getOperation(), *decision});
      if (layer && decision->rule)
        result = decideCache(module, *layer, *decision, ofCache);
      return failed(result) ? WalkResult::interrupt() : WalkResult::advance();
    });
    for (auto &[op, decision] : decisions) {
      if (failed(result))
        break;
      std::optional<int64_t> layer = cacheOf(op);
      TensorDevices::Decision own = layer ? ofCache.lookup(*layer) : decision;
      if (own.rule)
        result = placeTensor(module, op, own);
    }
    if (succeeded(result))
      noteFollowers(module, *devices, decisions, ofCache);
    return result;
  }

  using Decisions = ArrayRef<std::pair<Operation *, TensorDevices::Decision>>;

  /// Says which rules move the attention of layers and its cache, though they
  /// name only some of its tensors: who keeps a tensor off a GPU may not mean
  /// that.
  void noteFollowers(ModuleOp module, const TensorDevices &devices,
                     Decisions decisions, const DecisionsOfCaches &ofCache) {
    auto isOfAttention = [](StringRef tensor) {
      return tensor.contains(".attn_") && !tensor.contains("norm");
    };
    // Layers of which a rule places some of attention's tensors alone.
    llvm::DenseMap<int64_t, TensorDevices::Decision> partly;
    for (auto [op, decision] : decisions) {
      std::optional<int64_t> layer = layerOf(op);
      auto found = layer ? ofCache.find(*layer) : ofCache.end();
      if (found == ofCache.end() || !devices.reads(op, isOfAttention))
        continue;
      // A file names its modules one by one.
      if (found->second.rule->isOfFile)
        continue;
      StringRef device = found->second.rule->device;
      if (!decision.rule || decision.rule->device != device)
        partly.try_emplace(*layer, found->second);
    }
    SmallVector<std::pair<const TensorRule *, int64_t>> layersOf;
    for (auto &[layer, decision] : partly) {
      auto known = llvm::find_if(layersOf, [rule = decision.rule](auto &each) {
        return each.first == rule;
      });
      if (known == layersOf.end())
        layersOf.push_back({decision.rule, 1});
      else
        ++known->second;
    }
    SmallVector<Attribute> followed;
    for (auto [rule, layers] : layersOf) {
      addNote(module,
              "tensor rule \"" + rule->text +
                  "\" also moves the attention of " +
                  moert::counted(uint64_t(layers), "layer") +
                  " with its cache to " + rule->device +
                  ": an op runs where a tensor that it reads is placed");
      followed.push_back(StringAttr::get(&getContext(), rule->text));
    }
    if (!followed.empty())
      module->setAttr(kFollowedRulesAttr,
                      ArrayAttr::get(&getContext(), followed));
  }

  LogicalResult placeTensor(ModuleOp module, Operation *op,
                            const TensorDevices::Decision &decision) {
    if (auto device = op->getAttrOfType<StringAttr>(kDeviceAttr)) {
      // A rule about ops already placed this op; it may agree.
      if (device.getValue() == decision.rule->device)
        return success();
      return userError(
          module,
          "\"" + decision.rule->text + "\" puts " + decision.tensor + " on " +
              decision.rule->device + ", but " + labelOf(op) +
              (decision.rule->attentionOf ? ", which is part of it, is on "
                                          : ", which reads it, is on ") +
              device.getValue() + " by a rule about ops",
          "leave one of them out");
    }
    set(op, decision.rule->device,
        "the rule '" + decision.rule->text + "' asks for " + decision.tensor);
    return success();
  }

  /// Implements --n-gpu-layers: the last layers, and the head if more layers
  /// are requested than there are, go to GPUs as runs in proportion to their
  /// memory. All other ops without a device go to the host.
  LogicalResult placeLayers(ModuleOp module, const moec::TargetDesc &target) {
    size_t gpus = target.gpuCount();
    // A user who compiles for a machine by its name may have meant another
    // machine.
    if (gpus == 0 && gpuLayers > 0 && target.name == "native")
      addNote(module, "this machine has no GPU, so --n-gpu-layers changes "
                      "nothing");
    else if (gpus == 0 && gpuLayers > 0)
      return userError(module,
                       target.name + " has no GPU for the requested layers",
                       "use a target such as 4090+xeon, or leave the number of "
                       "layers out");
    int64_t layers = 0;
    module.walk([&](CostOpInterface op) {
      if (std::optional<int64_t> layer = layerOf(op))
        layers = std::max(layers, *layer + 1);
    });
    int64_t first = std::max<int64_t>(0, layers - gpuLayers);
    double memory = 0;
    for (size_t gpu = 0; gpu < gpus; ++gpu)
      memory += double(target.devices[gpu].budgetBytes());
    auto deviceOf = [&](int64_t layer) -> const moec::DeviceDesc & {
      if (layer < first || gpus == 0)
        return target.host();
      double share = (double(layer - first) + 0.5) / double(layers - first);
      size_t gpu = 0;
      double upTo = double(target.devices[0].budgetBytes()) / memory;
      while (gpu + 1 < gpus && share > upTo)
        upTo += double(target.devices[++gpu].budgetBytes()) / memory;
      return target.devices[gpu];
    };
    module.walk([&](CostOpInterface op) {
      if (op->hasAttr(kDeviceAttr) || fileTableOf(op))
        return;
      std::optional<int64_t> layer = layerOf(op);
      bool head =
          !layer && !isa<EmbeddingOp>(op.getOperation()) && gpuLayers > layers;
      // An op that reads another layer's cache follows that layer.
      const moec::DeviceDesc &device =
          layer  ? deviceOf(cacheOf(op).value_or(*layer))
          : head ? deviceOf(layers - 1)
                 : target.host();
      set(op, device.name,
          std::to_string(std::min<int64_t>(gpuLayers, layers)) + " of " +
              moert::counted(uint64_t(layers), "layer") + " are to be on GPUs");
    });
    return success();
  }
};

} // namespace
