#include "tools/moert/BenchReport.h"

#include "tools/moert/Median.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

namespace moert {

namespace {
using Json = nlohmann::ordered_json;

MeanAndDeviation nanoseconds(const BenchResult &result) {
  return summarise({result.nanoseconds.begin(), result.nanoseconds.end()});
}

/// The rate of a test and its limit on this machine.
struct Reached {
  double value = 0; ///< GB/s of weights, or TOPS.
  std::string_view unit = {};
  Rate limit = {}; ///< 0 if it was not measured.
  /// Absent if not measured.
  std::optional<double> ofBest = {}, ofSustained = {};
};

/// Returns medians over the test's repetitions and over the samples of the
/// limit; nothing if `perToken` is 0, as the test is then not bound by this
/// limit.
std::optional<Reached> reached(const BenchResult &result, double perToken,
                               double unit, std::string_view name) {
  if (perToken <= 0)
    return std::nullopt;
  Reached reached{.value = perToken * median(result.rates()) / unit,
                  .unit = name};
  std::vector<double> best, sustained;
  for (const Rate &rate : result.limits) {
    best.push_back(rate.best / unit);
    sustained.push_back(rate.sustained / unit);
  }
  if (best.empty())
    return reached;
  reached.limit = {median(best), median(sustained)};
  reached.ofBest = reached.value / reached.limit.best;
  reached.ofSustained = reached.value / reached.limit.sustained;
  return reached;
}
std::optional<Reached> reachedBandwidth(const BenchResult &result) {
  return reached(result, result.bytesPerToken, 1e9, "GB/s");
}
std::optional<Reached> reachedPeak(const BenchResult &result) {
  return reached(result, result.opsPerToken, 1e12, "TOPS");
}

/// Returns text such as "87.1 % of 31.2 GB/s", or "" for a test without a
/// limit.
std::string fractionText(const BenchResult &result,
                         std::optional<double> Reached::*fraction,
                         double Rate::*limit) {
  std::optional<Reached> of = reachedBandwidth(result);
  if (!of)
    of = reachedPeak(result);
  if (!of || result.limits.empty())
    return "";
  return fmt::format("{:.1f} % of {:.3g} {}", 100 * ((*of).*fraction).value(),
                     of->limit.*limit, of->unit);
}

Json orNull(std::optional<double> value) {
  return value ? Json(*value) : Json(nullptr);
}

Json positiveOrNull(double value) {
  return value > 0 ? Json(value) : Json(nullptr);
}

Json record(const BenchSubject &subject, const BenchResult &result) {
  MeanAndDeviation time = nanoseconds(result);
  MeanAndDeviation rate = summarise(result.rates());
  std::optional<Reached> bandwidth = reachedBandwidth(result);
  std::optional<Reached> peak = reachedPeak(result);
  auto value = [](const std::optional<Reached> &of) {
    return of ? Json(of->value) : Json(nullptr);
  };
  auto limit = [](const std::optional<Reached> &of, double Rate::*which) {
    return of && of->ofBest ? Json(of->limit.*which) : Json(nullptr);
  };
  auto fraction = [](const std::optional<Reached> &of,
                     std::optional<double> Reached::*which) {
    return of ? orNull((*of).*which) : Json(nullptr);
  };
  Json samples = Json::array(), shares = Json::array();
  for (const ExpertShares::Share &share : subject.expertShares)
    shares.push_back({{"device", share.device},
                      {"of_experts", share.expected},
                      {"of_choices", share.seen}});
  for (const Rate &rate : result.limits)
    samples.push_back(rate.best);
  return {{"build_commit", subject.version},
          {"cpu_info", subject.cpu},
          {"gpu_info", subject.gpus},
          {"backends", subject.backends},
          {"model_filename", subject.planPath},
          {"model_type", subject.modelType},
          {"model_size", subject.modelBytes},
          {"model_n_params", subject.parameters},
          {"target", subject.target},
          {"n_batch", subject.ubatch},
          {"n_ubatch", subject.ubatch},
          {"n_threads", result.threads},
          {"n_gpu_layers", subject.gpuLayers},
          {"type_k", subject.kvType},
          {"type_v", subject.kvType},
          {"use_mmap", subject.mapped},
          {"weights_in_huge_pages", orNull(subject.hugePages)},
          {"n_prompt", result.prompt},
          {"n_gen", result.gen},
          {"n_depth", result.depth},
          {"test_time", result.started},
          {"avg_ns", uint64_t(time.mean)},
          {"stddev_ns", uint64_t(time.deviation)},
          {"avg_ts", rate.mean},
          {"stddev_ts", rate.deviation},
          {"weight_bytes_per_token", positiveOrNull(result.bytesPerToken)},
          {"ops_per_token", positiveOrNull(result.opsPerToken)},
          {"read_gbps", value(bandwidth)},
          {"bandwidth_fraction", fraction(bandwidth, &Reached::ofBest)},
          {"tops", value(peak)},
          {"peak_fraction", fraction(peak, &Reached::ofBest)},
          {"limit_read_gbps", limit(bandwidth, &Rate::best)},
          {"limit_tops", limit(peak, &Rate::best)},
          {"sustained_read_gbps", limit(bandwidth, &Rate::sustained)},
          {"sustained_bandwidth_fraction",
           fraction(bandwidth, &Reached::ofSustained)},
          {"sustained_tops", limit(peak, &Rate::sustained)},
          {"sustained_peak_fraction", fraction(peak, &Reached::ofSustained)},
          {"samples_ns", result.nanoseconds},
          {"samples_ts", result.rates()},
          {"samples_limit", samples},
          {"expert_shares", shares}};
}

/// Returns a line such as "experts chosen by 64 random tokens, in layers on
/// several devices: gpu0 41.0 % with 12.5 % of the experts, cpu0 ...", or "".
std::string sharesText(const BenchSubject &subject) {
  if (subject.expertShares.empty())
    return "";
  std::string text;
  for (const ExpertShares::Share &share : subject.expertShares)
    text += fmt::format("{}{} {:.1f} % with {:.1f} % of the experts",
                        text.empty() ? "" : ", ", share.device,
                        100 * share.seen, 100 * share.expected);
  return fmt::format(
      "\nexperts chosen by {} random tokens, in layers on several "
      "devices: {}\n",
      subject.watchedTokens, text);
}

/// Quotes a field (RFC 4180); quotes in it are doubled.
std::string csvField(const Json &value) {
  std::string text = value.is_null()     ? ""
                     : value.is_string() ? value.get<std::string>()
                                         : value.dump();
  std::string quoted = "\"";
  for (char c : text)
    quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

/// RFC 4180.
std::string csvText(const std::vector<Json> &records) {
  std::string csv;
  for (const Json &fields : records) {
    std::string header, line;
    for (const auto &[key, value] : fields.items()) {
      if (value.is_array())
        continue; // Only JSON has the samples, as in llama-bench.
      header += (header.empty() ? "" : ",") + key;
      line += (line.empty() ? "" : ",") + csvField(value);
    }
    if (csv.empty())
      csv = header + "\n";
    csv += line + "\n";
  }
  return csv;
}
} // namespace

std::string BenchResult::name() const {
  std::string name = prompt > 0 ? fmt::format("pp{}", prompt) : "";
  if (gen > 0)
    name += fmt::format("{}tg{}", prompt > 0 ? "+" : "", gen);
  return depth > 0 ? fmt::format("{} @ d{}", name, depth) : name;
}

std::vector<double> BenchResult::rates() const {
  std::vector<double> rates;
  for (uint64_t ns : nanoseconds)
    rates.push_back(1e9 * (prompt + gen) / double(std::max<uint64_t>(ns, 1)));
  return rates;
}

MeanAndDeviation summarise(const std::vector<double> &samples) {
  MeanAndDeviation result;
  for (double sample : samples)
    result.mean += sample / double(samples.size());
  if (samples.size() < 2)
    return result;
  double squares = 0;
  for (double sample : samples)
    squares += (sample - result.mean) * (sample - result.mean);
  result.deviation = std::sqrt(squares / double(samples.size() - 1));
  return result;
}

std::string markdownTable(const std::vector<std::vector<std::string>> &rows,
                          std::span<const size_t> textColumns) {
  // Count characters, not bytes: ± has two bytes.
  auto width = [](const std::string &cell) {
    return size_t(std::count_if(cell.begin(), cell.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    }));
  };
  // Markdown needs at least 2.
  std::vector<size_t> widths(rows.front().size(), 2);
  for (const auto &row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], width(row[i]));
  auto isText = [&](size_t column) {
    return std::ranges::find(textColumns, column) != textColumns.end();
  };

