//===- MoeOps.cpp - Verifiers of the model graph's ops --------------------===//

#include "dialects/moe/MoeVerify.h"
#include "kernels/KvCache.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace mlir::moe;

#define GET_OP_CLASSES
#include "dialects/moe/MoeOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Whole-row ops
//===----------------------------------------------------------------------===//

/// Checks that a two-dimensional weight maps the columns of `x` to those of
/// `result`.
static OpChecks &checkMatrix(OpChecks &checks, StringRef name, Value weight,
                             StringRef inputName, int64_t inputs,
                             StringRef outputName, int64_t outputs) {
  checks.weight(name, weight.getType(), 2);
  if (failed(checks.result()))
    return checks;
  return checks
      .equal(name + " columns", inputs, ("to match " + inputName).str(),
             columns(weight))
      .equal(name + " rows", outputs, ("to match " + outputName).str(),
             dim(weight, 0));
}

/// Checks that `residual`, if it is present, has the type of the result's rows.
static OpChecks &checkResidual(OpChecks &checks, Value residual, Value result) {
  if (!residual)
    return checks;
  return checks.tokens({result, residual})
      .equal("residual columns", columns(result), "to match result columns",
             columns(residual));
}

LogicalResult EmbeddingOp::verify() {
  OpChecks checks(*this);
  checks.tokens({getTokens(), getResult()})
      .equal("tokens rank", 1, "(one id per token)",
             cast<RankedTensorType>(getTokens().getType()).getRank())
      .weight("table", getTable().getType(), 2);
  if (failed(checks.result()))
    return failure();
  int64_t read = columns(getResult()), all = columns(getTable());
  auto format =
      getFormat(cast<RankedTensorType>(getTable().getType()).getElementType());
  int64_t block = moek::formatInfo(*format).blockElements;
  return checks.range("result columns", 1, all, read)
      .range("begin", 0, all - std::min(read, all), getBegin())
      .multiple("begin", block, "(the table's blocks)", getBegin())
      .multiple("result columns", block, "(the table's blocks)", read)
      .result();
}

LogicalResult RmsNormOp::verify() {
  OpChecks checks(*this);
  checks.tokens({getX()})
      .size("groups", getGroups())
      .multiple("x columns", getGroups(), "groups", columns(getX()))
      .positive("eps", getEps().convertToDouble(), /*zeroToo=*/true);
  // With as many elements as x has columns, each group has its own part.
  if (getWeight() && columns(getWeight()) != columns(getX()))
    checks.equal("weight length",
                 columns(getX()) / std::max<int64_t>(getGroups(), 1),
                 getGroups() == 1 ? "to match x columns"
                                  : "to match x columns of a group",
                 columns(getWeight()));
  return checks.result();
}

LogicalResult LayerNormOp::verify() {
  OpChecks checks(*this);
  checks.tokens({getX()})
      .positive("eps", getEps().convertToDouble(), /*zeroToo=*/true)
      .equal("weight length", columns(getX()), "to match x columns",
             columns(getWeight()));
  if (getBias())
    checks.equal("bias length", columns(getX()), "to match x columns",
                 columns(getBias()));
  return checks.result();
}

LogicalResult PositionScaleOp::verify() {
  return OpChecks(*this)
      .tokens({getX()})
      .size("length", getLength())
      .require(getOffset() <= 1, "expected an offset of 0 or 1")
      .positive("slope", getSlope().convertToDouble(), /*zeroToo=*/true)
      .result();
}

LogicalResult EmbedPositionsOp::verify() {
  return OpChecks(*this)
      .tokens({getTokens(), getResult()})
      .weight("table", getTable().getType(), 2)
      .equal("table columns", columns(getResult()), "to match result columns",
             columns(getTable()))
      .result();
}

LogicalResult LinearOp::verify() {
  OpChecks checks(*this);
  checks.tokens({getX(), getResult()});
  checkMatrix(checks, "weight", getWeight(), "x columns", columns(getX()),
              "result columns", columns(getResult()));
  if (getBias())
    checks.equal("bias length", columns(getResult()), "to match result columns",
                 columns(getBias()));
  return checkResidual(checks, getResidual(), getResult()).result();
}

