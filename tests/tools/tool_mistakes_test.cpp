// What the command line tool refuses, and what it says then.

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/tool_fixture.h"

namespace sinter::tool_mistakes_test {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Mistake {
  const char* arguments;
  int exit_code;
  const char* kind;
  const char* says;
};

TEST_F(Tool, ErrorsInTextHaveFileLineAndColumn) {
  const std::string path = write_file("wrong.fir", "fusion @f {\n  %v0 : f32[4] = inptu\n}\n");
  const Outcome text = run("plan '" + path + "' 2>&1");
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.output, HasSubstr(path + ":2:18: unknown op, found 'inptu'"));
  EXPECT_THAT(text.output, HasSubstr("did you mean 'input'?"));
  const json error = run_json("plan '" + path + "'", 1).at("error");
  EXPECT_EQ(error.at("file"), path);
  EXPECT_EQ(error.at("line"), 2);
  EXPECT_EQ(error.at("column"), 18);
  const std::string schedule = write_file("wrong.sched", "schedule looped {\n  unrol 2\n}\n");
  const json pinned = run_json("plan softmax --schedule '" + schedule + "'", 1).at("error");
  EXPECT_EQ(pinned.at("file"), schedule);
  EXPECT_EQ(pinned.at("line"), 2);
}

TEST_F(Tool, MisspeltNamesGetTheNearestOne) {
  const auto error_of = [&](const std::string& arguments) {
    return run(arguments + " 2>&1").output;
  };
  EXPECT_THAT(error_of("pln softmax"),
              AllOf(HasSubstr("there is no command 'pln'"), HasSubstr("did you mean 'plan'?")));
  EXPECT_THAT(error_of("plan softmax --devcie H200"), HasSubstr("did you mean '--device'?"));
  EXPECT_THAT(error_of("plan sofmax"), HasSubstr("did you mean 'softmax'?"));
  EXPECT_THAT(error_of("plan softmax --device H20"), HasSubstr("did you mean 'H200'?"));
  EXPECT_THAT(error_of("plan softmax row=8"), HasSubstr("did you mean 'rows'?"));
  EXPECT_THAT(error_of("plan softmax --family loopd"), HasSubstr("did you mean 'looped'?"));
  EXPECT_THAT(error_of("plan softmax --residency regster"), HasSubstr("did you mean 'register'?"));
  EXPECT_THAT(error_of("emit softmax --form cudda"),
              AllOf(HasSubstr("there is no 'cudda'"), HasSubstr("did you mean 'cuda'?")));
  EXPECT_THAT(error_of("cache lst"), HasSubstr("did you mean 'list'?"));
  EXPECT_THAT(error_of("tuning exprt t.db"), HasSubstr("did you mean 'export'?"));
  EXPECT_THAT(error_of("--verzion"), AllOf(HasSubstr("there is no option '--verzion'"),
                                           HasSubstr("did you mean '--version'?")));
  EXPECT_THAT(error_of("check softmax --data 'infinity in row'"),
              HasSubstr("did you mean 'infinity in rows'?"));
  EXPECT_THAT(error_of("check layer_norm --input wieght=w.npy"),
              HasSubstr("did you mean 'weight'?"));
  const json usage = run_json("exlpain softmax", 2).at("error");
  EXPECT_THAT(usage.at("remedy").get<std::string>(), HasSubstr("did you mean 'explain'?"));
}

