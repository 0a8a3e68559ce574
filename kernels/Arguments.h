//===- Arguments.h - From operands to argument structs ----------*- C++ -*-===//
//
// What an instruction's argument struct (Abi.h) has from which of its operands
// and parameters, once for all who build them. `Operands` knows those of one
// instruction, by their names in Ops.def, and where they are:
//
//   int32_t integer(name); bool boolean(name); float real(name);
//   bool has(name)                   whether an optional operand is there
//   uint8_t *bytes(name)             address of a buffer; null: not known yet
//   int64_t cols(name), rowsPerToken(name), fixedRows(name)   of a buffer
//   Encoding encoding(name)          of a buffer
//   std::span<const float> constant(name)   with an address on the device
//   WeightView weight(name); KvView cache(name);
//   GemmFn gemm(name); Encoding gemmEncoding(name)   of a weight's gemm
//
// Nothing is checked here, and no operand is too wrong to be asked about.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_ARGUMENTS_H
#define MOE_KERNELS_ARGUMENTS_H

#include "kernels/Activation.h"
#include "kernels/Drivers.h"
#include "kernels/Ring.h"

#include <string_view>

namespace moek {

template <class Operands> class Arguments {
public:
  explicit Arguments(Operands &operands) : o(operands) {}

  template <OpCode Op> ArgsOf<Op> get() const {
    ArgsOf<Op> args{};
    fill(args);
    return args;
  }

private:
  using Name = std::string_view;

  float *f32(Name name) const {
    return reinterpret_cast<float *>(o.bytes(name));
  }
  int32_t *i32(Name name) const {
    return reinterpret_cast<int32_t *>(o.bytes(name));
  }
  /// Elements from one to the next of a token's `rows` rows of floats or
  /// integers, which are packed.
  int64_t stride(Name name, int64_t rows = 1) const {
    return rows > 0 ? o.cols(name) * o.rowsPerToken(name) / rows : 0;
  }
  /// Likewise bytes, in any encoding.
  int64_t byteStride(Name name, int64_t rows = 1) const {
    return isA8(o.encoding(name))
               ? encodedRowBytes(o.encoding(name), o.cols(name))
               : 4 * stride(name, rows);
  }
  /// Of a weight of F32 in rows; null where it is absent.
  const float *vector(Name name) const {
    return o.has(name) ? reinterpret_cast<const float *>(o.weight(name).data)
                       : nullptr;
  }

  void fill(EmbedArgs &a) const {
    a.tokens = i32("tokens");
    a.table = o.weight("table");
    a.out = f32("out");
    a.outStride = stride("out");
    a.begin = o.integer("begin");
    a.cols = a.outStride;
  }
  void fill(RopeTableArgs &a) const {
    auto frequencies = o.constant("inv_freq");
    a.invFreq = frequencies.data();
    a.dim = int32_t(2 * frequencies.size());
    a.out = f32("out");
    a.scale = o.real("scale");
  }
  void fill(RmsNormArgs &a) const {
    a.groups = o.integer("groups");
    a.xStride = stride("x");
    a.cols = stride("x", a.groups);
    a.x = f32("x");
    a.weight = vector("weight");
    a.out = f32("out");
    a.outStride = stride("out");
    a.eps = o.real("eps");
  }
  void fill(QuantizeArgs &a) const {
    a.cols = o.cols("out");
    a.rowsPerToken = int32_t(o.rowsPerToken("out"));
    a.blockCols = int32_t(a8BlockCols(o.encoding("out")));
    a.x = f32("x");
    a.xStride = a.cols;
    a.out = o.bytes("out");
    a.outStride = byteStride("out");
  }
  void fill(LinearArgs &a) const {
    a.w = o.weight("w");
    a.gemm = o.gemm("w");
    a.act = o.bytes("act");
    a.actStride = byteStride("act");
    a.bias = vector("bias");
    a.out = f32("out");
    a.outStride = stride("out");
    a.accumulate = o.boolean("accumulate");
  }
  void fill(GateUpArgs &a) const {
    a.gate = o.weight("gate");
    a.up = o.weight("up");
    a.gateGemm = o.gemm("gate");
    a.upGemm = o.gemm("up");
    a.act = o.bytes("act");
    a.actStride = byteStride("act");
    a.gateBias = vector("gate_bias");
    a.upBias = vector("up_bias");
    a.out = f32("out");
    a.outStride = stride("out");
    a.activation = Activation(o.integer("activation"));
  }
  void fill(ActivationMulArgs &a) const {
    a.gate = f32("gate");
    a.up = f32("up");
    a.out = f32("out");
    a.cols = o.cols("out");
    a.rowsPerToken = int32_t(o.rowsPerToken("out"));
    a.activation = Activation(o.integer("activation"));
  }
  void fill(SigmoidMulArgs &a) const {
    a.cols = stride("x");
    a.gateOfRow = stride("gate") != a.cols;
    a.x = f32("x");
    a.gate = f32("gate");
    a.out = f32("out");
  }
  void fill(ScaleArgs &a) const {
    a.cols = stride("x");
    a.x = f32("x");
    a.out = f32("out");
    a.factor = o.real("factor");
    a.softcap = o.real("softcap");
  }
  void fill(AddArgs &a) const {
    a.cols = stride("x");
    a.x = f32("x");
    a.y = f32("y");
    a.out = f32("out");
  }
  void fill(CopyArgs &a) const {
    int64_t row = encodedRowBytes(o.encoding("x"), o.cols("x"));
    a.x = o.bytes("x");
    a.out = o.bytes("out");
    a.tokenBytes = o.rowsPerToken("x") * row;
    a.fixedBytes = o.fixedRows("x") * row;
  }

  void fill(RopeArgs &a) const {
    a.heads = o.integer("heads");
    a.headStride = o.integer("head_stride");
    a.offset = o.integer("offset");
    a.dim = o.integer("dim");
    a.neox = o.boolean("neox");
    a.x = f32("x");
    a.stride = stride("x");
    a.table = f32("table");
  }
  void fill(MlaLatentArgs &a) const {
    a.latent = o.integer("latent");
    a.rope = o.integer("rope");
    a.x = f32("x");
    a.stride = stride("x");
    a.weight = vector("weight");
    a.table = f32("table");
    a.kv = o.cache("kv");
    a.eps = o.real("eps");
  }
  void fill(AbsorbQueryArgs &a) const {
    a.heads = o.integer("heads");
    a.nope = o.integer("nope");
    a.rope = o.integer("rope");
    a.latent = o.integer("latent");
    a.q = f32("q");
    a.qStride = stride("q");
    a.w = o.weight("w");
    a.out = f32("out");
    a.outStride = stride("out");
  }
  void fill(LatentAttentionArgs &a) const {
    a.heads = o.integer("heads");
    a.latent = o.integer("latent");
    a.rope = o.integer("rope");
    a.splits = o.integer("splits");
    a.scale = o.real("scale");
    a.q = f32("q");
    a.qStride = stride("q");
    a.kv = o.cache("kv");
    a.out = f32("out");
    a.outStride = stride("out", a.splits);
  }
  void fill(LatentCombineArgs &a) const {
    a.heads = o.integer("heads");
    a.latent = o.integer("latent");
    a.splits = o.integer("splits");
    a.window = o.integer("window");
    a.x = f32("x");
    a.xStride = stride("x", a.splits);
    a.out = f32("out");
    a.outStride = stride("out");
  }
  void fill(KvStoreArgs &a) const {
    a.heads = o.integer("heads");
    a.key = o.integer("key");
    a.value = o.integer("value");
    a.k = f32("k");
    a.kStride = stride("k");
    a.v = f32("v");
    a.vStride = stride("v");
    a.kv = o.cache("kv");
    a.ring = splitRings(a.kv, gqaKvWidth(a.heads, a.key, a.value));
  }
  void fill(AttentionArgs &a) const {
    a.heads = o.integer("heads");
    a.kvHeads = o.integer("kv_heads");
    a.key = o.integer("key");
    a.value = o.integer("value");
    a.splits = o.integer("splits");
    a.window = o.integer("window");
    a.scale = o.real("scale");
    a.softcap = o.real("softcap");
    a.q = f32("q");
    a.qStride = stride("q");
    a.kv = o.cache("kv");
    a.ring = splitRings(a.kv, gqaKvWidth(a.kvHeads, a.key, a.value));
    a.sinks = vector("sinks");
    a.out = f32("out");
    a.outStride = stride("out", a.splits);
  }
  void fill(RegroupArgs &a) const {
    a.groups = o.integer("groups");
    a.offset = o.integer("offset");
    a.parts[0] = o.integer("first");
    a.parts[1] = o.integer("second");
    a.parts[2] = o.integer("third");
    a.x = f32("x");
    a.xStride = stride("x");
    a.width = stride("x", a.groups);
    a.out = f32("out");
    a.outStride = stride("out");
  }
  void fill(ShortConvArgs &a) const {
    a.taps = o.integer("taps");
    a.cols = stride("x");
    a.x = f32("x");
    a.xStride = stride("x");
    a.weight = vector("weight");
    a.state = o.cache("state");
    a.out = f32("out");
    a.outStride = stride("out");
  }
  void fill(DeltaGatesArgs &a) const {
    a.heads = stride("beta");
    a.beta = f32("beta");
    a.alpha = f32("alpha");
    a.a = vector("a");
    a.dt = vector("dt");
    a.out = f32("out");
  }
  void fill(DeltaRuleArgs &a) const {
    a.keyHeads = o.integer("key_heads");
    a.heads = o.integer("heads");
    a.key = o.integer("key");
    a.value = o.integer("value");
    a.begin = o.integer("begin");
    a.tiled = o.boolean("tiled");
    a.eps = o.real("eps");
    a.x = f32("x");
    a.xStride = stride("x");
    a.gates = f32("gates");
    a.state = o.cache("state");
    a.out = f32("out");
    a.outStride = stride("out");
  }
  void fill(HeadLinearArgs &a) const {
    a.tail = o.integer("tail");
    a.w = o.weight("w");
    a.gemm = o.gemm("w");
    a.encoding = o.gemmEncoding("w");
    a.x = f32("x");
    a.xStride = stride("x");
    a.out = f32("out");
    a.outStride = stride("out");
  }
  void fill(MlaAttentionArgs &a) const {
    a.heads = o.integer("heads");
    a.nope = o.integer("nope");
    a.rope = o.integer("rope");
    a.latent = o.integer("latent");
    a.value = o.integer("value");
    a.scale = o.real("scale");
    a.q = f32("q");
    a.qStride = stride("q");
    a.kv = o.cache("kv");
    a.wv = o.weight("wv");
    a.valueGemm = o.gemm("wv");
    a.encoding = o.gemmEncoding("wv");
    if (o.has("wk")) {
      a.wk = o.weight("wk");
      a.keyGemm = o.gemm("wk");
      a.encoding = readByBoth(o.gemmEncoding("wk"), a.encoding);
    } else {
      a.wk = o.weight("wk_transposed");
    }
    a.out = f32("out");
    a.outStride = stride("out");
  }

  void fill(LayerNormArgs &a) const {
    a.cols = stride("x");
    a.eps = o.real("eps");
    a.x = f32("x");
    a.xStride = stride("x");
    a.weight = vector("weight");
    a.bias = vector("bias");
    a.out = f32("out");
    a.outStride = stride("out");
  }
  void fill(RowStoreArgs &a) const {
    a.x = f32("x");
    a.xStride = stride("x");
    a.kv = o.cache("kv");
    a.ring = splitRings(a.kv, a.xStride);
  }
  void fill(IndexScoresArgs &a) const {
    a.heads = o.integer("heads");
    a.key = o.integer("key");
    a.ratio = o.integer("ratio");
    a.scale = o.real("scale");
    a.q = f32("q");
    a.qStride = stride("q");
    a.weights = f32("weights");
    a.weightsStride = stride("weights");
    a.kv = o.cache("kv");
    a.out = f32("out");
    a.outStride = stride("out");
  }
  void fill(IndexSelectArgs &a) const {
    a.topK = o.integer("top_k");
    a.ratio = o.integer("ratio");
    a.scores = f32("scores");
    a.scoresStride = stride("scores");
    a.chosen = i32("chosen");
  }
  void fill(SparseAttentionArgs &a) const {
    a.heads = o.integer("heads");
    a.key = o.integer("key");
    a.value = o.integer("value");
    a.window = o.integer("window");
    a.ratio = o.integer("ratio");
    a.topK = o.integer("top_k");
    a.scale = o.real("scale");
    a.q = f32("q");
    a.qStride = stride("q");
    if (o.has("kv")) {
      a.kv = o.cache("kv");
      a.ring = splitRings(a.kv, a.key);
    }
    if (o.has("entries"))
      a.entries = o.cache("entries");
    a.chosen = o.has("chosen") ? i32("chosen") : nullptr;
    a.sinks = vector("sinks");
    a.out = f32("out");
    a.outStride = stride("out");
  }
  void fill(CompressArgs &a) const {
    a.ratio = o.integer("ratio");
    a.overlap = o.boolean("overlap");
    a.cols = stride("out");
    a.kv = f32("kv");
    a.kvStride = stride("kv");
    a.gate = f32("gate");
    a.gateStride = stride("gate");
    a.ape = vector("ape");
    a.state = o.cache("state");
    a.out = f32("out");
    a.outStride = stride("out");
  }
  void fill(EntryStoreArgs &a) const {
    auto frequencies = o.constant("inv_freq");
    a.invFreq = frequencies.data();
    a.dim = int32_t(2 * frequencies.size());
    a.ratio = o.integer("ratio");
    a.eps = o.real("eps");
    a.cols = stride("x");
    a.x = f32("x");
    a.xStride = stride("x");
    a.weight = vector("weight");
    a.kv = o.cache("kv");
  }
  void fill(HyperWeightsArgs &a) const {
    a.streams = o.integer("streams");
    a.iterations = o.integer("iterations");
    a.eps = o.real("eps");
    a.cols = stride("x");
    a.x = f32("x");
    a.xStride = stride("x");
    a.scale = vector("scale");
    a.base = vector("base");
    a.out = f32("out");
    a.outStride = stride("out");
  }
  void fill(HyperCollapseArgs &a) const {
    a.streams = o.integer("streams");
    a.cols = stride("out");
    a.x = f32("x");
    a.xStride = stride("x");
    a.weights = f32("weights");
    a.weightsStride = stride("weights");
    a.out = f32("out");
    a.outStride = stride("out");
  }
  void fill(HyperSpreadArgs &a) const {
    a.streams = o.integer("streams");
    a.cols = stride("y");
    a.y = f32("y");
    a.yStride = stride("y");
    if (o.has("x") && o.has("weights")) {
      a.x = f32("x");
      a.xStride = stride("x");
      a.weights = f32("weights");
      a.weightsStride = stride("weights");
    }
    a.out = f32("out");
    a.outStride = stride("out");
  }
  void fill(ClampedMulArgs &a) const {
    a.gate = f32("gate");
    a.up = f32("up");
    a.out = f32("out");
    a.cols = o.cols("out");
    a.rowsPerToken = int32_t(o.rowsPerToken("out"));
    a.limit = o.real("limit");
  }
  void fill(HashRouterArgs &a) const {
    a.router.experts = o.integer("experts");
    a.router.topK = o.integer("top_k");
    a.router.groups = a.router.groupsUsed = a.router.groupBest = 1;
    a.router.scoring = Scoring(o.integer("scoring"));
    a.router.normalize = o.boolean("normalize");
    a.router.scale = o.real("scale");
    a.router.logits = f32("logits");
    a.router.stride = stride("logits");
    a.router.expertScale = vector("expert_scale");
    a.router.ids = i32("ids");
    a.router.weights = f32("weights");
    a.tokens = i32("tokens");
    a.table = reinterpret_cast<const int32_t *>(o.weight("table").data);
  }

  void fill(RouterArgs &a) const {
    a.experts = o.integer("experts");
    a.topK = o.integer("top_k");
    a.groups = o.integer("groups");
    a.groupsUsed = o.integer("groups_used");
    a.groupBest = o.integer("group_best");
    a.scoring = Scoring(o.integer("scoring"));
    a.normalize = o.boolean("normalize");
    a.scale = o.real("scale");
    a.logits = f32("logits");
    a.stride = stride("logits");
    a.bias = vector("bias");
    a.expertScale = vector("expert_scale");
    a.ids = i32("ids");
    a.weights = f32("weights");
  }
  void fill(SplitChoicesArgs &a) const {
    a.topK = o.integer("top_k");
    a.last = o.integer("last");
    a.ids = i32("ids");
    a.weights = f32("weights");
    a.firstIds = i32("first_ids");
    a.firstWeights = f32("first_weights");
    a.lastIds = i32("last_ids");
    a.lastWeights = f32("last_weights");
  }
  ExpertSlice slice() const {
    ExpertSlice slice;
    if (o.has("map"))
      slice.map = o.constant("map").data();
    slice.begin = o.integer("begin");
    slice.count = o.integer("count");
    return slice;
  }
  void fill(ExpertGroupArgs &a) const {
    a.experts = o.integer("experts");
    a.topK = o.integer("top_k");
    a.slice = slice();
    a.ids = i32("ids");
    a.offsets = i32("offsets");
    a.slots = i32("slots");
  }
  void fill(ExpertsActivationMulArgs &a) const {
    a.experts = o.integer("experts");
    a.topK = o.integer("top_k");
    a.activation = Activation(o.integer("activation"));
    a.cols = stride("out", a.topK);
    a.gate = f32("gate");
    a.up = f32("up");
    a.gateScale = vector("gate_scale");
    a.upScale = vector("up_scale");
    a.offsets = i32("offsets");
    a.slots = i32("slots");
    a.out = f32("out");
  }
  void fill(ExpertsLinearArgs &a) const {
    a.w = o.weight("w");
    a.gemm = o.gemm("w");
    a.bias = vector("bias");
    a.topK = o.integer("top_k");
    a.actPerToken = o.boolean("act_per_token");
    a.offsets = i32("offsets");
    a.slots = i32("slots");
    a.act = o.bytes("act");
    a.actStride = byteStride("act", a.actPerToken ? 1 : a.topK);
    a.out = f32("out");
    a.outStride = stride("out", a.topK);
  }
  void fill(ExpertsGateUpArgs &a) const {
    a.gate = o.weight("gate");
    a.up = o.weight("up");
    a.gateGemm = o.gemm("gate");
    a.upGemm = o.gemm("up");
    a.gateBias = vector("gate_bias");
    a.upBias = vector("up_bias");
    a.topK = o.integer("top_k");
    a.activation = Activation(o.integer("activation"));
    a.offsets = i32("offsets");
    a.slots = i32("slots");
    a.act = o.bytes("act");
    a.actStride = byteStride("act");
    a.out = f32("out");
    a.outStride = stride("out", a.topK);
  }
  void fill(ExpertsCombineArgs &a) const {
    a.topK = o.integer("top_k");
    a.cols = stride("out");
    a.accumulate = o.boolean("accumulate");
    a.y = f32("y");
    a.weights = f32("weights");
    a.out = f32("out");
    if (o.has("ids"))
      a.ids = i32("ids");
    a.slice = slice();
  }

  Operands &o;
};

/// Calls `use(args)` with the argument struct of an instruction of `op`.
template <class Operands, class Use>
auto withArguments(OpCode op, Operands &operands, Use use) {
  Arguments<Operands> arguments(operands);
  switch (op) {
#define MOE_OP(op, name, number, kind)                                         \
  case OpCode::op:                                                             \
    return use(arguments.template get<OpCode::op>());
#include "kernels/Ops.def"
  }
  __builtin_unreachable();
}

} // namespace moek

#endif // MOE_KERNELS_ARGUMENTS_H
