//===- Moe.h - The moe dialect ----------------------------------*- C++ -*-===//

#ifndef MOE_DIALECTS_MOE_MOE_H
#define MOE_DIALECTS_MOE_MOE_H

#include "dialects/moe/PlanStep.h"
#include "dialects/moe/Weights.h"
#include "kernels/Types.h"
#include "kernels/quant/Format.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "runtime/schema/PhaseKind.h"

#include <optional>

namespace moek {
struct KernelInfo;
struct GemmInfo;
} // namespace moek

namespace mlir::moe {

/// A double as a parameter of attributes: hashed and compared by value.
class Real {
public:
  Real(double value = 0) : value(value) {}
  operator double() const { return value; }
  friend llvm::hash_code hash_value(Real real) {
    return llvm::hash_value(llvm::bit_cast<uint64_t>(real.value + 0.0));
  }

private:
  double value;
};

/// Reads a finite decimal number.
FailureOr<Real> parseReal(AsmParser &parser);
/// `[1.0, 2.5]`.
FailureOr<SmallVector<Real>> parseReals(AsmParser &parser);
void printReals(AsmPrinter &printer, ArrayRef<Real> values);

/// Work and traffic of one execution of an op.
struct Cost {
  double flops = 0;
  double weightBytes = 0;
  double activationBytes = 0;
  double kvBytes = 0;

  Cost &operator+=(const Cost &other) {
    flops += other.flops;
    weightBytes += other.weightBytes;
    activationBytes += other.activationBytes;
    kvBytes += other.kvBytes;
    return *this;
  }
};

/// Matrices that the tokens of a step choose, each for itself.
struct Choices {
  int64_t tokens = 0; ///< 0: nothing is chosen.
  double matrices = 0;
  double chance = 0; ///< That a token chooses one of them.
  /// Where they are not alike: of each, in parts of `chance`.
  ArrayRef<float> shares = {};

  /// Calls visit(how many matrices, their chance).
  void forEach(llvm::function_ref<void(double, double)> visit) const;
  /// How many are chosen at all.
  double chosen() const;
};

/// Matrices of a weight, each multiplied with rows of activations.
struct Product {
  Value weight;    ///< [..., rows, columns]
  double matrices; ///< Those of the outer dimension that a step reads.
  double rows;     ///< Of activations, that each of them is multiplied with.

  double elements() const; ///< Of the weight, that are read.
  double bytes() const;    ///< The same as they are stored in the model.
  double flops() const { return 2 * rows * elements(); }
};

/// What one instruction of an op does in a step.
struct StepWork {
  SmallVector<Product, 1> products;
  /// Where tokens choose the products' matrices, whose rows are then a mean.
  Choices choices = {};
  double ops = 0;         ///< Arithmetic besides the products.
  double weightBytes = 0; ///< Besides the products' matrices.
  double activationBytes = 0, kvBytes = 0;
  moek::KvType kvType = moek::KvType::BF16; ///< Of the cache that it reads.
  int64_t window = 0; ///< Rows of the cache that a token sees; 0: all.

  Cost cost() const;
};

Cost sumWork(ArrayRef<StepWork> works);

/// FLOPs and bytes of weights of an instruction in a step of any size, as plans
/// record them (runtime/schema/plan.fbs, Work).
struct WorkTerms {
  double tokenOps = 0; ///< Of each token.
  double seenOps = 0;  ///< Of each pair of a token and a row that it sees.
  double rowOps = 0;   ///< Of each row that is seen at all.
  double firstBytes = 0, again = 0;

  bool isNone() const {
    return tokenOps == 0 && seenOps == 0 && rowOps == 0 && firstBytes == 0;
  }
};

class CostOpInterface;

/// What getWork() says of steps of all sizes: found from three small ones.
SmallVector<WorkTerms> workTerms(CostOpInterface op);

/// The format of a tensor's element type, or none if no kernel reads it.
std::optional<moek::Format> getFormat(Type elementType);
/// The element type of a format; null for formats known by size only.
Type getElementType(MLIRContext *context, moek::Format format);
/// Bytes of a static tensor of any supported format.
int64_t getTensorBytes(RankedTensorType type);
/// Sum of getTensorBytes over the operands of `op` that are weights.
int64_t sumWeightBytes(Operation *op);
/// Whether `value` is a weight of the module, the result of a moe.weight_ref.
bool isWeight(Value value);
/// The symbol of the weight that `value` refers to.
StringAttr weightSymbol(Value value);

/// Names of the discardable attributes that passes record decisions in.
inline constexpr llvm::StringLiteral kLabelAttr = "moe.label";
inline constexpr llvm::StringLiteral kDeviceAttr = "moe.device";
inline constexpr llvm::StringLiteral kKernelsAttr = "moe.kernels";
inline constexpr llvm::StringLiteral kReasonAttr = "moe.reason";
/// A list of #moe.rejected.
inline constexpr llvm::StringLiteral kRejectedAttr = "moe.rejected";
/// On what nobody waits for before the next layer's experts (passes/moe/
/// DeferExperts.cpp): what others wait for goes first.
inline constexpr llvm::StringLiteral kDeferredAttr = "moe.deferred";
/// A moe.experts with this attribute runs on a device that keeps none of its
/// matrices and copies them over the link in each step.
inline constexpr llvm::StringLiteral kStreamedAttr = "moe.streamed";
/// On a module with devices: the seconds that moe-place-devices predicts for
/// the request that the placement is to be fast at.
inline constexpr llvm::StringLiteral kRequestSecondsAttr =
    "moe.request_seconds";
/// On a module: attention is kept on the host (moe-keep-attention-on-host).
inline constexpr llvm::StringLiteral kAttentionOnHostAttr =
    "moe.attention_on_host";
/// On functions: the #moe.phase they are compiled for.
inline constexpr llvm::StringLiteral kPhaseAttr = "moe.phase";
/// On the module: model facts (a dictionary), file list, target description.
inline constexpr llvm::StringLiteral kModelAttr = "moe.model";
inline constexpr llvm::StringLiteral kFilesAttr = "moe.files";
inline constexpr llvm::StringLiteral kTargetAttr = "moe.target";
inline constexpr llvm::StringLiteral kNotesAttr = "moe.notes";
/// On the module: the rows of each layer's cache, for all sequences.
inline constexpr llvm::StringLiteral kKvRowsAttr = "moe.kv_rows";
/// What users call `op`: the text of its kLabelAttr, else the op's name.
std::string labelOf(Operation *op);
/// The layer of its kLabelAttr.
std::optional<int64_t> layerOf(Operation *op);
/// Sequences that `tokens` tokens of a step of the function around `op` belong
/// to, as its #moe.phase says.
int64_t sequencesOf(Operation *op, int64_t tokens);

} // namespace mlir::moe

#include "dialects/moe/MoeDialect.h.inc"
#include "dialects/moe/MoeEnums.h.inc"
#include "dialects/moe/MoeOpInterfaces.h.inc"
#include "dialects/moe/MoeTypeInterfaces.h.inc"
#include "dialects/moe/MoeWeightInterfaces.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/moe/MoeTypes.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/moe/MoeAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/moe/MoeOps.h.inc"

#endif // MOE_DIALECTS_MOE_MOE_H
