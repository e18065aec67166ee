#include <gmock/gmock.h>

#include "fusion_ir/parser.h"
#include "fusion_ir/printer.h"
#include "tests/c_api/c_api_support.h"
#include "tests/support/canned_fusions.h"

namespace sinter::graph_test {

using ::testing::HasSubstr;

class GraphTest : public CApiTest {
 protected:
  void TearDown() override {
    builder_.reset();
    CApiTest::TearDown();
  }

  void begin(const char* name) {
    sinter_builder* builder = nullptr;
    succeeds([&](sinter_error** error) { return sinter_builder_create(name, &builder, error); });
    builder_.reset(builder);
  }
  sinter_status op(const char* text, const char* types, std::vector<sinter_value> operands,
                   sinter_value* results, size_t count, sinter_error** error,
                   const char* name = nullptr) {
    return sinter_builder_op(builder_.get(), text, types, operands.data(), operands.size(), name,
                             results, count, error);
  }
  sinter_value one(const char* text, const char* types, std::vector<sinter_value> operands,
                   const char* name = nullptr) {
    sinter_value out = 0;
    succeeds([&](sinter_error** error) {
      return op(text, types, std::move(operands), &out, 1, error, name);
    });
    return out;
  }
  std::string built() {
    sinter_fusion* fusion = nullptr;
    succeeds([&](sinter_error** error) {
      return sinter_builder_finish(builder_.get(), &fusion, error);
    });
    const OwnedFusion owned(fusion);
    return text_from([&](sinter_text** text, sinter_error** error) {
      return sinter_fusion_print(fusion, text, error);
    });
  }

