package main

import (
	"cmp"
	"slices"
	"time"
)

// median is the middle value, the upper one of the two middle values where there are two, and zero of
// nothing. A median is not moved by the one run in which the machine did something else.
func median[T cmp.Ordered](values []T) T {
	var none T
	if len(values) == 0 {
		return none
	}
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// perSecond is a rate; it is zero for no time.
func perSecond(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
