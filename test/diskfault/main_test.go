package diskfault

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

var (
	seedFlag = flag.Uint64("seed", 0, "seed of the workload and of the faults; 0: one at random")
	long     = flag.Bool("long", false, "all faults and all moments instead of a sample")
)

// TestMain is a worker or an inspector if it is started as one.
func TestMain(m *testing.M) {
	if text := os.Getenv(planVariable); text != "" {
		var p plan
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		work(p)
		os.Exit(0)
	}
	if os.Getenv(inspectVariable) != "" {
		if err := serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(0)
	}
	flag.Parse()
	os.Exit(m.Run())
}

// seedOf prints the seed of a test and how to run it again.
func seedOf(t *testing.T) uint64 {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("again: go test ./diskfault -run '^%s$' -seed %d", t.Name(), seed)
	return seed
}

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
