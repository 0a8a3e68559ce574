#include "tools/common/Cli.h"

#include "runtime/base/MappedFile.h"
#include "runtime/base/ShellCommand.h"
#include "runtime/base/Suggest.h"
#include "runtime/base/Temporaries.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <climits>
#include <exception>
#include <new>
#include <span>
#include <sstream>
#include <unistd.h>

using moert::Status;
using moert::StatusCode;

namespace moetool {

const char *const kExitCodeHelp =
    "Exit codes: 0 ok, 1 internal error, 2 usage, 3 malformed file, 4 I/O,\n"
    "5 does not fit, 6 unsupported, 7 plan for another machine, model or\n"
    "version, 130 interrupted.";

namespace {
/// Of an argument that is no path, in a message.
constexpr size_t kLongestWord = 128;

/// The exception that is being handled, as an error.
Status caughtStatus() {
  try {
    throw;
  } catch (const std::bad_alloc &) {
    return Status(StatusCode::DoesNotFit, "out of memory");
  } catch (const std::exception &error) {
    return Status(StatusCode::Internal,
                  std::string("internal error: ") + error.what());
  } catch (...) {
    return Status(StatusCode::Internal, "internal error");
  }
}

/// With the values of arguments, where they have more than `most` bytes and the
/// message has them whole, clipped.
std::string withClipped(std::string message, std::span<char *const> arguments,
                        size_t most) {
  for (std::string_view value : arguments) {
    if (size_t equals = value.find('=');
        value.starts_with("--") && equals != std::string_view::npos)
      value.remove_prefix(equals + 1);
    if (value.starts_with('@')) // Of a file with values.
      value.remove_prefix(1);
    if (value.size() <= most)
      continue;
    for (size_t at; (at = message.find(value)) != std::string::npos;)
      message.replace(at, value.size(), moert::clipped(value));
  }
  return message;
}

/// Instead of an abort: where an exception cannot get to Tool::main(), such as
/// out of a thread or through code that must not throw.
[[noreturn]] void endByException() {
  moert::removeTemporaries();
  ::_exit(finish(std::current_exception()
                     ? caughtStatus()
                     : Status(StatusCode::Internal, "internal error")));
}
} // namespace

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
  std::string message = (flag                ? "unknown option "
                         : &command == &app_ ? "unknown command "
                                             : "unexpected argument ") +
                        moert::clipped(name);
  if (auto meant = moert::closestMatch(name, known))
    message += ", did you mean " + *meant + "?";
  std::string help = app_.get_name();
  if (&command != &app_)
    help += " " + command.get_name();
  return message + "; for what there is" + moert::runLine(help + " --help");
}

std::string Tool::parseFailure(const CLI::ParseError &error) const {
  // CLI11 counts them and does not say that they are one too many.
  for (const CLI::App *sub : app_.get_subcommands())
    for (const CLI::Option *option : sub->get_options())
      if (option->get_multi_option_policy() == CLI::MultiOptionPolicy::Throw &&
          option->count() >
              size_t(std::max(1, option->get_items_expected_max())))
        return option->get_name() + " was given " +
               std::to_string(option->count()) +
               " times, but takes one value; give it once";
  return error.what();
}

Status Tool::run(int argc, char **argv) {
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() != 0)
      return Status(
          StatusCode::Usage,
          withClipped(parseFailure(error), {argv, size_t(argc)}, kLongestWord));
    std::ostringstream text; // --help and --version
    app_.exit(error, text, text);
    printText(text.str());
    return Status::ok();
  }
  for (const CLI::App *sub : app_.get_subcommands())
    if (!sub->remaining().empty())
      return Status(StatusCode::Usage, unknownArguments(*sub));
  if (!app_.remaining().empty())
    return Status(StatusCode::Usage, unknownArguments(app_));
  if (!chosen_)
    return Status(StatusCode::Usage, "no command\n" + app_.help());
  return chosen_();
}

int Tool::main(int argc, char **argv) {
  std::set_terminate(endByException);
  Status status = claimStandardStreams();
  setCalledAs(argc > 0 ? argv[0] : "");
  moert::installBusHandler();
  moert::installCleanupHandlers();
  try {
    if (status.isOk())
      status = run(argc, argv);
  } catch (...) {
    status = caughtStatus();
  }
  if (!status.isOk())
    status = Status(status.code(), withClipped(status.message(),
                                               {argv, size_t(argc)}, PATH_MAX));
  return finish(std::move(status));
}

} // namespace moetool
