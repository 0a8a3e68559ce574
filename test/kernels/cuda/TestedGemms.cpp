//===- TestedGemms.cpp - Gemms of a GPU as GemmFns ------------------------===//
//
// What stands behind a GemmFn here copies its matrix to the GPU and runs
// Linear.
//
//===----------------------------------------------------------------------===//

#include "kernels/Activation.h"
#include "test/kernels/GemmProblem.h"
#include "test/kernels/cuda/OnGpu.h"

#include <utility>

namespace moek {

namespace {
/// Every format as it lies in files, with floats, and in panels, with A8.
constexpr std::pair<std::string_view, Format> kFormats[] = {
#define MOE_FORMAT(name, id, elements, bytes) {#name, Format::name},
#include "kernels/quant/Formats.def"
};
constexpr size_t kGemms = 2 * std::size(kFormats);

constexpr GemmInfo gemmAt(size_t i) {
  bool isPacked = i % 2;
  return {kFormats[i / 2].first,
          kFormats[i / 2].second,
          isPacked ? Encoding::A8 : Encoding::F32,
          isPacked ? Layout::Rows16 : Layout::Gguf,
          Isa::Cuda,
          1,
          kAnyTokens,
          kNever};
}

std::string nameOf(const GemmInfo &gemm) {
  std::string name = "gemm_";
  for (char c : gemm.name)
    name += char(std::tolower(c));
  return name + (gemm.layout == Layout::Rows16 ? "_rows16_cuda" : "_cuda");
}

template <size_t I>
void onGpu(const uint8_t *w, int64_t wStride, int64_t rows,
           const uint8_t *const *act, int64_t tokens, int64_t cols, float *out,
           int64_t outStride) {
  constexpr GemmInfo gemm = gemmAt(I);
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
  for (size_t i = 0; i < kGemms; ++i)
    if (nameOf(gemmAt(i)) == name)
      return functionAt(i, std::make_index_sequence<kGemms>());
  // Others say no more than that there is one.
  return findGemm(name) ? functionAt(0, std::make_index_sequence<kGemms>())
                        : nullptr;
}

} // namespace moek

namespace moek::test {

std::vector<GemmInfo> testedGemms() {
  // GemmInfo does not own its name.
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (size_t i = 0; i < kGemms; ++i)
      all.push_back(nameOf(gemmAt(i)));
    return all;
  }();
  std::vector<GemmInfo> result;
  for (size_t i = 0; i < kGemms; ++i) {
    GemmInfo gemm = gemmAt(i);
    gemm.name = names[i];
    if (gemm.layout == Layout::Gguf ||
        rows16Shape(gemm.format).codeBits % 16 != 0)
      result.push_back(gemm);
  }
  return result;
}

} // namespace moek::test
