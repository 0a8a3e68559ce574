#include "passes/schedule/Schedule.h"

#include "compiler/Machine/CostModel/Memories.h"

#include <algorithm>

namespace moec {

TaskQueue TaskQueue::of(int device, const TargetDesc &target) {
  const moert::StepOverheads &each = target.devices[size_t(device)].overheads;
  return {device, each.instruction, each.barrier};
}

StepTimes simulate(llvm::ArrayRef<Task> tasks, llvm::ArrayRef<TaskQueue> queues,
                   const TargetDesc &target) {
  StepTimes times;
  times.ends.reserve(tasks.size());
  std::vector<double> free(queues.size(), 0);
  MemoryTraffic traffic(target);
  for (const Task &task : tasks) {
    const TaskQueue &queue = queues[size_t(task.queue)];
    double seconds =
        task.seconds + (queue.start + (task.barrier ? queue.barrier : 0));
    double &end = free[size_t(task.queue)];
    for (int earlier : task.after)
      end = std::max(end, times.ends[size_t(earlier)]);
    end = queue.device < 0
              ? end + seconds
              : traffic.end(size_t(queue.device), end, seconds, task.bytes);
    times.ends.push_back(end);
    times.end = std::max(times.end, end);
    times.sum += seconds;
  }
  return times;
}

} // namespace moec
