//===- UserCache.h - Where a user's caches are ------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_USERCACHE_H
#define MOE_RUNTIME_BASE_USERCACHE_H

#include <string>

namespace moert {

/// moec's folder among the user's caches (XDG's, or ~/.cache), whether it
/// exists or not; "" where the environment names neither that nor a home.
std::string userCacheFolder();

} // namespace moert

#endif // MOE_RUNTIME_BASE_USERCACHE_H
