#include "scheduler/budgets/cost_constants.h"

#include <gmock/gmock.h>

#include <set>

#include "scheduler/budgets/device_limits.h"

namespace sinter::cost_constants_test {

TEST(CostConstantsTest, CannotBeMadeWithoutValues) {
  static_assert(!std::is_default_constructible_v<CostConstants>);
}

TEST(CostConstantsTest, EveryPresetHasAFile) {
  std::set<std::string_view> names;
  for (const DeviceConstants& device : embedded_cost_constants()) names.insert(device.device);
  for (const DeviceLimits& limits : device_presets()) {
    EXPECT_TRUE(names.contains(limits.name)) << limits.name;
    EXPECT_EQ(limits.cost, cost_constants_of(limits.name)) << limits.name;
  }
  EXPECT_EQ(names.size(), device_presets().size());
}

TEST(CostConstantsTest, EveryValueIsWithinItsRange) {
  for (const DeviceConstants& device : embedded_cost_constants()) {
    const CostConstants& constants = cost_constants_of(device.device);
    for (const CostConstantField& field : cost_constant_fields()) {
      EXPECT_GE(value_of(field, constants), field.least) << device.device << " " << field.name;
      EXPECT_LE(value_of(field, constants), field.most) << device.device << " " << field.name;
    }
  }
}

TEST(CostConstantsTest, FieldsAreFoundByTheirNamesAndAreDistinct) {
  CostConstants constants = cost_constants_of(kReferenceDevice);
  std::set<double*> places;
  for (const CostConstantField& field : cost_constant_fields()) {
    EXPECT_EQ(find_cost_constant(field.name), &field);
    places.insert(&field.of(constants));
  }
  EXPECT_EQ(places.size(), cost_constant_fields().size());
  EXPECT_EQ(find_cost_constant("row"), nullptr);
  find_cost_constant("row.chunk_ns")->of(constants) = 7.0;
  EXPECT_EQ(constants.row.chunk_ns, 7.0);
}

TEST(CostConstantsTest, AnUnknownDeviceHasThoseOfTheReference) {
  EXPECT_EQ(cost_constants_of("no such device"), cost_constants_of(kReferenceDevice));
  EXPECT_EQ(DeviceLimits{}.cost, cost_constants_of(kReferenceDevice));
}

}  // namespace sinter::cost_constants_test
