#include "runtime/base/UserCache.h"

#include <cstdlib>
#include <filesystem>

std::string moert::userCacheFolder() {
  std::filesystem::path folder;
  if (const char *cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    folder = cache;
  else if (const char *home = std::getenv("HOME"); home && *home)
    folder = std::filesystem::path(home) / ".cache";
  else
    return "";
  return (folder / "moec").string();
}
