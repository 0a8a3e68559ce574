//===- MoeCost.cpp - Sums and terms of the work of ops --------------------===//
//
// Each op counts its own work in getInstructions() (MoeWork.h).
//
//===----------------------------------------------------------------------===//

#include "dialects/moe/Instruction.h"
#include "dialects/moe/MoeWork.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

PhaseAttr moe::phaseOf(Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto phase = op->getAttrOfType<PhaseAttr>(kPhaseAttr))
      return phase;
  return {};
}

int64_t moe::sequencesOf(Operation *op, int64_t tokens) {
  PhaseAttr phase = phaseOf(op);
  return phase ? std::clamp<int64_t>(tokens, 1, phase.getSequences()) : 1;
}

bool moe::isWeight(Value value) {
  return isa_and_nonnull<WeightRefOp>(value.getDefiningOp());
}

Value moe::fileTableOf(Operation *op) {
  auto reader = dyn_cast<FileRowsOpInterface>(op);
  return reader ? reader.getFileTable() : Value();
}

double moe::fileReadsOf(Operation *op) {
  double reads = 0;
  if (auto lowerable = dyn_cast<LowerableOpInterface>(op))
    for (const Instruction &instruction : lowerable.getInstructions({}))
      reads += instruction.work.fileReads;
  return reads;
}

int64_t moe::sumWeightBytes(Operation *op) {
  int64_t bytes = 0;
  for (Value operand : op->getOperands())
    if (isWeight(operand) && operand != fileTableOf(op))
      bytes += getTensorBytes(cast<RankedTensorType>(operand.getType()));
  return bytes;
}

void Choices::forEach(llvm::function_ref<void(double, double)> visit) const {
  if (shares.empty())
    return visit(matrices, chance);
  for (float share : shares)
    visit(1, std::min(chance * double(share), 1.0));
}

double Choices::chosen() const {
  double sum = 0;
  forEach([&](double count, double chance) {
    sum += count * (1 - std::pow(1 - chance, double(tokens)));
  });
  return sum;
}

double Product::elements() const {
  auto type = cast<RankedTensorType>(weight.getType());
  double outer = type.getRank() > 2 ? double(type.getDimSize(0)) : 1;
  return matrices / outer * double(type.getNumElements());
}

double Product::bytes() const {
  auto type = cast<RankedTensorType>(weight.getType());
  double outer = type.getRank() > 2 ? double(type.getDimSize(0)) : 1;
  return matrices / outer * bytesOf(weight);
}

Cost InstructionWork::cost() const {
  Cost cost{ops, weightBytes, activationBytes, kvBytes};
  for (const Product &product : products) {
    cost.flops += product.flops();
    cost.weightBytes += product.bytes();
  }
  return cost;
}

SmallVector<WorkTerms> moe::workTerms(LowerableOpInterface op) {
  // The three unknowns are t = tokenOps, s = seenOps and r = rowOps. The three
  // steps take t + s + r, 2 t + 3 s + 2 r, and t + 2 s + 2 r operations. If
  // each token belongs to a different sequence, the second step takes twice the
  // first, and rows are counted as pairs. With a full window all operations are
  // tokenOps, so the terms overestimate steps before that.
  int64_t full = 0;
  if (auto attention = dyn_cast<GqaAttentionOp>(op.getOperation()))
    full = int64_t(attention.getWindow());
  else if (auto sparse = dyn_cast<SparseAttentionOp>(op.getOperation()))
    full = sparse.getMostPositions();
  Instructions one = op.getInstructions({1, full}),
               two = op.getInstructions({2, full}),
               behind = op.getInstructions({1, full + 1});
  SmallVector<WorkTerms> all;
  for (auto [a, b, c] : llvm::zip_equal(one, two, behind)) {
    Cost first = a.work.cost(), both = b.work.cost();
    WorkTerms terms;
    terms.seenOps = both.flops - 2 * first.flops;
    terms.rowOps = c.work.cost().flops - first.flops - terms.seenOps;
    terms.tokenOps = first.flops - terms.seenOps - terms.rowOps;
    terms.firstBytes = first.weightBytes;
    if (first.weightBytes > 0)
      terms.again =
          std::clamp(both.weightBytes / first.weightBytes - 1, 0.0, 1.0);
    // Sums of large counts may differ by a rounding.
    for (double *ops : {&terms.tokenOps, &terms.seenOps, &terms.rowOps})
      if (*ops < 1e-9 * first.flops)
        *ops = 0;
    all.push_back(terms);
  }
  return all;
}
