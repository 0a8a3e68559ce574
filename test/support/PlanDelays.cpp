//===- PlanDelays.cpp - A compiled plan under random schedules -*- C++ -*-===//
//
// moe-plan-delays PLAN.fb SEEDS runs a plan without delays, and then with
// random ones in every queue, by seed, with two to four workers: a prompt,
// tokens after it, and a second sequence beside them. Ends with 0 if all logits
// have the same bits. Built with ThreadSanitizer it finds what order a plan
// lacks where chance does not show it.
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/Engine.h"
#include "test/support/Delays.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

using namespace moert;

namespace {

/// Logits of two sequences: a prompt longer than a step where the context
/// allows it, then tokens of both in the same steps.
StatusOr<std::vector<float>> logitsOf(const std::string &path,
                                      const EngineOptions &options) {
  MOE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                       Engine::open(path, options));
  Sequence first = engine->sequence(), second = engine->sequence();
  auto token = [&](int32_t i) { return (i * 37 + 5) % engine->vocab(); };
  std::vector<int32_t> prompt(
      size_t(std::min(engine->ubatch() + 3, engine->context() / 2 - 16)));
  for (size_t i = 0; i < prompt.size(); ++i)
    prompt[i] = token(int32_t(i));
  std::vector<float> all;
  auto keep = [&](size_t, int32_t, std::span<const float> logits) {
    all.insert(all.end(), logits.begin(), logits.end());
    return Status::ok();
  };
  MOE_RETURN_IF_ERROR(engine->appendAll(first, prompt, keep));
  // The other way round it would take the first one's pages.
  std::vector<int32_t> other(prompt.rbegin(), prompt.rend());
  for (int32_t i = 0; i < 6; ++i) {
    int32_t next = token(i + 100);
    Request requests[] = {{.sequence = &first, .tokens = {&next, 1}},
                          {.sequence = &second, .tokens = other}};
    while (requests[0].isOpen() || requests[1].isOpen())
      MOE_RETURN_IF_ERROR(engine->step(requests, keep));
    for (const Request &request : requests)
      MOE_RETURN_IF_ERROR(request.status);
    other = {token(i + 200)};
  }
  return all;
}

EngineOptions delayed(uint32_t seed) {
  EngineOptions options;
  options.threads = 1;
  options.makeDevices = [seed](const Plan &plan, const WeightFiles &files,
                               DeviceOptions ofDevices) {
    if (seed != 0) {
      // More workers than this machine may have cores.
      ofDevices.threads = 2 + int(seed % 3);
      ofDevices.instrument = moetest::delays(seed);
    }
    return makeDevices(plan, files, std::move(ofDevices));
  };
  return options;
}

int fail(const std::string &message) {
  std::fprintf(stderr, "error: %s\n", message.c_str());
  return 1;
}
} // namespace

int main(int argc, char **argv) {
  if (argc != 3)
    return fail("usage: moe-plan-delays PLAN.fb SEEDS");
  StatusOr<std::vector<float>> expected = logitsOf(argv[1], delayed(0));
  if (!expected)
    return fail(expected.status().message());
  auto seeds = uint32_t(std::atoi(argv[2]));
  for (uint32_t seed = 1; seed <= seeds; ++seed) {
    StatusOr<std::vector<float>> logits = logitsOf(argv[1], delayed(seed));
    if (!logits)
      return fail(logits.status().message());
    if (logits->size() != expected->size() ||
        std::memcmp(logits->data(), expected->data(),
                    logits->size() * sizeof(float)) != 0)
      return fail("other logits with seed " + std::to_string(seed));
  }
  std::printf("%u schedules, %zu logits: the same bits\n", seeds,
              expected->size());
  return 0;
}
