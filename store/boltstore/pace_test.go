package boltstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTheUpkeepSpreadsItsWorkOverTheTimeItHas(t *testing.T) {
	const worked = time.Millisecond
	for _, c := range []struct {
		name    string
		waiting int
		need    float64
		want    time.Duration
	}{
		{"a third of a processor is needed", 1, 0.3, 2 * worked},
		{"merging, with nothing to seal", 0, 0.3, 2 * worked},
		{"a segment waits while others are merged", 2, 0.3, worked / 2},
		{"it does not keep up", 3, 0.3, 0},
		{"all of a processor is needed", 1, 1.2, 0},
		{"a tenth is needed", 0, 0.09, 9 * worked},
		{"next to nothing is needed", 0, 0.001, 0},
	} {
		assert.InDelta(t, c.want, rest(worked, c.waiting, c.need), float64(time.Microsecond), c.name)
	}
}

func TestThePaceKnowsWhatARecordCostsAndHowManyCome(t *testing.T) {
	var p pace
	now, records := time.Duration(0), uint64(0)
	for range 20 {
		for range 500 {
			now, records = now+time.Millisecond, records+200
			p.look(now, 400*time.Microsecond, records)
		}
		p.sealed(100_000)
	}
	assert.InDelta(t, 200_000, p.rate, 1000)
	assert.InDelta(t, 2e-6, p.cost, 1e-7)
	assert.InDelta(t, 0.4, p.need(), 0.02)
	p.look(now+time.Hour, 0, records)
	assert.InDelta(t, 200_000, p.rate, 1000, "a long time without work says nothing of the rate")
}
