#include "runtime/plan/MappedPlan.h"

#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/PlanWeights.h"

#include <algorithm>

namespace moert {

namespace {

/// Returns the gemm that reads the same weights as `gemm` in the file's layout,
/// or null.
const moek::GemmInfo *onFileRows(const moek::GemmInfo &gemm) {
  auto found =
      std::ranges::find_if(moek::gemmTable(), [&](const moek::GemmInfo &other) {
        return other.layout == moek::Layout::Gguf &&
               other.format == gemm.format && other.isa == gemm.isa &&
               other.activation == gemm.activation &&
               other.minTokens <= gemm.minTokens &&
               other.maxTokens >= gemm.maxTokens;
      });
  return found == moek::gemmTable().end() ? nullptr : &*found;
}

/// Changes a plan that was verified.
class Mapping {
public:
  Mapping(fb::PlanT &plan, std::vector<bool> ofHost)
      : plan_(plan), moves_(std::move(ofHost)) {
    for (size_t i = 0; i < moves_.size(); ++i)
      moves_[i] = moves_[i] && isOneTensor(*plan_.weights[i]);
    std::vector<bool> hasPlace(moves_.size());
    for (const fb::Residency &residency : plan_.residency) {
      hasPlace[residency.weight()] = true;
      if (plan_.devices[residency.device()]->kind != fb::DeviceKind::Cpu)
        moves_[residency.weight()] = false;
    }
    // A table of embeddings that is the head, too, stays where it is read by
    // rows.
    for (uint32_t i = 0; i < moves_.size(); ++i)
      if (moves_[i] && hasPlace[sourceOf(i)])
        moves_[i] = false;
    forEachGemm([&](uint32_t weight, uint32_t &kernel) {
      if (!otherKernel(kernel))
        moves_[weight] = false;
    });
  }

  void run() {
    forEachGemm([&](uint32_t weight, uint32_t &kernel) {
      if (moves_[weight])
        kernel = numberOf(otherKernel(kernel)->name);
    });
    for (const auto &phase : plan_.phases)
      for (const auto &instruction : phase->instructions)
        for (fb::Operand &operand : instruction->operands)
          if (operand.kind() == fb::OperandKind::Weight &&
              moves_[operand.index()])
            operand = {operand.kind(), sourceOf(operand.index())};
    for (fb::Residency &residency : plan_.residency)
      if (moves_[residency.weight()])
        residency = {sourceOf(residency.weight()), residency.device(),
                     residency.mode()};
  }

private:
  /// Whether the weight is a weight of a model file in another layout.
  bool isOneTensor(const fb::WeightT &weight) const {
    if (weight.sources.size() != 1)
      return false;
    const fb::WeightT &source = *plan_.weights[weight.sources.front()];
    return source.outer == weight.outer && source.rows == weight.rows &&
           source.format == weight.format;
  }

  /// Calls `visit` with the weight and the kernel of each product.
  template <class Visit> void forEachGemm(Visit visit) {
    for (const auto &phase : plan_.phases)
      for (const auto &instruction : phase->instructions) {
        const OpSpec &spec = *findOp(unsigned(instruction->op));
        size_t position = 0;
        for (size_t i = 0; i < spec.operands.size(); ++i) {
          const fb::Operand &operand = instruction->operands[i];
          if (spec.operands[i].gemm &&
              operand.kind() != fb::OperandKind::None &&
              ++position < instruction->kernels.size())
            visit(operand.index(), instruction->kernels[position]);
        }
      }
  }

  const moek::GemmInfo *otherKernel(uint32_t kernel) const {
    const moek::GemmInfo *gemm = moek::findGemm(plan_.kernels[kernel]);
    return gemm ? onFileRows(*gemm) : nullptr;
  }
  uint32_t numberOf(std::string_view kernel) {
    auto known = std::ranges::find(plan_.kernels, kernel);
    if (known == plan_.kernels.end())
      known = plan_.kernels.insert(known, std::string(kernel));
    return uint32_t(known - plan_.kernels.begin());
  }
  uint32_t sourceOf(uint32_t weight) const {
    return plan_.weights[weight]->sources.front();
  }

  fb::PlanT &plan_;
  /// Whether each weight moves; others stay in their file.
  std::vector<bool> moves_;
};

} // namespace

StatusOr<Plan> withMappedRows(const Plan &plan) {
  std::unique_ptr<fb::PlanT> root(fb::GetPlan(plan.bytes().data())->UnPack());
  fb::PlanT &table =
      plan.chosen() > 0 ? *root->rungs[plan.chosen() - 1] : *root;
  Mapping(table, hostWeights(plan)).run();
  root->checksum = 0;
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::Plan::Pack(builder, root.get()), fb::PlanIdentifier());
  MOE_ASSIGN_OR_RETURN(Plan mapped, Plan::fromBytes({builder.GetBufferPointer(),
                                                     builder.GetSize()},
                                                    plan.path()));
  mapped.choose(plan.chosen());
  return mapped;
}

} // namespace moert
