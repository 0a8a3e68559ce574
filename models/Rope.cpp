#include "models/Rope.h"

#include "models/Limits.h"
#include "runtime/base/Text.h"

#include <cmath>
#include <fmt/format.h>

using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

namespace {
/// Rejects optional parameters of YaRN that would change the result and are not
/// implemented.
Status refuseOther(const HyperParams &params, const char *name) {
  MOE_ASSIGN_OR_RETURN(double value, params.positive(name, 1.0));
  if (value == 1)
    return Status::ok();
  return params.error(StatusCode::Unsupported, name,
                      fmt::format("is {}; only 1 is supported", value));
}

StatusOr<double> readScale(const HyperParams &params, const char *name,
                           std::optional<double> fallback = {}) {
  return params.within(name, kLeastScale, kMostScale, fallback);
}

/// Fails if the file already scales rotations, by `type` or by divisors:
/// --rope-scaling is for trained contexts without scaling.
Status refuseScaled(const ModelBuilder &model, const std::string &type) {
  constexpr const char *kDivisors = "rope_freqs";
  if (type == "none" && !model.has(kDivisors))
    return Status::ok();
  return Status(StatusCode::Usage,
                fmt::format("{}: --rope-scaling: the file already scales its "
                            "rotary embeddings, by {}; leave the option out",
                            model.file().paths().front(),
                            type == "none"
                                ? fmt::format("the tensor {}.weight", kDivisors)
                                : type));
}

/// Extends the model's context by --rope-scaling. Returns the file's, which is
/// YaRN's original one.
StatusOr<int64_t> extendContext(ModelBuilder &model) {
  MOE_ASSIGN_OR_RETURN(int64_t original,
                       model.params().integer("context_length", 1, INT32_MAX));
  model.facts().contextLength = static_cast<int64_t>(
      std::min(double(original) * model.yarnFactor(), double(INT32_MAX)));
  return original;
}

/// Returns YaRN's factor on queries and keys. Files use different names for the
/// key.
StatusOr<double> readMagnitude(const HyperParams &params, double factor,
                               bool isRelative) {
  MOE_ASSIGN_OR_RETURN(double own,
                       readScale(params, "rope.scaling.attn_factor", 1.0));
  MOE_ASSIGN_OR_RETURN(double yarn,
                       readScale(params, "rope.scaling.yarn_attn_factor", own));
  double multiplier = 0;
  if (isRelative) {
    MOE_ASSIGN_OR_RETURN(
        multiplier,
        params.within("rope.scaling.yarn_log_multiplier", 0, kMostScale, 0.0));
  }
  return (1 + 0.1 * std::log(factor)) /
         (1 + 0.1 * multiplier * std::log(factor)) * yarn;
}

/// Reads a vector of divisors.
StatusOr<std::vector<mlir::moe::Real>>
readDivisors(ModelBuilder &model, const std::string &tensor, int64_t pairs) {
  std::vector<mlir::moe::Real> divisors;
  MOE_ASSIGN_OR_RETURN(std::vector<float> values, model.floats(tensor, pairs));
  for (float value : values) {
    if (!std::isfinite(value) || value < kLeastScale)
      return Status(StatusCode::InvalidFile,
                    fmt::format("{}: tensor \"{}\" holds {} at index {}, "
                                "expected finite numbers of at least {}",
                                model.file().paths().front(), tensor, value,
                                divisors.size(), kLeastScale));
    divisors.push_back(double(value));
  }
  return divisors;
}

/// Reads the divisors of LongRoPE (arXiv 2402.13753). There is one list for
/// contexts up to the original training context, and another for longer ones. A
/// plan uses one list for all positions, because cached keys cannot be rotated
/// again.
StatusOr<std::vector<mlir::moe::Real>>
readLongOrShort(ModelBuilder &model, int64_t original, int64_t pairs) {
  int64_t positions = model.positions();
  if (int64_t trained = model.facts().contextLength)
    positions = std::min(positions, trained);
  const bool isLong = positions > original;
  const char *const names[] = {"rope_factors_short.weight",
                               "rope_factors_long.weight"};
  model.skipTensors(names[!isLong]);
  model.note(fmt::format("a context of {} rotates by {}; one {} than {} would "
                         "rotate by {}",
                         moert::counted(positions, "position"), names[isLong],
                         isLong ? "no longer" : "longer", original,
                         names[!isLong]));
  return readDivisors(model, names[isLong], pairs);
}
} // namespace