TEST_F(Tool, MistakesAreTypedErrorsInBothForms) {
  const std::string bad_fir = write_file("bad.fir", "fusion @x {\n  return %v0\n}\n");
  const std::string bad_sched = write_file("bad.sched", "schedule looped { threads 1 }");
  const std::string file = "plan '" + bad_fir + "'";
  const std::string calls = write_file("calls.fir",
                                       "fusion @calls {\n  %v0 : f32[4] = input\n"
                                       "  %v1 : f32[4] = external f %v0\n  return %v1\n}\n");
  const std::string check_calls = "check '" + calls + "'";
  const std::string long_name = "plan " + std::string(10000, 'x');
  const std::string sched = "plan softmax --schedule '" + bad_sched + "'";
  for (const Mistake& mistake : {
           Mistake{"plan no_such_fusion", 1, "InvalidArgument", "no_such_fusion"},
           Mistake{"plan softmax rows", 1, "InvalidArgument", "'rows' is no extent"},
           Mistake{"plan softmax rows=", 1, "InvalidArgument", "is no extent"},
           Mistake{"plan softmax =3", 1, "InvalidArgument", "is no extent"},
           Mistake{"plan softmax rows=12x", 1, "InvalidArgument", "is no extent"},
           Mistake{"plan softmax rows=99999999999999999999", 1, "InvalidArgument", "is no extent"},
           Mistake{"plan softmax rows=-1", 1, "InvalidArgument", "rows"},
           Mistake{"plan softmax depth=3", 1, "InvalidArgument", "depth"},
           Mistake{"plan softmax --device TPU", 1, "InvalidArgument", "no device 'TPU'"},
           Mistake{"plan softmax --residency disk", 1, "InvalidArgument", "no residency 'disk'"},
           Mistake{"plan softmax rows=4 rows=5", 1, "InvalidArgument", "contradicts rows=4"},
           Mistake{long_name.c_str(), 1, "InvalidArgument", "neither a file nor a canned fusion"},
           Mistake{"check softmax rows=1000000 cols=100000000", 1, "ResourceExhausted", "memory"},
           Mistake{"plan softmax --family fancy", 1, "InvalidArgument", "fancy"},
           Mistake{"plan softmax --schedule /nonexistent.sched", 1, "InvalidArgument",
                   "cannot read"},
           Mistake{"plan /tmp", 1, "InvalidArgument", "cannot read"},
           Mistake{file.c_str(), 1, "InvalidFusion", "2:"},
           Mistake{check_calls.c_str(), 1, "Unsupported", "external calls"},
           Mistake{sched.c_str(), 1, "InvalidArgument", "1:"},
           Mistake{"plan two_independent_chains --unroll 1", 1, "Unsupported",
                   "two_independent_chains"},
           Mistake{"explain softmax --sweep cols", 1, "InvalidArgument", "names no extent"},
           Mistake{"explain softmax --sweep =1..2", 1, "InvalidArgument", "names no extent"},
           Mistake{"explain softmax --sweep cols=64", 1, "InvalidArgument", "no two sizes"},
           Mistake{"explain softmax --sweep cols=64..", 1, "InvalidArgument", "no two sizes"},
           Mistake{"explain softmax --sweep cols=..64", 1, "InvalidArgument", "no two sizes"},
           Mistake{"explain softmax --sweep cols=1..x", 1, "InvalidArgument", "no two sizes"},
           Mistake{"explain softmax --sweep cols=0..8", 1, "InvalidArgument", "begin at 1"},
           Mistake{"explain softmax --sweep cols=8..4", 1, "InvalidArgument", "before it begins"},
           Mistake{"explain softmax --sweep cols=1..4:0", 1, "InvalidArgument", "at least 1"},
           Mistake{"explain softmax --sweep cols=1..4:x1", 1, "InvalidArgument", "at least x2"},
           Mistake{"explain softmax --sweep cols=1..4:", 1, "InvalidArgument", "at least"},
           Mistake{"explain softmax --sweep depth=1..4", 1, "InvalidArgument",
                   "no extent 'depth' to sweep"},
           Mistake{"explain softmax --sweep cols=1..4 --sweep cols=1..4", 1, "InvalidArgument",
                   "swept twice"},
           Mistake{"explain softmax --sweep cols=1..9223372036854775807:1", 1, "ResourceExhausted",
                   "at most 4096 cells"},
           Mistake{"explain softmax rows=1 --sweep cols=8..16 --svg /nonexistent/map.svg", 1,
                   "InvalidArgument", "cannot write '/nonexistent/map.svg'"},
           Mistake{"explain softmax rows=1 --sweep cols=8..16 --svg /dev/full", 1,
                   "InvalidArgument", "cannot write '/dev/full'"},
           Mistake{"explain softmax --svg /nonexistent/plan.svg", 1, "InvalidArgument",
                   "cannot write '/nonexistent/plan.svg'"},
           Mistake{"explain softmax --dot /nonexistent/plan.dot", 1, "InvalidArgument",
                   "cannot write '/nonexistent/plan.dot'"},
           Mistake{"explain softmax --sweep cols=8..16 --dot -", 2, "Usage", "--dot"},
           Mistake{"", 2, "Usage", "subcommand"},
           Mistake{"plan", 2, "Usage", "required"},
           Mistake{"frobnicate", 2, "Usage", ""},
           Mistake{"plan softmax --no-such-option", 2, "Usage", "--no-such-option"},
           Mistake{"plan softmax --unroll many", 2, "Usage", "unroll"},
           Mistake{"emit softmax --form ptx", 2, "Usage", "ptx"},
           Mistake{"plan softmax --cut nowhere", 1, "InvalidArgument", "nowhere"},
           Mistake{"plan softmax --join x,y", 1, "InvalidArgument", "it is an input"},
           Mistake{"check softmax --join y,", 1, "InvalidArgument", "is named ''"},
           Mistake{"diff softmax", 2, "Usage", "required"},
           Mistake{"diff softmax no_such_fusion", 1, "InvalidArgument", "no_such_fusion"},
           Mistake{"diff softmax softmax depth=3", 1, "InvalidArgument", "depth"},
           Mistake{"diff softmax softmax --extent-b rows", 1, "InvalidArgument", "is no extent"},
           Mistake{"diff softmax softmax --device-b TPU", 1, "InvalidArgument", "no device 'TPU'"},
           Mistake{"plan softmax --like row=8", 1, "InvalidArgument", "'row'"},
           Mistake{"plan softmax --like rows", 1, "InvalidArgument", "is no extent"},
           Mistake{"plan softmax --like rows=8 --unroll 1", 1, "InvalidArgument", "follow"},
           Mistake{"explain softmax --svg - --dot -", 1, "InvalidArgument", "two drawings"},
           Mistake{"check softmax --seed -1", 2, "Usage", "negative"},
           Mistake{"check softmax --seed 18446744073709551616", 2, "Usage", "too large"},
           Mistake{"tune softmax --top -1", 2, "Usage", "negative"},
           Mistake{"cache burn", 2, "Usage", "burn"},
           Mistake{"explain softmax --sweep cols=8..16 --tuned t.db", 2, "Usage", "--tuned"},
           Mistake{"tuning burn t.db", 2, "Usage", "burn"},
           Mistake{"tuning merge t.db", 1, "InvalidArgument", "second file"},
       }) {
    SCOPED_TRACE(mistake.arguments);
    const json error = run_json(mistake.arguments, mistake.exit_code).at("error");
    EXPECT_EQ(error.at("kind"), mistake.kind);
    EXPECT_THAT(error.at("message").get<std::string>(), HasSubstr(mistake.says));
    const Outcome text = run(std::string(mistake.arguments) + " 2>&1 >/dev/null");
    EXPECT_EQ(text.exit_code, mistake.exit_code);
    EXPECT_THAT(text.output, AllOf(StartsWith("sinter: "), HasSubstr(mistake.says)));
  }
}

