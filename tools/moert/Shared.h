//===- Shared.h - Options and helpers of moert's commands -------*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_SHARED_H
#define MOE_TOOLS_MOERT_SHARED_H

#include "runtime/engine/Engine.h"
#include "runtime/text/Sampler.h"
#include "tools/common/Cli.h"
#include "tools/moert/CompileFlags.h"
#include "tools/moert/Options.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Options for opening an engine, which most commands have.
struct EngineFlags {
  std::string plan;
  EngineOptions options;
  /// Texts at the same time that a plan has to hold which is compiled because
  /// `plan` is a model.
  int32_t sequences = 1;
  CompileFlags compile;
  std::string command; ///< Name of the command, for suggestions.

  void addPlan(CLI::App &command);
  void addModelOrPlan(CLI::App &command);
  /// Adds the options of compiling a model, after all others of the command.
  void addCompile(CLI::App &command);
  /// Returns the plan's path; if it is a model, that of its plan, which is
  /// compiled if it must be (planOfModel()).
  StatusOr<std::string> planFile(int64_t context) const;
  /// Fails if a model would have to be compiled for a command that must not
  /// write a file of this kind to `output`. What a plan forbids is known once
  /// it is loaded. "" is no file.
  Status checkOutput(const std::string &output, OutputKind kind,
                     bool force) const;
  /// Returns a failure of the command whose remedy was to compile again: if
  /// `plan` is a model, the command itself with other options is the remedy.
  Status forModel(Status failure) const;
  /// Adds options for the present paths of files.
  void addModel(CLI::App &command);
  /// Adds these, and options for loading weights.
  void addWeights(CLI::App &command);
  void addThreads(CLI::App &command);
  /// Adds --rung and, unless --ctx is another option of the command, --ctx.
  void addRung(CLI::App &command, bool withContext = true);
  void addPin(CLI::App &command);

  /// Calls Engine::open() and prints notes about the chosen rung and the cost
  /// of --allow-paging.
  StatusOr<std::unique_ptr<Engine>> open() const;
  StatusOr<std::unique_ptr<Engine>> open(const EngineOptions &others) const;
};

/// Fails with Io if there is neither a model nor a plan at `path`.
Status checkFile(const std::string &path);

/// Adds a command whose flags have an EngineFlags `engine`. Call
/// EngineFlags::addCompile() after all of its options.
template <class Flags>
CLI::App *addEngineCommand(moetool::Tool &tool, const std::string &name,
                           std::string description,
                           std::shared_ptr<Flags> flags,
                           Status (*run)(Flags &)) {
  return tool.command(name, std::move(description), [=]() -> Status {
    MOE_RETURN_IF_ERROR(checkFile(flags->engine.plan));
    return flags->engine.forModel(run(*flags));
  });
}

/// Returns the number of workers for --threads N: one per core, after a note,
/// if this process may use fewer CPUs than N.
int32_t usableThreads(int32_t threads);

/// Fails if the plan was compiled for fewer sequences, decoded together, than
/// `option` requests; the error has the command that compiles such a plan.
Status checkSequences(const Engine &engine, std::string_view option,
                      int32_t wanted);

/// Returns the sequence of a session that an earlier command saved at `path`;
/// an empty one if `path` is empty, nothing is there, or the file is of another
/// kind and only --force would replace it.
StatusOr<Sequence> sessionAt(Engine &engine, const std::string &path);

/// Adds the options of the sampler.
CLI::Option *addSampling(CLI::App &command, SamplerParams &sampler);

/// Returns random token ids, the same in every run. Real text would favour some
/// experts, and there may be no tokenizer.
std::vector<int32_t> randomTokens(const Engine &engine, int32_t count);

/// A line of progress on stderr that is replaced by the next; silent if stderr
/// is not a terminal.
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
