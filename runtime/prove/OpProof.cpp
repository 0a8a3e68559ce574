#include "runtime/prove/OpProof.h"

#include "kernels/KvCache.h"
#include "runtime/plan/Verify.h"

#include <cmath>

namespace moert {
using moek::Encoding;

namespace {
constexpr std::string_view encodingNames[] = {"F32", "I32", "A8", "A8K"};

std::string_view nameOf(Encoding encoding) {
  return encodingNames[size_t(encoding)];
}
} // namespace

OpProof::OpProof(const fb::Plan &plan, const fb::Phase &phase, uint32_t index,
                 const WeightFiles &files)
    : plan_(plan), phase_(phase), files_(files), op_(plan, phase, index) {
  size_t gemms = 0;
  for (size_t i = 0; i < op_.spec().operands.size(); ++i)
    gemms += hasGemm(i);
  uint32_t kernels = count(op_.instruction().kernels());
  if (kernels != gemms + 1)
    fail("names {} kernels, expected {}", kernels, gemms + 1);
  checkOpKernel();
  for (const OperandSpec &operand : op_.spec().operands) {
    if (!has(operand.name))
      continue;
    if (operand.role == OperandRole::Weight)
      checkWeight(operand);
    else
      checkBuffer(operand);
  }
  for (uint32_t i = 0; i < op_.spec().ints.size(); ++i)
    checkInteger(i);
  for (uint32_t i = 0; i < op_.spec().floats.size(); ++i)
    checkReal(i);
}

bool OpProof::hasGemm(size_t operand) const {
  return op_.spec().operands[operand].gemm &&
         op_.instruction().operands()->Get(uint32_t(operand))->kind() !=
             fb::OperandKind::None;
}

BufferRef OpProof::buffer(std::string_view operand) const {
  const fb::Buffer &buffer = op_.buffer(operand);
  return {operand, Encoding(buffer.encoding()), buffer.cols(),
          buffer.rows_per_token(), buffer.fixed_rows()};
}

void OpProof::checkBuffer(const OperandSpec &operand) {
  auto isOf = [&](auto accepts, std::string_view expected) {
    Encoding encoding = buffer(operand.name).encoding;
    if (!accepts(encoding))
      fail("operand {} has encoding {}, expected {}", operand.name,
           nameOf(encoding), expected);
  };
  switch (operand.type) {
  case OperandType::F32:
    return isOf([](Encoding e) { return e == Encoding::F32; }, "F32");
  case OperandType::I32:
    return isOf([](Encoding e) { return e == Encoding::I32; }, "I32");
  case OperandType::Activations:
    return isOf([](Encoding e) { return e != Encoding::I32; }, "F32 or A8");
  case OperandType::A8:
    return isOf(moek::isA8, "A8 or A8K");
  default:
    return;
  }
}

void OpProof::checkWeight(const OperandSpec &operand) {
  const fb::Weight &w = op_.weight(operand.name);
  // Gemms state which layout they read; every other kernel reads plain rows.
  auto layout = moek::Layout(w.layout());
  if (layout != moek::Layout::Gguf && !operand.gemm)
    fail("operand {} has layout {}, expected {}", operand.name,
         moek::layoutName(layout), moek::layoutName(moek::Layout::Gguf));
  if (operand.type != OperandType::Vector && operand.type != OperandType::Table)
    return;
  matrix(operand.name);
  auto format = moek::Format(w.format()),
       expected = operand.type == OperandType::Vector ? moek::Format::F32
                                                      : moek::Format::I32;
  if (format != expected)
    fail("operand {} has format {}, expected {}", operand.name,
         moek::formatInfo(format).name, moek::formatInfo(expected).name);
}

void OpProof::checkInteger(uint32_t position) {
  auto [low, high] = op_.spec().intRanges[position];
  integer(op_.spec().ints[position], low, high);
}

void OpProof::checkReal(uint32_t position) {
  std::string_view name = op_.spec().floats[position];
  double stored = op_.instruction().floats()->Get(position);
  auto value = static_cast<float>(stored);
  if (!std::isfinite(value))
    fail("has {} = {}, too large for a float", name, stored);
  FloatRange range = op_.spec().floatRanges[position];
  if (range == FloatRange::AtLeastZero)
    require(value >= 0, fmt::format("{} is not negative", name));
  if (range == FloatRange::AboveZero)
    require(value > 0, fmt::format("{} is above zero", name));
}

const fb::Weight &OpProof::matrix(std::string_view operand) {
  const fb::Weight &w = weight(operand);
  if (w.outer() != 1)
    fail("operand {} is {} matrices, expected one", operand, w.outer());
  return w;
}

void OpProof::vectors(std::string_view operand, int64_t count, int64_t length) {
  if (!has(operand))
    return;
  const fb::Weight &w = weight(operand);
  if (w.rows() != count || w.cols() != length)
    fail("operand {} is {} x {}, expected {} x {}", operand, w.rows(), w.cols(),
         count, length);
  if (count > 1)
    equal(fmt::format("operand {}'s row stride", operand), w.row_stride(),
          "the bytes of a row", length * int64_t(sizeof(float)));
  if (!status_.isOk())
    return;
  const auto *values = reinterpret_cast<const float *>(
      files_.bytes(w.file()).data() + w.offset());
  for (int64_t i = 0; i < count * length; ++i)
    if (!std::isfinite(values[i]))
      fail("weight {} holds {} at index {}; the model file is damaged",
           quoted(text(w.name())), values[i], i);
}

std::string_view OpProof::kernelName(uint32_t position) const {
  return text(plan_.kernels()->Get(op_.instruction().kernels()->Get(position)));
}

void OpProof::checkOpKernel() {
  if (!status_.isOk())
    return;
  std::string_view name = kernelName(0);
  op_.opKernel_ = moek::findKernel(name);
  if (!op_.opKernel_ || op_.opKernel_->op != op_.spec().op)
    fail("kernel {} is not a kernel of {}", quoted(name), op_.spec().name);
}

moek::Encoding OpProof::gemm(std::string_view operand) {
  if (!status_.isOk())
    return Encoding::F32;
  size_t own = op_.position(operand);
  uint32_t position = 0;
  for (size_t i = 0; i <= own; ++i)
    position += hasGemm(i);
  std::string_view name = kernelName(position);
  const moek::GemmInfo *info = moek::findGemm(name);
  if (!info) {
    fail("kernel {} does not multiply matrices", quoted(name));
    return Encoding::F32;
  }
  const fb::Weight &w = op_.weight(operand);
  auto format = moek::Format(w.format());
  if (info->format != format)
    fail("kernel {} reads {}, but operand {} has format {}", name,
         moek::formatInfo(info->format).name, operand,
         moek::formatInfo(format).name);
  auto layout = moek::Layout(w.layout());
  if (info->layout != layout)
    fail("kernel {} reads layout {}, but operand {} has layout {}", name,
         moek::layoutName(info->layout), operand, moek::layoutName(layout));
  if (phase_.max_tokens() < info->minTokens ||
      phase_.max_tokens() > info->maxTokens)
    fail("kernel {} is for {} to {} tokens, the phase's steps have up to {}",
         name, info->minTokens, info->maxTokens, phase_.max_tokens());
  op_.gemms_[own] = info;
  return info->activation;
}

void OpProof::gemm(std::string_view operand, const BufferRef &act) {
  Encoding encoding = gemm(operand);
  if (status_.isOk() && !moek::reads(encoding, act.encoding))
    fail("kernel {} takes {} activations, but operand {} has encoding {}",
         op_.gemm(operand).name, nameOf(encoding), act.operand,
         nameOf(act.encoding));
}

int32_t OpProof::integer(std::string_view name) const {
  auto [low, high] = op_.spec().intRanges[op_.intPosition(name)];
  int64_t value = op_.instruction().ints()->Get(op_.intPosition(name));
  return static_cast<int32_t>(value >= low && value <= high ? value : low);
}

int32_t OpProof::integer(std::string_view name, int64_t low, int64_t high) {
  int64_t value = op_.instruction().ints()->Get(op_.intPosition(name));
  if (value >= low && value <= high)
    return static_cast<int32_t>(value);
  fail("has {} = {}, expected {} to {}", name, value, low, high);
  return static_cast<int32_t>(low);
}

void OpProof::rows(const BufferRef &buffer, int64_t rows, int64_t cols) {
  bool fits = moek::isA8(buffer.encoding)
                  ? buffer.rowsPerToken == rows && buffer.cols == cols
                  : buffer.perToken() == rows * cols;
  if (!fits)
    fail("operand {} has {} rows of {} elements per token, expected {} of {}",
         buffer.operand, buffer.rowsPerToken, buffer.cols, rows, cols);
}

void OpProof::fixedElements(const BufferRef &buffer, int64_t atLeast) {
  if (buffer.cols * buffer.fixedRows < atLeast)
    fail("operand {} has {} fixed elements, expected {}", buffer.operand,
         buffer.cols * buffer.fixedRows, atLeast);
}

void OpProof::equal(std::string_view what, int64_t actual,
                    std::string_view other, int64_t expected) {
  if (actual != expected)
    fail("{} is {}, but {} is {}", what, actual, other, expected);
}

void OpProof::require(bool holds, std::string_view rule) {
  if (!holds)
    fail("breaks the rule that {}", rule);
}

void OpProof::cacheRows(std::string_view operand, std::string_view what,
                        int64_t width, int64_t window) {
  const fb::Kv &kv = cache(operand);
  if (!kv.row_per_sequence() || window == 0) {
    require(!kv.row_per_sequence(), "the cache has a row per position");
    equal("the cache's width", kv.width(), what, width);
    return;
  }
  const int64_t ring = width > 0 ? kv.width() / width : 0;
  require(ring > 0 && kv.width() == ring * width && ring % moek::kKvPage == 0,
          "the cache's rings are whole pages of rows");
  require(moek::KvType(kv.type()) != moek::KvType::Q8_0 ||
              width % moek::kKvBlock == 0,
          "rows of rings are whole blocks");
  require(window - 1 + phase_.max_tokens() <= ring,
          "the cache's rings hold the window of every token of a step");
}

void OpProof::state(std::string_view operand, int64_t floats) {
  const fb::Kv &kv = cache(operand);
  require(kv.row_per_sequence(), "the state has a row for each sequence");
  equal("the state's type", kv.type(), "that of F32",
        int64_t(moek::KvType::F32));
  require(floats <= kv.width(), "the state's parts fit its width");
}

StatusOr<ProvenOp> OpProof::finish() {
  MOE_RETURN_IF_ERROR(std::move(status_));
  return std::move(op_);
}

} // namespace moert
