#include "tests/c_api/c_api_support.h"

namespace sinter {

Refusal refusal_of(sinter_status status, sinter_error* error) {
  Refusal out;
  out.status = status;
  EXPECT_NE(status, SINTER_OK) << "nothing was refused";
  if (error == nullptr) return out;
  auto info = sized<sinter_error_info>();
  EXPECT_EQ(sinter_error_describe(error, &info), SINTER_OK);
  EXPECT_EQ(info.status, status);
  EXPECT_STREQ(info.kind, sinter_status_name(status));
  EXPECT_TRUE(std::string_view(info.text).starts_with(info.kind)) << info.text;
  EXPECT_FALSE(std::string_view(info.remedy).empty()) << info.text;
  out.kind = info.kind;
  out.message = info.message;
  out.json = info.json;
  if (info.has_measured != 0) out.measured = info.measured;
  if (info.has_limit != 0) out.limit = info.limit;
  EXPECT_EQ(sinter_error_release(error), SINTER_OK);
  return out;
}

OwnedFusion parse(std::string_view text) {
  sinter_fusion* out = nullptr;
  succeeds([&](sinter_error** error) {
    return sinter_fusion_parse(text.data(), text.size(), &out, error);
  });
  return OwnedFusion(out);
}

OwnedDevice preset(const char* name) {
  sinter_device* out = nullptr;
  succeeds([&](sinter_error** error) { return sinter_device_preset(name, &out, error); });
  return OwnedDevice(out);
}

OwnedPlan plan_on(const sinter_fusion* fusion, const sinter_device* device,
                  const std::vector<sinter_extent>& extents, const sinter_plan_options* options) {
  sinter_plan* out = nullptr;
  succeeds([&](sinter_error** error) {
    return sinter_plan_create(fusion, device, extents.data(), extents.size(), options, &out, error);
  });
  return OwnedPlan(out);
}

OwnedRuntime runtime_with(DeviceDriver& driver, c_api::RuntimeObject::Compile compile) {
  return OwnedRuntime(
      c_api::handle_of(std::make_shared<c_api::RuntimeObject>(driver, std::move(compile))));
}

}  // namespace sinter
