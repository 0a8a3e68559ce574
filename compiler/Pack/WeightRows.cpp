#include "compiler/Pack/WeightRows.h"

#include <fmt/format.h>

using namespace mlir;
using moert::ModelFile;
using moert::ModelRows;
using moert::RowSource;
using moert::StackedRows;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

namespace {

using Rows = StatusOr<std::unique_ptr<RowSource>>;

moek::Format formatOf(StringRef name) { return *plan::formatFromName(name); }

moek::WeightView viewOf(plan::WeightOp weight, const uint8_t *data) {
  return {data,
          weight.getOuter(),
          weight.getRows(),
          weight.getCols(),
          weight.getOuterStride(),
          weight.getRowStride(),
          formatOf(weight.getFormat())};
}

//===----------------------------------------------------------------------===//
// Producers: one for each source of computed weights
//===----------------------------------------------------------------------===//

Rows produce(moe::FoldQueryAttr source, plan::DerivedOp op, WeightRows &rows) {
  MOE_ASSIGN_OR_RETURN(moek::WeightView wq, rows.mapped(op.getParts()[0]));
  MOE_ASSIGN_OR_RETURN(moek::WeightView wk, rows.mapped(op.getParts()[1]));
  FoldQuery fold{wq,
                 wk,
                 source.getKTransposed(),
                 source.getHeads(),
                 source.getNope(),
                 source.getRope(),
                 source.getLatent(),
                 formatOf(op.getFormat())};
  MOE_RETURN_IF_ERROR(fold.check().at(op.getName().str()));
  return std::unique_ptr<RowSource>(std::make_unique<FoldedRows>(fold));
}

Rows produce(moe::TransposeAttr, plan::DerivedOp op, WeightRows &rows) {
  MOE_ASSIGN_OR_RETURN(moek::WeightView from, rows.mapped(op.getParts()[0]));
  Transpose transpose{from, formatOf(op.getFormat())};
  MOE_RETURN_IF_ERROR(transpose.check().at(op.getName().str()));
  return std::unique_ptr<RowSource>(
      std::make_unique<TransposedRows>(transpose));
}

Rows produce(moe::StackAttr, plan::DerivedOp op, WeightRows &rows) {
  auto stack = std::make_unique<StackedRows>(op.getRows(), op.getCols(),
                                             formatOf(op.getFormat()));
  for (Value value : op.getParts()) {
    auto part = value.getDefiningOp<plan::WeightOp>();
    MOE_ASSIGN_OR_RETURN(std::unique_ptr<RowSource> source, rows.of(value));
    MOE_RETURN_IF_ERROR(stack
                            ->add(std::move(source), part.getOuter(),
                                  part.getRows(), formatOf(part.getFormat()))
                            .at(part.getName().str()));
  }
  return std::unique_ptr<RowSource>(std::move(stack));
}

struct Producer {
  TypeID source;
  Rows (*produce)(plan::DerivedOp, WeightRows &);
};

template <typename SourceAttr> Producer producer() {
  return {TypeID::get<SourceAttr>(), [](plan::DerivedOp op, WeightRows &rows) {
            return produce(cast<SourceAttr>(op.getSource()), op, rows);
          }};
}

Rows derive(plan::DerivedOp op, WeightRows &rows) {
  const Producer producers[] = {producer<moe::FoldQueryAttr>(),
                                producer<moe::TransposeAttr>(),
                                producer<moe::StackAttr>()};
  for (const Producer &known : producers)
    if (known.source == op.getSource().getTypeID())
      return known.produce(op, rows);
  return Status(
      StatusCode::Internal,
      fmt::format("no producer computes weight \"{}\"", op.getName().str()));
}

} // namespace

Rows WeightRows::of(Value weight) {
  if (auto derived = weight.getDefiningOp<plan::DerivedOp>())
    return derive(derived, *this);
  auto stored = weight.getDefiningOp<plan::WeightOp>();
  MOE_ASSIGN_OR_RETURN(const ModelFile *model,
                       open(stored.getFile().getDefiningOp<plan::FileOp>()));
  return std::unique_ptr<RowSource>(std::make_unique<ModelRows>(
      *model, stored.getOffset(), viewOf(stored, nullptr)));
}

StatusOr<moek::WeightView> WeightRows::mapped(Value weight) {
  auto stored = weight.getDefiningOp<plan::WeightOp>();
  auto file = stored.getFile().getDefiningOp<plan::FileOp>();
  MOE_RETURN_IF_ERROR(open(file).status());
  auto found = mapped_.find(file.getPath().str());
  if (found == mapped_.end()) {
    MOE_ASSIGN_OR_RETURN(moert::MappedFile mapping,
                         moert::MappedFile::open(file.getPath().str()));
    found = mapped_.emplace(mapping.path(), std::move(mapping)).first;
  }
  return viewOf(stored, found->second.bytes().data() + stored.getOffset());
}

StatusOr<const ModelFile *> WeightRows::open(plan::FileOp file) {
  auto found = opened_.find(file.getPath().str());
  if (found == opened_.end()) {
    MOE_ASSIGN_OR_RETURN(
        ModelFile model,
        ModelFile::open(file.getPath().str(), file.getBytes(), forget_));
    found = opened_.emplace(file.getPath().str(), std::move(model)).first;
  }
  return &found->second;
}

} // namespace moec
