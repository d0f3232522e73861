# Flags that every target of attest shares. Results have the same bits under every compiler: no contraction,
# no fast-math; a fused multiply-add is written as one.
add_library(attest_options INTERFACE)
target_include_directories(attest_options INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/attest>)
target_compile_features(attest_options INTERFACE cxx_std_20)
target_compile_options(attest_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
# Boost before 1.81 derives from std::unary_function, which libc++ keeps only on request.
target_compile_definitions(attest_options INTERFACE _LIBCPP_ENABLE_CXX17_REMOVED_UNARY_BINARY_FUNCTION)

# Warnings and instrumentation are ours, not a consumer's.
add_library(attest_private_options INTERFACE)
target_compile_options(attest_private_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra>)
# g++ 12 warns about overlapping copies inside std::string that cannot happen (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(attest_private_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(ATTEST_COVERAGE)
  target_compile_options(attest_private_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:--coverage>)
  target_link_options(attest_private_options INTERFACE --coverage)
endif()

# What runs little and takes long to optimise: the command, the tests, the faulty kernels.
set(ATTEST_COLD_OPTIONS $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1> $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:RelWithDebInfo>>:-O0>)

# attest_library(NAME SOURCES... [DEPENDS...]): a static library of one room.
function(attest_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC attest_options ${ARG_DEPENDS}
                                PRIVATE $<BUILD_INTERFACE:attest_private_options> ${ARG_PRIVATE_DEPENDS})
  set_property(GLOBAL APPEND PROPERTY ATTEST_LIBRARIES ${name})
  string(REGEX REPLACE "^attest_" "" export_name ${name})
  set_target_properties(${name} PROPERTIES EXPORT_NAME ${export_name})
  add_library(attest::${export_name} ALIAS ${name})
endfunction()

# For fuzzing alone, in the folder that builds the sources. Comparisons of numbers are no keys to guess, and reporting
# each of them costs more than the arithmetic: attest_arithmetic leaves that out, and three checks that keep loops from
# becoming vector code; attest_not_guiding leaves out coverage altogether, for code whose branches tell nothing of a case.
set(coverage_kinds inline-8bit-counters,pc-table,trace-pc-guard,trace-cmp,indirect-calls,stack-depth)
function(attest_arithmetic)
  if(ATTEST_FUZZ)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=pointer-overflow,null,alignment
                                                                -fno-sanitize-coverage=trace-cmp)
  endif()
endfunction()
function(attest_not_guiding)
  if(ATTEST_FUZZ)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize-coverage=${coverage_kinds})
  endif()
endfunction()
