#include "runtime/base/ControlGroups.h"

#include <fstream>

namespace moert {

/// Returns whether `name` is one of the comma-separated `names`.
static bool isListed(const std::string &name, const std::string &names) {
  return ("," + names + ",").find("," + name + ",") != std::string::npos;
}

void forEachControlGroup(const std::string &controller,
                         const std::string &systemRoot,
                         const std::string &processRoot,
                         const GroupVisitor &visit) {
  auto upwards = [&](const std::string &root, std::string group, int version) {
    for (;;) {
      visit(root + group, version);
      if (group.empty())
        return;
      group.resize(group.find_last_of('/'));
    }
  };
  // Lines are such as "0::/user.slice" (version 2) and "7:memory:/docker/0123"
  // or "3:cpu,cpuacct:/docker/0123" (version 1). In a container the path may
  // not exist; its root then has the limit.
  std::ifstream groups(processRoot + "/self/cgroup");
  std::string root = systemRoot + "/fs/cgroup";
  upwards(root, "", 2);
  for (std::string line; std::getline(groups, line);) {
    size_t number = line.find(':');
    size_t path =
        number == std::string::npos ? number : line.find(":/", number + 1);
    if (path == std::string::npos)
      continue;
    std::string group = line.substr(path + 1);
    std::string listed = line.substr(number + 1, path - number - 1);
    if (listed.empty())
      upwards(root, group, 2);
    else if (isListed(controller, listed))
      for (const std::string &mount : {listed, controller})
        upwards(root + "/" + mount, group, 1);
  }
}

namespace {
/// Returns CPUs by the quota in `folder`, or 0.
double quotaIn(const std::string &folder, int version) {
  double quota = 0, period = 0;
  if (version == 2) {
    // "max 100000" (no limit) fails to parse.
    std::ifstream file(folder + "/cpu.max");
    file >> quota >> period;
  } else {
    // -1 if there is no limit.
    std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}
} // namespace

double cpuQuota(const std::string &systemRoot, const std::string &processRoot) {
  double least = 0;
  forEachControlGroup("cpu", systemRoot, processRoot,
                      [&](const std::string &folder, int version) {
                        double quota = quotaIn(folder, version);
                        if (quota > 0 && (least == 0 || quota < least))
                          least = quota;
                      });
  return least;
}

} // namespace moert
