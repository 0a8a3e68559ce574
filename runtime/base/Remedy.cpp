#include "runtime/base/Remedy.h"

#include <utility>

namespace moert {

std::string suggestionText(Suggestion suggestion, std::string_view detail) {
  constexpr std::string_view texts[] = {
#define MOE_SUGGESTION(name, text) text,
#include "runtime/base/Suggestions.def"
  };
  std::string text(texts[size_t(suggestion)]);
  if (size_t at = text.find("{}"); at != text.npos)
    text.replace(at, 2, detail);
  return text;
}

Status Status::suggesting(Remedy remedy, std::string_view joint) && {
  message_ += joint;
  message_ += remedy.text();
  return std::move(*this).with(std::move(remedy));
}

Status Status::with(Remedy remedy) && {
  remedy_ = std::make_shared<const Remedy>(std::move(remedy));
  return std::move(*this);
}

} // namespace moert
