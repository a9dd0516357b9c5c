#include "worker/device/host_executor.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <boost/context/detail/fcontext.hpp>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "worker/device/host_shared.h"

namespace warpsmith::device {
namespace {

using boost::context::detail::fcontext_t;
using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;
using ws::host::Index3;
using ws::host::Scope;

constexpr int kWarpThreads = 32;

struct Thread;

// Threads that meet: of a warp, a block or a cluster.
struct Meeting {
  int threads = 0;
  int arrived = 0;
  std::vector<Thread*> waiting;

  void Reset(int count) {
    threads = count;
    arrived = 0;
    waiting.clear();
  }
};

// Shuffled values have two places, taken in turns: who is late to read has not yet arrived at the
// next shuffle, so that nobody can be at the one after it.
struct Warp {
  Meeting meeting;
  int lanes = 0;
  int shuffle_bytes = 0;  // of those waiting now; 0: they wait at a plain barrier
  int turn = 0;
  char values[2][kWarpThreads][ws::host::kMaxShuffleBytes];
};

// A copy that has begun and not arrived.
struct Copy {
  void* to;
  const void* from;
  int bytes;
  int group;
};

struct Block {
  Index3 index;
  int rank = 0;         // in its cluster
  int cluster = 0;      // in the gang
  int running = 0;      // threads that have not ended
  bool waited = false;  // for the kernel before
  char* shared = nullptr;
  int first_warp = 0;
  Meeting meeting;
};

struct Thread {
  Index3 index;
  int number = 0;  // in the block
  Block* block = nullptr;
  Warp* warp = nullptr;
  fcontext_t context = nullptr;  // while it does not run
  const unsigned* counter = nullptr;
  unsigned awaited = 0;
  std::vector<Copy> copies;  // oldest first
  int groups = 0;            // that were ended
};

struct Fiber {
  fcontext_t context = nullptr;  // while it does not run
  char* stack = nullptr;         // lowest address, a guard page
};

// Numbers 0 .. n-1 in an order without a table: steps of a length that has no divisor with n.
class Order {
 public:
  Order() = default;
  Order(uint64_t n, uint64_t random) : n_(n) {
    if (random == 0 || n < 2) return;
    at_ = random % n;
    step_ = (random >> 20) % n;
    while (std::gcd(step_, n) != 1) step_ = step_ + 1 < n ? step_ + 1 : 1;
  }
  uint64_t Next() {
    const uint64_t now = at_;
    at_ += step_;
    if (at_ >= n_) at_ -= n_;
    return now;
  }

