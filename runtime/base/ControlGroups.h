//===- ControlGroups.h - The groups that limit this process -----*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_CONTROLGROUPS_H
#define MOE_RUNTIME_BASE_CONTROLGROUPS_H

#include <functional>
#include <string>

namespace moert {

/// Called with a group's folder and the version of its interface, 1 or 2.
using GroupVisitor =
    std::function<void(const std::string &folder, int version)>;

/// Calls `visit` for this process's control groups that may have `controller`
/// ("memory", "cpu") and for the groups that contain them. A group may lack the
/// controller's files. The roots are those of the system's descriptions of
/// machine and process; tests use others.
void forEachControlGroup(const std::string &controller,
                         const std::string &systemRoot,
                         const std::string &processRoot,
                         const GroupVisitor &visit);

/// Returns how many CPUs the process's control groups grant it on average: the
/// least quota of its group and of those that contain it; 0 if none sets one.
/// Once a group has used its quota, all of its threads stand still until the
/// period of usually 100 ms ends.
double cpuQuota(const std::string &systemRoot = "/sys",
                const std::string &processRoot = "/proc");

} // namespace moert

#endif // MOE_RUNTIME_BASE_CONTROLGROUPS_H
