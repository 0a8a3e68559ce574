#include "runtime/engine/MemoryFit.h"

#include "kernels/KvCache.h"
#include "runtime/engine/MakeDevices.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/PlanWeights.h"
#include "runtime/plan/Recompile.h"
#include "runtime/plan/StepWork.h"

#include <algorithm>
#include <vector>

namespace moert {

namespace {
/// Weights of an instruction, and the fraction of them that a token reads.
struct Piece {
  double bytes, share;
};

/// Returns the weights that a decoded token reads from the host's memory, one
/// piece per instruction.
std::vector<Piece> weightsReadPerToken(const Plan &plan) {
  // The size of the cache does not matter here.
  StepSize step = StepSize::after(0, 1);
  std::vector<Piece> pieces;
  for (const fb::Phase *phase : *plan.table().phases())
    if (has(kindOf(*phase), kOfEveryToken) &&
        !(has(kindOf(*phase), kIsHead) && decodeHasHead(plan.table())))
      for (uint32_t i = 0; i < count(phase->instructions()); ++i) {
        const fb::Instruction &instruction = *phase->instructions()->Get(i);
        if (plan.table()
                .devices()
                ->Get(deviceOf(plan.table(), instruction))
                ->kind() != fb::DeviceKind::Cpu)
          continue;
        double bytes = double(instructionWeightBytes(plan, instruction));
        if (bytes > 0)
          pieces.push_back(
              {bytes, instructionWork(instruction, step).bytes / bytes});
      }
  return pieces;
}

/// Returns the bytes of the host's caches with rows of Q8_0, and states as they
/// are; 0 if they cannot be.
uint64_t kvBytesAsQ8(const fb::Plan &plan) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < count(plan.kv()); ++i) {
    const fb::Kv &kv = *plan.kv()->Get(i);
    if (const fb::Device &device = *plan.devices()->Get(kv.device());
        device.kind() != fb::DeviceKind::Cpu && !device.shares_memory())
      continue;
    const bool isState = kv.row_per_sequence();
    if (!isState && kv.width() % 32 != 0)
      return 0;
    auto type = isState ? moek::KvType(kv.type()) : moek::KvType::Q8_0;
    bytes += uint64_t(moek::kvBytes(type, kv.width(), kv.capacity()));
  }
  return bytes;
}

double readBytesPerToken(const std::vector<Piece> &pieces) {
  double sum = 0;
  for (const Piece &piece : pieces)
    sum += piece.bytes * piece.share;
  return sum;
}
} // namespace

MemoryFit memoryFit(const Plan &plan, int threads, bool copyWeights,
                    MemoryLimit limit, uint64_t free) {
  const fb::Plan &table = plan.table();
  MemoryNeed need;
  // Each size is below 2^48 (verifyTables), so no sum overflows.
  need.weights = hostWeightBytes(plan);
  need.loaded = loadedWeightBytes(plan);
  need.pinned = pinnedWeightBytes(plan);
  std::vector<int32_t> teams = workersByDevice(table, threads);
  need.threads = 0;
  for (uint32_t i = 0; i < count(table.devices()); ++i) {
    const fb::Device &device = *table.devices()->Get(i);
    if (device.kind() != fb::DeviceKind::Cpu && !device.shares_memory())
      continue; // Such a GPU has its own memory.
    need.kv += device.kv_bytes();
    need.activations += device.arena_bytes();
    if (device.shares_memory()) {
      need.workers += device.workspace_bytes();
      continue;
    }
    need.workers += bytesPerWorker(device) * uint64_t(teams[i]);
    need.threads += teams[i];
  }
  need.copied = copyWeights;
  return {need, limit, free};
}

double pagedBytesPerToken(const Plan &plan, const MemoryFit &fit) {
  if (fit.fits() || !fit.fitsPaged())
    return 0;
  std::vector<Piece> pieces = weightsReadPerToken(plan);
  std::ranges::stable_sort(pieces, std::greater<>{}, &Piece::share);
  double room = double(fit.limit.bytes - fit.need.resident());
  double paged = 0;
  for (const Piece &piece : pieces) {
    double kept = std::min(room, piece.bytes);
    room -= kept;
    paged += (piece.bytes - kept) * piece.share;
  }
  return paged;
}

std::string pagingNote(const Plan &plan, const MemoryFit &fit) {
  if (fit.fits())
    return "";
  return fmt::format(
      "memory does not hold all weights: about {} of the {} that a token reads "
      "come from the disk for every token (an estimate, as if the most used "
      "weights stayed in memory and tokens chose experts evenly)",
      humanBytes(pagedBytesPerToken(plan, fit)),
      humanBytes(readBytesPerToken(weightsReadPerToken(plan))));
}

Status checkFit(const Plan &plan, const MemoryFit &fit, bool allowPaging) {
  if (fit.fits() || (allowPaging && fit.fitsPaged()))
    return Status::ok();
  const MemoryNeed &need = fit.need;
  const bool lacksFree = fit.lacksFree();
  const uint64_t room = lacksFree ? fit.free : fit.limit.bytes;
  std::string where = fit.limit.isControlGroup
                          ? "the limit of its control group"
                          : "the machine's memory";
  if (lacksFree)
    where = fmt::format("what is free of {}, {}", where,
                        humanBytes(double(fit.limit.bytes)));
  std::string fix;
  if (need.copied)
    fix = "; leave out --no-mmap, so that weights are mapped";
  else if (fit.fitsPaged())
    fix = fmt::format("; --allow-paging runs it all the same, and reads about "
                      "{} from the disk for every token (an estimate)",
                      humanBytes(pagedBytesPerToken(plan, fit)));
  const bool isAdvised = fix.empty();
  const bool isHopeless = need.privateWeights() + need.workers >= room;
  if (isAdvised && need.loaded > 0 && !allowPaging && fit.fitsMapped())
    fix = "; --allow-paging reads weights from the mapped model file instead, "
          "more slowly";
  if (uint64_t kv = kvBytesAsQ8(plan.table());
      isAdvised && !isHopeless && kv > 0 && kv < need.kv)
    fix += fmt::format("; with --kv-type q8_0 its KV cache takes {}",
                       humanBytes(double(kv)));
  Status failure(
      StatusCode::DoesNotFit,
      fmt::format("{}: needs {} of memory (weights {}, KV cache {} for {}, "
                  "activations {}, {} {}), but this process may "
                  "use {} ({}){}",
                  plan.path(), humanBytes(double(need.total())),
                  humanBytes(double(need.weights)), humanBytes(double(need.kv)),
                  kvRoom(plan.table()), humanBytes(double(need.activations)),
                  counted(need.threads, "worker"),
                  humanBytes(double(need.workers)), humanBytes(double(room)),
                  where, fix));
  if (isAdvised && isHopeless)
    return std::move(failure).append(
        "; no context is short enough for it: end other programs, use a "
        "machine with more memory, or a model file of fewer bits");
  if (!isAdvised)
    return failure;
  return adviseMemory(std::move(failure), plan.table(), plan.path(),
                      need.resident() - need.kv,
                      need.weights - need.privateWeights(), room);
}

} // namespace moert
