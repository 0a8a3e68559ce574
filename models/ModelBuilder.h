//===- ModelBuilder.h - Tools for building architectures --------*- C++ -*-===//

#ifndef MOE_MODELS_MODELBUILDER_H
#define MOE_MODELS_MODELBUILDER_H

#include "dialects/moe/WeightTable.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "models/HyperParams.h"
#include "models/Model.h"

#include <set>

namespace moec {

/// Properties for `moe.model` that an architecture reads from the file.
struct ModelFacts {
  int64_t hidden = 0;
  int64_t vocab = 0;
  int64_t layers = 0;    ///< Layers in @forward, without skipped ones.
  int64_t mtpLayers = 0; ///< Layers in @draft: 0 or 1.
  int64_t contextLength = 0;
  int64_t heads = 0;
  int64_t experts = 0;
  int64_t expertsUsed = 0;
  int64_t latent = 0; ///< Elements of the cached latent; 0 without MLA.
  int64_t rope = 0;   ///< Rotated elements per head.
  /// How hidden states become an embedding: "mean", "first", "last" or "rank"
  /// (a score); "": the file does not say, as it is not made for embeddings.
  std::string pooling;
  /// Names of the outputs of the classifier in which @logits ends; none: it
  /// ends in one logit for each token.
  std::vector<std::string> labels;
};

/// Returns the number of columns of rows [T, columns].
int64_t columnsOf(mlir::Value rows);

/// Builds a module from a file. It loads weights by name and checks their
/// shapes, and has the pieces that architectures share. A weight `x` is the
/// tensor `x.weight`.
class ModelBuilder {
public:
  /// With `asked`, the builder finds out what an architecture reads: names of
  /// keys and tensors are added there, missing ones or such of other shapes are
  /// no errors, and the module is of no use.
  ModelBuilder(mlir::MLIRContext &context, const GgufModel &model,
               ImportOptions options, AskedParts *asked = nullptr);

  const GgufModel &file() const { return model_; }
  const HyperParams &params() const { return params_; }
  ModelFacts &facts() { return facts_; }
  int64_t positions() const { return options_.positions; }
  bool mtp() const { return options_.mtp; }
  double yarnFactor() const { return options_.yarnFactor; }

  /// Adds a note for the user: something skipped, assumed or missing.
  void note(std::string text) { notes_.push_back(std::move(text)); }
  /// Excludes tensors with this prefix from the note about unused tensors.
  void skipTensors(std::string prefix) {
    if (asked_)
      asked_->tensors.insert(prefix);
    skipped_.push_back(std::move(prefix));
  }

  //===--- functions ------------------------------------------------------===//

  /// Returns types: tensor<?xCOLUMNSxf32>, tensor<?xCOLUMNSxi32>, and
  /// tensor<?xi32> for token ids.
  mlir::RankedTensorType rows(int64_t columns);
  mlir::RankedTensorType idRows(int64_t columns);
  mlir::RankedTensorType tokenIds();

  /// Begins `@name(arguments) -> result`; create() adds ops to it until end().
  /// Returns the arguments.
  llvm::ArrayRef<mlir::BlockArgument>
  begin(llvm::StringRef name, mlir::TypeRange arguments, mlir::Type result);
  void end(mlir::Value result);

  /// Begins a layer; it lasts until the next one or endLayers(). Returns the
  /// prefix of its tensors: "blk.3.".
  const std::string &beginLayer(int64_t layer);
  void endLayers();

