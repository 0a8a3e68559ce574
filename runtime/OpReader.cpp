#include "runtime/OpReader.h"

#include "kernels/KvCache.h"
#include "runtime/Verify.h"

#include <cassert>
#include <cmath>

namespace moert {
using moek::Encoding;

namespace {
constexpr std::string_view encodingNames[] = {"F32", "I32", "A8", "A8K"};

std::string_view nameOf(Encoding encoding) {
  return encodingNames[size_t(encoding)];
}
} // namespace

OpReader::OpReader(const fb::Plan &plan, const fb::Phase &phase,
                   const fb::Instruction &instruction,
                   std::span<const DeviceMemory> memories, std::byte *own,
                   const WeightFiles &files, ArgumentStore &arguments)
    : plan_(plan), phase_(phase), instruction_(instruction),
      spec_(*findOp(instruction.op())), memories_(memories), own_(own),
      files_(files), arguments_(arguments) {
  size_t gemms = 0;
  for (size_t i = 0; i < spec_.operands.size(); ++i)
    gemms += hasGemm(i);
  if (count(instruction.kernels()) != gemms + 1)
    fail("names {} kernels, expected {}", count(instruction.kernels()),
         gemms + 1);
}

bool OpReader::hasGemm(size_t operand) const {
  return spec_.operands[operand].gemm &&
         instruction_.operands()->Get(uint32_t(operand))->kind() !=
             fb::OperandKind::None;
}

const fb::Operand *OpReader::find(std::string_view operand) const {
  for (uint32_t i = 0; i < spec_.operands.size(); ++i)
    if (spec_.operands[i].name == operand)
      return instruction_.operands()->Get(i);
  assert(false && "binders name operands as OpTable does");
  return nullptr;
}

bool OpReader::has(std::string_view operand) const {
  return find(operand)->kind() != fb::OperandKind::None;
}

BufferRef OpReader::anyBuffer(std::string_view operand) {
  const fb::Buffer *buffer = phase_.buffers()->Get(find(operand)->index());
  std::byte *base =
      buffer->per_worker() ? own_ : memories_[buffer->device()].arena;
  return {
      operand,        base + buffer->offset(),  Encoding(buffer->encoding()),
      buffer->cols(), buffer->rows_per_token(), buffer->fixed_rows()};
}

BufferRef OpReader::buffer(std::string_view operand, Encoding encoding) {
  BufferRef ref = anyBuffer(operand);
  if (ref.encoding != encoding)
    fail("operand {} has encoding {}, expected {}", operand,
         nameOf(ref.encoding), nameOf(encoding));
  return ref;
}

BufferRef OpReader::activations(std::string_view operand) {
  BufferRef ref = anyBuffer(operand);
  if (ref.encoding == Encoding::I32)
    fail("operand {} has encoding I32, expected F32 or A8", operand);
  return ref;
}

const OperandSpec &OpReader::specOf(std::string_view operand) const {
  for (const OperandSpec &candidate : spec_.operands)
    if (candidate.name == operand)
      return candidate;
  assert(false && "binders name operands as OpTable does");
  return spec_.operands.front();
}

BufferRef OpReader::encodedBuffer(std::string_view operand) {
  BufferRef ref = anyBuffer(operand);
  if (!moek::isA8(ref.encoding))
    fail("operand {} has encoding {}, expected A8 or A8K", operand,
         nameOf(ref.encoding));
  return ref;
}

moek::WeightView OpReader::weight(std::string_view operand) {
  const fb::Weight *w = plan_.weights()->Get(find(operand)->index());
  // Gemms are asked which layout they read; everything else reads rows.
  auto layout = moek::Layout(w->layout());
  if (layout != moek::Layout::Gguf && !specOf(operand).gemm)
    fail("operand {} has layout {}, expected {}", operand,
         moek::layoutName(layout), moek::layoutName(moek::Layout::Gguf));
  return {files_.bytes(w->file()).data() + w->offset(),
          w->outer(),
          w->rows(),
          w->cols(),
          w->outer_stride(),
          w->row_stride(),
          moek::Format(w->format())};
}

moek::WeightView OpReader::matrix(std::string_view operand) {
  moek::WeightView view = weight(operand);
  if (view.outer != 1)
    fail("operand {} is {} matrices, expected one", operand, view.outer);
  return view;
}

const float *OpReader::vector(std::string_view operand, int64_t length) {
  const fb::Operand *reference = find(operand);
  if (reference->kind() == fb::OperandKind::None)
    return nullptr;
  moek::WeightView view = matrix(operand);
  if (view.format != moek::Format::F32)
    fail("operand {} has format {}, expected F32", operand,
         moek::formatInfo(view.format).name);
  if (view.rows != 1 || view.cols != length)
    fail("operand {} is {} x {}, expected 1 x {}", operand, view.rows,
         view.cols, length);
  if (!status_.isOk())
    return nullptr;
  const auto *values = reinterpret_cast<const float *>(view.data);
  for (int64_t i = 0; i < length; ++i)
    if (!std::isfinite(values[i]))
      fail("weight {} holds {} at index {}; the model file is damaged",
           quoted(text(plan_.weights()->Get(reference->index())->name())),
           values[i], i);
  return values;
}

moek::KvView OpReader::cache(std::string_view operand) {
  const fb::Kv *kv = plan_.kv()->Get(find(operand)->index());
  auto type = moek::KvType(kv->type());
  return {
      reinterpret_cast<uint8_t *>(memories_[kv->device()].kv + kv->offset()),
      kv->width(), kv->capacity(), moek::kvRowBytes(type, kv->width()), type};
}

std::span<const float> OpReader::constant(std::string_view operand) {
  const auto *values = plan_.constants()->Get(find(operand)->index())->values();
  if (!values)
    return {};
  return {values->data(), values->size()};
}

std::string_view OpReader::kernelName(uint32_t position) {
  return text(plan_.kernels()->Get(instruction_.kernels()->Get(position)));
}

bool OpReader::usable(std::string_view kernel, moek::Isa isa) {
  if (!status_.isOk())
    return false;
  if (isa == moek::Isa::Cuda || !moek::hostSupports(isa)) {
    status_ = Status(StatusCode::WrongMachine,
                     fmt::format("kernel {} needs {}, which this machine's CPU "
                                 "lacks",
                                 kernel, moek::isaName(isa)));
    return false;
  }
  return true;
}

moek::KernelFn OpReader::driver() {
  if (!status_.isOk())
    return nullptr;
  std::string_view name = kernelName(0);
  const moek::KernelInfo *info = moek::findKernel(name);
  if (!info || info->op != spec_.op) {
    fail("kernel {} is none of {}", quoted(name), spec_.name);
    return nullptr;
  }
  if (!usable(name, info->isa))
    return nullptr;
  moek::KernelFn function = moek::resolveKernel(name);
  if (!function)
    status_ =
        Status(StatusCode::WrongMachine,
               fmt::format("kernel {} is not in this build of moert", name));
  return function;
}

OwnGemm OpReader::gemm(std::string_view operand, const moek::WeightView &w) {
  if (!status_.isOk())
    return {};
  uint32_t position = 0;
  for (size_t i = 0; i < spec_.operands.size(); ++i) {
    position += hasGemm(i);
    if (spec_.operands[i].name == operand)
      break;
  }
  std::string_view name = kernelName(position);
  const moek::GemmInfo *info = moek::findGemm(name);
  if (!info) {
    fail("kernel {} does not multiply matrices", quoted(name));
    return {};
  }
  if (info->format != w.format)
    fail("kernel {} reads {}, but operand {} has format {}", name,
         moek::formatInfo(info->format).name, operand,
         moek::formatInfo(w.format).name);
  const fb::Weight *stored = plan_.weights()->Get(find(operand)->index());
  auto layout = moek::Layout(stored->layout());
  if (info->layout != layout)
    fail("kernel {} reads layout {}, but operand {} has layout {}", name,
         moek::layoutName(info->layout), operand, moek::layoutName(layout));
  if (phase_.max_tokens() < info->minTokens ||
      phase_.max_tokens() > info->maxTokens)
    fail("kernel {} is for {} to {} tokens, the phase's steps have up to {}",
         name, info->minTokens, info->maxTokens, phase_.max_tokens());
  if (!usable(name, info->isa))
    return {};
  moek::GemmFn function = moek::resolveGemm(name);
  if (!function)
    status_ =
        Status(StatusCode::WrongMachine,
               fmt::format("kernel {} is not in this build of moert", name));
  return {function, info->activation, name};
}

moek::GemmFn OpReader::gemm(std::string_view operand, const moek::WeightView &w,
                            const BufferRef &act) {
  OwnGemm own = gemm(operand, w);
  if (own.function && !moek::reads(own.encoding, act.encoding))
    fail("kernel {} takes {} activations, but operand {} has encoding {}",
         own.name, nameOf(own.encoding), act.operand, nameOf(act.encoding));
  return own.function;
}

int32_t OpReader::integer(std::string_view name, int64_t low, int64_t high) {
  for (uint32_t i = 0; i < spec_.ints.size(); ++i) {
    if (spec_.ints[i] != name)
      continue;
    int64_t value = instruction_.ints()->Get(i);
    if (value >= low && value <= high)
      return static_cast<int32_t>(value);
    fail("has {} = {}, expected {} to {}", name, value, low, high);
    return static_cast<int32_t>(low);
  }
  assert(false && "binders name parameters as OpTable does");
  return 0;
}

int32_t OpReader::positive(std::string_view name) {
  return integer(name, 1, kMaxParameter);
}

float OpReader::real(std::string_view name) {
  for (uint32_t i = 0; i < spec_.floats.size(); ++i)
    if (spec_.floats[i] == name) {
      auto value = static_cast<float>(instruction_.floats()->Get(i));
      if (!std::isfinite(value))
        fail("has {} = {}, too large for a float", name,
             instruction_.floats()->Get(i));
      return value;
    }
  assert(false && "binders name parameters as OpTable does");
  return 0;
}

int64_t OpReader::rows(const BufferRef &buffer, int64_t rows, int64_t cols) {
  bool isA8 = moek::isA8(buffer.encoding);
  bool fits = isA8 ? buffer.rowsPerToken == rows && buffer.cols == cols
                   : buffer.perToken() == rows * cols;
  if (!fits)
    fail("operand {} has {} rows of {} elements per token, expected {} of {}",
         buffer.operand, buffer.rowsPerToken, buffer.cols, rows, cols);
  return isA8 ? moek::a8RowBytes(cols) : cols;
}

int64_t OpReader::byteStride(const BufferRef &buffer, int64_t rowsPerToken,
                             int64_t cols) {
  int64_t stride = rows(buffer, rowsPerToken, cols);
  return moek::isA8(buffer.encoding) ? stride : stride * 4;
}

void OpReader::fixedElements(const BufferRef &buffer, int64_t atLeast) {
  if (buffer.cols * buffer.fixedRows < atLeast)
    fail("operand {} has {} fixed elements, expected {}", buffer.operand,
         buffer.cols * buffer.fixedRows, atLeast);
}

void OpReader::equal(std::string_view what, int64_t actual,
                     std::string_view other, int64_t expected) {
  if (actual != expected)
    fail("{} is {}, but {} is {}", what, actual, other, expected);
}

void OpReader::require(bool holds, std::string_view rule) {
  if (!holds)
    fail("breaks the rule that {}", rule);
}

void OpReader::checkScratch() {
  if (!status_.isOk())
    return;
  int64_t bytes = spec_.scratchBytes(
      [&](std::string_view name) { return intOf(instruction_, spec_, name); });
  uint64_t available =
      plan_.devices()->Get(deviceOf(plan_, instruction_))->scratch_bytes();
  if (available < uint64_t(bytes))
    fail("needs {} bytes of scratch memory per worker, the plan gives {}: "
         "it was compiled for other kernels; compile the model again",
         bytes, available);
}

} // namespace moert
