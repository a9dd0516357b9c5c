#include "worker/agent/specialist.h"

namespace warpsmith::agent {

std::vector<std::unique_ptr<Specialist>> MakeSpecialists() {
  std::vector<std::unique_ptr<Specialist>> all;
  all.push_back(MakeAlgebra());
  all.push_back(MakeFusion());
  all.push_back(MakeKnobs(v1::OCCUPANCY));
  all.push_back(MakeKnobs(v1::MEMORY));
  all.push_back(MakeKnobs(v1::COMPUTE));
  all.push_back(MakeKnobs(v1::PRECISION));
  all.push_back(MakeLaunch());
  return all;
}

}  // namespace warpsmith::agent
