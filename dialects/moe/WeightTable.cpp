#include "dialects/moe/WeightTable.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::moe;

SmallVector<WeightOp> WeightTable::partsOf(WeightOp weight) const {
  return llvm::map_to_vector(
      weight.getPartSymbols(),
      [&](FlatSymbolRefAttr part) { return lookup(part.getAttr()); });
}

std::optional<StoredBytes> WeightTable::locate(WeightOp weight) const {
  auto parts = weight.getPartSymbols();
  std::optional<StoredBytes> part;
  if (!parts.empty())
    part = locate(lookup((*parts.begin()).getAttr()));
  return weight.getSource().locate(weight.getTensorType(), part);
}

WeightOp WeightTable::residentOf(WeightOp weight) const {
  while (weight.getSource().keepsWholePart(weight.getTensorType()))
    weight = partsOf(weight).front();
  return weight;
}

WeightTable::Added WeightTable::add(const Twine &name,
                                    WeightSourceInterface source,
                                    ArrayRef<WeightOp> parts,
                                    RankedTensorType type) {
  OpBuilder builder(source.getContext());
  ArrayAttr partSymbols = builder.getArrayAttr(
      llvm::map_to_vector(parts, [](WeightOp part) -> Attribute {
        return FlatSymbolRefAttr::get(part.getSymNameAttr());
      }));
  std::string symbol = name.str();
  for (int64_t number = 1; Operation *other = symbols_.lookup(symbol);
       ++number) {
    auto known = dyn_cast<WeightOp>(other);
    if (known && known.getSource() == source &&
        known.getParts() == partSymbols && known.getTensorType() == type)
      return {known, false};
    symbol = (name + "_" + Twine(number)).str();
  }
  WeightOp before = parts.empty() ? last_ : WeightOp(parts.back());
  // Weights made of one part stay in the order in which they are added.
  if (!parts.empty())
    for (auto next = dyn_cast_or_null<WeightOp>(before->getNextNode());
         next &&
         llvm::is_contained(next.getParts(), partSymbols.getValue().back());
         next = dyn_cast_or_null<WeightOp>(next->getNextNode()))
      before = next;
  if (before)
    builder.setInsertionPointAfter(before);
  else
    builder.setInsertionPointToStart(&symbols_.getOp()->getRegion(0).front());
  auto weight =
      builder.create<WeightOp>(NameLoc::get(builder.getStringAttr(symbol)),
                               symbol, source, partSymbols, type);
  symbols_.insert(weight);
  if (before == last_)
    last_ = weight;
  return {weight, true};
}

void WeightTable::erase(WeightOp weight) {
  if (weight == last_)
    last_ = dyn_cast_or_null<WeightOp>(weight->getPrevNode());
  symbols_.erase(weight);
}

SmallVector<StringAttr> moe::fileTensorsOf(ModuleOp module) {
  SmallVector<StringAttr> names;
  for (WeightOp weight : module.getOps<WeightOp>())
    if (weight.isFileTensor())
      names.push_back(weight.getSymNameAttr());
  return names;
}
