// moe-token-ids: prints the token ids that the tokenizer of a GGUF file gives
// to texts.
//   moe-token-ids MODEL [--pre NAME] [--pieces | --bos] < TEXTS
// Each line of TEXTS is one text as a JSON string. For each, one line of JSON
// is printed: its ids without the token that starts a text or, with --pieces,
// the pieces into which it is cut before. --bos prints whether there would be
// such a token.
#include "compiler/Import/TokenizerMetadata.h"
#include "runtime/text/Tokenizer.h"

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

using namespace moert;

namespace {
Status printAll(const std::string &path, std::string_view pre,
                std::string_view mode) {
  MOE_ASSIGN_OR_RETURN(moec::GgufModel model, moec::GgufModel::open(path));
  MOE_ASSIGN_OR_RETURN(TokenizerSpec spec,
                       moec::tokenizerSpecFromGguf(model, pre));
  MOE_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::create(spec));
  if (mode == "--bos")
    std::cout << (spec.addBos ? "true\n" : "false\n");
  EncodeOptions options;
  options.addBos = false;
  options.parseSpecial = false;
  for (std::string line; std::getline(std::cin, line);) {
    std::string text = nlohmann::json::parse(line).get<std::string>();
    nlohmann::json printed;
    if (mode == "--pieces") {
      MOE_ASSIGN_OR_RETURN(printed, tokenizer.pieces(text, options));
    } else {
      MOE_ASSIGN_OR_RETURN(printed, tokenizer.encode(text, options));
    }
    std::cout << printed.dump() << '\n';
  }
  return Status::ok();
}
} // namespace

int main(int argc, char **argv) {
  std::string path, pre, mode;
  std::span<char *> arguments(argv + 1, static_cast<size_t>(argc - 1));
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string_view argument = arguments[i];
    if (argument == "--pieces" || argument == "--bos")
      mode = argument;
    else if (argument == "--pre" && i + 1 < arguments.size())
      pre = arguments[++i];
    else
      path = argument;
  }
  Status status = printAll(path, pre, mode);
  if (!status)
    std::fprintf(stderr, "%s\n", status.message().c_str());
  return status ? 0 : 1;
}
