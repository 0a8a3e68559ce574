#include "runtime/device/cpu/KernelRates.h"

#include "runtime/device/cpu/KernelBench.h"

#include <algorithm>

namespace moert {

using moek::GemmInfo;
using moek::Isa;
using moek::KernelInfo;
using moek::OpCode;

namespace {
/// The speed of kernels changes abruptly between 4 and 5 tokens and between 11
/// and 12.
const std::vector<int32_t> kRows = {1, 2, 4, 5, 8, 11, 12, 16, 32, 64, 512};
const std::vector<int32_t> kFewRows = {1, 4, 5, 16, 512};
/// Above these numbers of tokens, it makes no difference whether weights come
/// from memory or from a cache.
constexpr int32_t kCacheRows = 64, kFewCacheRows = 4;

/// Returns the kernels for a format and layout that a device with instruction
/// set `best` may use: the best one and, with AMX, also the next, which handles
/// few tokens.
std::vector<const GemmInfo *> gemmsOf(Isa best) {
  std::vector<const GemmInfo *> all;
  for (const GemmInfo &gemm : moek::gemmTable()) {
    if (!runsOn(gemm.isa, best))
      continue;
    bool bettered =
        std::ranges::any_of(moek::gemmTable(), [&](const GemmInfo &other) {
          return other.format == gemm.format && other.layout == gemm.layout &&
                 other.isa > gemm.isa && runsOn(other.isa, best) &&
                 other.isa != Isa::Amx;
        });
    if (!bettered)
      all.push_back(&gemm);
  }
  return all;
}

const KernelInfo *opKernelOf(OpCode op, Isa best) {
  const KernelInfo *found = nullptr;
  for (const KernelInfo &kernel : moek::kernelTable())
    if (kernel.op == op && runsOn(kernel.isa, best) &&
        (!found || kernel.isa > found->isa))
      found = &kernel;
  return found;
}

/// Runs all measurements, one kernel after another.
class Round {
public:
  Round(KernelBench &bench, Isa best, const KernelRateOptions &options,
        const std::function<void(std::string_view)> &progress)
      : bench(bench), best(best), options(options), progress(progress) {}

  Status run() {
    result.overheads = bench.overheads();
    for (const GemmInfo *gemm : gemmsOf(best))
      if (wanted(gemm->name))
        MOE_RETURN_IF_ERROR(measureGemm(*gemm));
    for (OpCode op :
         {OpCode::RmsNorm,       OpCode::Quantize,       OpCode::ActivationMul,
          OpCode::Add,           OpCode::Rope,           OpCode::MlaLatent,
          OpCode::Router,        OpCode::ExpertsCombine, OpCode::AbsorbQuery,
          OpCode::ShortConv,     OpCode::DeltaGates,     OpCode::DeltaRule,
          OpCode::LayerNorm,     OpCode::RowStore,       OpCode::IndexSelect,
          OpCode::Compress,      OpCode::EntryStore,     OpCode::HyperWeights,
          OpCode::HyperCollapse, OpCode::HyperSpread})
      if (const KernelInfo *opKernel = opKernelOf(op, best);
          opKernel && wanted(opKernel->name))
        for (const char *variant : variantsOf(op))
          measureOpKernel(*opKernel, variant);
    for (unsigned type = 0; type < moek::kKvTypeCount; ++type) {
      measureSplits(OpCode::LatentAttention, moek::KvType(type), 16);
      // 128 tokens are processed in tiles, which take seconds in plain C++.
      measureSplits(OpCode::Attention, moek::KvType(type),
                    best == Isa::Ref ? 16 : 128);
      measureMla(moek::KvType(type));
      measureDepths(OpCode::SparseAttention, moek::KvType(type));
      measureDepths(OpCode::BlockAttention, moek::KvType(type));
    }
    // Indexers choose by small differences, so their keys are F16 or wider.
    measureDepths(OpCode::IndexScores, moek::KvType::F16);
    measureDepths(OpCode::BlockScores, moek::KvType::F16);
    return Status::ok();
  }

  KernelRates result;

private:
  bool wanted(std::string_view name) {
    if (name.find(options.only) == name.npos)
      return false;
    if (progress)
      progress(name);
    return true;
  }

  const std::vector<int32_t> &rows() const {
    // Plain C++ takes seconds for hundreds of tokens.
    static const std::vector<int32_t> ofRef = {1, 8};
    return best == Isa::Ref ? ofRef : options.brief ? kFewRows : kRows;
  }

  Status measureGemm(const GemmInfo &gemm) {
    const KernelInfo *opKernel = opKernelOf(OpCode::Linear, gemm.isa);
    KernelRate rate{std::string(gemm.name), {}, {}, {}, {}};
    for (int32_t tokens : rows()) {
      rate.at.push_back(tokens);
      double memory = bench.gemm(gemm, *opKernel, tokens, /*cached=*/false);
      rate.memory.push_back(memory);
      rate.cache.push_back(
          tokens > (options.brief ? kFewCacheRows : kCacheRows)
              ? memory
              : bench.gemm(gemm, *opKernel, tokens, /*cached=*/true));
    }
    result.kernels.push_back(std::move(rate));
    return Status::ok();
  }

  /// The variants of an instruction's kernels, as in KernelRate.h.
  static std::vector<const char *> variantsOf(OpCode op) {
    switch (op) {
    case OpCode::ShortConv:
      return {"", "parts", "plain"};
    case OpCode::DeltaGates:
      return {"", "channels"};
    case OpCode::DeltaRule:
      return {"", "channels", "sums"};
    default:
      return {""};
    }
  }

