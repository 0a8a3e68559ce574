//===- Moe.h - The moe dialect ----------------------------------*- C++ -*-===//

#ifndef MOE_DIALECTS_MOE_MOE_H
#define MOE_DIALECTS_MOE_MOE_H

#include "dialects/moe/Instruction.h"
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
/// Reads a list such as `[1.0, 2.5]`.
FailureOr<SmallVector<Real>> parseReals(AsmParser &parser);
void printReals(AsmPrinter &printer, ArrayRef<Real> values);

class LowerableOpInterface;
class PhaseAttr;

/// Returns the terms of the work of each instruction of `op` in steps of all
/// sizes: found from three small steps.
SmallVector<WorkTerms> workTerms(LowerableOpInterface op);

/// Emits an error on `op` and fails if it has #moe.kernels that do not fit its
/// instructions.
LogicalResult verifyKernels(Operation *op);

/// Returns the format of a tensor's element type, or nothing if no kernel reads
/// it.
std::optional<moek::Format> getFormat(Type elementType);
/// Returns the element type of a format; null if only the format's size is
/// known.
Type getElementType(MLIRContext *context, moek::Format format);
/// Bytes of a static tensor of any supported format.
int64_t getTensorBytes(RankedTensorType type);
/// Returns the weight of which `op` reads rows from the model file; null if
/// there is none.
Value fileTableOf(Operation *op);
/// Returns how many rows of a file a token reads in `op`.
double fileReadsOf(Operation *op);
/// Returns the sum of getTensorBytes() over the weights among the operands of
/// `op` that are resident.
int64_t sumWeightBytes(Operation *op);
/// Whether `value` is a weight of the module, the result of a moe.weight_ref.
bool isWeight(Value value);
/// Returns the symbol of the weight that `value` refers to.
StringAttr weightSymbol(Value value);

/// Names of the discardable attributes that passes record decisions in.
inline constexpr llvm::StringLiteral kLabelAttr = "moe.label";
inline constexpr llvm::StringLiteral kDeviceAttr = "moe.device";
inline constexpr llvm::StringLiteral kKernelsAttr = "moe.kernels";
inline constexpr llvm::StringLiteral kReasonAttr = "moe.reason";
/// The attribute with a list of #moe.rejected.
inline constexpr llvm::StringLiteral kRejectedAttr = "moe.rejected";
/// On ops whose results are not needed before the next layer's experts
/// (passes/moe/graph/DeferExperts.cpp): other ops run first.
inline constexpr llvm::StringLiteral kDeferredAttr = "moe.deferred";
/// A moe.experts with this attribute runs on a device that keeps none of its
/// matrices and copies them over the link in each step.
inline constexpr llvm::StringLiteral kStreamedAttr = "moe.streamed";
/// Beside kStreamedAttr: the GPU reads the matrices in the host's memory, which
/// is pinned. Otherwise the host copies them to a ring of pinned memory first.
inline constexpr llvm::StringLiteral kPinnedAttr = "moe.pinned";
/// On a module with devices: #moe.streaming, from moe-place-devices for
/// moe-stream-experts.
inline constexpr llvm::StringLiteral kStreamingAttr = "moe.streaming";
/// On ops of a form of attention that only some devices use: their names
/// (moe.alternatives). The op exists only if attention is on one of them.
inline constexpr llvm::StringLiteral kOnlyOnAttr = "moe.only_on";
/// On ops without a device, whose form has other reasons on each: a dictionary
/// of texts by device. moe-place-devices puts one into moe.reason.
inline constexpr llvm::StringLiteral kReasonOnAttr = "moe.reason_on";
/// On a module with devices: a dictionary of the seconds that moe-place-devices
/// predicts for the typical steps of "decode", its logits included, and of
/// "prefill". plan-overhead says the same of the plan.
inline constexpr llvm::StringLiteral kPredictedAttr = "moe.predicted";
/// On functions: the #moe.phase they are compiled for.
inline constexpr llvm::StringLiteral kPhaseAttr = "moe.phase";
/// On the module: model facts (a dictionary), file list, target description.
inline constexpr llvm::StringLiteral kModelAttr = "moe.model";
inline constexpr llvm::StringLiteral kFilesAttr = "moe.files";
inline constexpr llvm::StringLiteral kTargetAttr = "moe.target";
inline constexpr llvm::StringLiteral kNotesAttr = "moe.notes";
/// On the module: names of the model file's tensors that no op reads, for
/// messages about rules.
inline constexpr llvm::StringLiteral kUnusedTensorsAttr = "moe.unused_tensors";
/// On the module: the texts of tensor rules whose devices attention follows,
/// though they name a part of its tensors.
inline constexpr llvm::StringLiteral kFollowedRulesAttr = "moe.followed_rules";
/// On the module: the rows of each layer's cache, for all sequences.
inline constexpr llvm::StringLiteral kKvRowsAttr = "moe.kv_rows";
/// Returns the name of `op` in messages: the text of its kLabelAttr, else the
/// op's own name.
std::string labelOf(Operation *op);
/// Returns the layer of the op's kLabelAttr.
std::optional<int64_t> layerOf(Operation *op);
/// Returns the phase of the function that contains `op`, or null.
PhaseAttr phaseOf(Operation *op);
/// Returns the number of sequences that `tokens` tokens of a step belong to in
/// the phase of `op`; 1 without a phase.
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
