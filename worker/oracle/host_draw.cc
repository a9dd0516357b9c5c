// Inputs from a seed. Each value is a function of (seed, tensor's name, position) alone.
#include <cmath>
#include <string_view>

#include "common/graph/numeric.h"
#include "worker/oracle/oracle.h"

namespace warpsmith::oracle {
namespace {

using graph::Distribution;
using graph::DType;

// The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators).
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t Hash(std::string_view text) {  // FNV-1a
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

class Stream {
 public:
  Stream(uint64_t seed, std::string_view tensor, uint64_t purpose)
      : state_(Mix(Mix(seed + 0x9e3779b97f4a7c15u) ^ Hash(tensor)) + Mix(purpose)) {}

  // [0, 1), in steps of 2^-53.
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

  double Normal() {  // Box and Muller, two at a time
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2 * std::log(1 - Uniform()));
    const double angle = 2 * M_PI * Uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  uint64_t Next() { return Mix(state_ += 0x9e3779b97f4a7c15u); }

  uint64_t state_;
  bool has_spare_ = false;
  double spare_ = 0;
};

enum Purpose : uint64_t { kOrdinary = 1, kSpread = 2, kWeights = 3 };

double DrawOne(const Distribution& d, Stream& stream) {
  switch (d.kind) {
    case Distribution::Kind::kNormal:
      return d.low + d.high * stream.Normal();
    case Distribution::Kind::kUniform:
      return d.low + (d.high - d.low) * stream.Uniform();
    case Distribution::Kind::kIntegers:
      return d.low + std::floor((d.high - d.low) * stream.Uniform());
    case Distribution::Kind::kConstant:
      return d.low;
  }
  return 0;
}

double ToType(DType type, double value) {
  if (graph::IsFloat(type)) return graph::RoundTo(type, value);
  if (type == DType::kBool) return value > 0;  // normal: one in two
  return static_cast<double>(graph::FloatToInteger(DType::kF64, type, std::nearbyint(value)));
}

void VaryInput(const graph::Tensor& tensor, uint64_t seed, Variation variation, Values& values) {
  Stream stream(seed, tensor.name, kSpread);
  for (double& v : values) {
    switch (variation) {
      case Variation::kTimes3:
        v *= 3;
        break;
      case Variation::kTimes001:
        v *= 0.01;
        break;
      case Variation::kNegated:
        v = -v;
        break;
      case Variation::kDense:
        v = stream.Normal();
        break;
      case Variation::kTies:
        v = std::nearbyint(stream.Normal()) + 0.5;
        break;
      case Variation::kWide:
        v *= std::exp(2 * stream.Normal());
        break;
      case Variation::kNone:
      case Variation::kNewWeights:
        return;
    }
  }
}

void PerturbWeights(const graph::Tensor& tensor, uint64_t seed, Values& values) {
  constexpr double kPart = 0.1;             // of the weights' mean magnitude
  constexpr double kLeastMagnitude = 0.05;  // weights of all zeros change too
  double sum = 0;
  for (double v : values) sum += std::fabs(v);
  const double scale = kPart * std::max(sum / static_cast<double>(values.size()), kLeastMagnitude);
  Stream stream(seed, tensor.name, kWeights);
  for (double& v : values) v += scale * stream.Normal();
}

}  // namespace

const char* NameOf(Variation variation) {
  switch (variation) {
    case Variation::kNone:
      return "ordinary";
    case Variation::kTimes3:
      return "times 3";
    case Variation::kTimes001:
      return "times 0.01";
    case Variation::kNegated:
      return "negated";
    case Variation::kDense:
      return "dense";
    case Variation::kWide:
      return "wide";
    case Variation::kNewWeights:
      return "new weights";
    case Variation::kTies:
      return "ties";
  }
  return "";
}

Values DrawOnHost(const graph::Tensor& tensor, uint64_t seed, Variation variation) {
  Stream stream(seed, tensor.name, kOrdinary);
  Values values(tensor.elements());
  for (double& v : values) v = DrawOne(tensor.distribution, stream);
  if (graph::IsFloat(tensor.type)) {
    if (tensor.given()) VaryInput(tensor, seed, variation, values);
    if (tensor.role == graph::Role::kParam && variation == Variation::kNewWeights) {
      PerturbWeights(tensor, seed, values);
    }
  }
  for (double& v : values) v = ToType(tensor.type, v);
  return values;
}

}  // namespace warpsmith::oracle
