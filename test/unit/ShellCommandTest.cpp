// A shell reads a suggested command as it was meant, and a terminal shows it as
// text, whatever names it contains.
#include "runtime/base/ShellCommand.h"

#include "runtime/base/Text.h"
#include "tools/common/Remedies.h"

#include <cstdio>
#include <gtest/gtest.h>
#include <memory>

using namespace moert;

namespace {

/// Returns the output of `command` in a shell.
std::string output(const std::string &command) {
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> pipe(
      ::popen(command.c_str(), "r"), ::pclose);
  std::string text;
  for (int c; (c = std::fgetc(pipe.get())) != EOF;)
    text += char(c);
  return text;
}

TEST(ShellCommand, AShellReadsEveryWordBack) {
  for (std::string word :
       {"plan.fb",    "",         "a b",           "it's",    "$HOME",
        "`id`",       "$(id)",    "a\"b",          "a\\b",    "*",
        "~",          "#x",       "a;b",           "a&b",     "a|b",
        "a\tb",       "a\nb",     "\x1b[2J",       "%s%d",    "50%",
        "a\x1b'%\\b", "\xff\xfe", "Mod\xc3\xa8le", "\xc2\x9b"}) {
    std::string text = shellWord(word);
    EXPECT_EQ(output("printf '<%s>' " + text), "<" + word + ">") << text;
    EXPECT_EQ(terminalSafe(text), text);
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
  EXPECT_EQ(shellWord("dir/plan-1.fb"), "dir/plan-1.fb");
  EXPECT_EQ(shellWord("Mod\xc3\xa8le"), "'Mod\xc3\xa8le'");
}

TEST(ShellCommand, FilesAreNoOptions) {
  EXPECT_EQ(shellPath("-o"), "./-o");
  EXPECT_EQ(shellPath("a-o"), "a-o");
  EXPECT_EQ(shellPath("- x"), "'./- x'");
}

TEST(ShellCommand, LinesSplitIntoTheWordsTheyWereMadeOf) {
  std::vector<std::string> words = {"--target-file", "a b's \"c\"", "", "$x\\"};
  std::string line;
  for (const std::string &word : words)
    line += shellWord(word) + " ";
  EXPECT_EQ(shellSplit(line), words);
  EXPECT_EQ(shellSplit("a\\ b"), std::vector<std::string>{"a b"});
  EXPECT_EQ(shellSplit(" "), std::vector<std::string>());
  for (const char *open : {"'a", "\"a", "a\\"})
    EXPECT_FALSE(shellSplit(open)) << open;
}

TEST(ShellCommand, ToolsAreWhereTheyWereCalled) {
  Remedy first{Suggestion::CompileFirst, CompileCommand{"x", {}, ""}};
  std::string message = moetool::fullMessage(
      Status(StatusCode::Usage, "x is a model").suggesting(first));
  EXPECT_EQ(message, "x is a model; compile it first\n  run: moec compile x");
  EXPECT_EQ(moetool::withToolFolder(message, ""), message);
  EXPECT_EQ(moetool::withToolFolder(message, "build/bin/"),
            "x is a model; compile it first\n  run: build/bin/moec compile x");
  EXPECT_EQ(moetool::withToolFolder("done\nnext: moert chat x.fb\n", "bin/"),
            "done\nnext: bin/moert chat x.fb\n");
  std::string lead = "  run, with the GGUF file for MODEL: ";
  EXPECT_EQ(moetool::withToolFolder(lead + "moec\nx", "a b/"),
            lead + "'a b/'moec\nx");
}

TEST(ShellCommand, SuggestionsHaveADetailInPlaceOfBraces) {
  EXPECT_EQ(suggestionText(Suggestion::FitsContext, "512 tokens"),
            "it fits with a context of 512 tokens");
}

} // namespace