  OwnedBuilder builder_;
};

TEST_F(GraphTest, TextComesBackAsItWas) {
  for (const CannedFusion& canned : canned_fusions()) {
    const std::string text = print(canned.build());
    const OwnedFusion fusion = parse(text);
    EXPECT_EQ(text_from([&](sinter_text** out, sinter_error** error) {
                return sinter_fusion_print(fusion.get(), out, error);
              }),
              text)
        << canned.name;
  }
}

TEST_F(GraphTest, IsDescribed) {
  const OwnedFusion fusion = parse(
      "fusion @f extents(rows hint 64 divisible_by 8) { %v0 : f32[rows] = input "
      "%v1 : f32[rows] = exp %v0 return %v1 }");
  auto info = sized<sinter_fusion_info>();
  succeeds(
      [&](sinter_error** error) { return sinter_fusion_describe(fusion.get(), &info, error); });
  EXPECT_STREQ(info.name, "f");
  EXPECT_EQ(info.input_count, 1U);
  EXPECT_EQ(info.output_count, 1U);
  EXPECT_EQ(info.symbol_count, 1U);
  EXPECT_EQ(info.op_count, 2U);
  EXPECT_EQ(info.value_count, 2U);
  auto symbol = sized<sinter_symbol_info>();
  succeeds(
      [&](sinter_error** error) { return sinter_fusion_symbol(fusion.get(), 0, &symbol, error); });
  EXPECT_STREQ(symbol.name, "rows");
  EXPECT_EQ(symbol.hint, 64);
  EXPECT_EQ(symbol.divisible_by, 8);
  const auto refusal = refused(
      [&](sinter_error** error) { return sinter_fusion_symbol(fusion.get(), 1, &symbol, error); });
  EXPECT_EQ(refusal.status, SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(refusal.message, "there is no symbol 1");
}

TEST_F(GraphTest, ContractsWhatHasOneTypeAfterCasts) {
  begin("product");
  const sinter_value x = one("input", "bf16[8, 64]", {}, "x");
  const sinter_value w = one("input", "f32[64, 4]", {}, "w");
  const sinter_value y =
      one("contract.sum left(0, 2) right(2, 1) over(2) precision(tf32)", nullptr, {x, w});
  EXPECT_EQ(text_from([&](sinter_text** text, sinter_error** error) {
              return sinter_builder_type(builder_.get(), y, text, error);
            }),
            "f32[8, 4]");
  sinter_value none = 0;
  const auto refusal = refused([&](sinter_error** error) {
    return op("contract.sum left(0, 1) right(2, 1) over(2)", nullptr, {x, w}, &none, 1, error);
  });
  EXPECT_EQ(refusal.status, SINTER_INVALID_FUSION);
  EXPECT_THAT(refusal.message, HasSubstr("differ along axis 1"));
}

TEST_F(GraphTest, IsBuiltOpByOp) {
  begin("soft");
  succeeds([&](sinter_error** error) {
    return sinter_builder_symbol(builder_.get(), "rows", 8192, 0, error);
  });
  const sinter_value x = one("input align(8)", "bf16[rows, 64]", {}, "x");
  sinter_value pair[2] = {};
  succeeds([&](sinter_error** error) { return op("logsumexp over(1)", "", {x}, pair, 2, error); });
  succeeds([&](sinter_error** error) {
    return sinter_builder_name(builder_.get(), pair[1], "sum", error);
  });
  const sinter_value weight = one("constant 0x1p-1", "f32", {});
  const sinter_value scaled = one("mul", nullptr, {x, weight});
  const sinter_value y = one("cast", "bf16[rows, 64]", {scaled});
  EXPECT_EQ(text_from([&](sinter_text** text, sinter_error** error) {
              return sinter_builder_type(builder_.get(), scaled, text, error);
            }),
            "f32[rows, 64]");
  succeeds([&](sinter_error** error) {
    return sinter_builder_output(builder_.get(), pair[1], nullptr, nullptr, error);
  });
  succeeds([&](sinter_error** error) {
    return sinter_builder_output(builder_.get(), y, "y", "alias(%v0)", error);
  });
  const std::string text = built();
  EXPECT_EQ(text, print(parse_fusion(text).value()));
  EXPECT_THAT(text, HasSubstr("%v0 x : bf16[rows, 64] = input align(8)"));
  EXPECT_THAT(text, HasSubstr(" sum : f32[rows], f32[rows] = logsumexp"));
  EXPECT_THAT(text, HasSubstr("align(8) alias(%v0)"));
}

TEST_F(GraphTest, MistakesAreTold) {
  begin("f");
  const sinter_value x = one("input", "f32[4, 8]", {});
  sinter_value out[2] = {};
  const auto message = [&](const char* text, const char* types, std::vector<sinter_value> operands,
                           size_t count = 1) {
    return refused([&](sinter_error** error) {
             return op(text, types, std::move(operands), out, count, error);
           })
        .message;
  };
  EXPECT_EQ(message("soar", nullptr, {x}), "1:1: unknown op, found 'soar'");
  EXPECT_EQ(message("exp", nullptr, {x, x}), "1:1: exp takes 1 operand, not 2, found 'exp'");
  EXPECT_EQ(message("exp", nullptr, {x + 77}), "%v77 is not a value of fusion 'f'");
  EXPECT_EQ(message("exp", nullptr, {x}, 2), "1:1: the op has 1 results, not 2, found 'exp'");
  EXPECT_EQ(message("exp", nullptr, {x}, 0), "there is no room for results");
  EXPECT_EQ(refused([&](sinter_error** error) {
              return sinter_builder_output(builder_.get(), x, nullptr, nullptr, error);
            }).message,
            "input %v0 cannot be an output");
  EXPECT_EQ(refused([&](sinter_error** error) {
              return sinter_builder_output(builder_.get(), 5, nullptr, nullptr, error);
            }).message,
            "5 is not a value that a builder gave");
  sinter_fusion* fusion = nullptr;
  EXPECT_EQ(refused([&](sinter_error** error) {
              return sinter_builder_finish(builder_.get(), &fusion, error);
            }).status,
            SINTER_INVALID_FUSION);
  EXPECT_EQ(fusion, nullptr);
}

/// Two builders, whose first values have the same number.
TEST_F(GraphTest, ValuesOfOtherBuildersAreRefused) {
  begin("other");
  const sinter_value others = one("input", "f32[4, 8]", {});
  const OwnedBuilder other = std::move(builder_);
  begin("f");
  const sinter_value own = one("input", "f32[4, 8]", {});
  ASSERT_EQ(static_cast<uint32_t>(own), static_cast<uint32_t>(others));
  sinter_value out = 0;
  sinter_text* text = nullptr;
  const std::function<sinter_status(sinter_error**)> calls[] = {
      [&](sinter_error** error) {
        return op("add", nullptr, {own, others}, &out, 1, error);
      },
      [&](sinter_error** error) {
        return sinter_builder_output(builder_.get(), others, nullptr, nullptr, error);
      },
      [&](sinter_error** error) { return sinter_builder_name(builder_.get(), others, "y", error); },
      [&](sinter_error** error) {
        return sinter_builder_type(builder_.get(), others, &text, error);
      },
  };
  for (const auto& call : calls) {
    const auto error = refused(call);
    EXPECT_EQ(error.message, "%v0 was made by another builder than that of fusion 'f'");
    EXPECT_EQ(error.status, SINTER_INVALID_FUSION);
  }
  EXPECT_EQ(one("exp", nullptr, {own}), own + 1) << "nothing was appended";
}

TEST_F(GraphTest, NullPointersAreRefused) {
  begin("f");
  sinter_fusion* fusion = nullptr;
  sinter_builder* builder = nullptr;
  sinter_value value = 0;
  EXPECT_EQ(sinter_fusion_parse(nullptr, 3, &fusion, nullptr), SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_fusion_parse("", 0, nullptr, nullptr), SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_fusion_parse(nullptr, 0, &fusion, nullptr), SINTER_INVALID_FUSION);
  EXPECT_EQ(sinter_builder_create(nullptr, &builder, nullptr), SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_builder_create("f", nullptr, nullptr), SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_builder_symbol(builder_.get(), nullptr, 0, 0, nullptr), SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(
      sinter_builder_op(builder_.get(), nullptr, nullptr, nullptr, 0, nullptr, &value, 1, nullptr),
      SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(
      sinter_builder_op(builder_.get(), "exp", nullptr, nullptr, 1, nullptr, &value, 1, nullptr),
      SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(
      sinter_builder_op(builder_.get(), "exp", nullptr, &value, 1, nullptr, nullptr, 1, nullptr),
      SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_builder_name(builder_.get(), 0, nullptr, nullptr), SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_builder_type(builder_.get(), 0, nullptr, nullptr), SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_builder_finish(builder_.get(), nullptr, nullptr), SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_fusion_print(nullptr, nullptr, nullptr), SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_text_view(nullptr, nullptr, nullptr, nullptr), SINTER_INVALID_ARGUMENT);
}

}  // namespace sinter::graph_test
