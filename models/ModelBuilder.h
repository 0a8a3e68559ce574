//===- ModelBuilder.h - What every architecture builds with -----*- C++ -*-===//

#ifndef MOE_MODELS_MODELBUILDER_H
#define MOE_MODELS_MODELBUILDER_H

#include "dialects/moe/Moe.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "models/HyperParams.h"

#include <set>

namespace moec {

/// The facts of `moe.model` that an architecture reads from the file.
struct ModelFacts {
  int64_t hidden = 0;
  int64_t vocab = 0;
  int64_t layers = 0; ///< Of the graph, without those that were skipped.
  int64_t contextLength = 0;
  int64_t heads = 0;
  int64_t experts = 0;
  int64_t expertsUsed = 0;
  int64_t latent = 0; ///< Elements of the cached latent, 0 without MLA.
  int64_t rope = 0;   ///< Elements of a head that are rotated.
};

/// Columns of rows [T, columns].
int64_t columnsOf(mlir::Value rows);

/// Builds a module from a file: weights by name with their shapes checked, and
/// the pieces that architectures share. A weight `x` is the tensor `x.weight`.
class ModelBuilder {
public:
  /// For sequences of at most `positions`.
  ModelBuilder(mlir::MLIRContext &context, const GgufModel &model,
               int64_t positions);

  const GgufModel &file() const { return model_; }
  const HyperParams &params() const { return params_; }
  ModelFacts &facts() { return facts_; }
  int64_t positions() const { return positions_; }

  /// Something a user should know: skipped, assumed, missing.
  void note(std::string text) { notes_.push_back(std::move(text)); }
  /// Tensors whose names begin so are left out on purpose.
  void skipTensors(std::string prefix) {
    skipped_.push_back(std::move(prefix));
  }

  //===--- functions ------------------------------------------------------===//

  /// tensor<?xCOLUMNSxT>, and tensor<?xi32> for token ids.
  mlir::RankedTensorType rows(int64_t columns);
  mlir::RankedTensorType idRows(int64_t columns);
  mlir::RankedTensorType tokenIds();

  /// Begins `@name(argument) -> result`; ops go there until end().
  mlir::Value begin(llvm::StringRef name, mlir::Type argument,
                    mlir::Type result);
  void end(mlir::Value result);

  /// What follows belongs to this layer, until the next one or endLayers().
  /// Returns what the names of its tensors begin with: "blk.3.".
  const std::string &beginLayer(int64_t layer);
  void endLayers();

  /// An op labelled `name`, which begins as its layer's tensors do.
  template <typename OpT, typename... Args>
  OpT create(llvm::StringRef name, Args &&...args) {
    auto op =
        builder_.create<OpT>(mlir::NameLoc::get(builder_.getStringAttr(name)),
                             std::forward<Args>(args)...);
    op->setAttr(mlir::moe::kLabelAttr, labelOf(name));
    return op;
  }

  //===--- weights --------------------------------------------------------===//

  bool has(const std::string &name) const;
  /// The tensor of this whole name, or null.
  const GgufTensor *find(const std::string &tensor) const {
    return model_.findTensor(tensor);
  }
  /// Tensor `name`.weight, which must have this shape (rows first, columns
  /// last) and a format with kernels.
  moert::StatusOr<mlir::Value> weight(const std::string &name,
                                      llvm::ArrayRef<int64_t> shape);
  /// A weight as [count, rows, columns] whose file may have all rows as those
  /// of one matrix.
  moert::StatusOr<mlir::Value> matrices(const std::string &name, int64_t count,
                                        int64_t rows, int64_t columns);
  /// Tensor `name`.weight of integers.
  moert::StatusOr<mlir::Value> table(const std::string &name, int64_t rows,
                                     int64_t columns);
  /// A vector in F32: `tensor` is the whole name, because some are biases.
  moert::StatusOr<mlir::Value> vector(const std::string &tensor,
                                      int64_t length);
  /// The same of an optional tensor: null where the file has none.
  moert::StatusOr<mlir::Value> vectorIfAny(const std::string &tensor,
                                           int64_t length);
  /// [count, length] vectors in F32.
  moert::StatusOr<mlir::Value> vectors(const std::string &tensor, int64_t count,
                                       int64_t length);
  /// The same of an optional tensor: null where the file has none.
  moert::StatusOr<mlir::Value> vectorsIfAny(const std::string &tensor,
                                            int64_t count, int64_t length);
  /// [count, 1]: what a vector in F32 has for each of `count` matrices. Null
  /// where the file has none.
  moert::StatusOr<mlir::Value> numbersIfAny(const std::string &tensor,
                                            int64_t count);
  /// The elements themselves, of a vector in F32 that the compiler has to know.
  moert::StatusOr<std::vector<float>> floats(const std::string &tensor,
                                             int64_t length);
  /// Rows begin ... begin + rows - 1 of each matrix of a weight, or elements of
  /// a vector; null of null.
  mlir::Value slice(mlir::Value weight, int64_t begin, int64_t rows);
  /// Matrices of one shape, `name` their whole, as one weight. Of several
  /// formats they become Q8_0, or F32 where all are floats, with a note.
  mlir::Value stack(llvm::ArrayRef<mlir::Value> matrices,
                    const std::string &name);

