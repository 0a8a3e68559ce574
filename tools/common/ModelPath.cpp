#include "tools/common/ModelPath.h"

#include "tools/common/Options.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <regex>

using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moetool {

namespace stdfs = std::filesystem;

StatusOr<std::string> modelPathAt(const std::string &path) {
  std::error_code error;
  if (!stdfs::is_directory(path, error))
    return path;
  static const std::regex laterPart("-(?!00001)[0-9]{5}-of-[0-9]{5}\\.gguf$");
  std::vector<std::string> models;
  bool hasSafetensors = false;
  for (stdfs::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    hasSafetensors |= name.ends_with(".safetensors");
    if (name.ends_with(".gguf") && !name.starts_with("mmproj") &&
        !std::regex_search(name, laterPart))
      models.push_back(name);
  }
  if (error)
    return Status(StatusCode::Io, error.message()).at(path);
  std::ranges::sort(models);
  if (models.size() == 1)
    return (stdfs::path(path) / models.front()).string();
  constexpr size_t mostShown = 8;
  const size_t shown = std::min(models.size(), mostShown);
  return Status(StatusCode::Usage,
                models.empty() && hasSafetensors
                    ? "the folder has safetensors, and no GGUF file: get a "
                      "GGUF of "
                      "the model, or convert it with convert_hf_to_gguf.py of "
                      "llama.cpp"
                : models.empty()
                    ? "the folder has no GGUF file"
                    : fmt::format("the folder has {} models, name one of them: "
                                  "{}{}",
                                  models.size(),
                                  fmt::join(models.begin(),
                                            models.begin() + ptrdiff_t(shown),
                                            ", "),
                                  shown < models.size() ? ", ..." : ""))
      .at(path);
}

CLI::Option *addModelPath(CLI::App &command, const moert::OptionInfo &info,
                          std::string &path) {
  return addReader(command, info, [&path](const std::string &text) {
    MOE_ASSIGN_OR_RETURN(path, modelPathAt(text));
    return Status::ok();
  });
}

} // namespace moetool