LogicalResult AddOp::verify() {
  return OpChecks(*this).tokens({getLhs()}).result();
}

LogicalResult ScaleOp::verify() {
  return OpChecks(*this)
      .tokens({getX()})
      .require(getFactor().isFinite(), "expected a finite factor")
      .positive("softcap", getSoftcap().convertToDouble(), /*zeroToo=*/true)
      .positive("limit", getLimit().convertToDouble(), /*zeroToo=*/true)
      .result();
}

LogicalResult ActivationMulOp::verify() {
  return OpChecks(*this).tokens({getGate()}).result();
}

LogicalResult GateMulOp::verify() {
  return OpChecks(*this)
      .tokens({getX(), getGate()})
      .multiple("x columns", columns(getGate()), "gates", columns(getX()))
      .result();
}

/// Checks that `bias`, if it is present, has as many columns as its matrix has
/// outputs.
static OpChecks &checkBias(OpChecks &checks, StringRef name, Value bias,
                           int64_t outputs) {
  if (!bias)
    return checks;
  return checks.equal(name + " columns", outputs, "to match its matrix",
                      columns(bias));
}

/// Checks that an activation limit occurs only with SiLU, and not in fused ops,
/// whose kernels do not support one; and that a soft one comes with another.
template <typename Op> static OpChecks &checkLimit(OpChecks &checks, Op op) {
  bool limited = !op.getLimit().isZero();
  return checks
      .positive("limit", op.getLimit().convertToDouble(), /*zeroToo=*/true)
      .positive("soft_limit", op.getSoftLimit().convertToDouble(),
                /*zeroToo=*/true)
      .require(op.getSoftLimit().isZero() ||
                   (limited && !op.getClampsActivated()),
               "expected a soft_limit with a limit, and without "
               "clamps_activated")
      .require(!limited ||
                   (op.getActivation() == Activation::Silu && !op.getFused()),
               "expected a limit with silu alone, and not fused");
}

LogicalResult FfnOp::verify() {
  OpChecks checks(*this);
  checkLimit(checks, *this);
  checks.tokens({getX(), getResult()})
      .weight("gate", getGate().getType(), 2)
      .equal("result columns", columns(getX()), "to match x columns",
             columns(getResult()));
  if (failed(checks.result()))
    return failure();
  int64_t hidden = columns(getX()), inner = dim(getGate(), 0);
  checks.equal("gate columns", hidden, "to match x columns",
               columns(getGate()));
  checkMatrix(checks, "up", getUp(), "x columns", hidden, "gate rows", inner);
  checkMatrix(checks, "down", getDown(), "gate rows", inner, "result columns",
              hidden);
  checkBias(checks, "gate_bias", getGateBias(), inner);
  checkBias(checks, "up_bias", getUpBias(), inner);
  checkBias(checks, "down_bias", getDownBias(), hidden);
  return checkResidual(checks, getResidual(), getResult()).result();
}

LogicalResult LmHeadOp::verify() {
  OpChecks checks(*this);
  checks.tokens({getX(), getResult()});
  return checkMatrix(checks, "weight", getWeight(), "x columns",
                     columns(getX()), "result columns", columns(getResult()))
      .result();
}

