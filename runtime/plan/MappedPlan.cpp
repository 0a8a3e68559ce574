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
    for (const fb::Residency &residency : plan_.residency)
      if (plan_.devices[residency.device()]->kind != fb::DeviceKind::Cpu)
        moves_[residency.weight()] = false;
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
    for (size_t i = 0; i < moves_.size(); ++i)
      if (moves_[i])
        move(*plan_.weights[i]);
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
  void move(fb::WeightT &weight) const {
    const fb::WeightT &source = *plan_.weights[weight.sources.front()];
    weight.file = source.file;
    weight.offset = source.offset;
    weight.layout = source.layout;
    weight.outer_stride = source.outer_stride;
    weight.row_stride = source.row_stride;
    weight.checksum = source.checksum;
    weight.sources.clear();
  }

  fb::PlanT &plan_;
  std::vector<bool> moves_; ///< Weights that stay in their file.
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
