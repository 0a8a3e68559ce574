// Arguments of embedding, norms, and everything that multiplies one matrix.
#include "kernels/CopyArgs.h"
#include "runtime/OpReader.h"

namespace moert {
using moek::Encoding;

const void *bindEmbed(OpReader &r) {
  moek::EmbedArgs args{};
  BufferRef tokens = r.buffer("tokens", Encoding::I32);
  BufferRef out = r.buffer("out", Encoding::F32);
  args.table = r.matrix("table");
  // Token ids are checked against the vocabulary before a step.
  r.equal("the table's row count", args.table.rows, "the vocabulary",
          r.plan().vocab());
  r.rows(tokens, 1, 1);
  args.tokens = tokens.i32();
  args.out = out.f32();
  args.outStride = r.rows(out, 1, args.table.cols);
  return r.keep(args);
}

const void *bindRopeTable(OpReader &r) {
  moek::RopeTableArgs args{};
  std::span<const float> frequencies = r.constant("inv_freq");
  BufferRef out = r.buffer("out", Encoding::F32);
  args.invFreq = frequencies.data();
  args.dim = static_cast<int32_t>(2 * frequencies.size());
  args.out = out.f32();
  r.rows(out, 1, 2 * int64_t(frequencies.size()));
  return r.keep(args);
}

const void *bindRmsNorm(OpReader &r) {
  moek::RmsNormArgs args{};
  BufferRef x = r.buffer("x", Encoding::F32);
  BufferRef out = r.buffer("out", Encoding::F32);
  args.groups = r.positive("groups");
  r.require(x.perToken() % args.groups == 0, "groups divide the columns of x");
  args.cols = x.perToken() / args.groups;
  args.weight = r.vector("weight", args.cols);
  args.x = x.f32();
  args.xStride = r.rows(x, 1, args.groups * args.cols);
  args.out = out.f32();
  args.outStride = r.rows(out, 1, args.groups * args.cols);
  args.eps = r.real("eps");
  r.require(args.eps >= 0, "eps is not negative");
  return r.keep(args);
}

const void *bindQuantize(OpReader &r) {
  moek::QuantizeArgs args{};
  BufferRef x = r.buffer("x", Encoding::F32);
  BufferRef out = r.encodedBuffer("out");
  r.require(out.rowsPerToken >= 1, "out has rows per token");
  args.cols = out.cols;
  args.rowsPerToken = static_cast<int32_t>(out.rowsPerToken);
  args.blockCols = static_cast<int32_t>(moek::a8BlockCols(out.encoding));
  args.x = x.f32();
  args.xStride = r.rows(x, out.rowsPerToken, out.cols);
  args.out = out.bytes();
  args.outStride = r.rows(out, out.rowsPerToken, out.cols);
  return r.keep(args);
}

const void *bindLinear(OpReader &r) {
  moek::LinearArgs args{};
  BufferRef act = r.activations("act");
  BufferRef out = r.buffer("out", Encoding::F32);
  args.w = r.matrix("w");
  args.gemm = r.gemm("w", args.w, act);
  args.act = act.bytes();
  args.actStride = r.byteStride(act, 1, args.w.cols);
  args.bias = r.vector("bias", args.w.rows);
  args.out = out.f32();
  args.outStride = r.rows(out, 1, args.w.rows);
  args.accumulate = r.boolean("accumulate");
  return r.keep(args);
}

const void *bindGateUp(OpReader &r) {
  moek::GateUpArgs args{};
  BufferRef act = r.activations("act");
  BufferRef out = r.buffer("out", Encoding::F32);
  args.gate = r.matrix("gate");
  args.up = r.matrix("up");
  r.equal("up's row count", args.up.rows, "gate's", args.gate.rows);
  r.equal("up's column count", args.up.cols, "gate's", args.gate.cols);
  args.gateGemm = r.gemm("gate", args.gate, act);
  args.upGemm = r.gemm("up", args.up, act);
  args.act = act.bytes();
  args.actStride = r.byteStride(act, 1, args.gate.cols);
  args.out = out.f32();
  args.outStride = r.rows(out, 1, args.gate.rows);
  return r.keep(args);
}

const void *bindSiluMul(OpReader &r) {
  moek::SiluMulArgs args{};
  BufferRef gate = r.buffer("gate", Encoding::F32);
  BufferRef up = r.buffer("up", Encoding::F32);
  BufferRef out = r.buffer("out", Encoding::F32);
  r.require(out.rowsPerToken >= 1, "out has rows per token");
  r.rows(gate, out.rowsPerToken, out.cols);
  r.rows(up, out.rowsPerToken, out.cols);
  args.gate = gate.f32();
  args.up = up.f32();
  args.out = out.f32();
  args.cols = out.cols;
  args.rowsPerToken = static_cast<int32_t>(out.rowsPerToken);
  return r.keep(args);
}

const void *bindAdd(OpReader &r) {
  moek::AddArgs args{};
  BufferRef x = r.buffer("x", Encoding::F32);
  BufferRef y = r.buffer("y", Encoding::F32);
  BufferRef out = r.buffer("out", Encoding::F32);
  args.cols = out.perToken();
  r.require(args.cols >= 1, "out has rows per token");
  r.rows(x, 1, args.cols);
  r.rows(y, 1, args.cols);
  args.x = x.f32();
  args.y = y.f32();
  args.out = out.f32();
  return r.keep(args);
}

const void *bindCopy(OpReader &r) {
  moek::CopyArgs args{};
  BufferRef x = r.anyBuffer("x");
  BufferRef out = r.anyBuffer("out");
  r.require(x.encoding == out.encoding && x.cols == out.cols &&
                x.rowsPerToken == out.rowsPerToken &&
                x.fixedRows == out.fixedRows,
            "a copy has the shape of what it copies");
  int64_t row = moek::encodedRowBytes(x.encoding, x.cols);
  args.x = x.bytes();
  args.out = out.bytes();
  args.tokenBytes = x.rowsPerToken * row;
  args.fixedBytes = x.fixedRows * row;
  return r.keep(args);
}

} // namespace moert
