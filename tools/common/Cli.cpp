#include "tools/common/Cli.h"

#include "kernels/Registry.h"
#include "runtime/base/MappedFile.h"
#include "runtime/base/Remedy.h"
#include "runtime/base/Suggest.h"
#include "runtime/base/Temporaries.h"
#include "runtime/base/Text.h"
#include "tools/common/Help.h"
#include "tools/common/Options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <exception>
#include <filesystem>
#include <fmt/ranges.h>
#include <iterator>
#include <new>
#include <span>
#include <sstream>
#include <sys/ioctl.h>
#include <unistd.h>

using moert::OptionInfo;
using moert::OptionKind;
using moert::Status;
using moert::StatusCode;
using moert::Suggestion;

namespace moetool {

const char *const kExitCodeHelp =
    "Exit codes: 0 ok, 1 internal error, 2 usage, 3 malformed file, 4 I/O,\n"
    "5 does not fit, 6 unsupported, 7 plan for another machine, model or\n"
    "version, 130 interrupted.";

namespace {
/// Maximum length, in messages, of an argument that is not a path.
constexpr size_t kLongestWord = 128;

/// Converts the exception that is being handled to an error.
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

/// Shortens the values of arguments with more than `most` bytes where they
/// occur in the message.
std::string withClipped(std::string message,
                        std::span<const std::string> arguments, size_t most) {
  for (std::string_view value : arguments) {
    if (size_t equals = value.find('=');
        value.starts_with("--") && equals != std::string_view::npos)
      value.remove_prefix(equals + 1);
    if (value.starts_with('@')) // The value names a file that has the values.
      value.remove_prefix(1);
    if (value.size() <= most)
      continue;
    for (size_t at; (at = message.find(value)) != std::string::npos;)
      message.replace(at, value.size(), moert::clipped(value));
  }
  return message;
}

/// Called instead of an abort if an exception cannot reach Tool::main(), for
/// example from a thread or through noexcept code.
[[noreturn]] void endByException() {
  moert::removeTemporaries();
  ::_exit(finish(std::current_exception()
                     ? caughtStatus()
                     : Status(StatusCode::Internal, "internal error")));
}
} // namespace

/// Returns ", did you mean --ctx?", or "" if no known name is similar.
static std::string didYouMean(const std::string &name,
                              const std::vector<std::string> &known) {
  auto meant = moert::closestMatch(name, known);
  return meant ? ", did you mean " + *meant + "?" : "";
}

/// Returns the width of help: that of the terminal, if there is one, up to a
/// width that is easy to read.
static size_t helpWidth() {
  constexpr size_t kWidest = 100, kNarrowest = 48;
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return kWidest;
  return std::clamp<size_t>(size.ws_col, kNarrowest, kWidest);
}

namespace {
/// Prints help in our form instead of CLI11's.
class OurFormatter : public CLI::FormatterBase {
public:
  std::string make_help(const CLI::App *app, std::string,
                        CLI::AppFormatMode) const override {
    return helpText(*app, helpWidth());
  }
};

constexpr OptionInfo kHelpTopic = {.names = "command",
                                   .kind = OptionKind::Text,
                                   .metavar = "COMMAND",
                                   .help = "The command to describe"};
constexpr OptionInfo kHelpMan = {.names = "--man",
                                 .help = "Print a man page, for man -l"};
constexpr OptionInfo kHelpMarkdown = {
    .names = "--markdown", .help = "Print the reference in Markdown"};
constexpr OptionInfo kHelpTheirs = {
    .names = "--other-tools",
    .help = "Print what options of llama.cpp, ik_llama.cpp and KTransformers "
            "are called here"};
constexpr OptionInfo kIsa = {
    .names = "--isa",
    .kind = OptionKind::Text,
    .metavar = "NAME",
    .help = "Before the command: behave as on a CPU that has this instruction "
            "set (avx2, avxvnni, avx512, ...) and those whose kernels it "
            "runs, and no other"};
constexpr OptionInfo kShellName = {.names = "shell",
                                   .kind = OptionKind::Word,
                                   .words = "bash|zsh|fish",
                                   .isRequired = true,
                                   .help = "The shell to print a script for"};
} // namespace

Tool::Tool(std::string name, std::string description)
    : app_(
          std::make_unique<CLI::App>(std::move(description), std::move(name))) {
  app_->formatter(std::make_shared<OurFormatter>());
  app_->set_version_flag("--version", app_->get_name() + " " MOE_VERSION);
  // Tool::limitIsa() takes it; here it is described.
  addReader(*app_, kIsa, [](const std::string &) { return Status::ok(); });
  app_->footer(kExitCodeHelp);
  // Only one command is parsed: an argument after it may have the name of
  // another.
  app_->require_subcommand(0, 1);
  // Misspelt commands arrive as extras, so that the message can suggest one.
  app_->allow_extras();
}

Tool::~Tool() = default;

CLI::App *Tool::command(std::string name, std::string description,
                        std::function<Status()> run) {
  CLI::App *command =
      app_->add_subcommand(std::move(name), std::move(description));
  command->allow_extras();
  command->callback([this, run = std::move(run)] { chosen_ = run; });
  return command;
}

const CLI::App *Tool::findCommand(const std::string &name) const {
  for (const CLI::App *command : app_->get_subcommands({}))
    if (command->get_name() == name)
      return command;
  return nullptr;
}

void Tool::addHelpCommand() {
  struct Options {
    std::string topic;
    bool man = false, markdown = false, theirs = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App *command =
      this->command("help", "Describe the commands, or one", [this, options] {
        const CLI::App *topic = app_.get();
        if (!options->topic.empty())
          topic = findCommand(options->topic);
        if (!topic)
          return unknownCommand(options->topic);
        printText(options->theirs     ? theirOptionsPage()
                  : options->man      ? manPage(*app_)
                  : options->markdown ? markdownReference(*app_)
                                      : helpText(*topic, helpWidth()));
        return Status::ok();
      });
  addOption(*command, kHelpTopic, options->topic);
  addOption(*command, kHelpMan, options->man);
  addOption(*command, kHelpMarkdown, options->markdown);
  addOption(*command, kHelpTheirs, options->theirs);
}

void Tool::addCompletionsCommand() {
  auto shell = std::make_shared<std::string>();
  CLI::App *command = this->command(
      "completions", "Print a script that completes commands and options",
      [this, shell] {
        printText(completionScript(*app_, *shell == "bash"  ? Shell::Bash
                                          : *shell == "zsh" ? Shell::Zsh
                                                            : Shell::Fish));
        return Status::ok();
      });
  addOption(*command, kShellName, *shell);
}

static moert::Remedy readHelp(std::vector<std::string> words) {
  words.emplace_back("--help");
  return {Suggestion::ReadHelp, moert::OtherCommand{std::move(words)}};
}

Status Tool::unknownCommand(const std::string &word) const {
  std::vector<std::string> known;
  for (const CLI::App *sub : app_->get_subcommands({}))
    known.push_back(sub->get_name());
  return Status(StatusCode::Usage, "unknown command " + moert::clipped(word) +
                                       didYouMean(word, known))
      .suggesting(readHelp({app_->get_name()}));
}

Status Tool::unknownArguments(const CLI::App &command) const {
  std::string word = command.remaining().front();
  bool isOption = word.size() > 1 && word[0] == '-';
  if (!isOption && &command == app_.get())
    return unknownCommand(word);
  std::vector<std::string> known;
  if (isOption) {
    for (const CLI::Option *option : command.get_options())
      for (const std::string &name : option->get_lnames())
        known.push_back("--" + name);
    std::ranges::move(theirOptionNames(), std::back_inserter(known));
  }
  // Some tools take a prompt as an argument.
  if (!isOption && command.get_option_no_throw("--prompt"))
    return Status(StatusCode::Usage, "unexpected argument " +
                                         moert::clipped(word) +
                                         "; -p TEXT is the prompt");
  std::string name = word.substr(0, word.find('='));
  std::vector<std::string> help = {app_->get_name()};
  if (&command != app_.get())
    help.push_back(command.get_name());
  return Status(StatusCode::Usage,
                (isOption ? "unknown option " : "unexpected argument ") +
                    moert::clipped(name) + didYouMean(name, known))
      .suggesting(readHelp(std::move(help)));
}

/// Returns the message for what is wrong with the arguments.
static std::string parseFailure(const CLI::App &app,
                                const CLI::ParseError &error) {
  // CLI11 counts the values but does not report that one is too many.
  for (const CLI::App *sub : app.get_subcommands())
    for (const CLI::Option *option : sub->get_options())
      if (option->get_multi_option_policy() == CLI::MultiOptionPolicy::Throw &&
          option->count() >
              size_t(std::max(1, option->get_items_expected_max())))
        return option->get_name() + " was given " +
               std::to_string(option->count()) +
               " times, but takes one value; give it once";
  if (error.get_name() == "RequiredError")
    for (const CLI::App *sub : app.get_subcommands())
      for (const CLI::Option *option : sub->get_options())
        if (option->get_positional() && option->get_required() &&
            option->count() == 0)
          return option->get_type_name() + " is required";
  return error.what();
}

/// Says that options of llama.cpp in the environment are not read, keys of a
/// server above all.
static void noteEnvironment() {
  std::string names;
  for (char **entry = environ; entry && *entry; ++entry)
    if (std::string_view text = *entry;
        text.starts_with("LLAMA_ARG_") || text.starts_with("LLAMA_API_KEY=")) {
      names += names.empty() ? "" : ", ";
      names += text.substr(0, text.find('='));
    }
  if (!names.empty())
    note("note: options are read from the command line alone: {} has no "
         "effect\n",
         moert::clipped(names));
}

Status Tool::otherCommand(const TheirCommand &other,
                          std::span<const std::string> words) const {
  std::string message = "unknown command " + words.front();
  if (!other.answer.empty())
    message += ": " + std::string(other.answer);
  if (other.words.empty())
    return Status(StatusCode::Usage, std::move(message));
  std::vector<std::string> ours = other.words;
  if (const CLI::App *command =
          ours[0] == app_->get_name() ? findCommand(ours[1]) : nullptr;
      command && other.takesArguments) {
    OurWords translated = withOurSpellings(*command, words.subspan(1));
    for (const std::string &refusal : translated.refusals)
      message += "\n  " + refusal;
    std::ranges::move(translated.words, std::back_inserter(ours));
  } else if (other.takesArguments) {
    ours.insert(ours.end(), words.begin() + 1, words.end());
  }
  return Status(StatusCode::Usage, std::move(message))
      .suggesting({Suggestion::UseOurs, moert::OtherCommand{std::move(ours)}});
}

Status Tool::refusal(const std::string &command, const OurWords &ours) {
  std::string message = fmt::format("{}", fmt::join(ours.refusals, "\n  "));
  std::vector<std::string> words = ours.words;
  words.insert(words.begin(), command);
  if (Status rest = parse(words); !rest.isOk())
    return Status(StatusCode::Usage, message + "\n  " + rest.message());
  words.insert(words.begin(), app_->get_name());
  return Status(StatusCode::Usage, std::move(message))
      .suggesting({Suggestion::LeaveOut, moert::OtherCommand{std::move(words)},
                   ours.refusals.size() == 1 ? "it" : "them"});
}

/// Takes --isa from the front of the arguments: what follows is the same with
/// and without it.
Status Tool::limitIsa(std::vector<std::string> &words) const {
  constexpr std::string_view kName = "--isa";
  std::string name;
  size_t taken = 0;
  if (words.size() > 1 && words.front() == kName) {
    name = words[1];
    taken = 2;
  } else if (!words.empty() &&
             words.front().starts_with(std::string(kName) + "=")) {
    name = words.front().substr(kName.size() + 1);
    taken = 1;
  } else {
    return Status::ok();
  }
  std::optional<moek::Isa> most = moek::isaFromName(name);
  if (!most || *most == moek::Isa::Cuda)
    return Status(StatusCode::Usage,
                  fmt::format("--isa: {} is no instruction set of CPUs: {}",
                              moert::clipped(name), moek::cpuIsaNames()));
  moek::limitHostIsa(most);
  words.erase(words.begin(), words.begin() + ptrdiff_t(taken));
  return Status::ok();
}

Status Tool::run(std::vector<std::string> words, const Prepare &prepare) {
  MOE_RETURN_IF_ERROR(limitIsa(words));
  std::error_code error;
  const bool isFile =
      prepare && !words.empty() && std::filesystem::exists(words[0], error);
  if (!words.empty() && !isFile && !findCommand(words.front()))
    if (std::optional<TheirCommand> other = theirCommand(words.front()))
      return otherCommand(*other, words);
  bool isCommand = !words.empty() && findCommand(words.front());
  if (prepare && !isCommand) {
    MOE_ASSIGN_OR_RETURN(words, prepare(std::move(words)));
  }
  const CLI::App *command =
      words.empty() ? nullptr : findCommand(words.front());
  if (command) {
    noteEnvironment();
    const OurWords ours =
        withOurSpellings(*command, std::span(words).subspan(1));
    if (!ours.refusals.empty())
      return refusal(words.front(), ours);
    words.resize(1);
    words.insert(words.end(), ours.words.begin(), ours.words.end());
    if (!ours.dropped.empty())
      note("note: left out, as it is done anyway: {}\n",
           fmt::join(ours.dropped, ", "));
    for (const std::string &text : ours.ignored)
      note("note: left out, as it changes no text: {}\n", text);
    for (const std::string &text : ours.notes)
      note("note: {}\n", text);
    Status status = parseAndRun(words);
    // Whoever typed other words finds them again.
    if (status.code() != StatusCode::Usage && status.code() != StatusCode::Io)
      return status;
    std::string changes;
    for (const std::string &change : ours.changes)
      changes += (changes.empty() ? " (" : "; ") + change;
    std::string message = status.message();
    if (!changes.empty())
      message += changes + ")";
    return std::move(status).reworded(std::move(message));
  }
  return parseAndRun(words);
}

Status Tool::parse(const std::vector<std::string> &words) {
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app_->parse(reversed);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() != 0)
      return Status(StatusCode::Usage, withClipped(parseFailure(*app_, error),
                                                   words, kLongestWord));
    std::ostringstream text; // Output of --help and --version.
    app_->exit(error, text, text);
    chosen_ = [text = text.str()] {
      printText(text);
      return Status::ok();
    };
    return Status::ok();
  }
  for (const CLI::App *sub : app_->get_subcommands())
    if (!sub->remaining().empty())
      return unknownArguments(*sub);
  if (!app_->remaining().empty())
    return unknownArguments(*app_);
  if (!chosen_)
    return Status(StatusCode::Usage, "no command\n" + app_->help());
  return Status::ok();
}

Status Tool::parseAndRun(const std::vector<std::string> &words) {
  MOE_RETURN_IF_ERROR(parse(words));
  return chosen_();
}

int Tool::main(int argc, char **argv, const Prepare &prepare) {
  addHelpCommand();
  addCompletionsCommand();
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  std::set_terminate(endByException);
  Status status = claimStandardStreams();
  setCalledAs(argc > 0 ? argv[0] : "");
  moert::installBusHandler();
  moert::installCleanupHandlers();
  try {
    if (status.isOk())
      status = run(words, prepare);
  } catch (...) {
    status = caughtStatus();
  }
  std::string message = withClipped(status.message(), words, PATH_MAX);
  return finish(std::move(status).reworded(std::move(message)));
}

} // namespace moetool
