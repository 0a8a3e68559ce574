#include "runtime/schema/OpTable.h"

#include <array>

namespace moert {

namespace {
using moek::OpCode;
using enum OperandRole;
using Name = std::string_view;

/// Storage behind the spans of one OpSpec.
template <size_t O, size_t I, size_t F> struct Signature {
  std::array<OperandSpec, O> operands;
  std::array<Name, I> ints;
  std::array<Name, F> floats;

  constexpr OpSpec spec(OpCode op, Name name) const {
    return {op, name, operands, ints, floats};
  }
};

constexpr Signature<3, 0, 0> embed{
    {{{"tokens", Read}, {"table", Weight}, {"out", Write}}}, {}, {}};
constexpr Signature<2, 0, 0> ropeTable{
    {{{"inv_freq", Constant}, {"out", Write}}}, {}, {}};
constexpr Signature<3, 1, 1> rmsNorm{
    {{{"x", Read}, {"weight", Weight}, {"out", Write}}}, {"groups"}, {"eps"}};
constexpr Signature<2, 0, 0> quantize{{{{"x", Read}, {"out", Write}}}, {}, {}};
constexpr Signature<4, 1, 0> linear{{{{"act", Read},
                                      {"w", Weight, false, true},
                                      {"bias", Weight, true},
                                      {"out", ReadWrite}}},
                                    {"accumulate"},
                                    {}};
constexpr Signature<4, 0, 0> gateUp{{{{"act", Read},
                                      {"gate", Weight, false, true},
                                      {"up", Weight, false, true},
                                      {"out", Write}}},
                                    {},
                                    {}};
constexpr Signature<3, 0, 0> siluMul{
    {{{"gate", Read}, {"up", Read}, {"out", Write}}}, {}, {}};
constexpr Signature<3, 0, 0> add{
    {{{"x", Read}, {"y", Read}, {"out", Write}}}, {}, {}};
constexpr Signature<2, 5, 0> rope{
    {{{"x", ReadWrite}, {"table", Read}}},
    {"heads", "head_stride", "offset", "dim", "neox"},
    {}};
constexpr Signature<4, 2, 1> mlaLatent{
    {{{"x", Read}, {"weight", Weight}, {"table", Read}, {"kv", KvWrite}}},
    {"latent", "rope"},
    {"eps"}};
constexpr Signature<3, 4, 0> absorbQuery{
    {{{"q", Read}, {"w", Weight}, {"out", Write}}},
    {"heads", "nope", "rope", "latent"},
    {}};
constexpr Signature<3, 4, 1> latentAttention{
    {{{"q", Read}, {"kv", KvRead}, {"out", Write}}},
    {"heads", "latent", "rope", "splits"},
    {"scale"}};
constexpr Signature<2, 3, 0> latentCombine{
    {{{"x", Read}, {"out", Write}}}, {"heads", "latent", "splits"}, {}};
constexpr Signature<3, 4, 0> headLinear{
    {{{"x", Read}, {"w", Weight, false, true}, {"out", Write}}},
    {"heads", "rows", "cols", "tail"},
    {}};
constexpr Signature<6, 5, 1> mlaAttention{
    {{{"q", Read},
      {"kv", KvRead},
      {"wk", Weight, true, true},
      {"wk_transposed", Weight, true},
      {"wv", Weight, false, true},
      {"out", Write}}},
    {"heads", "nope", "rope", "latent", "value"},
    {"scale"}};
constexpr Signature<4, 6, 1> router{
    {{{"logits", Read},
      {"bias", Weight, true},
      {"ids", Write},
      {"weights", Write}}},
    {"experts", "top_k", "groups", "groups_used", "scoring", "normalize"},
    {"scale"}};
constexpr Signature<3, 2, 0> expertGroup{
    {{{"ids", Read}, {"offsets", Write}, {"slots", Write}}},
    {"experts", "top_k"},
    {}};
constexpr Signature<5, 2, 0> expertsLinear{{{{"act", Read},
                                             {"w", Weight, false, true},
                                             {"offsets", Read},
                                             {"slots", Read},
                                             {"out", Write}}},
                                           {"top_k", "act_per_token"},
                                           {}};
constexpr Signature<6, 1, 0> expertsGateUp{{{{"act", Read},
                                             {"gate", Weight, false, true},
                                             {"up", Weight, false, true},
                                             {"offsets", Read},
                                             {"slots", Read},
                                             {"out", Write}}},
                                           {"top_k"},
                                           {}};
constexpr Signature<3, 2, 0> expertsCombine{
    {{{"y", Read}, {"weights", Read}, {"out", ReadWrite}}},
    {"top_k", "accumulate"},
    {}};
constexpr Signature<2, 0, 0> copy{{{{"x", Read}, {"out", Write}}}, {}, {}};

constexpr std::array<OpSpec, moek::kOpCodeCount> table{
    embed.spec(OpCode::Embed, "embed"),
    ropeTable.spec(OpCode::RopeTable, "rope_table"),
    rmsNorm.spec(OpCode::RmsNorm, "rms_norm"),
    quantize.spec(OpCode::Quantize, "quantize"),
    linear.spec(OpCode::Linear, "linear"),
    gateUp.spec(OpCode::GateUp, "gate_up"),
    siluMul.spec(OpCode::SiluMul, "silu_mul"),
    add.spec(OpCode::Add, "add"),
    rope.spec(OpCode::Rope, "rope"),
    mlaLatent.spec(OpCode::MlaLatent, "mla_latent"),
    absorbQuery.spec(OpCode::AbsorbQuery, "absorb_query"),
    latentAttention.spec(OpCode::LatentAttention, "latent_attention"),
    headLinear.spec(OpCode::HeadLinear, "head_linear"),
    mlaAttention.spec(OpCode::MlaAttention, "mla_attention"),
    router.spec(OpCode::Router, "router"),
    expertGroup.spec(OpCode::ExpertGroup, "expert_group"),
    expertsLinear.spec(OpCode::ExpertsLinear, "experts_linear"),
    expertsGateUp.spec(OpCode::ExpertsGateUp, "experts_gate_up"),
    expertsCombine.spec(OpCode::ExpertsCombine, "experts_combine"),
    copy.spec(OpCode::Copy, "copy"),
    latentCombine.spec(OpCode::LatentCombine, "latent_combine"),
};

constexpr bool inOpCodeOrder() {
  for (unsigned i = 0; i < table.size(); ++i)
    if (static_cast<unsigned>(table[i].op) != i)
      return false;
  return true;
}
static_assert(inOpCodeOrder(), "the table is indexed by OpCode");
} // namespace

std::span<const OpSpec> opTable() { return table; }

const OpSpec *findOp(unsigned number) {
  return number < table.size() ? &table[number] : nullptr;
}

const OpSpec *findOp(std::string_view name) {
  for (const OpSpec &spec : table)
    if (spec.name == name)
      return &spec;
  return nullptr;
}

} // namespace moert
