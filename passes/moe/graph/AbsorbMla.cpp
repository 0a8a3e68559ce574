#include "compiler/Machine/Targets/TargetAttr.h"
#include "dialects/moe/WeightTable.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Format.h"
#include "passes/moe/Passes.h"
#include "passes/moe/Support.h"
#include "passes/moe/graph/KeyUpCopy.h"
#include "passes/moe/kernels/KernelSelection.h"
#include "passes/moe/kernels/OpSeconds.h"

#include <array>
#include <map>

namespace mlir::moe {
#define GEN_PASS_DEF_ABSORBMLAPASS
#include "passes/moe/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {

StringRef formName(MlaForm form) {
  switch (form) {
  case MlaForm::None:
    return "none";
  case MlaForm::Factored:
    return "factored";
  case MlaForm::Folded:
    return "folded";
  case MlaForm::Auto:
  case MlaForm::Unset:
    break;
  }
  return "auto";
}

/// An attention op and the ops that its forms rewrite. `rotate` and `project`
/// are null unless q is rope(linear(x, wq)) and nothing else uses the
/// intermediate results; without them there is no weight to fold into.
struct Attention {
  MlaAttentionOp op;
  RopeOp rotate;
  LinearOp project;

  explicit Attention(MlaAttentionOp op) : op(op) {
    auto rotation = op.getQ().getDefiningOp<RopeOp>();
    if (!rotation || !rotation.getResult().hasOneUse())
      return;
    auto linear = rotation.getX().getDefiningOp<LinearOp>();
    if (!linear || !linear.getResult().hasOneUse() || linear.getBias() ||
        linear.getResidual() ||
        uint64_t(rotation.getHeads()) != uint64_t(op.getHeads()) ||
        uint64_t(rotation.getOffset()) != uint64_t(op.getNope()))
      return;
    rotate = rotation;
    project = linear;
  }
};

/// Builds the ops of one form in front of the attention op. New ops get the
/// label <attention>.<what they do>; ops that replace another one keep its
/// label.
class FormBuilder {
public:
  FormBuilder(const Attention &attention, const KeyUpCopy &keyUp,
              WeightTable &weights)
      : attention(attention), keyUp(keyUp), weights(weights), op(attention.op),
        builder(op) {}

  /// Builds `form` and returns the value that replaces the attention's result.
  Value build(MlaForm form) {
    switch (form) {
    case MlaForm::Factored:
      return expand(attend(absorb()));
    case MlaForm::Folded:
      return expand(attend(fold()));
    default:
      return op.getResult();
    }
  }

  /// Erases what build() created, before anything else uses it.
  void undo() {
    for (Operation *made : llvm::reverse(created))
      made->erase();
    if (computed.isNew)
      weights.erase(computed.weight);
  }

  /// All ops that build() created in the function.
  SmallVector<Operation *> created;
  /// The weight that packing computes for the form; null if it needs none.
  WeightTable::Added computed = {};

private:
  RankedTensorType rows(int64_t columns) {
    return RankedTensorType::get({ShapedType::kDynamic, columns},
                                 builder.getF32Type());
  }
  Value record(Operation *made, Operation *labelled, StringRef suffix = "") {
    if (auto label = labelled->getAttrOfType<LabelAttr>(kLabelAttr))
      made->setAttr(kLabelAttr, suffix.empty() ? label : label.of(suffix));
    created.push_back(made);
    return made->getResult(0);
  }
  int64_t latentRows() {
    return op.getHeads() * (op.getLatent() + op.getRope());
  }

  /// Returns the weight that `source` makes of `parts`, with the first part's
  /// symbol and a suffix as its symbol.
  Value compute(StringRef suffix, WeightSourceInterface source,
                ArrayRef<WeightOp> parts, RankedTensorType type) {
    WeightOp first = parts.front();
    computed = weights.add(first.getSymName() + suffix, source, parts, type);
    created.push_back(
        builder.create<WeightRefOp>(op.getLoc(), computed.weight));
    return created.back()->getResult(0);
  }

