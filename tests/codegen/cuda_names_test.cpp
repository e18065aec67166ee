// Identifiers of emitted code are new, and none belongs to the language or to the device headers.

#include "codegen/cuda/cuda_names.h"

#include <gtest/gtest.h>

#include <regex>

#include "codegen/device/device_headers.h"

namespace sinter::cuda_names_test {

TEST(CudaNamesTest, MakesFreshIdentifiers) {
  CudaNames names;
  EXPECT_EQ(names.take("x"), "x");
  EXPECT_EQ(names.take("x"), "x_2");
  EXPECT_EQ(names.take("class"), "v_class");
  EXPECT_EQ(names.take("threadIdx"), "v_threadIdx");
  EXPECT_EQ(names.take("load_global"), "v_load_global");
  EXPECT_EQ(names.take("sinter_exp"), "v_sinter_exp");
  EXPECT_EQ(names.take("__a--b__"), "a_b");
  EXPECT_EQ(names.take("1st"), "v1st");
  EXPECT_EQ(names.take("\xc3\xa9"), "v");
  EXPECT_EQ(names.take(""), "v_2");
}

TEST(CudaNamesTest, NumbersSkipNamesThatAreTaken) {
  CudaNames names;
  EXPECT_EQ(names.take("x_2"), "x_2");
  EXPECT_EQ(names.take("x"), "x");
  EXPECT_EQ(names.take("x"), "x_3");
  EXPECT_EQ(names.take("x_2"), "x_2_2");
  EXPECT_EQ(names.take("v_class"), "v_class");
  EXPECT_EQ(names.take("class"), "v_class_2");
}

/// A function of a header that a variable hides could not be called any more.
TEST(CudaNamesTest, NoVariableHidesAFunctionOfTheDeviceHeaders) {
  // At the start of a line; members are indented, and hide nothing.
  const std::regex function("\n(?:__device__|SINTER_DEVICE)[^;{}()\n]*[ *&](\\w+)\\(");
  int found = 0;
  for (const EmbeddedHeader& header : embedded_device_headers()) {
    const std::string text(header.text);
    for (auto it = std::sregex_iterator(text.begin(), text.end(), function);
         it != std::sregex_iterator(); ++it) {
      const std::string name = (*it)[1];
      EXPECT_NE(CudaNames().take(name), name) << header.name;
      ++found;
    }
  }
  EXPECT_GT(found, 50) << "the expression finds the functions";
}

}  // namespace sinter::cuda_names_test
