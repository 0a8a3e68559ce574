#include "compiler/Explain/Timeline.h"

#include "kernels/OpCode.h"
#include "runtime/plan/PlanAccess.h"

#include <algorithm>
#include <map>

using moert::count;
using moert::text;
namespace fb = moert::fb;

namespace moec {

namespace {

const fb::Phase *findPhase(const fb::Plan &plan, std::string_view name) {
  for (uint32_t i = 0; i < count(plan.phases()); ++i)
    if (text(plan.phases()->Get(i)->name()) == name)
      return plan.phases()->Get(i);
  return nullptr;
}

/// Maps the numbers of the explanation's entries to the phase's ops, which
/// ExplainSummary keeps in the same order.
std::map<uint32_t, size_t> opsByEntry(const fb::Plan &plan,
                                      std::string_view phase) {
  std::map<uint32_t, size_t> ops;
  for (uint32_t i = 0; i < count(plan.explanation()); ++i)
    if (text(plan.explanation()->Get(i)->phase()) == phase)
      ops.emplace(i, ops.size());
  return ops;
}

} // namespace

Timeline::Timeline(const fb::Plan &plan, const PhaseCost &cost) {
  const fb::Phase *phase = findPhase(plan, cost.name);
  if (!phase)
    return;
  for (uint32_t i = 0; i < count(plan.queues()); ++i) {
    const fb::Queue *queue = plan.queues()->Get(i);
    bool known = queue->device() < count(plan.devices());
    queues.push_back(
        {known ? text(plan.devices()->Get(queue->device())->name()) : "",
         queue->kind() == fb::QueueKind::Copy});
  }
  std::map<uint32_t, size_t> ops = opsByEntry(plan, cost.name);
  std::vector<double> parts(cost.ops.size());
  std::vector<const fb::Instruction *> taken;            // One per span.
  std::map<std::string_view, double> instructions, rest; // By device.
  for (uint32_t i = 0; i < count(phase->instructions()); ++i) {
    const fb::Instruction *instruction = phase->instructions()->Get(i);
    auto op = ops.find(instruction->explain());
    if (op == ops.end() || instruction->queue() >= queues.size())
      continue;
    spans.push_back({op->second, instruction->queue(),
                     instruction->op() == uint8_t(moek::OpCode::Copy)});
    taken.push_back(instruction);
    ++parts[op->second];
    ++instructions[queues[instruction->queue()].device];
  }
  for (size_t i = 0; i < cost.ops.size(); ++i)
    if (parts[i] == 0)
      rest[cost.ops[i].device] += cost.ops[i].seconds;

  std::vector<double> queueFree(queues.size()), eventAt(phase->events());
  for (size_t i = 0; i < spans.size(); ++i) {
    const fb::Instruction *instruction = taken[i];
    TimelineSpan &span = spans[i];
    TimelineQueue &queue = queues[span.queue];
    double &free = queueFree[span.queue];
    for (uint32_t j = 0; j < count(instruction->waits()); ++j)
      if (uint32_t event = instruction->waits()->Get(j); event < eventAt.size())
        free = std::max(free, eventAt[event]);
    span.start = free;
    span.seconds = cost.ops[span.op].seconds / parts[span.op] +
                   rest[queue.device] / instructions[queue.device];
    free += span.seconds;
    queue.busy += span.seconds;
    if (int32_t event = instruction->signal();
        event >= 0 && size_t(event) < eventAt.size())
      eventAt[size_t(event)] = free;
    seconds = std::max(seconds, free);
  }
}

} // namespace moec
