// SPDX-License-Identifier: MIT
// Goroutines on many threads that take memory from C and give it back.
package main

/*
#include <stdlib.h>
#include <string.h>
static int churn(int n)
{
	char *block = malloc(n + 1);
	memset(block, n, n);
	block = realloc(block, 3 * n + 1);
	int sum = block[n / 2];
	free(block);
	return sum;
}
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"
)

func main() {
	var group sync.WaitGroup
	sums := make([]int, 8)
	for i := range sums {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			for j := 1; j < 5000; j++ {
				sums[i] += int(C.churn(C.int(j * (i + 1))))
				text := C.CString(fmt.Sprint(j))
				sums[i] += int(C.strlen(text))
				C.free(unsafe.Pointer(text))
			}
		}(i)
	}
	group.Wait()
	fmt.Println(sums)
}
