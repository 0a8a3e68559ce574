#include "models/ModelBuilder.h"

#include "mlir/IR/Verifier.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

using moert::quoted;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;
using namespace mlir;

namespace moec {

namespace {
constexpr std::string_view kBias = ".bias";

std::string supportedFormats() {
  std::string names;
  for (unsigned number = 0; number < 256; ++number) {
    std::optional<moek::Format> format = moek::formatFromNumber(number);
    if (!format || !moek::formatInfo(*format).hasKernels)
      continue;
    names += names.empty() ? "" : ", ";
    names += moek::formatInfo(*format).name;
  }
  return names;
}

/// Formats a shape in the file's order, columns first.
template <typename Range> std::string fileOrder(const Range &dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}
} // namespace

int64_t columnsOf(Value rows) {
  return cast<RankedTensorType>(rows.getType()).getShape().back();
}

ModelBuilder::ModelBuilder(MLIRContext &context, const GgufModel &model,
                           ImportOptions options, AskedParts *asked)
    : model_(model), asked_(asked), params_(model, asked), options_(options),
      builder_(&context), module_(ModuleOp::create(builder_.getUnknownLoc())),
      weights_(*module_) {}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

RankedTensorType ModelBuilder::rows(int64_t columns) {
  return RankedTensorType::get({ShapedType::kDynamic, columns},
                               builder_.getF32Type());
}

RankedTensorType ModelBuilder::idRows(int64_t columns) {
  return RankedTensorType::get({ShapedType::kDynamic, columns},
                               builder_.getI32Type());
}

RankedTensorType ModelBuilder::tokenIds() {
  return RankedTensorType::get({ShapedType::kDynamic}, builder_.getI32Type());
}

ArrayRef<BlockArgument> ModelBuilder::begin(StringRef name, TypeRange arguments,
                                            Type result) {
  builder_.setInsertionPointToEnd(module_->getBody());
  auto function = builder_.create<func::FuncOp>(
      NameLoc::get(builder_.getStringAttr(name)), name,
      builder_.getFunctionType(arguments, {result}));
  Block *body = function.addEntryBlock();
  builder_.setInsertionPointToEnd(body);
  return body->getArguments();
}

const std::string &ModelBuilder::beginLayer(int64_t layer) {
  layer_ = layer;
  return block_ = fmt::format("blk.{}.", layer);
}

void ModelBuilder::endLayers() { layer_.reset(); }

moe::LabelAttr ModelBuilder::labelOf(StringRef name) {
  if (layer_ && name.consume_front(block_))
    return moe::LabelAttr::get(builder_.getContext(),
                               builder_.getStringAttr(name), *layer_);
  return moe::LabelAttr::get(builder_.getContext(),
                             builder_.getStringAttr(name),
                             moe::LabelAttr::kNoLayer);
}

void ModelBuilder::end(Value result) {
  builder_.create<func::ReturnOp>(result.getLoc(), result);
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

Status ModelBuilder::error(StatusCode code, const GgufTensor &tensor,
                           std::string_view message) const {
  return Status(code,
                fmt::format("{}: tensor {} {}", model_.paths()[tensor.file],
                            quoted(tensor.name), message));
}

bool ModelBuilder::has(const std::string &name) const {
  return find(name + ".weight") != nullptr;
}

StatusOr<const GgufTensor *> ModelBuilder::use(const std::string &name,
                                               ArrayRef<int64_t> shape) {
  const GgufTensor *tensor = find(name);
  if (!tensor)
    return Status(StatusCode::InvalidFile,
                  fmt::format("{}: tensor {} is missing",
                              model_.paths().front(), quoted(name)));
  std::vector<uint64_t> expected(shape.rbegin(), shape.rend());
  std::array<uint64_t, 4> padded;
  padded.fill(1);
  std::copy(expected.begin(), expected.end(), padded.begin());
  if (tensor->shape != padded)
    return error(
        StatusCode::InvalidFile, *tensor,
        fmt::format("has the shape {}, expected {}",
                    fileOrder(std::span(tensor->shape).first(tensor->rank)),
                    fileOrder(expected)));
  if (used_.insert(name).second)
    parameters_ += int64_t(tensor->shape[0] * tensor->shape[1] *
                           tensor->shape[2] * tensor->shape[3]);
  return tensor;
}

StatusOr<Value> ModelBuilder::load(const std::string &name,
                                   ArrayRef<int64_t> shape,
                                   ArrayRef<int64_t> as, bool isTable) {
  StatusOr<const GgufTensor *> used = use(name, shape);
  if (asked_ && !used)
    return refer(weights_
                     .add(name,
                          moe::FileTensorAttr::get(builder_.getContext(), 0, 0),
                          {}, RankedTensorType::get(as, builder_.getF32Type()))
                     .weight,
                 name);
  MOE_ASSIGN_OR_RETURN(const GgufTensor *tensor, std::move(used));
  moek::FormatInfo info = moek::formatInfo(tensor->format);
  Type element = moe::getElementType(builder_.getContext(), tensor->format);
  if (!element || (!info.hasKernels && !isTable))
    return error(StatusCode::Unsupported, *tensor,
                 fmt::format("is {}, for which there are no kernels; "
                             "supported: {}",
                             info.name, supportedFormats()));
  moe::WeightOp weight =
      weights_
          .add(name,
               moe::FileTensorAttr::get(builder_.getContext(), tensor->file,
                                        int64_t(tensor->offset)),
               {}, RankedTensorType::get(as, element))
          .weight;
  if (weight.getSymName() != StringRef(name))
    return error(StatusCode::Internal, *tensor, "is loaded in two shapes");
  return refer(weight, name);
}

Value ModelBuilder::refer(moe::WeightOp weight, StringRef name) {
  return builder_.create<moe::WeightRefOp>(
      NameLoc::get(builder_.getStringAttr(name)), weight);
}

StatusOr<Value> ModelBuilder::weight(const std::string &name,
                                     ArrayRef<int64_t> shape) {
  return load(name + ".weight", shape);
}

StatusOr<Value> ModelBuilder::matrices(const std::string &name, int64_t count,
                                       int64_t rows, int64_t columns) {
  const GgufTensor *tensor = find(name + ".weight");
  if (tensor && tensor->shape[2] > 1)
    return weight(name, {count, rows, columns});
  return matrixAs(name, count, rows, columns);
}

StatusOr<Value> ModelBuilder::matrixAs(const std::string &name, int64_t count,
                                       int64_t rows, int64_t columns) {
  return load(name + ".weight", {count * rows, columns},
              {count, rows, columns});
}

StatusOr<Value> ModelBuilder::table(const std::string &name, int64_t rows,
                                    int64_t columns) {
  std::string tensor = name + ".weight";
  MOE_ASSIGN_OR_RETURN(Value value,
                       load(tensor, {rows, columns}, {rows, columns},
                            /*isTable=*/true));
  if (asked_ || find(tensor)->format == moek::Format::I32)
    return value;
  return error(StatusCode::Unsupported, *find(tensor),
               fmt::format("is {}, expected I32",
                           moek::formatInfo(find(tensor)->format).name));
}

Status ModelBuilder::requireF32(const std::string &tensor) const {
  if (asked_ || find(tensor)->format == moek::Format::F32)
    return Status::ok();
  return error(StatusCode::Unsupported, *find(tensor),
               fmt::format("is {}, expected F32 for norms and biases",
                           moek::formatInfo(find(tensor)->format).name));
}

StatusOr<Value> ModelBuilder::vector(const std::string &full, int64_t length) {
  // Some writers leave the ending of a bias out.
  std::string name = full;
  if (const std::string_view bare = std::string_view(full).substr(
          0, full.size() - std::min(full.size(), kBias.size()));
      full.ends_with(kBias) && !find(full) && find(std::string(bare)))
    name = bare;
  MOE_ASSIGN_OR_RETURN(Value value, load(name, {length}));
  MOE_RETURN_IF_ERROR(requireF32(name));
  return value;
}

StatusOr<Value> ModelBuilder::vectorIfAny(const std::string &name,
                                          int64_t length) {
  return find(name) ? vector(name, length) : Value();
}

StatusOr<Value> ModelBuilder::reshaped(const std::string &name,
                                       ArrayRef<int64_t> shape) {
  SmallVector<int64_t> own(shape);
  if (const GgufTensor *tensor = find(name)) {
    int64_t wanted = 1, count = 1;
    for (int64_t size : shape)
      wanted *= size;
    for (uint64_t size : tensor->shape) {
      if (size == 0 || size > uint64_t(wanted / count))
        return error(
            StatusCode::InvalidFile, *tensor,
            fmt::format("has the shape {}, expected {} elements",
                        fileOrder(std::span(tensor->shape).first(tensor->rank)),
                        wanted));
      count *= int64_t(size);
    }
    if (count == wanted)
      own.assign(tensor->shape.rbegin(), tensor->shape.rend());
  }
  MOE_ASSIGN_OR_RETURN(Value value, load(name, own, shape));
  MOE_RETURN_IF_ERROR(requireF32(name));
  return value;
}

StatusOr<Value> ModelBuilder::vectors(const std::string &name, int64_t count,
                                      int64_t length) {
  MOE_ASSIGN_OR_RETURN(Value value, load(name, {count, length}));
  MOE_RETURN_IF_ERROR(requireF32(name));
  return value;
}

StatusOr<Value> ModelBuilder::vectorsIfAny(const std::string &name,
                                           int64_t count, int64_t length) {
  return find(name) ? vectors(name, count, length) : Value();
}

StatusOr<Value> ModelBuilder::numbersIfAny(const std::string &name,
                                           int64_t count) {
  if (!find(name))
    return Value();
  MOE_ASSIGN_OR_RETURN(Value value, load(name, {count}, {count, 1}));
  MOE_RETURN_IF_ERROR(requireF32(name));
  return value;
}

StatusOr<std::vector<float>> ModelBuilder::floats(const std::string &name,
                                                  int64_t length) {
  std::vector<float> values(static_cast<size_t>(length), 1.0f);
  if (asked_) {
    find(name);
    return values;
  }
  MOE_ASSIGN_OR_RETURN(const GgufTensor *tensor, use(name, {length}));
  MOE_RETURN_IF_ERROR(requireF32(name));
  std::memcpy(values.data(), model_.tensorBytes(*tensor).data(),
              values.size() * sizeof(float));
  return values;
}

Value ModelBuilder::slice(Value weight, int64_t begin, int64_t rows,
                          StringRef part) {
  if (!weight)
    return {};
  moe::WeightOp whole = weights_.of(weight);
  RankedTensorType type = whole.getTensorType();
  SmallVector<int64_t> shape(type.getShape());
  int64_t dim = std::max<int64_t>(type.getRank() - 2, 0);
  shape[size_t(dim)] = rows;
  std::string suffix = part.empty() ? std::to_string(begin) : part.str();
  moe::WeightOp slice =
      weights_
          .add(whole.getSymName() + "." + suffix,
               moe::WeightSliceAttr::get(builder_.getContext(), dim, begin),
               whole, RankedTensorType::get(shape, type.getElementType()))
          .weight;
  return refer(slice, slice.getSymName());
}

Value ModelBuilder::matrix(Value weight, int64_t index) {
  moe::WeightOp whole = weights_.of(weight);
  RankedTensorType type = whole.getTensorType();
  SmallVector<int64_t> shape(type.getShape());
  shape[0] = 1;
  moe::WeightOp one =
      weights_
          .add((whole.getSymName() + "." + Twine(index)).str(),
               moe::WeightSliceAttr::get(builder_.getContext(), 0, index),
               whole, RankedTensorType::get(shape, type.getElementType()))
          .weight;
  return refer(one, one.getSymName());
}

Value ModelBuilder::stack(ArrayRef<Value> matrices, const std::string &name) {
  auto type = cast<RankedTensorType>(matrices.front().getType());
  Type element = type.getElementType();
  auto elementOf = [](Value matrix) {
    return cast<RankedTensorType>(matrix.getType()).getElementType();
  };
  if (llvm::any_of(matrices,
                   [&](Value m) { return elementOf(m) != element; })) {
    bool floats = llvm::all_of(
        matrices, [&](Value m) { return isa<FloatType>(elementOf(m)); });
    moek::Format format = floats ? moek::Format::F32 : moek::Format::Q8_0;
    element = moe::getElementType(builder_.getContext(), format);
    note(fmt::format("the matrices of {} have several formats; they become {}",
                     name, moek::formatInfo(format).name));
  }
  SmallVector<int64_t> shape{int64_t(matrices.size())};
  llvm::append_range(shape, type.getShape().take_back(2));
  SmallVector<moe::WeightOp> parts = llvm::map_to_vector(
      matrices, [&](Value matrix) { return weights_.of(matrix); });
  moe::WeightOp stack = weights_
                            .add(parts.front().getSymName() + ".stacked",
                                 moe::StackAttr::get(builder_.getContext()),
                                 parts, RankedTensorType::get(shape, element))
                            .weight;
  return refer(stack, name);
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

StatusOr<Value> ModelBuilder::rmsNorm(Value x, const std::string &name,
                                      double eps, int64_t groups) {
  MOE_ASSIGN_OR_RETURN(Value scale,
                       vector(name + ".weight", columnsOf(x) / groups));
  return create<moe::RmsNormOp>(name, x.getType(), x, scale, llvm::APFloat(eps),
                                uint64_t(groups))
      .getResult();
}

StatusOr<Value> ModelBuilder::layerNorm(Value x, const std::string &name,
                                        double eps) {
  MOE_ASSIGN_OR_RETURN(Value scale, vector(name + ".weight", columnsOf(x)));
  MOE_ASSIGN_OR_RETURN(Value bias, vectorIfAny(name + ".bias", columnsOf(x)));
  return create<moe::LayerNormOp>(name, x.getType(), x, scale, bias,
                                  llvm::APFloat(eps))
      .getResult();
}

Value ModelBuilder::rmsNormOnly(Value x, const std::string &name, double eps,
                                int64_t groups) {
  return create<moe::RmsNormOp>(name, x.getType(), x, /*weight=*/nullptr,
                                llvm::APFloat(eps), uint64_t(groups));
}

Value ModelBuilder::scale(Value x, const std::string &name, double factor,
                          double softcap) {
  return create<moe::ScaleOp>(name, x.getType(), x, llvm::APFloat(factor),
                              llvm::APFloat(softcap), llvm::APFloat(0.0));
}

Value ModelBuilder::clamp(Value x, const std::string &name, double limit) {
  return create<moe::ScaleOp>(name, x.getType(), x, llvm::APFloat(1.0),
                              llvm::APFloat(0.0), llvm::APFloat(limit));
}

Value ModelBuilder::regroup(Value x, const std::string &label, int64_t groups,
                            int64_t offset, ArrayRef<int64_t> parts) {
  int64_t columns = 0;
  for (int64_t part : parts)
    columns += groups * part;
  return create<moe::RegroupOp>(label, rows(columns), x, uint64_t(groups),
                                uint64_t(offset), parts);
}

StatusOr<Value> ModelBuilder::linear(Value x, const std::string &name,
                                     int64_t outputs) {
  MOE_ASSIGN_OR_RETURN(Value matrix, weight(name, {outputs, columnsOf(x)}));
  MOE_ASSIGN_OR_RETURN(Value bias, vectorIfAny(name + ".bias", outputs));
  return scaled(linear(x, name, matrix, bias), name, name, /*alone=*/!bias);
}

StatusOr<bool> ModelBuilder::hasScale(const std::string &name,
                                      bool alone) const {
  const GgufTensor *tensor = find(name + ".scale");
  if (!tensor || alone)
    return tensor != nullptr;
  return error(StatusCode::Unsupported, *tensor,
               "multiplies a weight that also has a bias or a limit, "
               "which is not supported; use a file in another format than "
               "NVFP4");
}

StatusOr<Value> ModelBuilder::scaled(Value product, const std::string &name,
                                     const std::string &label, bool alone) {
  MOE_ASSIGN_OR_RETURN(bool any, hasScale(name, alone));
  if (!any)
    return product;
  MOE_ASSIGN_OR_RETURN(std::vector<float> factor, floats(name + ".scale", 1));
  if (!std::isfinite(factor[0]))
    return error(StatusCode::InvalidFile, *find(name + ".scale"),
                 fmt::format("is {}; the file is damaged", factor[0]));
  return scale(product, label + "_scale", double(factor[0]));
}

Value ModelBuilder::linear(Value x, const std::string &name, Value matrix,
                           Value bias) {
  int64_t outputs = cast<RankedTensorType>(matrix.getType()).getDimSize(0);
  return create<moe::LinearOp>(name, rows(outputs), x, matrix, bias,
                               /*residual=*/nullptr);
}

StatusOr<Value> ModelBuilder::linearRows(Value x, const std::string &name,
                                         const std::string &fused, int64_t all,
                                         int64_t begin, int64_t rows) {
  MOE_ASSIGN_OR_RETURN(Value matrix, weight(fused, {all, columnsOf(x)}));
  MOE_ASSIGN_OR_RETURN(Value bias, vectorIfAny(fused + ".bias", all));
  Value product =
      linear(x, name, slice(matrix, begin, rows), slice(bias, begin, rows));
  return scaled(product, fused, name, /*alone=*/!bias);
}

StatusOr<Value> ModelBuilder::scaledFfn(Value x, const std::string &block,
                                        const std::string &suffix,
                                        int64_t inner, const std::string &label,
                                        moe::Activation activation) {
  MOE_ASSIGN_OR_RETURN(Value gate,
                       linear(x, block + "ffn_gate" + suffix, inner));
  MOE_ASSIGN_OR_RETURN(Value up, linear(x, block + "ffn_up" + suffix, inner));
  Value product = create<moe::ActivationMulOp>(label + "_inner", gate.getType(),
                                               gate, up, activation);
  return linear(product, block + "ffn_down" + suffix, columnsOf(x));
}

StatusOr<Value> ModelBuilder::plainFfn(Value x, const std::string &block,
                                       int64_t inner,
                                       moe::Activation activation, bool squares,
                                       const std::string &suffix) {
  MOE_ASSIGN_OR_RETURN(Value up, linear(x, block + "ffn_up" + suffix, inner));
  Value active =
      create<moe::ActivationMulOp>(block + "ffn_inner" + suffix, up.getType(),
                                   up, squares ? up : Value(), activation);
  return linear(active, block + "ffn_down" + suffix, columnsOf(x));
}

StatusOr<Value> ModelBuilder::ffn(Value x, const std::string &block,
                                  const std::string &suffix, int64_t inner,
                                  const std::string &label,
                                  moe::Activation activation, double limit,
                                  bool clampsActivated, double softLimit) {
  int64_t hidden = columnsOf(x);
  bool isPlain = limit == 0 && !find(block + "ffn_gate" + suffix + ".bias") &&
                 !find(block + "ffn_up" + suffix + ".bias") &&
                 !find(block + "ffn_down" + suffix + ".bias");
  bool hasScales = false;
  for (const char *part : {"ffn_gate", "ffn_up", "ffn_down"}) {
    MOE_ASSIGN_OR_RETURN(bool one, hasScale(block + part + suffix, isPlain));
    hasScales |= one;
  }
  if (hasScales)
    return scaledFfn(x, block, suffix, inner, label, activation);
  Value gate, up;
  const GgufTensor *fused = find(block + "ffn_up" + suffix + ".weight");
  if (has(block + "ffn_gate" + suffix) || !fused ||
      int64_t(fused->shape[1]) != 2 * inner) {
    MOE_ASSIGN_OR_RETURN(gate,
                         weight(block + "ffn_gate" + suffix, {inner, hidden}));
    MOE_ASSIGN_OR_RETURN(up,
                         weight(block + "ffn_up" + suffix, {inner, hidden}));
  } else {
    MOE_ASSIGN_OR_RETURN(
        Value both, weight(block + "ffn_up" + suffix, {2 * inner, hidden}));
    gate = slice(both, 0, inner);
    up = slice(both, inner, inner);
  }
  MOE_ASSIGN_OR_RETURN(Value down,
                       weight(block + "ffn_down" + suffix, {hidden, inner}));
  MOE_ASSIGN_OR_RETURN(
      Value gateBias,
      vectorIfAny(block + "ffn_gate" + suffix + ".bias", inner));
  MOE_ASSIGN_OR_RETURN(Value upBias,
                       vectorIfAny(block + "ffn_up" + suffix + ".bias", inner));
  MOE_ASSIGN_OR_RETURN(
      Value downBias,
      vectorIfAny(block + "ffn_down" + suffix + ".bias", hidden));
  return create<moe::FfnOp>(label, x.getType(), x, gate, up, down, gateBias,
                            upBias, downBias, /*residual=*/nullptr, activation,
                            llvm::APFloat(limit), /*fused=*/false,
                            clampsActivated, llvm::APFloat(softLimit))
      .getResult();
}

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

bool ModelBuilder::isSkipped(const GgufTensor &tensor) const {
  return std::ranges::any_of(skipped_, [&](const std::string &prefix) {
    return tensor.name.starts_with(prefix);
  });
}

void ModelBuilder::noteUnusedTensors() {
  constexpr size_t kShown = 3;
  std::vector<std::string> names;
  size_t count = 0;
  for (const GgufTensor &tensor : model_.tensors()) {
    // Input scales are for 4-bit activations; activations here have 8 or more
    // bits.
    bool isOfInputs = std::string_view(tensor.name).ends_with(".input_scale");
    if (isSkipped(tensor) || used_.contains(tensor.name) || isOfInputs)
      continue;
    if (++count <= kShown)
      names.push_back(quoted(tensor.name));
  }
  if (count == 0)
    return;
  note(fmt::format("{} of the file {} not used: {}{}",
                   moert::counted(count, "tensor"), count == 1 ? "is" : "are",
                   fmt::join(names, ", "), count > kShown ? ", ..." : ""));
}

Status ModelBuilder::refuseUnusedScales() const {
  for (const GgufTensor &tensor : model_.tensors())
    if (std::string_view(tensor.name).ends_with(".scale") &&
        !used_.contains(tensor.name) && !isSkipped(tensor))
      return error(StatusCode::Unsupported, tensor,
                   "multiplies a weight, which is not supported for this "
                   "architecture; use a file in another format than NVFP4");
  return Status::ok();
}

Status ModelBuilder::noteYarn() {
  if (options_.yarnFactor == 1)
    return Status::ok();
  bool isScaled = false;
  module_->walk([&](Operation *op) {
    for (NamedAttribute attribute : op->getAttrs())
      if (auto rope = dyn_cast<moe::RopeAttr>(attribute.getValue()))
        isScaled |= rope.getFactor() == options_.yarnFactor;
  });
  if (isScaled) {
    note(fmt::format("rotary embeddings are scaled by YaRN with the factor {}, "
                     "for up to {} positions; the model was not trained so",
                     options_.yarnFactor, facts_.contextLength));
    return Status::ok();
  }
  return Status(StatusCode::Usage,
                fmt::format("{}: --rope-scaling: the model has no rotary "
                            "position embeddings (RoPE) that could be scaled; "
                            "leave the option out",
                            model_.paths().front()));
}

StatusOr<OwningOpRef<ModuleOp>> ModelBuilder::finish() {
  MOE_RETURN_IF_ERROR(refuseUnusedScales());
  MOE_RETURN_IF_ERROR(noteYarn());
  noteUnusedTensors();
  std::string hash;
  ArrayAttr files = filesAttr(hash);
  (*module_)->setAttr(moe::kFilesAttr, files);
  (*module_)->setAttr(moe::kModelAttr, modelAttr(hash));
  std::vector<StringRef> notes(notes_.begin(), notes_.end());
  (*module_)->setAttr(moe::kNotesAttr, builder_.getStrArrayAttr(notes));

  std::string message;
  ScopedDiagnosticHandler handler(builder_.getContext(),
                                  [&](Diagnostic &diagnostic) {
                                    message += diagnostic.str() + "; ";
                                    return success();
                                  });
  // Shapes were checked one by one. Verifiers find contradictions between them,
  // such as more experts used than the groups offer.
  if (failed(verify(*module_)))
    return Status(StatusCode::InvalidFile,
                  fmt::format("{}: {}", model_.paths().front(), message));
  return std::move(module_);
}

} // namespace moec
