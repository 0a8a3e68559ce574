//===- ClientGroups.h - Numbers for groups of clients -----------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_CLIENTGROUPS_H
#define MOE_RUNTIME_SERVE_CLIENTGROUPS_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace moert {

/// Numbers the groups whose clients share evaluated prompts
/// (GenerationRequest::group), for SequenceOptions::group. Not for several
/// threads.
class ClientGroups {
public:
  int32_t numberOf(const std::string &name) {
    auto [place, isNew] = numbers_.emplace(name, int32_t(names_.size()));
    if (isNew)
      names_.push_back(name);
    return place->second;
  }
  const std::string &nameOf(int32_t number) const {
    return names_[size_t(number)];
  }

private:
  std::map<std::string, int32_t> numbers_;
  std::vector<std::string> names_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_CLIENTGROUPS_H