  /// Creates an op with the label `name`, which begins with its layer's prefix.
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
  /// Returns the tensor with this full name, or null.
  const GgufTensor *find(const std::string &tensor) const {
    if (asked_)
      asked_->tensors.insert(tensor);
    return model_.findTensor(tensor);
  }
  /// Loads tensor `name`.weight, which must have this shape (rows first,
  /// columns last) and a format with kernels.
  moert::StatusOr<mlir::Value> weight(const std::string &name,
                                      llvm::ArrayRef<int64_t> shape);
  /// Loads a weight as [count, rows, columns]; the file may also store it as
  /// one matrix with all rows.
  moert::StatusOr<mlir::Value> matrices(const std::string &name, int64_t count,
                                        int64_t rows, int64_t columns);
  /// Loads a matrix of count * rows rows as [count, rows, columns].
  moert::StatusOr<mlir::Value> matrixAs(const std::string &name, int64_t count,
                                        int64_t rows, int64_t columns);
  /// Loads tensor `name`.weight, a table of integers.
  moert::StatusOr<mlir::Value> table(const std::string &name, int64_t rows,
                                     int64_t columns);
  /// Loads a vector in F32. `tensor` is the full name, because some vectors are
  /// biases.
  moert::StatusOr<mlir::Value> vector(const std::string &tensor,
                                      int64_t length);
  /// Loads an optional vector; null if the file does not have it.
  moert::StatusOr<mlir::Value> vectorIfAny(const std::string &tensor,
                                           int64_t length);
  /// Loads the elements of a tensor of any shape with `length` elements as a
  /// vector in F32; writers differ in the shapes of some.
  moert::StatusOr<mlir::Value> flatVector(const std::string &tensor,
                                          int64_t length) {
    return reshaped(tensor, {length});
  }
  /// Loads [count, length] vectors in the same way.
  moert::StatusOr<mlir::Value> flatVectors(const std::string &tensor,
                                           int64_t count, int64_t length) {
    return reshaped(tensor, {count, length});
  }
  /// Loads [count, length] vectors in F32.
  moert::StatusOr<mlir::Value> vectors(const std::string &tensor, int64_t count,
                                       int64_t length);
  /// Loads optional vectors; null if the file does not have them.
  moert::StatusOr<mlir::Value> vectorsIfAny(const std::string &tensor,
                                            int64_t count, int64_t length);
  /// Loads an optional vector in F32 with a number for each of `count`
  /// matrices, as [count, 1]. Null if the file does not have it.
  moert::StatusOr<mlir::Value> numbersIfAny(const std::string &tensor,
                                            int64_t count);
  /// Returns the elements of a vector in F32 whose values the compiler needs.
  moert::StatusOr<std::vector<float>> floats(const std::string &tensor,
                                             int64_t length);
  /// Returns a view of rows begin ... begin + rows - 1 of each matrix of a
  /// weight, or of elements of a vector; null for null. Its symbol is that of
  /// the weight with `.part`, by default `.begin`.
  mlir::Value slice(mlir::Value weight, int64_t begin, int64_t rows,
                    llvm::StringRef part = "");
  /// Returns a view of matrix `index` of a weight [count, rows, columns].
  mlir::Value matrix(mlir::Value weight, int64_t index);
  /// Combines matrices of equal shape, [rows, columns] or [1, rows, columns],
  /// into one weight; `name` is their common name. Matrices with different
  /// formats become Q8_0, or F32 if all are floats, with a note.
  mlir::Value stack(llvm::ArrayRef<mlir::Value> matrices,
                    const std::string &name);

  //===--- pieces: each labels its op with the weight's name --------------===//

  /// Norms each of `groups` parts of a row separately; they share the weight.
  moert::StatusOr<mlir::Value> rmsNorm(mlir::Value x, const std::string &name,
                                       double eps, int64_t groups = 1);
  /// Norms a row around its mean; adds `name`.bias if the file has it.
  moert::StatusOr<mlir::Value> layerNorm(mlir::Value x, const std::string &name,
                                         double eps);
  /// Norms without a weight.
  mlir::Value rmsNormOnly(mlir::Value x, const std::string &name, double eps,
                          int64_t groups = 1);
  /// Returns factor * x, or with a softcap c, c * tanh(factor * x / c).
  mlir::Value scale(mlir::Value x, const std::string &name, double factor,
                    double softcap = 0);
  /// Clamps elements to -limit ... limit.
  mlir::Value clamp(mlir::Value x, const std::string &name, double limit);
  /// Regroups columns: takes parts of each group's columns, from `offset` on,
  /// and orders them by part.
  mlir::Value regroup(mlir::Value x, const std::string &label, int64_t groups,
                      int64_t offset, llvm::ArrayRef<int64_t> parts);
  /// Multiplies by weight `name`, adds `name`.bias if the file has it, and
  /// applies scaled().
  moert::StatusOr<mlir::Value> linear(mlir::Value x, const std::string &name,
                                      int64_t outputs);
  mlir::Value linear(mlir::Value x, const std::string &name, mlir::Value matrix,
                     mlir::Value bias);
  /// Multiplies by rows `begin` ... begin + rows - 1 of weight `fused`, which
  /// has `all`, and adds their part of `fused`.bias if the file has it.
  moert::StatusOr<mlir::Value> linearRows(mlir::Value x,
                                          const std::string &name,
                                          const std::string &fused, int64_t all,
                                          int64_t begin, int64_t rows);
  /// Multiplies the product of weight `name` by `name`.scale, if the file has
  /// that (NVFP4). Fails unless the scale is `alone`: with a bias or another
  /// step in between, it would have to be applied before it.
  moert::StatusOr<mlir::Value> scaled(mlir::Value product,
                                      const std::string &name,
                                      const std::string &label, bool alone);
  /// Returns whether the file has `name`.scale; fails if it has one and not
  /// `alone`.
  moert::StatusOr<bool> hasScale(const std::string &name, bool alone) const;
  /// Builds an FFN with weights `block`ffn_{gate,up,down}`suffix` and the
  /// biases that exist. Without ffn_gate, ffn_up may hold gate and up. A
  /// `limit` above 0 clamps up, and the gate before or after its activation, or
  /// with a `softLimit` both softly (SiTU). If weights have scales, it becomes
  /// several ops, labelled by their weights.
  moert::StatusOr<mlir::Value>
  ffn(mlir::Value x, const std::string &block, const std::string &suffix,
      int64_t inner, const std::string &label,
      mlir::moe::Activation activation = mlir::moe::Activation::Silu,
      double limit = 0, bool clampsActivated = false, double softLimit = 0);
  /// Builds an FFN without a gate: `block`ffn_down`suffix` of activation(u),
  /// where u is ffn_up`suffix` of x, with the biases that exist. With
  /// `squares`, the activation is multiplied by u: squared ReLU.
  moert::StatusOr<mlir::Value> plainFfn(mlir::Value x, const std::string &block,
                                        int64_t inner,
                                        mlir::moe::Activation activation,
                                        bool squares = false,
                                        const std::string &suffix = "");

