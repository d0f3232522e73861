# Installs attest to a folder of its own, then configures, builds and runs the consumer against it.
file(REMOVE_RECURSE ${WORK})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/installed OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${WORK}/installed
                        -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -DCMAKE_CXX_FLAGS=${FLAGS} -DEXAMPLE=${EXAMPLE}
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK}/build COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${WORK}/build/consumer COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${WORK}/installed/bin/attest --version COMMAND_ERROR_IS_FATAL ANY)
# One property of the kernel holds, one that it does not offer is skipped.
execute_process(COMMAND ${CMAKE_CTEST_COMMAND} --test-dir ${WORK}/build -L mine -R "^attest[.]my_kernel[.](repeat_call|merge_commutes)$" --output-junit ${WORK}/junit.xml
                OUTPUT_VARIABLE told COMMAND_ERROR_IS_FATAL ANY)
foreach(expected "repeat_call [.]+ +Passed" "Skipped")
  if(NOT told MATCHES "${expected}")
    message(FATAL_ERROR "ctest of the consumer does not say '${expected}':\n${told}")
  endif()
endforeach()
file(READ ${WORK}/junit.xml junit)
if(NOT junit MATCHES "attest.my_kernel.repeat_call")
  message(FATAL_ERROR "no JUnit entry of the property:\n${junit}")
endif()