  //===--- pieces: each labels its op with the weight's name --------------===//

  /// `groups` parts of a row have a mean of their own and share the weight.
  moert::StatusOr<mlir::Value> rmsNorm(mlir::Value x, const std::string &name,
                                       double eps, int64_t groups = 1);
  /// Without a weight.
  mlir::Value rmsNormOnly(mlir::Value x, const std::string &name, double eps,
                          int64_t groups = 1);
  /// factor * x, with a softcap c c * tanh(factor * x / c).
  mlir::Value scale(mlir::Value x, const std::string &name, double factor,
                    double softcap = 0);
  /// Parts of each group's columns from `offset` on, by part.
  mlir::Value regroup(mlir::Value x, const std::string &label, int64_t groups,
                      int64_t offset, llvm::ArrayRef<int64_t> parts);
  /// With a bias where the file has `name`.bias; scaled().
  moert::StatusOr<mlir::Value> linear(mlir::Value x, const std::string &name,
                                      int64_t outputs);
  mlir::Value linear(mlir::Value x, const std::string &name, mlir::Value matrix,
                     mlir::Value bias);
  /// What weight `name` gave, times `name`.scale where the file has that
  /// (NVFP4). An error where it is not `alone`: there is a bias, or something
  /// else that does not come after such a factor.
  moert::StatusOr<mlir::Value> scaled(mlir::Value product,
                                      const std::string &name,
                                      const std::string &label, bool alone);
  /// Whether the file has `name`.scale, which is to be `alone`.
  moert::StatusOr<bool> hasScale(const std::string &name, bool alone) const;
  /// Weights `block`ffn_{gate,up,down}`suffix`, with the biases that there are.
  /// A `limit` above 0 is one of gate and up. Where weights have scales it is
  /// several ops, labelled by these.
  moert::StatusOr<mlir::Value>
  ffn(mlir::Value x, const std::string &block, const std::string &suffix,
      int64_t inner, const std::string &label,
      mlir::moe::Activation activation = mlir::moe::Activation::Silu,
      double limit = 0);

  /// The verified module with its attributes.
  moert::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> finish();

private:
  mlir::moe::LabelAttr labelOf(llvm::StringRef name);
  moert::StatusOr<mlir::Value> load(const std::string &tensor,
                                    llvm::ArrayRef<int64_t> shape,
                                    bool isTable = false);
  moert::Status error(moert::StatusCode code, const GgufTensor &tensor,
                      std::string_view message) const;
  /// ffn() of plain weights, times their scales.
  moert::StatusOr<mlir::Value>
  scaledFfn(mlir::Value x, const std::string &block, const std::string &suffix,
            int64_t inner, const std::string &label,
            mlir::moe::Activation activation);
  moert::Status requireF32(const GgufTensor &tensor) const;
  bool isSkipped(const GgufTensor &tensor) const;
  void noteUnusedTensors();
  /// Results would be wrong without them.
  moert::Status refuseUnusedScales() const;
  mlir::DictionaryAttr modelAttr(llvm::StringRef hash);
  mlir::ArrayAttr filesAttr(std::string &hash);

  const GgufModel &model_;
  HyperParams params_;
  int64_t positions_;
  ModelFacts facts_;
  mlir::OpBuilder builder_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  std::optional<int64_t> layer_;
  std::string block_; ///< "blk.3." in layer 3.
  std::vector<std::string> notes_, skipped_;
  std::set<std::string, std::less<>> used_;
  int64_t parameters_ = 0;
};

} // namespace moec

#endif // MOE_MODELS_MODELBUILDER_H
