//===- TestedGemms.cpp - GPU gemms wrapped as GemmFns ---------------------===//
//
// The GemmFns here copy their matrix to the GPU and run Linear.
//
//===----------------------------------------------------------------------===//

#include "kernels/Activation.h"
#include "test/kernels/GemmProblem.h"
#include "test/kernels/cuda/OnGpu.h"

#include <utility>

namespace moek {

namespace {
constexpr GemmInfo kGemms[] = {
#define MOE_CUDA_GEMM(name, format, encoding, layout)                          \
  {                                                                            \
      #name,          Format::format, Encoding::encoding,                      \
      Layout::layout, Isa::Cuda,      1,                                       \
      kAnyTokens,     kNever},
#include "kernels/Gemms.def"
};
constexpr size_t kGemmCount = std::size(kGemms);

template <size_t I>
void onGpu(const uint8_t *w, int64_t wStride, int64_t rows,
           const uint8_t *const *act, int64_t tokens, int64_t cols, float *out,
           int64_t outStride) {
  constexpr GemmInfo gemm = kGemms[I];
  int64_t rowBytes = encodedRowBytes(gemm.activation, cols);
  test::Matrix<uint8_t> acts(tokens, rowBytes, 64);
  for (int64_t t = 0; t < tokens; ++t)
    std::memcpy(acts.row(t), act[t], size_t(rowBytes));
  LinearArgs args{
      acts.data(), acts.stride, {w, 1, rows, cols, 0, wStride, gemm.format},
      nullptr,     nullptr,     out,
      outStride,   false};
  test::runOnGpu(OpCode::Linear, &args, {int32_t(tokens), 0},
                 {gemm.activation, gemm.layout});
}

template <size_t... I> GemmFn functionAt(size_t i, std::index_sequence<I...>) {
  static constexpr GemmFn functions[] = {&onGpu<I>...};
  return functions[i];
}
} // namespace

GemmFn resolveGemm(std::string_view name) {
  for (size_t i = 0; i < kGemmCount; ++i)
    if (kGemms[i].name == name)
      return functionAt(i, std::make_index_sequence<kGemmCount>());
  // For other names only their existence is known.
  return findGemm(name) ? functionAt(0, std::make_index_sequence<kGemmCount>())
                        : nullptr;
}

} // namespace moek

namespace moek::test {

std::vector<GemmInfo> testedGemms() {
  return {std::begin(kGemms), std::end(kGemms)};
}

} // namespace moek::test
