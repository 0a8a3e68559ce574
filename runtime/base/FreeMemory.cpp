#include "runtime/base/FreeMemory.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace moert {

void returnFreeMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

} // namespace moert
