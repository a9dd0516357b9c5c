#include <warpsmith/attend.cuh>
using namespace ws;
struct Plain {
  static constexpr bool kPlain = true, kOrZero = true, kNoNan = false;
  static constexpr int kTogether = 1;
  static constexpr float kScale = SCALE_;
  WS_DEVICE int at_q(int b) const { return b; }
  WS_DEVICE int at_k(int b) const { return b / GROUP_; }
  WS_DEVICE int at_v(int b) const { return b / GROUP_; }
  WS_DEVICE int at_out(int b) const { return b; }
  WS_DEVICE AttendKeys keys(int, int q, int end) const { return {0, CAUSAL_ && end < SK_ ? end : SK_}; }
  WS_DEVICE AttendKeys clear(int, int q, int end) const { return {0, CAUSAL_ && q + 1 < SK_ ? q + 1 : SK_}; }
  WS_DEVICE bool seen(int, int q, int k) const { return !CAUSAL_ || k <= q; }
  WS_DEVICE void score(int, int, int, float (&)[1]) const {}
};
struct Conf {
  using Type = hopper::TYPE_;
  using Element = ELEM_;
  static constexpr int kHead = D_, kHeadV = D_, kTileQ = TQ_, kTileK = TK_, kStages = ST_, kBatch = BH_, kQueries = SQ_, kKeys = SK_, kSection = SEC_, kSplit = SPLIT_;
  static constexpr bool kLaterLonger = CAUSAL_, kMeet = SPLIT_ > 1;
  using Glue = Plain;
};
extern "C" __global__ void __launch_bounds__(Attend<Conf>::kThreads, 1) att(const __grid_constant__ hopper::Map q,
    const __grid_constant__ hopper::Map k, const __grid_constant__ hopper::Map v, const __grid_constant__ hopper::Map o) {
  attend<Conf>(Plain(), q, k, v, o, nullptr);
}
extern "C" __device__ const int att_shared = Attend<Conf>::kSharedBytes, att_threads = Attend<Conf>::kThreads;