  std::string table;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < rows[r].size(); ++i) {
      std::string padding(widths[i] - width(rows[r][i]), ' ');
      table += "| " +
               (isText(i) ? rows[r][i] + padding : padding + rows[r][i]) + " ";
    }
    table += "|\n";
    if (r != 0)
      continue;
    for (size_t i = 0; i < widths.size(); ++i)
      table +=
          "| " + std::string(widths[i] - 1, '-') + (isText(i) ? "- " : ": ");
    table += "|\n";
  }
  return table;
}

std::string benchMarkdown(const BenchSubject &subject,
                          const std::vector<BenchResult> &results) {
  // llama-bench's columns, then ours. It has ngl where there is a GPU.
  const bool isOnGpu = !subject.gpus.empty();
  auto row = [&](std::vector<std::string> cells, const std::string &layers) {
    if (isOnGpu)
      cells.insert(cells.begin() + 4, layers);
    return cells;
  };
  std::vector<std::vector<std::string>> rows = {
      row({"model", "size", "params", "backend", "threads", "test", "t/s",
           "of limit", "of sustained"},
          "ngl")};
  for (const BenchResult &result : results) {
    MeanAndDeviation rate = summarise(result.rates());
    rows.push_back(row(
        {subject.modelType,
         fmt::format("{:.2f} GiB", double(subject.modelBytes) / (1ull << 30)),
         fmt::format("{:.2f} B", double(subject.parameters) / 1e9),
         subject.backends, fmt::format("{}", result.threads), result.name(),
         fmt::format("{:.2f} ± {:.2f}", rate.mean, rate.deviation),
         fractionText(result, &Reached::ofBest, &Rate::best),
         fractionText(result, &Reached::ofSustained, &Rate::sustained)},
        std::to_string(subject.gpuLayers)));
  }
  constexpr size_t text[] = {0, 3};
  return (isOnGpu ? "devices: " + subject.gpus + ", " + subject.cpu + "\n\n"
                  : "") +
         markdownTable(rows, text) + sharesText(subject);
}

std::string recordsText(const std::vector<Json> &records,
                        const std::string &format) {
  if (format == "csv")
    return csvText(records);
  auto dump = [](const Json &json, int indent) {
    return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
  };
  if (format == "json")
    return dump(records, 2);
  std::string lines;
  for (const Json &one : records)
    lines += dump(one, -1);
  return lines;
}

std::string benchRecords(const BenchSubject &subject,
                         const std::vector<BenchResult> &results,
                         const std::string &format) {
  std::vector<Json> records;
  for (const BenchResult &result : results)
    records.push_back(record(subject, result));
  return recordsText(records, format);
}

} // namespace moert
