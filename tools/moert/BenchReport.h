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

/// What the measurements of one run have in common.
struct BenchSubject {
  std::string version;  ///< "moert 0.1.0"
  std::string cpu;      ///< The processor's name.
  std::string planPath; ///< llama-bench's model_filename.
  std::string target;
  std::string modelType; ///< "deepseek2 23.0M Q4_K"
  uint64_t modelBytes = 0, parameters = 0;
  int32_t ubatch = 0;
  std::string kvType; ///< "bf16", "f16+q8_0"
  bool mapped = true; ///< Weights are read from their files' mappings.
  /// Of the weight bytes that the tests touched, the part in huge pages; none
  /// where the system does not tell.
  std::optional<double> hugePages = {};
  /// Where layers have experts on several devices: whose random tokens choose,
  /// and of how many tokens that is.
  std::vector<ExpertShares::Share> expertShares = {};
  int32_t watchedTokens = 0;
};

/// One test, repeated: after `depth` tokens, `prompt` tokens as one prompt,
/// then `gen` tokens one by one; either may be 0.
struct BenchResult {
  int32_t prompt = 0, gen = 0, depth = 0, threads = 0;
  std::string started = {};               ///< UTC, "2026-01-31T12:00:00Z"
  std::vector<uint64_t> nanoseconds = {}; ///< One sample per repetition.
  /// Per token: weight bytes read (generation) or operations on weights
  /// (prompts); 0 for a test of both.
  double bytesPerToken = 0, opsPerToken = 0;
  /// The limit that the test runs into (bytes or int8 operations per second, by
  /// what it has of the above) with as many threads, measured before the first
  /// repetition and after each; empty where not measured. Neighbours on a
  /// shared machine change it within seconds.
  std::vector<Rate> limits = {};

  /// "pp512", "tg128 @ d4096", "pp512+tg128"
  std::string name() const;
  std::vector<double> rates() const; ///< Tokens per second.
};

struct MeanAndDeviation {
  double mean = 0, deviation = 0; ///< Of a sample: divided by n - 1.
};
MeanAndDeviation summarise(const std::vector<double> &samples);

/// llama-bench's columns and keys, so that its scripts read ours.
std::string benchMarkdown(const BenchSubject &,
                          const std::vector<BenchResult> &);
std::string benchJson(const BenchSubject &, const std::vector<BenchResult> &);
std::string benchCsv(const BenchSubject &, const std::vector<BenchResult> &);

/// `rows`, the first of which is the header, all of the same length; text is
/// aligned to the left and numbers to the right.
std::string markdownTable(const std::vector<std::vector<std::string>> &rows,
                          std::span<const size_t> textColumns);
/// RFC 4180, with a header; arrays are left out.
std::string csvText(const std::vector<nlohmann::ordered_json> &records);

} // namespace moert

#endif // MOE_TOOLS_MOERT_BENCHREPORT_H
