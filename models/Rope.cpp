#include "models/Rope.h"

#include "models/Limits.h"

#include <fmt/format.h>

using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

namespace {
/// YaRN's optional knobs that would change the result and are not implemented.
Status refuseYarnVariants(const HyperParams &params) {
  for (const char *name :
       {"rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor"}) {
    MOE_ASSIGN_OR_RETURN(double value, params.positive(name, 1.0));
    if (value != 1)
      return params.error(StatusCode::Unsupported, name,
                          fmt::format("is {}; only 1 is supported", value));
  }
  return Status::ok();
}
} // namespace

StatusOr<Rope> readRope(const HyperParams &params, mlir::MLIRContext *context,
                        bool neox) {
  MOE_ASSIGN_OR_RETURN(int64_t dim,
                       params.integer("rope.dimension_count", 2, kMostSize));
  if (dim % 2 != 0)
    return params.error(StatusCode::InvalidFile, "rope.dimension_count",
                        fmt::format("is {}, expected an even number", dim));
  MOE_ASSIGN_OR_RETURN(double base, params.positive("rope.freq_base", 1e4));
  if (base <= 1)
    return params.error(StatusCode::InvalidFile, "rope.freq_base",
                        fmt::format("is {}, expected more than 1", base));
  MOE_ASSIGN_OR_RETURN(std::string type,
                       params.text("rope.scaling.type", "none"));
  Rope rope;
  double factor = 1, fast = 32, slow = 1;
  int64_t original = 0;
  if (type == "yarn") {
    MOE_ASSIGN_OR_RETURN(factor, params.positive("rope.scaling.factor"));
    MOE_ASSIGN_OR_RETURN(
        original,
        params.integer("rope.scaling.original_context_length", 1, INT32_MAX));
    MOE_ASSIGN_OR_RETURN(fast,
                         params.positive("rope.scaling.yarn_beta_fast", fast));
    MOE_ASSIGN_OR_RETURN(slow,
                         params.positive("rope.scaling.yarn_beta_slow", slow));
    MOE_RETURN_IF_ERROR(refuseYarnVariants(params));
    rope.yarnFactor = factor;
  } else if (type == "linear") {
    MOE_ASSIGN_OR_RETURN(factor, params.positive("rope.scaling.factor"));
  } else if (type != "none") {
    return params.error(
        StatusCode::Unsupported, "rope.scaling.type",
        fmt::format("is \"{}\"; supported: none, linear, yarn", type));
  }
  rope.attr = mlir::moe::RopeAttr::get(context, dim, base, factor, original,
                                       fast, slow, neox);
  return rope;
}

} // namespace moec
