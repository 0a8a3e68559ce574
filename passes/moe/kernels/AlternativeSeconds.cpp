#include "passes/moe/kernels/AlternativeSeconds.h"

using namespace mlir;
using namespace mlir::moe;

void moe::reject(Operation *op, const Rejection &rejection) {
  SmallVector<Attribute> list;
  if (auto before = op->getAttrOfType<ArrayAttr>(kRejectedAttr))
    llvm::append_range(list, before);
  MLIRContext *context = op->getContext();
  auto text = [&](const Twine &value) {
    return StringAttr::get(context, value);
  };
  list.push_back(RejectedAttr::get(
      context, rejection.kind, text(rejection.name), text(rejection.of),
      rejection.seconds, text(rejection.chosen), rejection.chosenSeconds,
      text(rejection.reason)));
  op->setAttr(kRejectedAttr, ArrayAttr::get(context, list));
}

const moec::Situation &
AlternativeSeconds::situationOf(Operation *op, const moec::DeviceDesc &device) {
  auto function = op->getParentOfType<func::FuncOp>();
  auto [known, isNew] =
      situations.try_emplace({function.getOperation(), &device});
  if (isNew)
    known->second =
        moe::situationOf(function, typicalStep(phaseOf(function)), device);
  return known->second;
}

double AlternativeSeconds::of(Operation *op, const moec::DeviceDesc &device) {
  double seconds = opSeconds(op, situationOf(op, device), device,
                             mayLayOut(device, mayPack));
  return seconds < kNeverSeconds ? seconds : -1;
}

void AlternativeSeconds::rejectDevice(Operation *op,
                                      const moec::DeviceDesc &device,
                                      const moec::DeviceDesc &chosen,
                                      const std::string &reason) {
  reject(op, {Alternative::Device, device.name, "", of(op, device), chosen.name,
              of(op, chosen), reason});
}
