//===- Shared.h - What several commands of moert use ------------*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_SHARED_H
#define MOE_TOOLS_MOERT_SHARED_H

#include "runtime/engine/Engine.h"
#include "runtime/text/Sampler.h"
#include "tools/common/Cli.h"
#include "tools/moert/Options.h"

#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// The plan to run and how: the arguments that most commands have.
struct EngineFlags {
  std::string plan;
  EngineOptions options;

  void addPlan(CLI::App &command);
  /// Where files are now.
  void addModel(CLI::App &command);
  /// The same, and how weights get into memory.
  void addWeights(CLI::App &command);
  void addThreads(CLI::App &command);
  /// Which rung of a ladder: --rung, and --ctx where that is no other option.
  void addRung(CLI::App &command, bool withContext = true);
  void addPin(CLI::App &command);

  /// Engine::open(), with notes of which rung of a ladder runs and of what
  /// --allow-paging costs.
  StatusOr<std::unique_ptr<Engine>> open() const;
  StatusOr<std::unique_ptr<Engine>> open(const EngineOptions &others) const;
};

/// Fails where the plan was compiled for fewer sequences that are decoded
/// together than `option` asks for; the message has the command for a plan that
/// does it.
Status checkSequences(const Engine &engine, std::string_view option,
                      int32_t wanted);

/// Options of the sampler.
void addSampling(CLI::App &command, SamplerParams &sampler);

/// Random token ids, the same in every run: real text would favour some
/// experts, and there may be no tokenizer.
std::vector<int32_t> randomTokens(const Engine &engine, int32_t count);

/// A line of progress that replaces the one before; silent where stderr is no
/// terminal.
class ProgressLine {
public:
  ~ProgressLine() { clear(); }
  void show(const std::string &text);
  void clear();

private:
  bool shown_ = false;
};

} // namespace moert

#endif // MOE_TOOLS_MOERT_SHARED_H
