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
constexpr std::string_view backend = "CPU";

MeanAndDeviation nanoseconds(const BenchResult &result) {
  return summarise({result.nanoseconds.begin(), result.nanoseconds.end()});
}

/// What a test reached: medians of its repetitions and of the limit's samples
/// between them.
struct Reached {
  std::optional<double> readGbps, bandwidthFraction, limitGbps;
  std::optional<double> tops, peakFraction, limitTops;
};

Reached reached(const BenchResult &result) {
  double rate = median(result.rates());
  Reached reached;
  auto put = [&](double perToken, double unit, std::optional<double> &value,
                 std::optional<double> &limit,
                 std::optional<double> &fraction) {
    if (perToken <= 0)
      return;
    value = perToken * rate / unit;
    if (result.limits.empty())
      return;
    limit = median(result.limits) / unit;
    fraction = *value / *limit;
  };
  put(result.bytesPerToken, 1e9, reached.readGbps, reached.limitGbps,
      reached.bandwidthFraction);
  put(result.opsPerToken, 1e12, reached.tops, reached.limitTops,
      reached.peakFraction);
  return reached;
}

/// "87.1 % of 31.2 GB/s", or "" for a test of both kinds.
std::string ofLimit(const BenchResult &result) {
  Reached values = reached(result);
  if (values.bandwidthFraction)
    return fmt::format("{:.1f} % of {:.1f} GB/s",
                       100 * *values.bandwidthFraction, *values.limitGbps);
  if (values.peakFraction)
    return fmt::format("{:.1f} % of {:.2f} TOPS", 100 * *values.peakFraction,
                       *values.limitTops);
  return "";
}

Json orNull(std::optional<double> value) {
  return value ? Json(*value) : Json(nullptr);
}

Json record(const BenchSubject &subject, const BenchResult &result) {
  MeanAndDeviation time = nanoseconds(result);
  MeanAndDeviation rate = summarise(result.rates());
  Reached values = reached(result);
  return {{"build_commit", subject.version},
          {"cpu_info", subject.cpu},
          {"gpu_info", ""},
          {"backends", backend},
          {"model_filename", subject.planPath},
          {"model_type", subject.modelType},
          {"model_size", subject.modelBytes},
          {"model_n_params", subject.parameters},
          {"target", subject.target},
          {"n_batch", subject.ubatch},
          {"n_ubatch", subject.ubatch},
          {"n_threads", result.threads},
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
          {"read_gbps", orNull(values.readGbps)},
          {"bandwidth_fraction", orNull(values.bandwidthFraction)},
          {"tops", orNull(values.tops)},
          {"peak_fraction", orNull(values.peakFraction)},
          {"limit_read_gbps", orNull(values.limitGbps)},
          {"limit_tops", orNull(values.limitTops)},
          {"samples_ns", result.nanoseconds},
          {"samples_ts", result.rates()},
          {"samples_limit", result.limits}};
}

/// RFC 4180: quoted, quotes doubled.
std::string csvField(const Json &value) {
  std::string text = value.is_null()     ? ""
                     : value.is_string() ? value.get<std::string>()
                                         : value.dump();
  std::string quoted = "\"";
  for (char c : text)
    quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
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

std::string benchMarkdown(const BenchSubject &subject,
                          const std::vector<BenchResult> &results) {
  // llama-bench's columns, then ours.
  using Row = std::array<std::string, 8>;
  std::vector<Row> rows = {{"model", "size", "params", "backend", "threads",
                            "test", "t/s", "of limit"}};
  for (const BenchResult &result : results) {
    MeanAndDeviation rate = summarise(result.rates());
    rows.push_back(
        {subject.modelType,
         fmt::format("{:.2f} GiB", double(subject.modelBytes) / (1ull << 30)),
         fmt::format("{:.2f} B", double(subject.parameters) / 1e9),
         std::string(backend), fmt::format("{}", result.threads), result.name(),
         fmt::format("{:.2f} ± {:.2f}", rate.mean, rate.deviation),
         ofLimit(result)});
  }
  // Characters, not bytes: ± takes two.
  auto width = [](const std::string &cell) {
    return size_t(std::count_if(cell.begin(), cell.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    }));
  };
  std::array<size_t, 8> widths = {};
  for (const Row &row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], width(row[i]));
  auto isText = [](size_t column) { return column == 0 || column == 3; };

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

std::string benchJson(const BenchSubject &subject,
                      const std::vector<BenchResult> &results) {
  Json list = Json::array();
  for (const BenchResult &result : results)
    list.push_back(record(subject, result));
  return list.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string benchCsv(const BenchSubject &subject,
                     const std::vector<BenchResult> &results) {
  std::string csv;
  for (const BenchResult &result : results) {
    std::string header, line;
    Json fields = record(subject, result);
    for (const auto &[key, value] : fields.items()) {
      if (value.is_array())
        continue; // samples: JSON only, as llama-bench has it
      header += (header.empty() ? "" : ",") + key;
      line += (line.empty() ? "" : ",") + csvField(value);
    }
    if (csv.empty())
      csv = header + "\n";
    csv += line + "\n";
  }
  return csv;
}

} // namespace moert