  /// Returns the verified module with its attributes.
  moert::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> finish();

private:
  mlir::moe::LabelAttr labelOf(llvm::StringRef name);
  /// Returns the tensor with this full name as one that is used. Fails unless
  /// the file has it in this shape.
  moert::StatusOr<const GgufTensor *> use(const std::string &tensor,
                                          llvm::ArrayRef<int64_t> shape);
  /// Loads a tensor of shape `shape` as a weight of shape `as`, which has as
  /// many elements.
  moert::StatusOr<mlir::Value> load(const std::string &tensor,
                                    llvm::ArrayRef<int64_t> shape,
                                    llvm::ArrayRef<int64_t> as,
                                    bool isTable = false);
  moert::StatusOr<mlir::Value> load(const std::string &tensor,
                                    llvm::ArrayRef<int64_t> shape) {
    return load(tensor, shape, shape);
  }
  /// Loads a tensor in F32 with as many elements as `shape`.
  moert::StatusOr<mlir::Value> reshaped(const std::string &tensor,
                                        llvm::ArrayRef<int64_t> shape);
  /// Returns a reference to `weight` in the function under construction.
  mlir::Value refer(mlir::moe::WeightOp weight, llvm::StringRef name);
  moert::Status error(moert::StatusCode code, const GgufTensor &tensor,
                      std::string_view message) const;
  /// Builds an FFN whose weights have scales, as separate ops.
  moert::StatusOr<mlir::Value>
  scaledFfn(mlir::Value x, const std::string &block, const std::string &suffix,
            int64_t inner, const std::string &label,
            mlir::moe::Activation activation);
  moert::Status requireF32(const std::string &tensor) const;
  bool isSkipped(const GgufTensor &tensor) const;
  void noteUnusedTensors();
  /// Fails if a weight's scale is not used, because results would be wrong.
  moert::Status refuseUnusedScales() const;
  /// Notes the requested scaling by YaRN. Fails if it changes no rotation.
  moert::Status noteYarn();
  mlir::DictionaryAttr modelAttr(llvm::StringRef hash);
  mlir::ArrayAttr filesAttr(std::string &hash);

  const GgufModel &model_;
  AskedParts *asked_;
  HyperParams params_;
  ImportOptions options_;
  ModelFacts facts_;
  mlir::OpBuilder builder_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  mlir::moe::WeightTable weights_;
  std::optional<int64_t> layer_;
  std::string block_; ///< "blk.3." in layer 3.
  std::vector<std::string> notes_, skipped_;
  std::set<std::string, std::less<>> used_;
  int64_t parameters_ = 0;
};

} // namespace moec

#endif // MOE_MODELS_MODELBUILDER_H
