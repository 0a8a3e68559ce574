#include "models/NgramTable.h"

#include <algorithm>
#include <fmt/format.h>

using mlir::Value;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;
namespace moe = mlir::moe;

namespace moec {

/// Returns the number of rows of the table in the file; of one that it does not
/// have, as many as the numbers need.
static int64_t rowsOf(const ModelBuilder &model, const NgramTable &table,
                      const std::string &name) {
  if (const GgufTensor *tensor = model.find(name + ".weight"))
    return int64_t(std::min<uint64_t>(tensor->shape[1], INT64_MAX));
  int64_t rows = 1;
  for (size_t i = 0; i < table.moduli.size(); ++i)
    rows = std::max(rows, table.moduli[i] + table.offsets[i]);
  return rows;
}

static Status checkNumbers(ModelBuilder &model, const NgramTable &table,
                           const NgramKeys &keys, const std::string &name,
                           int64_t rows) {
  const HyperParams &params = model.params();
  for (size_t i = 0; i < table.moduli.size(); ++i)
    if (table.moduli[i] > rows || table.offsets[i] > rows - table.moduli[i])
      return params.error(
          StatusCode::InvalidFile, keys.offsets,
          fmt::format("has {} as element {}, from which {} rows ({}) exceed "
                      "the {} rows of \"{}.weight\"",
                      table.offsets[i], i, table.moduli[i], keys.moduli, rows,
                      name));
  int64_t largest = std::max({table.pad, int64_t(1), model.facts().vocab - 1});
  if (!table.map.empty())
    largest = std::max(table.pad, *std::ranges::max_element(table.map));
  for (size_t i = 0; i < table.multipliers.size(); ++i)
    if (largest > 0 && table.multipliers[i] > INT64_MAX / largest)
      return params.error(
          StatusCode::InvalidFile, keys.multipliers,
          fmt::format("has {} as element {}, whose product with token {} does "
                      "not fit 63 bits",
                      table.multipliers[i], i, largest));
  return Status::ok();
}

StatusOr<Value> buildNgramRows(ModelBuilder &model, const NgramTable &table,
                               const NgramKeys &keys, int64_t layer,
                               uint64_t part, const std::string &label,
                               const std::string &name, Value tokens) {
  const int64_t rows = rowsOf(model, table, name);
  MOE_RETURN_IF_ERROR(checkNumbers(model, table, keys, name, rows));
  MOE_ASSIGN_OR_RETURN(Value weight, model.weight(name, {rows, table.columns}));
  mlir::MLIRContext *context = weight.getContext();
  auto numbers = [&](const std::vector<int64_t> &values) {
    return mlir::DenseI64ArrayAttr::get(context, values);
  };
  auto op = model.create<moe::NgramEmbedOp>(
      label, model.rows(table.rows() * table.columns),
      moe::KvType::get(context, 1, moek::KvType::F32), tokens, weight,
      uint64_t(layer), part, numbers(table.multipliers), numbers(table.moduli),
      numbers(table.offsets),
      table.map.empty() ? mlir::DenseI64ArrayAttr() : numbers(table.map),
      uint64_t(table.pad), table.ends);
  return op.getResult();
}

} // namespace moec