 private:
  uint64_t n_ = 1, at_ = 0, step_ = 1;
};

Index3 Unflatten(uint64_t i, const Index3& size) {
  return {static_cast<unsigned>(i % size.x), static_cast<unsigned>(i / size.x % size.y),
          static_cast<unsigned>(i / size.x / size.y)};
}
uint64_t Volume(const Index3& size) { return uint64_t{size.x} * size.y * size.z; }

}  // namespace

class HostExecutor::Impl {
 public:
  Impl() { page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
  ~Impl() {
    for (Fiber* fiber : fibers_) {
      munmap(fiber->stack, kFiberStackBytes + page_);
      delete fiber;
    }
  }

  absl::Status Run(const HostLaunch& launch, uint64_t seed, KernelGuard* guard);

 private:
  void SetUpGang(uint64_t gang);
  // Lets the gang's threads run until all have ended or none can go on.
  absl::Status RunGang();
  std::string DescribeDeadlock() const;

  // The running fiber goes on elsewhere; it is resumed at its own call.
  void SwitchTo(fcontext_t to, fcontext_t* from);
  // The next thread that has not started; takes its place in front of the kernel.
  Thread* TakePending();
  Thread* TakeReady();
  void MakeCurrent(Thread* thread);
  void Ready(Thread* thread) { ready_.push_back(thread); }
  // Threads whose counters have come to what they wait for.
  void WakeWaiters();
  // Suspends the current thread until somebody has made it ready.
  void Suspend();
  void ThreadEnded();
  fcontext_t FreeFiber();
  [[noreturn]] void Loop();
  static void FiberMain(transfer_t transfer);

  // What kernels call.
  static void Meet(Scope scope);
  static void Shuffle(void* value, int bytes, int lane);
  static void Wait(const unsigned* counter, unsigned value);
  static void Arrived(const unsigned* counter);
  static void BeginCopy(void* to, const void* from, int bytes);
  static void CommitCopies();
  static void WaitForCopies(int groups);
  static void WaitForGrid() { active_->current_->block->waited = true; }
  void Arrive(Meeting* meeting);

  uint64_t Random() {  // xorshift64*, Vigna 2014
    random_ ^= random_ >> 12;
    random_ ^= random_ << 25;
    random_ ^= random_ >> 27;
    return random_ * 0x2545F4914F6CDD1DULL;
  }
  bool Stopped() const { return failed_ || guard_->expired(); }

  static thread_local Impl* active_;

  size_t page_ = 0;
  KernelGuard* guard_ = nullptr;
  const HostLaunch* launch_ = nullptr;
  bool permuted_ = false;
  uint64_t random_ = 1;

  // The gang. Vectors keep their storage from gang to gang.
  int block_threads_ = 0, cluster_blocks_ = 1, gang_blocks_ = 1;
  Order gangs_;
  std::vector<Block> blocks_;
  std::vector<Warp> warps_;
  std::vector<Meeting> clusters_;
  std::vector<Thread> threads_;
  std::vector<Thread*> ready_, waiters_;
  Order pending_;
  int pending_left_ = 0, alive_ = 0;
  HostShared shared_;

  Thread* current_ = nullptr;
  Fiber* running_fiber_ = nullptr;
  std::vector<Fiber*> fibers_, free_;
  fcontext_t main_ = nullptr;
  absl::Status failure_;
  bool failed_ = false, used_up_ = false;
};

thread_local HostExecutor::Impl* HostExecutor::Impl::active_ = nullptr;

absl::Status HostExecutor::Impl::Run(const HostLaunch& launch, uint64_t seed, KernelGuard* guard) {
  if (used_up_) return absl::FailedPreconditionError("an earlier launch left its threads behind");
  launch_ = &launch;
  guard_ = guard;
  permuted_ = seed != 0;
  random_ = seed * 0x9E3779B97F4A7C15ULL | 1;
  block_threads_ = static_cast<int>(Volume(launch.block));
  cluster_blocks_ = static_cast<int>(Volume(launch.cluster));
  const uint64_t grid_blocks = Volume(launch.grid);
  const uint64_t together = launch.cooperative ? grid_blocks : cluster_blocks_;
  if (together * block_threads_ > kMaxGangThreads) {
    return absl::InvalidArgumentError(absl::StrCat(
        together, " blocks of ", block_threads_,
        " threads must be resident at once; the host takes ", kMaxGangThreads, " threads"));
  }
  gang_blocks_ = static_cast<int>(together);
  const int block_warps = (block_threads_ + kWarpThreads - 1) / kWarpThreads;
  blocks_.resize(gang_blocks_);
  warps_.resize(gang_blocks_ * block_warps);
  clusters_.resize(gang_blocks_ / cluster_blocks_);
  threads_.resize(gang_blocks_ * block_threads_);
  for (int i = 0; i < static_cast<int>(threads_.size()); ++i) {  // the same in each gang
    Thread& thread = threads_[i];
    const int b = i / block_threads_;
    thread.number = i % block_threads_;
    thread.index = Unflatten(thread.number, launch.block);
    thread.block = &blocks_[b];
    thread.warp = &warps_[b * block_warps + thread.number / kWarpThreads];
  }
  if (absl::Status status = shared_.Prepare(gang_blocks_, launch.shared_bytes); !status.ok()) {
    return status;
  }
  ws::host::Context& context = *launch.context;
  context.block_threads = launch.block;
  context.blocks = launch.grid;
  context.cluster_size = cluster_blocks_;
  context.shared_stride = shared_.stride();
  context.runtime = {&Meet,      &Shuffle,      &Wait,          &Arrived,
                     &BeginCopy, &CommitCopies, &WaitForCopies, &WaitForGrid};

  const uint64_t gangs = grid_blocks / gang_blocks_;
  gangs_ = Order(gangs, permuted_ ? Random() : 0);
  active_ = this;
  used_up_ = true;  // until it comes back here: the guard may jump out of a kernel
  absl::Status status;
  for (uint64_t i = 0; i < gangs && status.ok(); ++i) {
    SetUpGang(gangs_.Next());
    status = RunGang();
  }
  active_ = nullptr;
  used_up_ = !status.ok();
  return status;
}

void HostExecutor::Impl::SetUpGang(uint64_t gang) {
  const Index3& cluster = launch_->cluster;
  const Index3 clusters = {launch_->grid.x / cluster.x, launch_->grid.y / cluster.y,
                           launch_->grid.z / cluster.z};
  const int block_warps = (block_threads_ + kWarpThreads - 1) / kWarpThreads;
  for (int b = 0; b < gang_blocks_; ++b) {
    Block& block = blocks_[b];
    block.cluster = b / cluster_blocks_;
    block.rank = b % cluster_blocks_;
    const Index3 corner = Unflatten(gang * clusters_.size() + block.cluster, clusters);
    const Index3 inside = Unflatten(block.rank, cluster);
    block.index = {corner.x * cluster.x + inside.x, corner.y * cluster.y + inside.y,
                   corner.z * cluster.z + inside.z};
    block.running = block_threads_;
    block.waited = false;
    block.shared = shared_.block(b);
    block.first_warp = b * block_warps;
    block.meeting.Reset(block_threads_);
  }
  for (Meeting& meeting : clusters_) meeting.Reset(cluster_blocks_ * block_threads_);
  for (size_t w = 0; w < warps_.size(); ++w) {
    const int first = static_cast<int>(w % block_warps) * kWarpThreads;
    warps_[w].lanes = std::min(kWarpThreads, block_threads_ - first);
    warps_[w].meeting.Reset(warps_[w].lanes);
    warps_[w].shuffle_bytes = -1;
    warps_[w].turn = 0;
  }
  if (permuted_) shared_.Poison();
  for (Thread& thread : threads_) {
    thread.copies.clear();
    thread.groups = 0;
  }
  ready_.clear();
  waiters_.clear();
  pending_left_ = alive_ = static_cast<int>(threads_.size());
  pending_ = Order(threads_.size(), permuted_ ? Random() : 0);
}

absl::Status HostExecutor::Impl::RunGang() {
  SwitchTo(FreeFiber(), &main_);
  if (failed_) return failure_;
  if (alive_ == 0) return absl::OkStatus();
  if (guard_->expired()) return absl::DeadlineExceededError("the plan's time is over");
  return absl::DeadlineExceededError(DescribeDeadlock());
}

std::string HostExecutor::Impl::DescribeDeadlock() const {
  std::string text = absl::StrCat("kernel '", launch_->kernel->name, "' hangs: ");
  if (!waiters_.empty()) {
    return absl::StrCat(text, waiters_.size(),
                        " threads wait for a word in memory that nobody writes");
  }
  for (const Block& block : blocks_) {
    const auto say = [&](const Meeting& meeting, const char* what) {
      return absl::StrCat(text, meeting.arrived, " of ", meeting.threads, " threads of a ", what,
                          " at block (", block.index.x, ", ", block.index.y, ", ", block.index.z,
                          ") wait where the others never come");
    };
    const int warps = (block_threads_ + kWarpThreads - 1) / kWarpThreads;
    for (int w = 0; w < warps; ++w) {
      const Meeting& meeting = warps_[block.first_warp + w].meeting;
      if (meeting.arrived > 0) return say(meeting, "warp");
    }
    if (block.meeting.arrived > 0) return say(block.meeting, "block");
    if (clusters_[block.cluster].arrived > 0) return say(clusters_[block.cluster], "cluster");
  }
  return text + "its threads wait";
}

// ---- switching
// ------------------------------------------------------------------------------------

void HostExecutor::Impl::SwitchTo(fcontext_t to, fcontext_t* from) {
  // The one that is resumed notes where the one that left can be found.
  const transfer_t back = jump_fcontext(to, from);
  *static_cast<fcontext_t*>(back.data) = back.fctx;
}

void HostExecutor::Impl::FiberMain(transfer_t transfer) {
  *static_cast<fcontext_t*>(transfer.data) = transfer.fctx;
  active_->Loop();
}

void HostExecutor::Impl::Loop() {
  for (;;) {
    // A fiber that comes here has no thread. It starts one or makes way for a thread that is ready.
    const bool take_ready =
        !ready_.empty() && (pending_left_ == 0 || !permuted_ || (Random() & 1) != 0);
    Fiber* const self = running_fiber_;
    if (!Stopped() && pending_left_ > 0 && !take_ready) {
      MakeCurrent(TakePending());
      guard_->EnterKernel();
      launch_->kernel->run(launch_->arguments);
      guard_->LeaveKernel();
      ThreadEnded();
      continue;
    }
    if (ready_.empty()) WakeWaiters();
    free_.push_back(self);
    if (Stopped() || ready_.empty()) {
      SwitchTo(main_, &self->context);
    } else {
      Thread* const next = TakeReady();
      current_ = next;
      SwitchTo(next->context, &self->context);
    }
    running_fiber_ = self;
  }
}

fcontext_t HostExecutor::Impl::FreeFiber() {
  if (free_.empty()) {
    auto* const fiber = new Fiber;
    void* const stack = mmap(nullptr, kFiberStackBytes + page_, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    WS_CHECK(stack != MAP_FAILED, "no memory for a fiber's stack");
    WS_CHECK(mprotect(stack, page_, PROT_NONE) == 0, "cannot protect the end of a stack");
    fiber->stack = static_cast<char*>(stack);
    // Stacks begin at different places of their pages, or all would fight for the same cache lines.
    const size_t colour = fibers_.size() * 7 % 60 * 64;
    fiber->context = make_fcontext(fiber->stack + page_ + kFiberStackBytes - colour,
                                   kFiberStackBytes - colour, &FiberMain);
    fibers_.push_back(fiber);
    free_.push_back(fiber);
  }
  running_fiber_ = free_.back();
  free_.pop_back();
  return running_fiber_->context;
}

void HostExecutor::Impl::Suspend() {
  Thread* const self = current_;
  Fiber* const fiber = running_fiber_;
  const bool take_ready =
      !ready_.empty() && (pending_left_ == 0 || !permuted_ || (Random() & 1) != 0);
  if (ready_.empty() && pending_left_ == 0) WakeWaiters();
  if (Stopped() || (ready_.empty() && pending_left_ == 0)) {
    SwitchTo(main_, &self->context);  // for good
  } else if (take_ready || pending_left_ == 0) {
    Thread* const next = TakeReady();
    if (next != self) {
      current_ = next;
      SwitchTo(next->context, &self->context);
    }
  } else {
    SwitchTo(FreeFiber(), &self->context);
  }
  running_fiber_ = fiber;
  MakeCurrent(self);
}

Thread* HostExecutor::Impl::TakePending() {
  --pending_left_;
  return &threads_[pending_.Next()];
}

Thread* HostExecutor::Impl::TakeReady() {
  if (permuted_) std::swap(ready_[Random() % ready_.size()], ready_.back());
  Thread* const thread = ready_.back();
  ready_.pop_back();
  return thread;
}

void HostExecutor::Impl::MakeCurrent(Thread* thread) {
  current_ = thread;
  ws::host::Context& context = *launch_->context;
  context.thread = thread->index;
  context.thread_in_block = thread->number;
  context.block = thread->block->index;
  context.cluster_rank = thread->block->rank;
  context.shared = thread->block->shared;
}

void HostExecutor::Impl::ThreadEnded() {
  --alive_;
  const Block& block = *current_->block;
  if (--current_->block->running > 0 || !permuted_) return;
  if (launch_->programmatic && !block.waited && !failed_) {
    failed_ = true;
    failure_ = absl::AbortedError(
        absl::StrCat("kernel '", launch_->kernel->name,
                     "' may start before the kernel before it has ended and never waits for it; "
                     "call ws::grid_wait() before reading what that one writes"));
  }
  if (cluster_blocks_ > 1) shared_.Protect(static_cast<int>(&block - blocks_.data()));
}

// ---- meeting
// --------------------------------------------------------------------------------------

void HostExecutor::Impl::Arrive(Meeting* meeting) {
  if (++meeting->arrived < meeting->threads) {
    meeting->waiting.push_back(current_);
    Suspend();
    return;
  }
  meeting->arrived = 0;
  for (Thread* thread : meeting->waiting) Ready(thread);
  meeting->waiting.clear();
  if (permuted_ && meeting->threads > 1 && (Random() & 1) != 0) {
    Ready(current_);
    Suspend();
  }
}

void HostExecutor::Impl::Meet(Scope scope) {
  Impl& self = *active_;
  self.guard_->LeaveKernel();
  Thread& thread = *self.current_;
  switch (scope) {
    case ws::host::kWarp: {
      char nothing[4] = {};
      self.guard_->EnterKernel();
      Shuffle(nothing, 0, 0);
      return;
    }
    case ws::host::kBlock:
      self.Arrive(&thread.block->meeting);
      break;
    case ws::host::kCluster:
      self.Arrive(&self.clusters_[thread.block->cluster]);
      break;
  }
  self.guard_->EnterKernel();
}

void HostExecutor::Impl::Shuffle(void* value, int bytes, int lane) {
  Impl& self = *active_;
  self.guard_->LeaveKernel();
  Warp& warp = *self.current_->warp;
  if (warp.meeting.arrived == 0) {
    warp.shuffle_bytes = bytes;
  } else if (warp.shuffle_bytes != bytes) {
    self.failed_ = true;
    self.failure_ = absl::AbortedError(
        absl::StrCat("kernel '", self.launch_->kernel->name,
                     "': threads of a warp meet at different places: shuffles of ",
                     warp.shuffle_bytes, " and ", bytes, " bytes (0: a barrier)"));
    self.Suspend();  // for good
  }
  const int turn = warp.turn;
  const int own = self.current_->number % kWarpThreads;
  std::memcpy(warp.values[turn][own], value, bytes);
  if (warp.meeting.arrived + 1 == warp.meeting.threads) warp.turn = 1 - turn;
  self.Arrive(&warp.meeting);
  if (lane >= 0 && lane < warp.lanes) std::memcpy(value, warp.values[turn][lane], bytes);
  self.guard_->EnterKernel();
}

void HostExecutor::Impl::Wait(const unsigned* counter, unsigned value) {
  Impl& self = *active_;
  if (static_cast<int>(*counter - value) >= 0 && !self.permuted_) return;
  // The counter is the kernel's pointer: it is read once more while a fault is still the kernel's.
  self.guard_->LeaveKernel();
  self.current_->counter = counter;
  self.current_->awaited = value;
  self.waiters_.push_back(self.current_);
  if ((self.Random() & 1) != 0) self.WakeWaiters();
  self.Suspend();
  self.guard_->EnterKernel();
}

void HostExecutor::Impl::Arrived(const unsigned*) {
  Impl& self = *active_;
  if (self.waiters_.empty()) return;
  self.guard_->LeaveKernel();
  self.WakeWaiters();
  self.guard_->EnterKernel();
}

// Memory is the kernel's and touched as such; the list of copies is ours.
void HostExecutor::Impl::BeginCopy(void* to, const void* from, int bytes) {
  Impl& self = *active_;
  if (!self.permuted_) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::memset(to, 0xff, bytes);
  self.guard_->LeaveKernel();
  Thread& thread = *self.current_;
  thread.copies.push_back({to, from, bytes, thread.groups});
  self.guard_->EnterKernel();
}

void HostExecutor::Impl::CommitCopies() { ++active_->current_->groups; }

void HostExecutor::Impl::WaitForCopies(int groups) {
  Impl& self = *active_;
  Thread& thread = *self.current_;
  size_t arrived = 0;
  for (; arrived < thread.copies.size(); ++arrived) {
    const Copy& copy = thread.copies[arrived];
    if (copy.group >= thread.groups - groups) break;
    std::memcpy(copy.to, copy.from, copy.bytes);
  }
  if (arrived == 0) return;
  self.guard_->LeaveKernel();
  thread.copies.erase(thread.copies.begin(), thread.copies.begin() + arrived);
  self.guard_->EnterKernel();
}

void HostExecutor::Impl::WakeWaiters() {
  const auto came = [](Thread* thread) {
    const unsigned now = *static_cast<const volatile unsigned*>(thread->counter);
    return static_cast<int>(now - thread->awaited) >= 0;
  };
  const auto still = std::partition(waiters_.begin(), waiters_.end(),
                                    [&](Thread* thread) { return !came(thread); });
  ready_.insert(ready_.end(), still, waiters_.end());
  waiters_.erase(still, waiters_.end());
}

HostExecutor::HostExecutor() : impl_(std::make_unique<Impl>()) {}
HostExecutor::~HostExecutor() = default;

absl::Status HostExecutor::Run(const HostLaunch& launch, uint64_t seed, KernelGuard* guard) {
  return impl_->Run(launch, seed, guard);
}

}  // namespace warpsmith::device