StatusOr<Rope> readRope(ModelBuilder &model, const RopeTraits &traits,
                        std::optional<int64_t> headDim,
                        std::optional<int64_t> dimensions) {
  const HyperParams &params = model.params();
  const std::string count =
      fmt::format("rope.dimension_count{}", traits.suffix);
  const std::string frequency = fmt::format("rope.freq_base{}", traits.suffix);
  MOE_ASSIGN_OR_RETURN(int64_t dim,
                       params.integer(count, 2, headDim.value_or(kMostSize),
                                      dimensions ? dimensions : headDim));
  const int64_t all = dim;
  dim /= traits.divisor;
  if (dim < 2 || dim % 2 != 0)
    return params.error(StatusCode::InvalidFile, count,
                        fmt::format("is {}, expected an even number", dim));
  MOE_ASSIGN_OR_RETURN(double base, params.positive(frequency, traits.base));
  if (base <= 1)
    return params.error(StatusCode::InvalidFile, frequency,
                        fmt::format("is {}, expected more than 1", base));
  params.skip({"rope.scaling.original_context_length"});
  std::string type = "none";
  if (traits.scaled) {
    // Files of Phi have the factors without a key for their kind.
    MOE_ASSIGN_OR_RETURN(
        type,
        params.text("rope.scaling.type",
                    model.has("rope_factors_long") ? "longrope" : "none"));
  }
  Rope rope;
  double factor = 1, fast = 32, slow = 1, magnitude = 1;
  int64_t original = 0;
  const bool isAsked = traits.scaled && model.yarnFactor() != 1;
  if (isAsked) {
    MOE_RETURN_IF_ERROR(refuseScaled(model, type));
    type = "yarn";
  }
  if (type == "yarn") {
    if (isAsked) {
      factor = model.yarnFactor();
      MOE_ASSIGN_OR_RETURN(original, extendContext(model));
    } else {
      MOE_ASSIGN_OR_RETURN(factor, readScale(params, "rope.scaling.factor"));
      MOE_ASSIGN_OR_RETURN(
          original,
          params.integer("rope.scaling.original_context_length", 1, INT32_MAX));
    }
    MOE_ASSIGN_OR_RETURN(fast,
                         params.positive("rope.scaling.yarn_beta_fast", fast));
    MOE_ASSIGN_OR_RETURN(slow,
                         params.positive("rope.scaling.yarn_beta_slow", slow));
    MOE_RETURN_IF_ERROR(refuseOther(params, "rope.scaling.yarn_ext_factor"));
    if (traits.magnitude) {
      MOE_ASSIGN_OR_RETURN(
          magnitude, readMagnitude(params, factor, traits.relativeMagnitude));
    } else {
      MOE_RETURN_IF_ERROR(refuseOther(params, "rope.scaling.yarn_attn_factor"));
    }
    rope.yarnFactor = factor;
  } else if (type == "linear") {
    MOE_ASSIGN_OR_RETURN(factor, readScale(params, "rope.scaling.factor"));
  } else if (type == "longrope") {
    MOE_ASSIGN_OR_RETURN(
        original,
        params.integer("rope.scaling.original_context_length", 1, INT32_MAX));
    MOE_ASSIGN_OR_RETURN(magnitude,
                         readScale(params, "rope.scaling.attn_factor", 1.0));
  } else if (type != "none") {
    return params.error(
        StatusCode::Unsupported, "rope.scaling.type",
        fmt::format("is \"{}\"; supported: none, linear, yarn, longrope",
                    type));
  }
  std::vector<mlir::moe::Real> divisors;
  if (type == "longrope") {
    MOE_ASSIGN_OR_RETURN(divisors, readLongOrShort(model, original, dim / 2));
    original = 0;
  } else if (*traits.suffix == 0 && model.has("rope_freqs")) {
    MOE_ASSIGN_OR_RETURN(divisors,
                         readDivisors(model, "rope_freqs.weight", all / 2));
    divisors.resize(size_t(dim / 2), divisors.front());
  }
  rope.attr = mlir::moe::RopeAttr::get(
      model.tokenIds().getContext(), dim, base, factor, original, fast, slow,
      traits.rounded, magnitude, divisors, traits.neox,
      /*reversed=*/false);
  return rope;
}

} // namespace moec
