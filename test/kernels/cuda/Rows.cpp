#include "test/kernels/cuda/Rows.h"

#include <algorithm>
#include <fmt/format.h>

namespace moek::test {

namespace {

/// More bytes than any GPU's L2 has.
constexpr int64_t kBeyondL2 = int64_t(512) << 20;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char &c : result)
    c = char(std::tolower(c));
  return result;
}

/// A product of `tokens` rows with a [rows, cols] weight.
Row linear(Format format, int64_t rows, int64_t cols, int32_t tokens) {
  int64_t bytes = int64_t(rowBytes(format, uint64_t(cols))) * rows;
  return {fmt::format("linear {} {}x{} T={}", lower(formatInfo(format).name),
                      rows, cols, tokens),
          tokens > 64 ? 4 : std::max<int64_t>(4, kBeyondL2 / bytes),
          [=](Workbench &make, int64_t copies) {
            return make.linear(format, rows, cols, tokens, copies);
          }};
}

/// Rows of products with weights as files have them, and float activations.
Row floats(Format format, int64_t rows, int64_t cols, int32_t tokens) {
  int64_t bytes = int64_t(rowBytes(format, uint64_t(cols))) * rows;
  return {fmt::format("floats {} {}x{} T={}", lower(formatInfo(format).name),
                      rows, cols, tokens),
          tokens > 64 ? 2 : std::clamp<int64_t>(kBeyondL2 / bytes, 4, 64),
          [=](Workbench &make, int64_t copies) {
            return make.ofFloats(format, rows, cols, tokens, copies);
          }};
}

/// Gate, up and SiLU of `topK` experts of one token, or of many in prefill.
Row experts(Format format, int32_t experts, int64_t rows, int64_t cols,
            int32_t topK, int32_t tokens) {
  return {fmt::format("experts gate+up {} {}x{}x{} T={}",
                      lower(formatInfo(format).name), topK, rows, cols, tokens),
          tokens > 64 ? 3 : 16, [=](Workbench &make, int64_t copies) {
            return make.experts(format, experts, rows, cols, topK, tokens,
                                copies);
          }};
}

/// Attention on the latent cache including the combination of KV splits.
Row latent(KvType type, int32_t heads, int32_t positions, int32_t splits) {
  int64_t bytes = kvRowBytes(type, 576) * positions;
  return {fmt::format("latent {} heads={} context={} splits={}",
                      kvTypeName(type), heads, positions, splits),
          std::max<int64_t>(2, kBeyondL2 / 4 / bytes),
          [=](Workbench &make, int64_t copies) {
            return make.latent(type, heads, positions, splits, copies);
          }};
}

/// Attention with grouped heads of 128 columns, of the last `tokens` positions
/// of a context.
Row attention(KvType type, int32_t heads, int32_t kvHeads, int32_t positions,
              int32_t splits, int32_t tokens) {
  int64_t bytes = kvRowBytes(type, gqaKvWidth(kvHeads, 128, 128)) * positions;
  return {fmt::format("attention {} heads={}/{} context={} splits={} T={}",
                      kvTypeName(type), heads, kvHeads, positions,
                      splits ? std::to_string(splits) : "plan", tokens),
          tokens > 64 ? 2 : std::max<int64_t>(2, kBeyondL2 / 4 / bytes),
          [=](Workbench &make, int64_t copies) {
            return make.attention(type, heads, kvHeads, 128, positions, splits,
                                  tokens, copies);
          }};
}

/// An instruction of a few elements: what a graph adds per node.
Row node() {
  return {"node", 1000, [](Workbench &make, int64_t copies) {
            Workload work;
            work.copies = copies;
            uint64_t x = make.random(1024);
            cuda::LaunchContext context = make.context(1, 0);
            AddArgs args{at<float>(x), at<float>(x), at<float>(x), 32};
            for (int64_t i = 0; i < copies; ++i)
              work.launches.push_back(
                  launchesOf(OpCode::Add, &args, context)[0]);
            return work;
          }};
}

} // namespace

std::vector<Row> benchRows() {
  std::vector<Row> rows = {node()};
  for (Format format : kPackedFormats)
    for (int32_t tokens : {1, 8})
      rows.push_back(linear(format, 8192, 7168, tokens));
  for (auto [n, k] : {std::pair<int64_t, int64_t>{2048, 2048},
                      {576, 7168},
                      {7168, 16384},
                      {7168, 2048}})
    for (int32_t tokens : {1, 8})
      rows.push_back(linear(Format::Q4_K, n, k, tokens));
  rows.push_back(experts(Format::Q4_K, 64, 1408, 2048, 6, 1));
  rows.push_back(experts(Format::Q4_K, 256, 2048, 7168, 8, 1));
  for (KvType type : {KvType::BF16, KvType::Q8_0})
    for (int32_t heads : {16, 128})
      for (int32_t position : {4096, 32768})
        for (int32_t splits : {64, 128})
          rows.push_back(latent(type, heads, position, splits));
  for (KvType type : {KvType::F16, KvType::Q8_0})
    for (auto [position, splits] :
         {std::pair<int32_t, int32_t>{4096, 1}, {4096, 0}, {32768, 0}})
      rows.push_back(attention(type, 32, 4, position, splits, 1));
  for (int32_t tokens : {512, 2048})
    rows.push_back(attention(KvType::F16, 32, 4, 4096, 1, tokens));
  for (Format format : {Format::Q4_K, Format::Q8_0, Format::Q6_K, Format::Q4_0,
                        Format::IQ2_XS, Format::MXFP4, Format::NVFP4})
    rows.push_back(linear(format, 8192, 7168, 512));
  for (auto [n, k] : {std::pair<int64_t, int64_t>{2048, 2048}, {576, 7168}})
    rows.push_back(linear(Format::Q4_K, n, k, 512));
  for (int32_t tokens : {128, 512}) // 12 and 48 rows for each expert.
    rows.push_back(experts(Format::Q4_K, 64, 1408, 2048, 6, tokens));
  for (int32_t tokens : {1, 8, 512}) {
    rows.push_back(floats(Format::F16, 8192, 7168, tokens));
    // The shape of a router.
    rows.push_back(floats(Format::F32, 256, 7168, tokens));
    rows.push_back(floats(Format::BF16, 64, 2048, tokens));
  }
  return rows;
}

} // namespace moek::test
