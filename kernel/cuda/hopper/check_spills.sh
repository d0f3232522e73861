#!/bin/sh
# No register of a fast loop lies in memory: check_spills.sh CUOBJDUMP LIBRARY reads the machine code of every attention
# kernel in the library. The fast loops come first, the careful ones, which may spill, after them with as many matrix
# instructions (attention.cuh): between the first and the last matrix instruction of the first half no local memory may
# be touched. A known exception has its largest number here, and is red once there is none.
set -e
"$1" --dump-sass "$2" | awk '
  # Tiles of 128 x 80 at width 256: addresses, one or two a tile; registers that the trace in the careful loop takes.
  function known() { return name ~ /TileILi128ELi80ELi256E/ ? 11 : 0 }
  function verdict(   i, found, bad) {
    if (name == "") return
    kernels++
    if (products == 0 || products % 2) { print name ": " products " matrix instructions, expected as many fast as careful ones"; failed = 1 }
    for (i = 1; i < products / 2; ++i) found += spills[i]
    bad = found > known() || (known() && !found)
    printf "%-4s %s: %d matrix instructions, %d accesses to local memory among the fast half, known %d\n", bad ? "BAD" : "ok", name, products, found, known()
    if (bad) failed = 1
  }
  /Function : / { verdict(); name = $3 ~ /attention/ ? $3 : ""; products = 0; delete spills; next }
  name != "" && /HGMMA/ { ++products }
  name != "" && / (STL|LDL)[. ]/ { ++spills[products] }
  END { verdict(); if (!kernels) print "no attention kernel found"; exit failed || !kernels }'
