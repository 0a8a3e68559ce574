// Formats a profile as tables and as JSON.
#include "runtime/base/Page.h"
#include "runtime/base/Text.h"
#include "tools/moert/Profile.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace moert {

namespace {
using Json = nlohmann::ordered_json;

/// Returns the larger of the fractions of read bandwidth and of the int8 peak
/// that the row reached; this limit is the one that binds it.
double fractionOfLimit(const ProfileEntry &entry, const CpuLimits &limits) {
  if (entry.time.run <= 0)
    return 0;
  return std::max(entry.work.bytes / limits.readBytesPerSecond,
                  entry.work.ops / limits.int8OpsPerSecond) /
         entry.time.run;
}

/// Returns `amount` per second in units of `unit`, or 0 if the time is 0.
double rate(double amount, double seconds, double unit) {
  return seconds > 0 ? amount / seconds / unit : 0;
}

void addTable(Page &page, const Profile &profile, ProfileKey key,
              std::string_view title, const std::optional<CpuLimits> &limits) {
  std::vector<std::vector<std::string>> cells;
  // On a plan for one device its name says nothing.
  const bool isHybrid = profile.queues().size() > 1;
  for (const auto &[phase, name, device, entry] : profile.rows(key)) {
    bool weights = entry.work.bytes > 0, ops = entry.work.ops > 0;
    cells.push_back(
        {phase, name, fmt::format("{}", entry.calls),
         fmt::format("{:.2f}", entry.time.run * 1e3),
         fmt::format("{:.1f} %",
                     100 * rate(entry.time.run, profile.seconds(), 1)),
         fmt::format("{:.2f}", entry.time.wait * 1e3),
         weights ? fmt::format("{:.2f}",
                               rate(entry.work.bytes, entry.time.run, 1e9))
                 : "",
         ops ? fmt::format("{:.3f}", rate(entry.work.ops, entry.time.run, 1e12))
             : "",
         limits && device.starts_with("cpu") && (weights || ops)
             ? fmt::format("{:.1f} %", 100 * fractionOfLimit(entry, *limits))
             : ""});
    if (isHybrid)
      cells.back().insert(cells.back().begin() + 2, device);
  }
  page.group(title);
  std::vector<Column> columns = {
      {"phase"},         {"op", false, 32}, {"calls", true},
      {"ms", true},      {"share", true},   {"wait ms", true},
      {"GB/s", true},    {"TOPS", true},    {"of limit", true}};
  if (isHybrid)
    columns.insert(columns.begin() + 2, {"device"});
  page.table(columns, cells);
}

Json toJson(const Profile &profile, ProfileKey key,
            const std::optional<CpuLimits> &limits) {
  Json list = Json::array();
  for (const auto &[phase, name, device, entry] : profile.rows(key)) {
    Json row = {{"phase", phase},
                {"name", name},
                {"device", device},
                {"calls", entry.calls},
                {"seconds", entry.time.run},
                {"share", rate(entry.time.run, profile.seconds(), 1)},
                {"wait_seconds", entry.time.wait},
                {"weight_bytes", entry.work.bytes},
                {"ops", entry.work.ops},
                {"read_gbps", rate(entry.work.bytes, entry.time.run, 1e9)},
                {"tops", rate(entry.work.ops, entry.time.run, 1e12)},
                {"limit_fraction",
                 limits && device.starts_with("cpu")
                     ? Json(fractionOfLimit(entry, *limits))
                     : Json()}};
    list.push_back(std::move(row));
  }
  return list;
}
} // namespace

std::string profileText(const Profile &profile, const ProfileSetting &setting) {
  const std::optional<CpuLimits> &limits = setting.limits;
  Page page;
  auto share = [&](double seconds) {
    return fmt::format("{:.2f} ms ({:.1f} %)", seconds * 1e3,
                       100 * rate(seconds, profile.seconds(), 1));
  };
  const std::vector<ProfileQueue> queues = profile.queues();
  for (const ProfileQueue &queue : queues) {
    page.group(queue.device.starts_with("cpu")
                   ? queues.size() > 1 ? "time of worker 0 of " + queue.device
                                       : "time of worker 0"
                   : "time of " + queue.device);
    page.line("all steps", fmt::format("{:.2f} ms", profile.seconds() * 1e3));
    page.line("in instructions", share(queue.run));
    page.line(queues.size() > 1 ? "at barriers and for others" : "at barriers",
              share(queue.wait));
    page.line("start and end", share(queue.rest));
  }
  page.group("steps");
  for (const ProfileSteps &steps : profile.steps())
    page.line(steps.phase + " overhead",
              fmt::format("{:.2f} % of a step of {:.2f} ms: barriers and time "
                          "between instructions; {:.2f} % with the median "
                          "time of each barrier",
                          100 * steps.overhead(),
                          steps.seconds * 1e3 / double(steps.steps),
                          100 * steps.medianOverhead));
  const MappedFile::PageUse &pages = setting.weightPages;
  if (pages.resident > 0)
    page.line("weights",
              fmt::format("{}, {} touched, {:.0f} % of it in huge pages",
                          setting.mapped ? "mapped from their files"
                                         : "copied into memory",
                          humanBytes(double(pages.resident)),
                          100 * double(pages.huge) / double(pages.resident)));
  if (limits)
    page.line("limits",
              fmt::format("read {:.1f} GB/s, int8 {:.2f} TOPS with {} threads",
                          limits->readBytesPerSecond / 1e9,
                          limits->int8OpsPerSecond / 1e12, limits->threads));
  addTable(page, profile, ProfileKey::Op, "by instruction", limits);
  addTable(page, profile, ProfileKey::Part, "by part of a layer", limits);
  return page.take();
}

std::string profileJson(const Profile &profile, const ProfileSetting &setting) {
  const std::optional<CpuLimits> &limits = setting.limits;
  Json root = {{"seconds", profile.seconds()}};
  root["limits"] =
      limits ? Json{{"threads", limits->threads},
                    {"read_gbps", limits->readBytesPerSecond / 1e9},
                    {"int8_tops", limits->int8OpsPerSecond / 1e12},
                    {"float_tflops", limits->floatOpsPerSecond / 1e12}}
             : Json();
  root["weights"] = {{"mapped", setting.mapped},
                     {"touched_bytes", setting.weightPages.resident},
                     {"huge_page_bytes", setting.weightPages.huge}};
  root["devices"] = Json::array();
  for (const ProfileQueue &queue : profile.queues())
    root["devices"].push_back({{"device", queue.device},
                               {"run_seconds", queue.run},
                               {"wait_seconds", queue.wait},
                               {"rest_seconds", queue.rest}});
  root["phases"] = Json::array();
  for (const ProfileSteps &steps : profile.steps())
    root["phases"].push_back(
        {{"phase", steps.phase},
         {"steps", steps.steps},
         {"seconds", steps.seconds},
         {"run_seconds", steps.run},
         {"overhead_fraction", steps.overhead()},
         {"median_overhead_fraction", steps.medianOverhead}});
  root["by_op"] = toJson(profile, ProfileKey::Op, limits);
  root["by_part"] = toJson(profile, ProfileKey::Part, limits);
  root["by_label"] = toJson(profile, ProfileKey::Label, limits);
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace moert