  Value absorb() {
    Value wk = op.getWk();
    if (keyUp.copy)
      wk = compute(".transposed", TransposeAttr::get(op.getContext()),
                   weights.of(wk), keyUp.copy);
    return record(builder.create<AbsorbQueryOp>(
                      op.getLoc(), rows(latentRows()), op.getQ(), wk,
                      op.getHeads(), op.getNope(), op.getRope(), op.getLatent(),
                      op.getKTransposed() || keyUp.copy),
                  op, "absorb_query");
  }

  Value fold() {
    LinearOp project = attention.project;
    RopeOp rotate = attention.rotate;
    auto type = cast<RankedTensorType>(project.getWeight().getType());
    // Computed weights are stored in 16 bits: in BF16, because products of W_UK
    // overflow FP16. An F32 model stays exact.
    Type element = type.getElementType().isF32() ? type.getElementType()
                                                 : builder.getBF16Type();
    Value weight = compute(
        ".folded",
        FoldQueryAttr::get(op.getContext(), op.getHeads(), op.getNope(),
                           op.getRope(), op.getLatent(), op.getKTransposed()),
        {weights.of(project.getWeight()), weights.of(op.getWk())},
        RankedTensorType::get({latentRows(), type.getDimSize(1)}, element));
    Value query = record(
        builder.create<LinearOp>(project.getLoc(), rows(latentRows()),
                                 project.getX(), weight, Value(), Value()),
        project);
    return record(builder.create<RopeOp>(rotate.getLoc(), query.getType(),
                                         query, op.getHeads(), op.getLatent(),
                                         rotate.getRope()),
                  rotate);
  }

  Value attend(Value query) {
    // Each token attends to its own selection of latents, so that every cache
    // entry covers one position.
    if (Value chosen = op.getChosen())
      return record(
          builder.create<SparseAttentionOp>(
              op.getLoc(), rows(op.getHeads() * op.getLatent()), query,
              /*kv=*/Value(), op.getKv(), chosen, /*sinks=*/Value(),
              op.getHeads(), op.getLatent() + op.getRope(), op.getLatent(),
              op.getScale(), /*window=*/0, /*ratio=*/1, op.getPool()),
          op, "latent");
    return record(builder.create<LatentAttentionOp>(
                      op.getLoc(), rows(op.getHeads() * op.getLatent()), query,
                      op.getKv(), op.getHeads(), op.getLatent(), op.getRope(),
                      op.getScale()),
                  op, "latent");
  }

  Value expand(Value latents) {
    return record(builder.create<ExpandValueOp>(
                      op.getLoc(), op.getResult().getType(), latents,
                      op.getWv(), op.getHeads(), op.getLatent(), op.getValue()),
                  op, "expand_value");
  }

  const Attention &attention;
  const KeyUpCopy &keyUp;
  WeightTable &weights;
  MlaAttentionOp op;
  OpBuilder builder;
};

/// Cost of one form in a phase's typical step, including the projection of q.
struct FormCost {
  MlaForm form;
  double seconds = 0;
  int64_t queryWeightBytes = 0; ///< Bytes of W_Q and W_UK, or their product.
};

constexpr std::array kForms = {MlaForm::None, MlaForm::Factored,
                               MlaForm::Folded};

/// How attention runs on some devices.
struct Way {
  MlaForm form;
  KeyUpCopy keyUp;
  SmallVector<Attribute> devices;                 ///< Names.
  SmallVector<std::string> reasons, keyUpReasons; ///< By device.

  bool computesTheSame(const Way &other) const {
    return form == other.form &&
           (form != MlaForm::Factored || keyUp.copy == other.keyUp.copy);
  }
};

struct AbsorbMla : moe::impl::AbsorbMlaPassBase<AbsorbMla> {
  using AbsorbMlaPassBase::AbsorbMlaPassBase;

