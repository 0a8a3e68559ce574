//===- BenchReport.h - Results of moert bench -------------------*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_BENCHREPORT_H
#define MOE_TOOLS_MOERT_BENCHREPORT_H

#include "runtime/device/cpu/Calibrate.h"
#include "tools/moert/ExpertShares.h"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moert {

/// Properties common to all measurements of a run.
struct BenchSubject {
  std::string version;  ///< "moert 0.1.0"
  std::string cpu;      ///< The processor's name.
  /// The GPUs that the plan runs on, by their drivers' names; "" without.
  std::string gpus = {};
  /// llama-bench's backends: "CPU", "CUDA", or "CUDA,CPU" for both.
  std::string backends = "CPU";
  int32_t gpuLayers = 0; ///< Layers whose attention is on a GPU.
  std::string planPath;  ///< The field model_filename of llama-bench.
  std::string target;
  std::string modelType; ///< "deepseek2 23.0M Q4_K"
  uint64_t modelBytes = 0, parameters = 0;
  int32_t ubatch = 0;
  std::string kvType; ///< "bf16", "f16+q8_0"
  bool mapped = true; ///< Whether weights are read from mapped files.
  /// Fraction of the touched weight bytes that are in huge pages; none if
  /// unknown.
  std::optional<double> hugePages = {};
  /// If layers have experts on several devices: the fraction of choices of
  /// random tokens that each device gets, and the number of these tokens.
  std::vector<ExpertShares::Share> expertShares = {};
  int32_t watchedTokens = 0;
};

/// A repeated test: after `depth` tokens, `prompt` tokens as one prompt, then
/// `gen` tokens one by one; either may be 0.
struct BenchResult {
  int32_t prompt = 0, gen = 0, depth = 0, threads = 0;
  std::string started = {};               ///< UTC time: "2026-01-31T12:00:00Z".
  std::vector<uint64_t> nanoseconds = {}; ///< One for each repetition.
  /// Per token: bytes of weights read (generation) or operations on weights
  /// (prompts); 0 for a test of both.
  double bytesPerToken = 0, opsPerToken = 0;
  /// The limit of this test (bytes or int8 operations per second, depending on
  /// which of the above is set) with as many threads, measured before the first
  /// repetition and after each; empty if not measured. On a shared machine it
  /// changes within seconds.
  std::vector<Rate> limits = {};

  /// "pp512", "tg128 @ d4096", "pp512+tg128"
  std::string name() const;
  std::vector<double> rates() const; ///< Rates in tokens per second.
};

struct MeanAndDeviation {
  /// The deviation is that of a sample (divided by n - 1).
  double mean = 0, deviation = 0;
};
MeanAndDeviation summarise(const std::vector<double> &samples);

/// llama-bench's columns and keys, so that scripts for llama-bench can read
/// ours.
std::string benchMarkdown(const BenchSubject &,
                          const std::vector<BenchResult> &);
/// Returns recordsText() with these formats.
std::string benchRecords(const BenchSubject &, const std::vector<BenchResult> &,
                         const std::string &format);

/// Formats `rows`, the first of which is the header, all of equal length. Text
/// is left-aligned, numbers right-aligned.
std::string markdownTable(const std::vector<std::vector<std::string>> &rows,
                          std::span<const size_t> textColumns);
/// Formats records as "json", a list; as "jsonl", one object on each line; or
/// as "csv" (RFC 4180) with a header, where arrays are left out.
std::string recordsText(const std::vector<nlohmann::ordered_json> &records,
                        const std::string &format);

} // namespace moert

#endif // MOE_TOOLS_MOERT_BENCHREPORT_H
