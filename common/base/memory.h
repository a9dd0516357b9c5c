// The process's memory.
#pragma once

namespace warpsmith::base {

// Gives memory that was freed back to the system, as far as whole pages of it lie free. glibc keeps
// what a large state that was built and thrown away has left between the rest. Takes some 0.1 s a
// GiB, in which other threads wait for memory. Any thread.
void ReturnFreedMemory();

}  // namespace warpsmith::base