  void runOnOperation() override {
    auto target = moec::targetOf(getOperation());
    if (failed(target))
      return signalPassFailure();
    formInDecode.clear();
    WeightTable table(getOperation());
    bool any = false;
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>()) {
      SmallVector<MlaAttentionOp> attentions;
      function.walk([&](MlaAttentionOp op) { attentions.push_back(op); });
      situations.clear();
      any |= !attentions.empty();
      for (MlaAttentionOp op : attentions)
        if (failed(rewrite(op, *target, table)))
          signalPassFailure(); // Goes on, so that every layer is reported.
    }
    if (!any && mla != MlaForm::Auto && mla != MlaForm::Unset) {
      (void)userError(getOperation(),
                      "--mla asks for the form " + formName(mla) +
                          ", but the model has no latent attention (MLA)",
                      "compile without --mla");
      signalPassFailure();
    }
  }

private:
  /// Returns the situation of the function's typical step on a device. It is
  /// cached, because it sums the weights of all layers.
  const moec::Situation &situationOn(const moec::DeviceDesc &device,
                                     MlaAttentionOp op) {
    auto [entry, isNew] = situations.try_emplace(&device);
    if (isNew)
      entry->second = situationOf(op->getParentOfType<func::FuncOp>(),
                                  typicalStep(phaseOf(op)), device);
    return entry->second;
  }

  llvm::DenseMap<const moec::DeviceDesc *, moec::Situation> situations;
  /// Form in decode, by device and label. A batch uses the same form, so that
  /// it shares the weights that are resident for decode.
  std::map<std::pair<const moec::DeviceDesc *, std::string>, MlaForm>
      formInDecode;

  MlaForm requestedForm(PhaseAttr phase) {
    MlaForm special = MlaForm::Unset;
    if (isDecode(phase.getKind()))
      special = decodeForm;
    else if (phase.getKind() == PhaseKind::Prefill)
      special = prefillForm;
    return special == MlaForm::Unset ? MlaForm(mla) : special;
  }

  LogicalResult rewrite(MlaAttentionOp op, const moec::TargetDesc &target,
                        WeightTable &table) {
    PhaseAttr phase = phaseOf(op);
    if (!phase)
      return op.emitError()
             << labelOf(op) << " is in a function without " << kPhaseAttr
             << "; run moe-specialize-phases first";
    Attention attention(op);
    MlaForm wanted = requestedForm(phase);
    if (wanted == MlaForm::Folded && failed(checkFoldable(attention)))
      return failure();
    if (wanted == MlaForm::None && op.getChosen())
      return userError(op,
                       labelOf(op) + ": the form none decompresses all cached "
                                     "positions, but an indexer chooses which "
                                     "positions this attention reads",
                       "use the factored form");
    SmallVector<Way> ways;
    for (const moec::DeviceDesc &device : target.devices)
      addWay(wayOn(attention, phase, wanted, device, target, table), ways);
    for (const Way &way : ways)
      op.emitRemark() << labelOf(op) << " in " << phase.getName().getValue()
                      << ": " << way.reasons.front();
    apply(attention, ways, table);
    return success();
  }

  /// Chooses the form for a device.
  Way wayOn(const Attention &attention, PhaseAttr phase, MlaForm wanted,
            const moec::DeviceDesc &device, const moec::TargetDesc &target,
            WeightTable &table) {
    MlaAttentionOp op = attention.op;
    // Attention never gets a device without kernels for it.
    bool runs = !op.getChosen() ||
                chooseKernel(moek::OpCode::SparseAttention, device.isa);
    const moec::DeviceDesc &by = runs ? device : target.host();
    Way way{wanted, chooseKeyUpCopy(op, by, weights), {}, {}, {}};
    std::string reason;
    auto decoded = formInDecode.find({&device, labelOf(op)});
    if (wanted != MlaForm::Auto && wanted != MlaForm::Unset) {
      reason = ("MLA form " + formName(wanted) + " as requested.").str();
    } else if (isBatch(phase.getKind()) && decoded != formInDecode.end()) {
      way.form = decoded->second;
      reason = ("MLA form " + formName(way.form) + " as in decode.").str();
    } else {
      way.form = cheapest(attention, way.keyUp, phase, by, table, reason);
    }
    if (phase.getKind() == PhaseKind::Decode)
      formInDecode[{&device, labelOf(op)}] = way.form;
    way.devices.push_back(StringAttr::get(&getContext(), device.name));
    way.keyUpReasons.push_back(way.keyUp.reason);
    way.reasons.push_back(std::move(reason));
    return way;
  }

