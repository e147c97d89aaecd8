// SPDX-License-Identifier: MIT
// Goroutines that fill maps; a static program when built without cgo.
package main

import (
	"fmt"
	"sync"
)

func main() {
	var group sync.WaitGroup
	sums := make([]int, 8)
	for i := range sums {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			values := map[int][]byte{}
			for j := 0; j < 20000; j++ {
				values[j*i%5000] = make([]byte, j%300)
			}
			for _, value := range values {
				sums[i] += len(value)
			}
		}(i)
	}
	group.Wait()
	fmt.Println(sums)
}