LogicalResult TransferOp::verify() {
  return OpChecks(*this)
      .require(getFrom() != getTo(), "expected two devices, got '" + getFrom() +
                                         "' to '" + getTo() + "'")
      .result();
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

LogicalResult RopeOp::verify() {
  OpChecks checks(*this);
  checks.size("heads", getHeads())
      .tokens({getX()})
      .multiple("x columns", getHeads(), "heads", columns(getX()));
  if (failed(checks.result()))
    return failure();
  int64_t width = columns(getX()) / int64_t(getHeads());
  return checks.range("rope dimensions", 2, width, getRope().getDim())
      .range("offset", 0, width - getRope().getDim(), getOffset())
      .result();
}

LogicalResult MlaLatentOp::verify() {
  return OpChecks(*this)
      .tokens({getX()})
      .range("layer", 0, INT32_MAX, getLayer())
      .positive("eps", getEps().convertToDouble(), /*zeroToo=*/true)
      .equal("x columns", columns(getWeight()) + getRope().getDim(),
             "(latent + rope)", columns(getX()))
      .equal("kv width", columns(getX()), "to match x columns",
             getType().getWidth())
      .result();
}

/// Checks the shapes of both weights: `wk` is [heads, nope, latent], or [heads,
/// latent, nope] when transposed.
static void checkKeyUp(OpChecks &checks, Value wk, int64_t heads, int64_t nope,
                       int64_t latent, bool transposed) {
  checks.weight("wk", wk.getType(), 3);
  if (transposed)
    checks.shape("wk", "[heads, latent, nope]", {heads, latent, nope},
                 wk.getType());
  else
    checks.shape("wk", "[heads, nope, latent]", {heads, nope, latent},
                 wk.getType());
}

LogicalResult MlaAttentionOp::verify() {
  OpChecks checks(*this);
  if (getChosen())
    checks.tokens({getQ(), getChosen()});
  checks.size("heads", getHeads())
      .size("nope", getNope())
      .size("rope", getRope(), /*zeroToo=*/true)
      .size("latent", getLatent())
      .size("value", getValue())
      .range("pool", 1, getChosen() ? INT32_MAX : 1, getPool())
      .positive("scale", getScale().convertToDouble())
      .tokens({getQ(), getResult()});
  int64_t heads = getHeads(), latent = getLatent();
  checkKeyUp(checks, getWk(), heads, getNope(), latent, getKTransposed());
  return checks.weight("wv", getWv().getType(), 3)
      .shape("wv", "[heads, value, latent]",
             {heads, int64_t(getValue()), latent}, getWv().getType())
      .equal("q columns", heads * int64_t(getNope() + getRope()),
             "(heads * (nope + rope))", columns(getQ()))
      .equal("kv width", latent + int64_t(getRope()), "(latent + rope)",
             getKv().getType().getWidth())
      .equal("result columns", heads * int64_t(getValue()), "(heads * value)",
             columns(getResult()))
      .result();
}

LogicalResult AbsorbQueryOp::verify() {
  OpChecks checks(*this);
  checks.size("heads", getHeads())
      .size("nope", getNope())
      .size("rope", getRope(), /*zeroToo=*/true)
      .size("latent", getLatent())
      .tokens({getQ(), getResult()});
  int64_t heads = getHeads();
  checkKeyUp(checks, getWk(), heads, getNope(), getLatent(), getKTransposed());
  return checks
      .equal("q columns", heads * int64_t(getNope() + getRope()),
             "(heads * (nope + rope))", columns(getQ()))
      .equal("result columns", heads * int64_t(getLatent() + getRope()),
             "(heads * (latent + rope))", columns(getResult()))
      .result();
}

LogicalResult LatentAttentionOp::verify() {
  int64_t heads = getHeads(), latent = getLatent(), rope = getRope();
  return OpChecks(*this)
      .size("heads", heads)
      .size("latent", latent)
      .size("rope", rope, /*zeroToo=*/true)
      .positive("scale", getScale().convertToDouble())
      .tokens({getQ(), getResult()})
      .equal("q columns", heads * (latent + rope), "(heads * (latent + rope))",
             columns(getQ()))
      .equal("kv width", latent + rope, "(latent + rope)",
             getKv().getType().getWidth())
      .equal("result columns", heads * latent, "(heads * latent)",
             columns(getResult()))
      .result();
}

LogicalResult ExpandValueOp::verify() {
  int64_t heads = getHeads(), latent = getLatent(), value = getValue();
  return OpChecks(*this)
      .size("heads", heads)
      .size("latent", latent)
      .size("value", value)
      .tokens({getX(), getResult()})
      .weight("wv", getWv().getType(), 3)
      .shape("wv", "[heads, value, latent]", {heads, value, latent},
             getWv().getType())
      .equal("x columns", heads * latent, "(heads * latent)", columns(getX()))
      .equal("result columns", heads * value, "(heads * value)",
             columns(getResult()))
      .result();
}

LogicalResult KvStoreOp::verify() {
  OpChecks checks(*this);
  int64_t heads = getKvHeads();
  checks.size("kv_heads", heads)
      .range("layer", 0, INT32_MAX, getLayer())
      .tokens({getK(), getV()})
      .multiple("k columns", heads, "kv_heads", columns(getK()))
      .multiple("v columns", heads, "kv_heads", columns(getV()));
  if (failed(checks.result()))
    return failure();
  return checks
      .equal("kv width",
             moek::gqaKvWidth(heads, columns(getK()) / heads,
                              columns(getV()) / heads),
             "(key and value of each head in whole blocks)",
             getType().getWidth())
      .result();
}

LogicalResult GqaAttentionOp::verify() {
  OpChecks checks(*this);
  int64_t heads = getHeads(), kvHeads = getKvHeads();
  int64_t key = getKey(), value = getValue();
  checks.size("heads", heads)
      .size("kv_heads", kvHeads)
      .size("key", key)
      .size("value", value)
      .range("window", 0, INT32_MAX, getWindow())
      .positive("scale", getScale().convertToDouble())
      .positive("softcap", getSoftcap().convertToDouble(), /*zeroToo=*/true)
      .tokens({getQ(), getResult()});
  if (failed(checks.result()))
    return failure();
  checks.multiple("heads", kvHeads, "kv_heads", heads)
      .equal("q columns", heads * key, "(heads * key)", columns(getQ()))
      .equal("kv width", moek::gqaKvWidth(kvHeads, key, value),
             "(key and value of each head in whole blocks)",
             getKv().getType().getWidth())
      .equal("result columns", heads * value, "(heads * value)",
             columns(getResult()));
  if (getSinks())
    checks.equal("sinks length", heads, "to match heads", columns(getSinks()));
  return checks.result();
}

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

LogicalResult RouterOp::verify() {
  OpChecks checks(*this);
  checks.tokens({getX(), getIds(), getWeights()})
      .equal("ids rank", 2, "(one row per token)",
             cast<RankedTensorType>(getIds().getType()).getRank())
      .weight("weight", getWeight().getType(), 2)
      .equal("weight columns", columns(getX()), "to match x columns",
             columns(getWeight()));
  if (failed(checks.result()))
    return failure();
  int64_t experts = dim(getWeight(), 0), groups = getGroups();
  checks.range("top_k", 1, experts, getTopK())
      .range("groups", 1, experts, groups)
      .multiple("experts", groups, "groups", experts)
      .range("groups_used", 1, groups, getGroupsUsed())
      .positive("scale", getScale().convertToDouble());
  if (failed(checks.result()))
    return failure();
  checks.range("top_k (of the experts in groups_used groups)", 1,
               experts / groups * int64_t(getGroupsUsed()), getTopK());
  if (getLogitBias())
    checks.equal("logit_bias length", experts, "to match weight rows",
                 columns(getLogitBias()));
  if (getExpertScale())
    checks.equal("expert_scale length", experts, "to match weight rows",
                 columns(getExpertScale()));
  if (getBias())
    checks.equal("bias length", experts, "to match weight rows",
                 columns(getBias()));
  checks.range("group_best", 1, std::min<int64_t>(2, experts / groups),
               getGroupBest());
  return checks
      .equal("ids columns", getTopK(), "to match top_k", columns(getIds()))
      .equal("weights columns", getTopK(), "to match top_k",
             columns(getWeights()))
      .result();
}

LogicalResult HashRouterOp::verify() {
  OpChecks checks(*this);
  checks.tokens({getX(), getTokens(), getIds(), getWeights()})
      .equal("tokens rank", 1, "(one id per token)",
             cast<RankedTensorType>(getTokens().getType()).getRank())
      .equal("ids rank", 2, "(one row per token)",
             cast<RankedTensorType>(getIds().getType()).getRank())
      .weight("weight", getWeight().getType(), 2)
      .weight("table", getTable().getType(), 2)
      .positive("scale", getScale().convertToDouble());
  if (failed(checks.result()))
    return failure();
  if (getExpertScale())
    checks.equal("expert_scale length", dim(getWeight(), 0),
                 "to match weight rows", columns(getExpertScale()));
  auto table = cast<RankedTensorType>(getTable().getType());
  return checks
      .require(table.getElementType().isSignlessInteger(32),
               "expected a table of i32")
      .require(getScoring() != Scoring::SoftmaxTopK,
               "expected scores of all experts")
      .equal("weight columns", columns(getX()), "to match x columns",
             columns(getWeight()))
      .range("table columns", 1, dim(getWeight(), 0), columns(getTable()))
      .equal("ids columns", columns(getTable()), "to match table columns",
             columns(getIds()))
      .equal("weights columns", columns(getTable()), "to match table columns",
             columns(getWeights()))
      .result();
}

LogicalResult SplitChoicesOp::verify() {
  OpChecks checks(*this);
  checks.tokens({getIds(), getWeights(), getFirstIds(), getFirstWeights(),
                 getLastIds(), getLastWeights()});
  for (auto [what, ids] : {std::pair("ids rank", getIds()),
                           {"first_ids rank", getFirstIds()},
                           {"last_ids rank", getLastIds()}})
    checks.equal(what, 2, "(one row per token)",
                 cast<RankedTensorType>(ids.getType()).getRank());
  if (failed(checks.result()))
    return failure();
  int64_t used = columns(getIds()), last = columns(getLastIds());
  return checks.range("ids columns", 2, getExperts(), used)
      .equal("weights columns", used, "to match ids columns",
             columns(getWeights()))
      .range("last_ids columns", 1, used - 1, last)
      .equal("last_weights columns", last, "to match last_ids columns",
             columns(getLastWeights()))
      .equal("first_ids columns", used - last, "(those not in last_ids)",
             columns(getFirstIds()))
      .equal("first_weights columns", used - last, "to match first_ids columns",
             columns(getFirstWeights()))
      .result();
}

LogicalResult ExpertsOp::verify() {
  OpChecks checks(*this);
  checkLimit(checks, *this);
  checks.tokens({getX(), getIds(), getWeights(), getResult()})
      .equal("ids rank", 2, "(one row per token)",
             cast<RankedTensorType>(getIds().getType()).getRank())
      .weight("gate", getGate().getType(), 3)
      .weight("up", getUp().getType(), 3)
      .weight("down", getDown().getType(), 3);
  if (failed(checks.result()))
    return failure();
  int64_t hidden = columns(getX());
  int64_t experts = dim(getGate(), 0), inner = dim(getGate(), 1);
  ExpertSliceAttr slice = getSliceAttr();
  if (slice)
    checks.equal("gate's experts", slice.getCount(), "to match the slice",
                 experts);
  checks
      .range("ids columns", 1, slice ? slice.getExperts() : experts,
             columns(getIds()))
      .equal("weights columns", columns(getIds()), "to match ids columns",
             columns(getWeights()))
      .equal("gate columns", hidden, "to match x columns", columns(getGate()))
      .shape("up", "[experts, inner, hidden]", {experts, inner, hidden},
             getUp().getType())
      .shape("down", "[experts, hidden, inner]", {experts, hidden, inner},
             getDown().getType())
      .equal("result columns", hidden, "to match x columns",
             columns(getResult()));
  auto checkBiases = [&](StringRef name, Value biases, int64_t outputs) {
    if (biases)
      checks.equal(name + " rows", experts, "to match experts", dim(biases, 0));
    checkBias(checks, name, biases, outputs);
  };
  checkBiases("gate_bias", getGateBias(), inner);
  checkBiases("up_bias", getUpBias(), inner);
  checkBiases("down_bias", getDownBias(), hidden);
  checkBiases("gate_scale", getGateScale(), 1);
  checkBiases("up_scale", getUpScale(), 1);
  checks.require(!hasScales() || (getLimit().isZero() && !getFused() &&
                                  !getGateBias() && !getUpBias()),
                 "expected neither a limit nor biases of gate and up beside "
                 "scales, and no fused kernel");
  return checkResidual(checks, getResidual(), getResult()).result();
}
