#include "compiler/Machine/Targets/TargetAttr.h"
#include "llvm/ADT/DenseMap.h"
#include "passes/moe/Passes.h"
#include "passes/moe/Support.h"

namespace mlir::moe {
#define GEN_PASS_DEF_INSERTTRANSFERSPASS
#include "passes/moe/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Inserts the copies of one function.
class Transfers {
public:
  explicit Transfers(StringAttr host) : host(host) {}

  LogicalResult insert(func::FuncOp function) {
    for (Operation &op :
         llvm::make_early_inc_range(function.getBody().front())) {
      StringAttr device = isa<func::ReturnOp>(op)
                              ? host
                              : op.getAttrOfType<StringAttr>(kDeviceAttr);
      if (!device) {
        if (isa<CostOpInterface>(op))
          return op.emitError() << labelOf(&op) << " has no " << kDeviceAttr
                                << "; run moe-place-devices first";
        continue;
      }
      for (OpOperand &operand : op.getOpOperands())
        if (failed(bring(operand, device)))
          return failure();
    }
    return success();
  }

  int64_t count() const { return count_; }

private:
  LogicalResult bring(OpOperand &operand, StringAttr device) {
    Value value = operand.get();
    if (isWeight(value))
      return success();
    Operation *producer = value.getDefiningOp();
    StringAttr from = producer ? deviceOfResult(producer) : host;
    if (!from || from == device)
      return success();
    if (!isa<RankedTensorType>(value.getType()))
      return operand.getOwner()->emitError()
             << labelOf(operand.getOwner()) << " is on " << device
             << " but its cache is on " << from
             << "; an attention stays with the op that appends to its cache";
    Value &copy = copies[{value, device}];
    if (!copy)
      copy = create(value, from, device, operand.getOwner());
    operand.set(copy);
    return success();
  }

  /// Inserts the copy right after its producer, so that it overlaps with the
  /// following ops. The result of a deferred op is copied right before its
  /// first user instead, so that the copy delays no other op.
  Value create(Value value, StringAttr from, StringAttr to, Operation *user) {
    OpBuilder builder(user);
    Operation *producer = value.getDefiningOp();
    bool isDeferred = producer && producer->hasAttr(kDeferredAttr);
    if (!isDeferred)
      builder.setInsertionPointAfterValue(value);
    auto transfer = builder.create<TransferOp>(value.getLoc(), value, from, to);
    // The queue of a GPU performs the copy; between two GPUs, the receiving
    // one.
    transfer->setAttr(kDeviceAttr, to == host ? from : to);
    if (isDeferred)
      transfer->setAttr(kDeferredAttr, builder.getUnitAttr());
    auto label =
        producer ? producer->getAttrOfType<LabelAttr>(kLabelAttr) : LabelAttr();
    if (!label)
      label = LabelAttr::get(value.getContext(),
                             producer ? producer->getName().getIdentifier()
                                      : builder.getStringAttr("input"),
                             LabelAttr::kNoLayer);
    // The results of a router (ids, weights) are copied separately, so each
    // copy needs its own label.
    if (auto result = dyn_cast<OpResult>(value);
        result && result.getResultNumber() > 0)
      label = label.of(std::to_string(result.getResultNumber()));
    transfer->setAttr(kLabelAttr, label.of(("to_" + to.getValue()).str()));
    auto type = cast<RankedTensorType>(value.getType());
    int64_t bytes = type.getElementTypeBitWidth() / 8;
    for (int64_t dim : type.getShape())
      bytes *= ShapedType::isDynamic(dim) ? 1 : dim;
    appendReason(transfer, "Copies " + formatTraffic(bytes) +
                               " per token from " + from.getValue() + " to " +
                               to.getValue() + ".");
    ++count_;
    return transfer;
  }

  StringAttr host;
  llvm::DenseMap<std::pair<Value, Attribute>, Value> copies;
  int64_t count_ = 0;
};

struct InsertTransfers : moe::impl::InsertTransfersPassBase<InsertTransfers> {
  using InsertTransfersPassBase::InsertTransfersPassBase;

  void runOnOperation() override {
    auto target = moec::targetOf(getOperation());
    if (failed(target))
      return signalPassFailure();
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>()) {
      Transfers transfers(StringAttr::get(&getContext(), target->host().name));
      if (failed(transfers.insert(function)))
        return signalPassFailure();
      numTransfers += transfers.count();
    }
  }
};

} // namespace
