#include "kernels/HostAmx.h"

namespace moek {

std::string_view amxRefusal() { return amxRefusalFor(hostAmxSupport()); }

} // namespace moek