  void measureOpKernel(const KernelInfo &opKernel, const char *variant) {
    KernelRate rate{std::string(opKernel.name), variant, {}, {}, {}};
    for (int32_t tokens : {1, 16, 512}) {
      if (best == Isa::Ref && tokens > 16)
        break;
      rate.at.push_back(tokens);
      rate.memory.push_back(bench.opKernel(opKernel, tokens, variant));
    }
    result.kernels.push_back(std::move(rate));
  }

  /// Measures attention with one token, using KV splits, and with `many`
  /// tokens.
  void measureSplits(OpCode op, moek::KvType type, int32_t many) {
    const KernelInfo *opKernel = opKernelOf(op, best);
    const KernelInfo *combine = opKernelOf(OpCode::CombineSplits, best);
    if (!opKernel || !combine || !wanted(opKernel->name))
      return;
    for (int32_t tokens : {1, many}) {
      KernelRate rate{std::string(opKernel->name),
                      std::string(moek::kvTypeName(type)) +
                          (tokens == 1 ? " one" : " many"),
                      {},
                      {},
                      {}};
      for (int32_t depth : {256, 1024, 8192}) {
        if (depth > 1024 && (tokens > 1 || best == Isa::Ref))
          break;
        rate.at.push_back(depth);
        const KernelInfo *spans = tokens == 1 ? combine : nullptr;
        rate.memory.push_back(
            op == OpCode::Attention
                ? bench.grouped(*opKernel, spans, type, tokens, depth)
                : bench.latent(*opKernel, spans, type, tokens, depth));
      }
      result.kernels.push_back(std::move(rate));
    }
  }

  double depthRate(const KernelInfo &opKernel, moek::KvType type,
                   int32_t tokens, int32_t depth) {
    switch (opKernel.op) {
    case OpCode::IndexScores:
      return bench.indexScores(opKernel, type, tokens, depth);
    case OpCode::BlockScores:
      return bench.blockScores(opKernel, type, tokens, depth);
    case OpCode::BlockAttention:
      return bench.blockAttention(opKernel, type, tokens, depth);
    default:
      return bench.sparse(opKernel, type, tokens, depth);
    }
  }

  /// Measures an indexer, or attention to what one chose, with one token and
  /// with several.
  void measureDepths(OpCode op, moek::KvType type) {
    const KernelInfo *opKernel = opKernelOf(op, best);
    if (!opKernel || !wanted(opKernel->name))
      return;
    for (int32_t tokens : {1, 16}) {
      KernelRate rate{std::string(opKernel->name),
                      std::string(moek::kvTypeName(type)) +
                          (tokens == 1 ? " one" : " many"),
                      {},
                      {},
                      {}};
      for (int32_t depth : {256, 2048}) {
        if (depth > 256 && (tokens > 1 || best == Isa::Ref))
          break;
        rate.at.push_back(depth);
        rate.memory.push_back(depthRate(*opKernel, type, tokens, depth));
      }
      result.kernels.push_back(std::move(rate));
    }
  }

  void measureMla(moek::KvType type) {
    const KernelInfo *opKernel = opKernelOf(OpCode::MlaAttention, best);
    if (!opKernel || !wanted(opKernel->name))
      return;
    int32_t depth = best == Isa::Ref ? 64 : 512;
    MlaRates rates = bench.mla(*opKernel, type, depth);
    auto add = [&](const char *what, double value) {
      result.kernels.push_back(
          {std::string(opKernel->name),
           std::string(moek::kvTypeName(type)) + " " + what,
           {double(depth)},
           {value},
           {}});
    };
    add("rows", rates.rows);
    add("floats", rates.floats);
    add("pairs", rates.pairs);
  }

  KernelBench &bench;
  Isa best;
  const KernelRateOptions &options;
  const std::function<void(std::string_view)> &progress;
};
} // namespace

StatusOr<KernelRates>
measureKernels(int threads, const KernelRateOptions &options,
               const std::function<void(std::string_view)> &progress) {
  MOE_ASSIGN_OR_RETURN(KernelBench bench,
                       KernelBench::create(threads, options));
  Round round(bench, bestHostIsa(), options, progress);
  MOE_RETURN_IF_ERROR(round.run());
  round.result.disturbance = bench.disturbance();
  return std::move(round.result);
}

void keepBest(KernelRates &into, const KernelRates &other) {
  if (into.kernels.empty()) {
    into = other;
    return;
  }
  auto raise = [](std::vector<double> &to, const std::vector<double> &from) {
    for (size_t i = 0; i < std::min(to.size(), from.size()); ++i)
      to[i] = std::max(to[i], from[i]);
  };
  for (KernelRate &rate : into.kernels)
    for (const KernelRate &found : other.kernels)
      if (found.kernel == rate.kernel && found.variant == rate.variant &&
          found.at == rate.at) {
        raise(rate.memory, found.memory);
        raise(rate.cache, found.cache);
      }
  auto lower = [](double &to, double from) { to = std::min(to, from); };
  lower(into.overheads.step, other.overheads.step);
  lower(into.overheads.instruction, other.overheads.instruction);
  lower(into.overheads.barrier, other.overheads.barrier);
  into.disturbance = other.disturbance;
}

} // namespace moert
