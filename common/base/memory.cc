#include "common/base/memory.h"

#include <cstdlib>  // defines __GLIBC__

#ifdef __GLIBC__
#include <malloc.h>
#endif

// gperftools' (gperftools/malloc_extension_c.h), in programs that are linked with it.
extern "C" __attribute__((weak)) void MallocExtension_ReleaseFreeMemory();

namespace warpsmith::base {

void ReturnFreedMemory() {
  if (MallocExtension_ReleaseFreeMemory != nullptr) return MallocExtension_ReleaseFreeMemory();
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace warpsmith::base
