#!/bin/sh
# No register of a fast loop lies in memory: check_spills.sh CUOBJDUMP LIBRARY reads the machine code of every attention
# kernel in the library. The fast loops come first, the careful ones, which may spill, after them with as many matrix
# instructions (attention.cuh): between the first and the last matrix instruction of the first half no local memory may
# be touched.
set -e
"$1" --dump-sass "$2" | awk '
  function verdict(   i, bad) {
    if (name == "") return
    kernels++
    if (products == 0 || products % 2) { print name ": " products " matrix instructions, expected as many fast as careful ones"; failed = 1 }
    for (i = 1; i < products / 2; ++i) bad += spills[i]
    printf "%-4s %s: %d matrix instructions, %d accesses to local memory among the fast half\n", bad ? "BAD" : "ok", name, products, bad
    if (bad) failed = 1
  }
  /Function : / { verdict(); name = $3 ~ /attention/ ? $3 : ""; products = 0; delete spills; next }
  name != "" && /HGMMA/ { ++products }
  name != "" && / (STL|LDL)[. ]/ { ++spills[products] }
  END { verdict(); if (!kernels) print "no attention kernel found"; exit failed || !kernels }'
