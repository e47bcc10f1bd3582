package sum_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onefold-go/onefold/store/boltstore/internal/sum"
)

func ExampleCut() {
	stored := sum.Append([]byte("key"), []byte("value"))
	value, err := sum.Cut([]byte("key"), stored)
	fmt.Println(string(value), err)
	_, err = sum.Cut([]byte("another key"), stored)
	fmt.Println(err)
	// Output:
	// value <nil>
	// the checksum is wrong
}

func TestEveryBitCounts(t *testing.T) {
	stored := sum.Append([]byte("k"), []byte("value"))
	for bit := range 8 * len(stored) {
		stored[bit/8] ^= 1 << (bit % 8)
		_, err := sum.Cut([]byte("k"), stored)
		require.ErrorIs(t, err, sum.Err)
		stored[bit/8] ^= 1 << (bit % 8)
	}
	for n := range len(stored) {
		_, err := sum.Cut([]byte("k"), stored[:n])
		require.ErrorIs(t, err, sum.Err)
	}
}
