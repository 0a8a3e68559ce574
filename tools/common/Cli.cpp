#include "tools/common/Cli.h"

#include "runtime/base/MappedFile.h"
#include "runtime/base/Suggest.h"
#include "runtime/base/Temporaries.h"

#include <cstdio>
#include <cstdlib>
#include <new>
#include <unistd.h>

using moert::Status;
using moert::StatusCode;

namespace moetool {

const char *const kExitCodeHelp =
    "Exit codes: 0 ok, 1 internal error, 2 usage, 3 malformed file, 4 I/O,\n"
    "5 does not fit, 6 unsupported, 7 plan for another machine, model or\n"
    "version, 130 interrupted.";

bool stderrIsTerminal() { return ::isatty(STDERR_FILENO) == 1; }

bool colourAllowed() {
  const char *noColor = std::getenv("NO_COLOR");
  return stderrIsTerminal() && (!noColor || !*noColor);
}

void printError(const std::string &message) {
  bool colour = colourAllowed();
  std::fprintf(stderr, "%serror:%s %s\n", colour ? "\033[1;31m" : "",
               colour ? "\033[0m" : "", message.c_str());
}

Tool::Tool(std::string name, std::string description)
    : app_(std::move(description), std::move(name)) {
  app_.set_version_flag("--version", app_.get_name() + " " MOE_VERSION);
  app_.footer(kExitCodeHelp);
  app_.option_defaults()->always_capture_default();
  // Misspelt commands arrive as extras, so that the message can suggest one.
  app_.allow_extras();
}

CLI::App *Tool::command(std::string name, std::string description,
                        std::function<Status()> run) {
  CLI::App *command =
      app_.add_subcommand(std::move(name), std::move(description));
  command->allow_extras();
  command->callback([this, run = std::move(run)] { chosen_ = run; });
  return command;
}

std::string Tool::unknownArguments(const CLI::App &command) const {
  std::string word = command.remaining().front();
  bool flag = word.size() > 1 && word[0] == '-';
  std::vector<std::string> known;
  if (flag)
    for (const CLI::Option *option : command.get_options())
      for (const std::string &name : option->get_lnames())
        known.push_back("--" + name);
  else if (&command == &app_)
    for (const CLI::App *sub : command.get_subcommands({}))
      known.push_back(sub->get_name());
  std::string name = word.substr(0, word.find('='));
  std::string message = flag                ? "unknown option " + name
                        : &command == &app_ ? "unknown command " + name
                                            : "unexpected argument " + name;
  if (auto meant = moert::closestMatch(name, known))
    message += ", did you mean " + *meant + "?";
  std::string path = app_.get_name();
  if (&command != &app_)
    path += " " + command.get_name();
  return message + " (see " + path + " --help)";
}

int Tool::main(int argc, char **argv) {
  moert::installBusHandler();
  moert::installCleanupHandlers();
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0)
      return app_.exit(error); // --help and --version
    printError(error.what());
    return moert::exitCode(StatusCode::Usage);
  }
  for (const CLI::App *sub : app_.get_subcommands())
    if (!sub->remaining().empty()) {
      printError(unknownArguments(*sub));
      return moert::exitCode(StatusCode::Usage);
    }
  if (!app_.remaining().empty()) {
    printError(unknownArguments(app_));
    return moert::exitCode(StatusCode::Usage);
  }
  if (!chosen_) {
    std::fputs(app_.help().c_str(), stderr);
    return moert::exitCode(StatusCode::Usage);
  }
  Status status;
  try {
    status = chosen_();
  } catch (const std::bad_alloc &) {
    status = Status(StatusCode::DoesNotFit, "out of memory");
  }
  if (!status.isOk())
    printError(status.message());
  return moert::exitCode(status.code());
}

} // namespace moetool