  static void addWay(Way way, SmallVectorImpl<Way> &ways) {
    for (Way &known : ways)
      if (known.computesTheSame(way)) {
        known.devices.push_back(way.devices.front());
        known.reasons.push_back(way.reasons.front());
        known.keyUpReasons.push_back(way.keyUpReasons.front());
        return;
      }
    ways.push_back(std::move(way));
  }

  LogicalResult checkFoldable(const Attention &attention) {
    MlaAttentionOp op = attention.op;
    if (weights == WeightsMode::Reference)
      return userError(op,
                       labelOf(op) +
                           ": the folded form of attention needs weights that "
                           "are not in the model file, and weights=reference "
                           "forbids writing any",
                       "use the factored form");
    if (!attention.project)
      return userError(op,
                       labelOf(op) +
                           ": the folded form of attention needs queries that "
                           "are rope(linear(x, w)) with no other use of the "
                           "intermediate results",
                       "use the factored form");
    return success();
  }

  FormCost measure(const Attention &attention, const KeyUpCopy &keyUp,
                   MlaForm form, const moec::DeviceDesc &device,
                   WeightTable &table) {
    FormCost cost{form};
    const moec::Situation &situation = situationOn(device, attention.op);
    auto seconds = [&](Operation *op) {
      return opSeconds(op, situation, device,
                       weights != WeightsMode::Reference);
    };
    auto bytes = [](Value weight) {
      return getTensorBytes(cast<RankedTensorType>(weight.getType()));
    };

    MlaAttentionOp op = attention.op;
    FormBuilder forms(attention, keyUp, table);
    forms.build(form);
    if (form == MlaForm::None)
      cost.seconds += seconds(op);
    // Only the folded form replaces the projection and its rotation.
    if (LinearOp project = attention.project;
        project && form != MlaForm::Folded) {
      cost.seconds += seconds(project) + seconds(attention.rotate);
      cost.queryWeightBytes = bytes(project.getWeight()) + bytes(op.getWk());
    }
    for (Operation *made : forms.created)
      cost.seconds += seconds(made);
    // The folded weight replaces both, a transposed copy only W_UK.
    if (WeightOp computed = forms.computed.weight)
      cost.queryWeightBytes +=
          getTensorBytes(computed.getTensorType()) -
          (form == MlaForm::Folded ? 0 : bytes(op.getWk()));
    forms.undo();
    return cost;
  }

  MlaForm cheapest(const Attention &attention, const KeyUpCopy &keyUp,
                   PhaseAttr phase, const moec::DeviceDesc &device,
                   WeightTable &table, std::string &reason) {
    TypicalStep step = typicalStep(phase);
    bool canFold = attention.project && weights != WeightsMode::Reference;
    SmallVector<FormCost> costs;
    MlaAttentionOp op = attention.op;
    for (MlaForm candidate : kForms) {
      if (candidate == MlaForm::None && op.getChosen())
        continue;
      if (candidate != MlaForm::Folded || canFold)
        costs.push_back(measure(attention, keyUp, candidate, device, table));
    }
    const FormCost *best = &costs.front();
    for (const FormCost &cost : costs)
      if (cost.seconds < best->seconds)
        best = &cost;

    llvm::raw_string_ostream os(reason);
    os << "MLA form " << formName(best->form) << ": "
       << formatSeconds(best->seconds) << " on " << device.name << " for "
       << step.tokens << (step.tokens == 1 ? " token" : " tokens") << " after "
       << step.cached << " cached";
    for (const FormCost &cost : costs)
      if (cost.form != best->form)
        os << ", " << formName(cost.form) << " " << formatSeconds(cost.seconds);
    os << ".";
    if (canFold) {
      const FormCost &folded = costs.back(), &factored = *(&folded - 1);
      os << " folded " << (best == &folded ? "chosen" : "rejected") << ": "
         << formatTraffic(folded.queryWeightBytes)
         << " of query weights per layer instead of "
         << formatTraffic(factored.queryWeightBytes) << ".";
    } else if (weights == WeightsMode::Reference) {
      os << " folded not available: weights=reference forbids computed "
            "weights.";
    } else {
      os << " folded not available: the queries are not rope(linear(x, w)).";
    }
    return best->form;
  }

