//===- InstructionWork.h - The work of an op's instructions -----*- C++ -*-===//
//
// The cost model (compiler/Machine/CostModel) turns it into seconds.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_DIALECTS_MOE_INSTRUCTIONWORK_H
#define MOE_DIALECTS_MOE_INSTRUCTIONWORK_H

#include "kernels/Types.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/IR/Value.h"

namespace mlir::moe {

/// Most tokens of a sequence that are too few to keep all cores busy: attention
/// divides the cache into KV splits for them, which are calibrated separately.
inline constexpr int64_t kFewTokens = 8;

/// One execution of an op: what its instructions and their work depend on
/// besides the op itself.
struct Execution {
  int64_t tokens = 1; ///< Tokens of the step.
  int64_t cached = 0; ///< Cached positions of each sequence before the step.
  /// Cores of the CPU, or multiprocessors of the GPU, that runs the op: for
  /// them attention divides the cache into KV splits. Both are 0 where no
  /// device is chosen yet: one split.
  int64_t cores = 0, multiprocessors = 0;
};

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

/// Matrices from which each token of a step chooses some, such as experts.
struct Choices {
  int64_t tokens = 0; ///< Tokens that choose; 0: nothing is chosen.
  double matrices = 0;
  double chance = 0; ///< Probability that a token chooses a given matrix.
  /// The probability of each matrix as a multiple of `chance`; empty if all
  /// are equally likely.
  ArrayRef<float> shares = {};

  /// Calls visit(number of matrices, their probability).
  void forEach(llvm::function_ref<void(double, double)> visit) const;
  /// Expected number of matrices that at least one token chooses.
  double chosen() const;
};

/// Matrices of a weight, each multiplied with rows of activations.
struct Product {
  Value weight;    ///< [..., rows, columns]
  double matrices; ///< Matrices of the outer dimension that a step reads.
  double rows;     ///< Rows of activations that each matrix is multiplied with.

  double elements() const; ///< Elements of the weight that are read.
  double bytes() const;    ///< Bytes of these elements, as stored in the model.
  double flops() const { return 2 * rows * elements(); }
};

/// What one instruction of an op does in a step.
struct InstructionWork {
  SmallVector<Product, 1> products = {};
  /// The matrices from which tokens choose, if they do; `rows` of each product
  /// is then a mean.
  Choices choices = {};
  double ops = 0; ///< FLOPs besides the products.
  /// Bytes of weights other than the products' matrices.
  double weightBytes = 0;
  /// Rows of a table that are read from the model file, each by itself; their
  /// bytes are weightBytes.
  double fileReads = 0;
  double activationBytes = 0, kvBytes = 0;
  /// Type of the cache elements that are read.
  moek::KvType kvType = moek::KvType::BF16;
  int64_t window = 0; ///< Cached rows that a token sees; 0: all.
  /// Variant of the kernel's rates (kernels/KernelRate.h), where the
  /// instruction alone decides it.
  StringRef variant = {};

  Cost cost() const;
};

/// FLOPs and bytes of weights of an instruction in a step of any size, as plans
/// record them (runtime/schema/plan.fbs, Work).
struct WorkTerms {
  double tokenOps = 0; ///< FLOPs per token.
  double seenOps = 0;  ///< FLOPs per pair of a token and a row that it sees.
  double rowOps = 0;   ///< FLOPs per cached row that any token sees.
  double firstBytes = 0, again = 0;

  bool isNone() const {
    return tokenOps == 0 && seenOps == 0 && rowOps == 0 && firstBytes == 0;
  }
};

} // namespace mlir::moe

#endif // MOE_DIALECTS_MOE_INSTRUCTIONWORK_H
