package outbox

import (
	"hash/fnv"
	"time"
)

// retryDelay is the delay before the next try after attempt tries have failed: lowest, doubled with each
// attempt up to highest, less a share of up to a quarter that seed decides. It is a pure function, so a
// restart changes nothing and tests need no luck.
func retryDelay(lowest, highest time.Duration, attempt int, seed uint64) time.Duration {
	d := lowest
	for i := 1; i < attempt && d < highest; i++ {
		if d > highest/2 {
			d = highest
			break
		}
		d *= 2
	}
	d = min(d, highest)
	quarter := uint64(d / 4)
	if quarter == 0 {
		return d
	}
	return d - time.Duration(mix(seed+uint64(attempt))%quarter)
}

// mix spreads near numbers over all bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// seedOf turns an ID into a seed.
func seedOf(id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return h.Sum64()
}

// maxTroubled bounds how many subjects troubles tells apart.
const maxTroubled = 4096

// troubles remembers, per subject, how long its stream has not been able to take messages, because such
// failures use up no attempt of a row and the delay must grow all the same. Failures of one round count
// once, however many rows it had. It belongs to one goroutine.
type troubles struct {
	lowest, highest time.Duration
	of              map[string]*trouble
}

type trouble struct {
	rounds int
	until  time.Duration // monotonic time until which this round lasts
}

// note records a failure at now and returns the delay for its row.
func (t *troubles) note(subject string, now time.Duration) time.Duration {
	if t.of == nil {
		t.of = map[string]*trouble{}
	}
	one := t.of[subject]
	if one == nil {
		if len(t.of) >= maxTroubled {
			subject = "" // the rest share one entry, which no subject can be called
		}
		if one = t.of[subject]; one == nil {
			one = &trouble{}
			t.of[subject] = one
		}
	}
	if now >= one.until {
		one.rounds++
		one.until = now + retryDelay(t.lowest, t.highest, one.rounds, seedOf(subject))
	}
	return max(one.until-now, t.lowest)
}

// clear records that subject's stream takes messages.
func (t *troubles) clear(subject string) {
	if len(t.of) > 0 {
		delete(t.of, subject)
		delete(t.of, "")
	}
}
