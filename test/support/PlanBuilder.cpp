#include "test/support/PlanBuilder.h"

#include "kernels/Activation.h"
#include "kernels/KvCache.h"
#include "kernels/Scratch.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/ContentHash.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/schema/OpTable.h"

#include <algorithm>
#include <stdexcept>

namespace moetest {

PlanBuilder::PlanBuilder(int64_t hidden, int64_t vocab, int32_t context,
                         std::string isa)
    : isa_(std::move(isa)) {
  plan.schema_version = moert::kSchemaVersion;
  plan.compiler = "test";
  plan.target = "native";
  plan.architecture = "test";
  plan.model_name = "sample";
  plan.hidden = hidden;
  plan.vocab = vocab;
  plan.layers = 1;
  plan.context = context;
  auto device = std::make_unique<fb::DeviceT>();
  device->name = "cpu0";
  device->isa = isa_;
  // More than any op of a small plan needs.
  device->scratch_bytes = 1 << 20;
  plan.devices.push_back(std::move(device));
  plan.queues.push_back(std::make_unique<fb::QueueT>());
  plan.explanation.push_back(std::make_unique<fb::ExplainT>());
}

Ref PlanBuilder::weight(std::string name, std::vector<int64_t> shape,
                        std::span<const float> values) {
  auto weight = std::make_unique<fb::WeightT>();
  weight->name = std::move(name);
  weight->format = uint8_t(moek::Format::F32);
  weight->outer = shape[0];
  weight->rows = shape[1];
  weight->cols = shape[2];
  weight->row_stride = weight->cols * 4;
  weight->outer_stride = weight->rows * weight->row_stride;
  if (size_t(shape[0] * shape[1] * shape[2]) != values.size())
    throw std::logic_error("weight " + weight->name + ": wrong value count");
  weights_.resize(moert::alignUp(weights_.size(), 64));
  weight->offset = weights_.size();
  auto bytes = std::as_bytes(values);
  const auto *begin = reinterpret_cast<const uint8_t *>(bytes.data());
  weights_.insert(weights_.end(), begin, begin + bytes.size());
  plan.weights.push_back(std::move(weight));
  plan.residency.emplace_back(uint32_t(plan.weights.size() - 1), 0,
                              fb::ResidencyMode::Resident);
  return {fb::OperandKind::Weight, uint32_t(plan.weights.size() - 1)};
}

Ref PlanBuilder::constant(std::string name, std::vector<float> values) {
  auto constant = std::make_unique<fb::ConstantT>();
  constant->name = std::move(name);
  constant->values = std::move(values);
  plan.constants.push_back(std::move(constant));
  return {fb::OperandKind::Constant, uint32_t(plan.constants.size() - 1)};
}

Ref PlanBuilder::kv(int64_t width, moek::KvType type, int64_t pages) {
  auto kv = std::make_unique<fb::KvT>();
  kv->width = width;
  kv->type = uint8_t(type);
  kv->capacity =
      (pages ? pages : moert::kvPagesOf(plan.context)) * moek::kKvPage;
  return addKv(std::move(kv));
}

Ref PlanBuilder::state(int64_t width, int64_t rows) {
  auto kv = std::make_unique<fb::KvT>();
  kv->width = width;
  kv->type = uint8_t(moek::KvType::F32);
  kv->capacity = rows;
  kv->row_per_sequence = true;
  return addKv(std::move(kv));
}

Ref PlanBuilder::addKv(std::unique_ptr<fb::KvT> kv) {
  fb::DeviceT &device = *plan.devices[0];
  kv->offset = device.kv_bytes;
  device.kv_bytes = moert::alignUp(
      device.kv_bytes + uint64_t(moek::kvBytes(moek::KvType(kv->type),
                                               kv->width, kv->capacity)),
      64);
  plan.kv.push_back(std::move(kv));
  return {fb::OperandKind::Kv, uint32_t(plan.kv.size() - 1)};
}

PhaseBuilder PlanBuilder::phase(std::string name, int32_t minTokens,
                                int32_t maxTokens) {
  auto phase = std::make_unique<fb::PhaseT>();
  phase->name = std::move(name);
  phase->min_tokens = minTokens;
  phase->max_tokens = maxTokens;
  plan.phases.push_back(std::move(phase));
  return PhaseBuilder(*this, plan.phases.size() - 1);
}

uint32_t PlanBuilder::kernel(const std::string &name) {
  auto it = std::find(plan.kernels.begin(), plan.kernels.end(), name);
  if (it == plan.kernels.end())
    it = plan.kernels.insert(it, name);
  return uint32_t(it - plan.kernels.begin());
}

std::vector<uint8_t> PlanBuilder::bytes() {
  plan.files.clear();
  auto file = std::make_unique<fb::FileT>();
  file->kind = fb::FileKind::Packed;
  file->path = "plan.weights";
  file->bytes = weights_.size();
  file->header_bytes = std::min<size_t>(weights_.size(), 4096);
  file->header_hash = moert::contentHash(
      std::span<const uint8_t>(weights_).first(file->header_bytes));
  if (recordsContent) {
    std::vector<moert::Extent> extents;
    for (const auto &w : plan.weights)
      extents.push_back(
          {w->offset, uint64_t(w->outer * w->rows * w->cols) * sizeof(float)});
    moert::WeightHasher hasher(std::move(extents));
    hasher.add(0, weights_);
    file->sample_hash = hasher.sampleHash();
    std::vector<std::string> checksums = hasher.checksums();
    for (size_t i = 0; i < checksums.size(); ++i)
      plan.weights[i]->checksum = checksums[i];
  }
  plan.files.push_back(std::move(file));
  return pack();
}

std::vector<uint8_t> PlanBuilder::pack() const {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::Plan::Pack(builder, &plan), fb::PlanIdentifier());
  return {builder.GetBufferPointer(),
          builder.GetBufferPointer() + builder.GetSize()};
}

