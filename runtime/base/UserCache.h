//===- UserCache.h - The user's cache folder --------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_USERCACHE_H
#define MOE_RUNTIME_BASE_USERCACHE_H

#include <string>

namespace moert {

/// Returns moec's folder in the user's cache folder (XDG's, or ~/.cache),
/// whether it exists or not; "" if the environment defines neither.
std::string userCacheFolder();

} // namespace moert

#endif // MOE_RUNTIME_BASE_USERCACHE_H
