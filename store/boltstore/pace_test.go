package boltstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTheUpkeepRestsWhileTheWriterHasTimeToSpare(t *testing.T) {
	const worked = time.Millisecond
	for _, c := range []struct {
		name   string
		frozen int
		idle   float64
		want   time.Duration
	}{
		{"half of the highest rate", 1, 0.5, 2 * worked},
		{"merging, with nothing to seal", 0, 0.5, 2 * worked},
		{"two segments wait", 2, 0.5, worked / 2},
		{"it does not keep up", 3, 0.5, 0},
		{"the writer is always busy", 1, 0.05, 0},
	} {
		assert.Equal(t, c.want, rest(worked, c.frozen, c.idle), c.name)
	}
}

func TestTheShareOfIdleTimeFollowsTheWriter(t *testing.T) {
	var p pace
	now, idle := time.Duration(0), time.Duration(0)
	for range 500 {
		now, idle = now+time.Millisecond, idle+600*time.Microsecond
		p.look(now, idle)
	}
	assert.InDelta(t, 0.6, p.share, 0.01)
	for range 500 {
		now += time.Millisecond
		p.look(now, idle)
	}
	assert.InDelta(t, 0, p.share, 0.01)
	p.look(now, idle+time.Hour)
	assert.LessOrEqual(t, p.share, 1.0)
}