std::string PlanBuilder::write(const TempDir &folder) {
  folder.write("plan.weights", std::span<const uint8_t>(weights_));
  std::vector<uint8_t> content = bytes();
  return folder.write("plan.fb", std::span<const uint8_t>(content));
}

Ref PhaseBuilder::buffer(std::string name, int64_t cols,
                         moek::Encoding encoding, int64_t rowsPerToken,
                         int64_t fixedRows) {
  auto buffer = std::make_unique<fb::BufferT>();
  buffer->name = std::move(name);
  buffer->encoding = uint8_t(encoding);
  buffer->cols = cols;
  buffer->rows_per_token = rowsPerToken;
  buffer->fixed_rows = fixedRows;
  buffer->offset = end_;
  end_ = moert::alignUp(
      end_ + uint64_t(rowsPerToken * table().max_tokens + fixedRows) *
                 uint64_t(moek::encodedRowBytes(encoding, cols)),
      64);
  fb::DeviceT &device = *owner_.plan.devices[0];
  device.arena_bytes = std::max(device.arena_bytes, end_);
  table().buffers.push_back(std::move(buffer));
  return {fb::OperandKind::Buffer, uint32_t(table().buffers.size() - 1)};
}

void PhaseBuilder::emit(std::string_view op, std::vector<Ref> operands,
                        std::vector<int64_t> ints, std::vector<double> floats) {
  const moert::OpSpec *spec = moert::findOp(op);
  auto instruction = std::make_unique<fb::InstructionT>();
  instruction->op = uint8_t(spec->op);
  instruction->barrier = true;
  instruction->kernels.push_back(
      owner_.kernel(std::string(op) + "_" + owner_.isa()));
  for (size_t i = 0; i < spec->operands.size(); ++i)
    if (spec->operands[i].gemm && operands[i].kind != fb::OperandKind::None)
      instruction->kernels.push_back(owner_.kernel("gemm_f32_" + owner_.isa()));
  // Operands left out at the end are absent, integers are 0.
  operands.resize(spec->operands.size());
  ints.resize(spec->ints.size());
  for (Ref ref : operands)
    instruction->operands.emplace_back(ref.kind, ref.index);
  instruction->ints = std::move(ints);
  instruction->floats = std::move(floats);
  table().instructions.push_back(std::move(instruction));
}

} // namespace moetest
