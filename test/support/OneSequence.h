//===- OneSequence.h - An engine with one sequence --------------*- C++ -*-===//

#ifndef MOE_TEST_SUPPORT_ONESEQUENCE_H
#define MOE_TEST_SUPPORT_ONESEQUENCE_H

#include "runtime/engine/Engine.h"

namespace moetest {

/// A single sequence, for tests of a plan's results.
class OneSequence {
public:
  static moert::StatusOr<OneSequence>
  open(const std::string &path, const moert::EngineOptions &options = {}) {
    auto engine = moert::Engine::open(path, options);
    if (!engine)
      return engine.status();
    return OneSequence(*std::move(engine));
  }
  static moert::StatusOr<OneSequence>
  create(moert::Plan plan, const moert::EngineOptions &options = {}) {
    auto engine = moert::Engine::create(std::move(plan), options);
    if (!engine)
      return engine.status();
    return OneSequence(*std::move(engine));
  }

  moert::StatusOr<std::span<const float>>
  append(std::span<const int32_t> tokens) {
    return engine->append(sequence, tokens);
  }
  moert::StatusOr<std::span<const float>> append(int32_t token) {
    return engine->append(sequence, token);
  }

  std::unique_ptr<moert::Engine> engine;
  moert::Sequence sequence;

private:
  explicit OneSequence(std::unique_ptr<moert::Engine> opened)
      : engine(std::move(opened)), sequence(engine->sequence()) {}
};

} // namespace moetest

#endif // MOE_TEST_SUPPORT_ONESEQUENCE_H
