// Arguments of embedding, norms, and everything that multiplies one matrix.
#include "kernels/Activation.h"
#include "kernels/CopyArgs.h"
#include "runtime/device/cpu/CpuOperands.h"

namespace moert {

const void *bindEmbed(CpuOperands &o) {
  moek::EmbedArgs args{};
  args.tokens = o.i32("tokens");
  args.table = o.weight("table");
  args.out = o.f32("out");
  args.outStride = o.op().stride("out");
  return o.keep(args);
}

const void *bindRopeTable(CpuOperands &o) {
  moek::RopeTableArgs args{};
  std::span<const float> frequencies = o.op().constant("inv_freq");
  args.invFreq = frequencies.data();
  args.dim = static_cast<int32_t>(2 * frequencies.size());
  args.out = o.f32("out");
  return o.keep(args);
}

const void *bindRmsNorm(CpuOperands &o) {
  moek::RmsNormArgs args{};
  args.groups = o.op().integer("groups");
  args.xStride = o.op().stride("x");
  args.cols = args.xStride / args.groups;
  args.x = o.f32("x");
  args.weight = o.vector("weight");
  args.out = o.f32("out");
  args.outStride = o.op().stride("out");
  args.eps = o.op().real("eps");
  return o.keep(args);
}

const void *bindQuantize(CpuOperands &o) {
  moek::QuantizeArgs args{};
  const fb::Buffer &out = o.op().buffer("out");
  args.cols = out.cols();
  args.rowsPerToken = static_cast<int32_t>(out.rows_per_token());
  args.blockCols =
      static_cast<int32_t>(moek::a8BlockCols(moek::Encoding(out.encoding())));
  args.x = o.f32("x");
  args.xStride = o.op().stride("x");
  args.out = o.bytes("out");
  args.outStride = o.op().stride("out");
  return o.keep(args);
}

const void *bindLinear(CpuOperands &o) {
  moek::LinearArgs args{};
  args.w = o.weight("w");
  args.gemm = o.gemm("w");
  args.act = o.bytes("act");
  args.actStride = o.byteStride("act");
  args.bias = o.vector("bias");
  args.out = o.f32("out");
  args.outStride = o.op().stride("out");
  args.accumulate = o.op().boolean("accumulate");
  return o.keep(args);
}

const void *bindGateUp(CpuOperands &o) {
  moek::GateUpArgs args{};
  args.gate = o.weight("gate");
  args.up = o.weight("up");
  args.gateGemm = o.gemm("gate");
  args.upGemm = o.gemm("up");
  args.act = o.bytes("act");
  args.actStride = o.byteStride("act");
  args.out = o.f32("out");
  args.outStride = o.op().stride("out");
  return o.keep(args);
}

const void *bindSiluMul(CpuOperands &o) {
  moek::SiluMulArgs args{};
  const fb::Buffer &out = o.op().buffer("out");
  args.gate = o.f32("gate");
  args.up = o.f32("up");
  args.out = o.f32("out");
  args.cols = out.cols();
  args.rowsPerToken = static_cast<int32_t>(out.rows_per_token());
  return o.keep(args);
}

const void *bindAdd(CpuOperands &o) {
  moek::AddArgs args{};
  args.cols = o.op().stride("x");
  args.x = o.f32("x");
  args.y = o.f32("y");
  args.out = o.f32("out");
  return o.keep(args);
}

const void *bindCopy(CpuOperands &o) {
  moek::CopyArgs args{};
  const fb::Buffer &x = o.op().buffer("x");
  int64_t row = moek::encodedRowBytes(moek::Encoding(x.encoding()), x.cols());
  args.x = o.bytes("x");
  args.out = o.bytes("out");
  args.tokenBytes = x.rows_per_token() * row;
  args.fixedBytes = x.fixed_rows() * row;
  return o.keep(args);
}

} // namespace moert
