// Each family has parameters of its own, whose defaults use no feature, and a field is read
// whatever the family.

#include "scheduler/schedule/family_parameters.h"

#include <gmock/gmock.h>

#include "scheduler/schedule/family_names.h"
#include "scheduler/schedule/schedule.h"

namespace sinter::family_parameters_test {

using testing::ElementsAre;

TEST(FamilyParametersTest, TheSimplestFamilyComesFirst) {
  EXPECT_THAT(builtin_family_names(),
              ElementsAre("pointwise", "transpose", "multi_tensor", "column", "looped",
                          "multi_wave", "warp_specialised", "matmul", "cublaslt"));
}

TEST(FamilyParametersTest, AnUnknownNameIsThatOfAFamilyFromOutside) {
  for (const char* name : {"", "Column", "column ", "my_family"})
    EXPECT_EQ(parameters_of_family(name), FamilyParameters(ExternalParameters{})) << name;
  EXPECT_EQ(parameters_of_family(kTranspose), FamilyParameters(NoParameters{}));
  EXPECT_EQ(parameters_of_family(kColumn), FamilyParameters(ColumnParameters{}));
}

TEST(FamilyParametersTest, DefaultsUseNoFeature) {
  for (const std::string_view name : builtin_family_names()) {
    const Schedule schedule{.family = std::string(name), .parameters = parameters_of_family(name)};
    EXPECT_EQ(schedule.cluster_size(), 1) << name;
    EXPECT_EQ(schedule.pipeline_stages(), 0) << name;
    EXPECT_EQ(schedule.rows_per_iteration(), 1) << name;
    EXPECT_EQ(schedule.consumer_registers(), 0) << name;
    EXPECT_EQ(schedule.epilogue_warps(), 0) << name;
    EXPECT_EQ(schedule.prefetch_rows(), 0) << name;
    EXPECT_EQ(schedule.tile_rows() + schedule.tile_columns() + schedule.tile_depth(), 0) << name;
    EXPECT_EQ(schedule.row_warps(), 1) << name;
    EXPECT_EQ(schedule.rows_per_tile(), 0) << name;
    EXPECT_EQ(schedule.accumulators(), Residency::kRegister) << name;
    EXPECT_TRUE(schedule.external_values().empty()) << name;
    EXPECT_TRUE(has_parameters_of_family(schedule)) << name;
  }
}

TEST(FamilyParametersTest, AFieldIsReadWhereTheFamilyHasIt) {
  EXPECT_EQ(Schedule{.parameters = ColumnParameters{.cluster_size = 4}}.cluster_size(), 4);
  EXPECT_EQ(Schedule{.parameters = WarpSpecialisedParameters{.cluster_size = 8}}.cluster_size(), 8);
  EXPECT_EQ(Schedule{.parameters = LoopedParameters{.rows_per_tile = 5}}.rows_per_tile(), 5);
  EXPECT_EQ(Schedule{.parameters = ColumnParameters{.cluster_size = 4}}.rows_per_tile(), 0);
  const Schedule outside{.parameters = ExternalParameters{.values = {{"cluster_size", 4}}}};
  EXPECT_EQ(outside.cluster_size(), 1) << "a number of that name means what its family says";
  EXPECT_EQ(outside.external_values().at("cluster_size"), 4);
}

TEST(FamilyParametersTest, ParametersOfAnotherFamilyAreFound) {
  EXPECT_FALSE(has_parameters_of_family(
      {.family = std::string(kLooped), .parameters = MultiWaveParameters{}}));
  EXPECT_FALSE(has_parameters_of_family({.family = "my_family", .parameters = NoParameters{}}));
}

}  // namespace sinter::family_parameters_test
