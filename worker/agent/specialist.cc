#include "worker/agent/specialist.h"

namespace warpsmith::agent {

std::vector<std::unique_ptr<Specialist>> MakeSpecialists() {
  std::vector<std::unique_ptr<Specialist>> all;
  all.push_back(MakeAlgebra());
  all.push_back(MakeFusion());
  all.push_back(MakeOccupancy());
  all.push_back(MakeMemory());
  all.push_back(MakeCompute());
  all.push_back(MakePrecision());
  all.push_back(MakeLaunch());
  return all;
}

}  // namespace warpsmith::agent
