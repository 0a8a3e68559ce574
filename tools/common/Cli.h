//===- Cli.h - The command line of a tool -----------------------*- C++ -*-===//

#ifndef MOE_TOOLS_COMMON_CLI_H
#define MOE_TOOLS_COMMON_CLI_H

#include "runtime/base/Status.h"
#include "tools/common/CliFwd.h"
#include "tools/common/Output.h"
#include "tools/common/Spellings.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace moetool {

/// A tool's command line: sub-commands, each of which returns a Status. Handles
/// help, version, man page and completions, other tools' spellings of options,
/// misspelt commands and flags ("did you mean"), errors and exceptions, failed
/// output and exit codes.
class Tool {
public:
  Tool(std::string name, std::string description);
  ~Tool();

  /// Adds a sub-command; `run` is called after its options have been parsed.
  CLI::App *command(std::string name, std::string description,
                    std::function<moert::Status()> run);

  /// A function that transforms the arguments before they are parsed.
  using Prepare = std::function<moert::StatusOr<std::vector<std::string>>(
      std::vector<std::string>)>;

  /// Parses, runs the chosen command and returns the process exit code.
  int main(int argc, char **argv, const Prepare &prepare = {});

private:
  moert::Status run(std::vector<std::string> words, const Prepare &prepare);
  /// Sets chosen_ to what the words ask for.
  moert::Status parse(const std::vector<std::string> &words);
  moert::Status limitIsa(std::vector<std::string> &words) const;
  moert::Status parseAndRun(const std::vector<std::string> &words);
  /// Refuses a command of another tool, with ours in its place.
  moert::Status otherCommand(const TheirCommand &other,
                             std::span<const std::string> words) const;
  /// Refuses options of other tools; the command without them is suggested if
  /// it has no other mistake.
  moert::Status refusal(const std::string &command, const OurWords &ours);
  const CLI::App *findCommand(const std::string &name) const;
  void addHelpCommand();
  void addCompletionsCommand();
  moert::Status unknownCommand(const std::string &word) const;
  moert::Status unknownArguments(const CLI::App &command) const;

  std::unique_ptr<CLI::App> app_;
  std::function<moert::Status()> chosen_;
};

/// The exit codes, as shown in the tools' help.
extern const char *const kExitCodeHelp;

} // namespace moetool

#endif // MOE_TOOLS_COMMON_CLI_H