  void apply(const Attention &attention, ArrayRef<Way> ways,
             WeightTable &table) {
    MlaAttentionOp op = attention.op;
    LinearOp projection = attention.project;
    RopeOp rotation = attention.rotate;
    Operation *project = projection, *rotate = rotation;
    SmallVector<Value> results;
    SmallVector<Attribute> devicesOfWays, projecting;
    bool projectsAlways = true, keeps = false;
    for (const Way &way : ways) {
      FormBuilder forms(attention, way.keyUp, table);
      results.push_back(forms.build(way.form));
      if (way.form == MlaForm::None)
        forms.created.push_back(op);
      keeps |= way.form == MlaForm::None;
      bool folds = way.form == MlaForm::Folded;
      projectsAlways &= !folds;
      if (!folds)
        llvm::append_range(projecting, way.devices);
      for (Operation *made : forms.created) {
        if (isa<CostOpInterface>(made))
          giveReasons(made, way);
        if (ways.size() > 1)
          made->setAttr(kOnlyOnAttr,
                        ArrayAttr::get(&getContext(), way.devices));
      }
      (way.form == MlaForm::None ? numNone
       : folds                   ? numFolded
                                 : numFactored) += 1;
      if (way.form == MlaForm::Factored && forms.computed.weight)
        ++numTransposed;
      devicesOfWays.push_back(ArrayAttr::get(&getContext(), way.devices));
    }
    // Only the folded form replaces the projection and its rotation.
    bool projectsNever = projecting.empty();
    if (!projectsAlways && !projectsNever)
      for (Operation *made : {project, rotate})
        made->setAttr(kOnlyOnAttr, ArrayAttr::get(&getContext(), projecting));
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    if (ways.size() > 1) {
      auto all = builder.create<AlternativesOp>(
          op.getLoc(), op.getResult().getType(), results,
          builder.getArrayAttr(devicesOfWays));
      op.getResult().replaceAllUsesExcept(all.getResult(), all);
    } else if (!keeps) {
      op.getResult().replaceAllUsesWith(results.front());
    }
    if (!keeps)
      op.erase();
    if (projectsNever) {
      rotate->erase();
      project->erase();
    }
  }

  /// Says why the op has this form, on whichever device it will be.
  static void giveReasons(Operation *op, const Way &way) {
    SmallVector<NamedAttribute> reasons;
    for (auto [device, form, keyUp] :
         llvm::zip_equal(way.devices, way.reasons, way.keyUpReasons)) {
      std::string text = form;
      if (isa<AbsorbQueryOp>(op) && !keyUp.empty())
        text += " " + keyUp;
      reasons.emplace_back(cast<StringAttr>(device),
                           StringAttr::get(op->getContext(), text));
    }
    if (llvm::all_equal(llvm::map_range(
            reasons, [](NamedAttribute reason) { return reason.getValue(); })))
      return appendReason(
          op, cast<StringAttr>(reasons.front().getValue()).getValue());
    op->setAttr(kReasonOnAttr, DictionaryAttr::get(op->getContext(), reasons));
  }
};

} // namespace