// An empty path or name is none, and is not taken for one that was left out.
TEST_F(Tool, EmptyValuesAreRefused) {
  for (const char* arguments :
       {"plan ''", "plan softmax ''", "plan softmax --schedule ''", "plan softmax --tuned ''",
        "plan softmax --family ''", "plan softmax --device ''", "explain softmax --svg ''",
        "compile softmax --output ''", "cache list --directory ''", "tuning list ''",
        "diff softmax softmax --device-b ''"}) {
    SCOPED_TRACE(arguments);
    const json error = run_json(arguments, 2).at("error");
    EXPECT_THAT(error.at("message").get<std::string>(), HasSubstr("it is empty"));
  }
}

TEST_F(Tool, OutputThatIsNotTakenIsAnError) {
  for (const char* arguments : {"list", "plan softmax rows=8 cols=64 --json"}) {
    SCOPED_TRACE(arguments);
    const Outcome full = run(std::string(arguments) + " 2>&1 >/dev/full");
    EXPECT_EQ(full.exit_code, 1);
    EXPECT_THAT(full.output, HasSubstr("standard output takes no more"));
    EXPECT_EQ(run(std::string(arguments) + " 2>/dev/null >&-").exit_code, 1);
  }
}

TEST_F(Tool, ErrorsThatNobodyReadsEndTheCommandAsOthers) {
  for (const std::string away : {" 2>&-", " 2>/dev/full"}) {
    SCOPED_TRACE(away);
    EXPECT_EQ(run("plan softmax rows=x" + away).exit_code, 1);
    EXPECT_EQ(run("frobnicate" + away).exit_code, 2);
    EXPECT_EQ(run("plan softmax rows=8 cols=64 --progress >/dev/null" + away).exit_code, 0);
  }
}

}  // namespace sinter::tool_mistakes_test
