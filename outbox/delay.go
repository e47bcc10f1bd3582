package outbox

import (
	"hash/fnv"
	"time"

	"github.com/onefold-go/onefold/internal/pace"
)

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
	rows   int           // that have failed in this round
}

// rowsBack is how many rows of one subject come back at once at most, and rowsApart how long after them as many more do:
// what comes back is older than new rows and handed out first, and there may be millions.
const (
	rowsBack  = 1024
	rowsApart = 200 * time.Millisecond
)

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
		one.rows = 0
		one.until = now + pace.Delay(one.rounds, seedOf(subject), t.lowest, t.highest)
	}
	one.rows++
	return max(one.until-now, t.lowest) + time.Duration(one.rows/rowsBack)*rowsApart
}

// clear records that subject's stream takes messages.
func (t *troubles) clear(subject string) {
	if len(t.of) > 0 {
		delete(t.of, subject)
		delete(t.of, "")
	}
}
