package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTheMedianIsTheMiddleValue(t *testing.T) {
	assert.Equal(t, 2, median([]int{3, 1, 2}))
	assert.Equal(t, 3, median([]int{4, 1, 3, 2}))
	assert.Equal(t, time.Duration(0), median([]time.Duration(nil)))
	values := []int{3, 1, 2}
	median(values)
	assert.Equal(t, []int{3, 1, 2}, values, "the values keep their order")
}

func TestARateIsRecordsBySeconds(t *testing.T) {
	assert.InDelta(t, 500.0, perSecond(250, 500*time.Millisecond), 1e-9)
	assert.Zero(t, perSecond(250, 0))
}
