# A skip is told by exit code 4 alone, never by what a program prints: one that skips one thing and fails another is red.
function(attest_test_properties name label timeout)
  set_tests_properties(${name} PROPERTIES LABELS "${label}" TIMEOUT ${timeout} SKIP_RETURN_CODE 4 SKIP_REGULAR_EXPRESSION "")
endfunction()

# Kernels that write beyond their outputs on purpose: their guards must catch them, not AddressSanitizer, for which the
# runner poisons the guards.
function(attest_writes_outside name)
  set_tests_properties(${name} PROPERTIES ENVIRONMENT ASAN_OPTIONS=allow_user_poisoning=0)
endfunction()

# attest_test(NAME SOURCES... DEPENDS... LABEL unit LONG pattern): one GoogleTest program, one ctest entry; those of its tests that
# the pattern names are an entry NAME.long of their own, labelled long: they repeat much, and are left out under sanitizers.
function(attest_test name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "LABEL;TIMEOUT;LONG" "SOURCES;DEPENDS;DEFINITIONS") # LABEL may be a list
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(NOT TARGET attest_gtest_main)
    add_library(attest_gtest_main STATIC ${PROJECT_SOURCE_DIR}/cmake/gtest_main.cpp)
    target_link_libraries(attest_gtest_main PUBLIC attest_options GTest::gtest)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_compile_definitions(${name} PRIVATE ATTEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ${ARG_DEFINITIONS})
  target_link_libraries(${name} PRIVATE attest_private_options ${ARG_DEPENDS} attest_gtest_main)
  target_compile_options(${name} PRIVATE ${ATTEST_COLD_OPTIONS})
  if(ARG_LONG)
    add_test(NAME ${name} COMMAND ${name} --gtest_filter=-${ARG_LONG})
    add_test(NAME ${name}.long COMMAND ${name} --gtest_filter=${ARG_LONG})
    attest_test_properties(${name}.long "${ARG_LABEL};long" ${ARG_TIMEOUT})
  else()
    add_test(NAME ${name} COMMAND ${name})
  endif()
  attest_test_properties(${name} "${ARG_LABEL}" ${ARG_TIMEOUT})
endfunction()
