//===- DefineGemms.h - The gemms of one format ------------------*- C++ -*-===//
//
// Each source file that kernels/CMakeLists.txt writes includes this once, after
// the Gemms.h of an instruction set and with one line of Formats.def as
// MOE_ONE_FORMAT.
//
//===----------------------------------------------------------------------===//

#include "kernels/Layout.h"
#include "kernels/cpu/GemmTiling.h"
#include "kernels/cpu/OfIsa.h"
#include "kernels/quant/Dequant.h"

namespace moek {
namespace {

/// Calls the gemm that a line of Gemms.def describes.
template <class I, Format F, Layout L, int64_t PanelTokens, class... Args>
MOE_INLINE void gemmOf(Args... args) {
  constexpr bool kIsFloat = formatInfo(F).blockElements == 1;
  if constexpr (L == Layout::Gguf && kIsFloat)
    floatGemm<typename I::Simd, F>(args...);
  else if constexpr (L == Layout::Gguf)
    int8Gemm<I, F, PanelTokens>(args...);
  else if constexpr (kIsFloat)
    rows16FloatGemm<typename I::Simd, typename I::template FloatPanels<F>>(
        args...);
  else
    rows16Gemm<I, F, PanelTokens>(args...);
}

} // namespace
} // namespace moek

using moek::kNever;

#define MOE_GEMM(name, format, encoding, layout, isa, min, max, panel)         \
  MOE_IF_ISA(                                                                  \
      isa, MOE_DEFINE_GEMM(                                                    \
               name, moek::gemmOf<moek::MOE_ISA::Gemms, moek::Format::format,  \
                                  moek::Layout::layout, panel>))
#include "kernels/Gemms.def"

#ifndef MOE_GEMMS_ONLY
#define MOE_FLOAT_FORMAT(name, kernel, id, elements, bytes)                    \
  void moek::MOE_ISA::Dequant::name(const uint8_t *row, int64_t cols,          \
                                    float *out) {                              \
    moek::readKv<moek::MOE_ISA::Simd>(moek::KvType::name, row, cols, out);     \
  }
// The three kinds of format: F32, F16 and BF16 rows are read as KV caches store
// them; quantised blocks are decoded here; the last kind is read by the
// reference decoder only.
#define MOE_BLOCK_FORMAT(name, kernel, id, elements, bytes)                    \
  void moek::MOE_ISA::Dequant::name(const uint8_t *row, int64_t cols,          \
                                    float *out) {                              \
    moek::MOE_ISA::Gemms::dequantize<moek::Format::name>(row, cols, out);      \
  }
#define MOE_REF_FORMAT(name, kernel, id, elements, bytes)                      \
  void moek::MOE_ISA::Dequant::name(const uint8_t *row, int64_t cols,          \
                                    float *out) {                              \
    (void)moek::dequantizeRow(moek::Format::name, row, cols, out);             \
  }
MOE_ONE_FORMAT
#endif
