// The process's memory.
#pragma once

namespace warpsmith::base {

// Gives memory that was freed back to the system, as far as whole pages of it lie free. Allocators
// keep what a large state that was built and thrown away has left between the rest. Takes the
// longer the more there is, and other threads wait for memory meanwhile. Any thread.
void ReturnFreedMemory();

}  // namespace warpsmith::base
