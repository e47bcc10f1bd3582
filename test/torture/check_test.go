package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onefold-go/onefold"
)

// sound is a run in which two orders took effect, and one was given up.
func sound() facts {
	return facts{
		orders: map[string]*entry{
			"a": {account: "x", accepted: true}, "b": {account: "x", accepted: true}, "c": {account: "x", accepted: true},
			"never confirmed": {account: "x"},
		},
		effects: []sentEffect{{effect{"a", "x", 1}, "id-a", 0}, {effect{"a", "x", 1}, "id-a", 0}, {effect{"b", "x", 2}, "id-b", 0}},
		letters: []letter{{"c", "poison", 0}, {"c", "poison", 0}},
		workers: []stored{{
			Ordered: true, Accounts: map[string]account{"x": {N: 2}},
			Records: map[string]onefold.Outcome{"a": onefold.Succeeded, "b": onefold.Succeeded, "c": onefold.DeadLettered},
		}},
		sink: stored{Applied: map[string]int{"a": 1, "b": 1}},
	}
}

func TestEachBrokenPromiseIsFoundAndNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*facts)
		kinds  []string // of the violations
	}{
		"nothing is wrong":                     {func(*facts) {}, nil},
		"an order is nowhere":                  {func(f *facts) { f.orders["d"] = &entry{accepted: true} }, []string{"lost"}},
		"an order that the server lost":        {func(f *facts) { f.orders["d"] = &entry{accepted: true}; f.epoch = 1 }, nil},
		"an effect that was committed only":    {func(f *facts) { f.orders["d"] = &entry{}; f.workers[0].Records["d"] = onefold.Succeeded }, []string{"lost"}},
		"an effect that was not applied":       {func(f *facts) { delete(f.sink.Applied, "b") }, []string{"lost"}},
		"not applied, and the server lost it":  {func(f *facts) { delete(f.sink.Applied, "b"); f.epoch = 1 }, nil},
		"a reused ID that nobody refused":      {func(f *facts) { f.orders["a"].reused = true }, []string{"lost"}},
		"an effect and a dead letter":          {func(f *facts) { f.letters = append(f.letters, letter{"a", "poison", 0}) }, []string{"double"}},
		"two effects of an order":              {func(f *facts) { f.effects[1].id = "another" }, []string{"double"}},
		"an effect that was applied twice":     {func(f *facts) { f.sink.Applied["a"] = 2 }, []string{"double"}},
		"an effect without its mark":           {func(f *facts) { delete(f.workers[0].Records, "a") }, []string{"double"}},
		"state that counts more than was sent": {func(f *facts) { f.workers[0].Accounts["x"] = account{N: 3} }, []string{"double"}},
		"an order behind a later one":          {func(f *facts) { f.workers[0].Accounts["x"] = account{N: 2, Disorder: []string{"a"}} }, []string{"disorder"}},
		"the same where no order is promised": {func(f *facts) {
			f.workers[0].Ordered = false
			f.workers[0].Accounts["x"] = account{N: 2, Disorder: []string{"a"}}
		}, nil},
		"effects behind later ones":           {func(f *facts) { f.effects[0], f.effects[2] = f.effects[2], f.effects[0] }, []string{"disorder"}},
		"a durable with something left to do": {func(f *facts) { f.left = []string{"work-0"} }, []string{"stuck"}},
		"rows that have not left":             {func(f *facts) { f.workers[0].Waiting = []string{"a: why"} }, []string{"stuck"}},
		"a worker that grows":                 {func(f *facts) { f.heap = maxHeap + 1 }, []string{"stuck"}},
		"rows that wait for a person":         {func(f *facts) { f.sink.Parked = []string{"a: why"} }, []string{"stuck"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := sound()
			c.change(&f)
			var kinds []string
			for _, v := range check(f) {
				kinds = append(kinds, v.Kind)
			}
			assert.Equal(t, c.kinds, kinds)
		})
	}
}

func TestAReusedIDIsRefusedByADeadLetterOfItsOwn(t *testing.T) {
	f := sound()
	f.orders["a"].reused = true
	f.letters = append(f.letters, letter{"a", reasonReused + ": stored v1:01, given v1:02", 0})
	assert.Empty(t, check(f))
}
