package diskfault

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/onefold-go/onefold"
)

// planVariable is the environment variable that makes the test binary a worker; its value is a plan.
const planVariable = "ONEFOLD_DISKFAULT_PLAN"

// inspectVariable makes the test binary an inspector.
const inspectVariable = "ONEFOLD_DISKFAULT_INSPECT"

// plan is what a worker is to do.
type plan struct {
	Dir      string
	Seed     uint64
	First    int  // number of the first entry
	Entries  int  // entries that are committed by each lane
	Lanes    int  // goroutines that commit
	Batch    int  // entries of one call of Commit, at most
	Segment  int  // records of one segment; 0: the default
	Value    int  // bytes of a result, at most
	Patient  bool // on a refusal try again until it is over, else a few times
	Unclosed bool // end without closing the store
}

// content is everything about one entry, a pure function of the seed and the number of the entry: the
// worker and the inspector make it each for itself.
type content struct {
	key     onefold.Key
	print   onefold.Fingerprint
	result  []byte
	effects int
	slot    string // a value of state that many entries write
	own     string // a value of state that only this entry writes
}

const (
	scope    = "orders/billing"
	slots    = "slots"
	owned    = "own"
	slotsN   = 8
	retain   = 24 * time.Hour
	lease    = time.Minute
	effectsN = 3
)

func contentOf(seed uint64, size, id int) content {
	r := rand.New(rand.NewPCG(seed, uint64(id)))
	c := content{key: keyOf(id), print: printOf(seed, id), slot: fmt.Sprint(id % slotsN), own: fmt.Sprint(id)}
	if size > 0 && r.IntN(3) > 0 {
		c.result = make([]byte, 1+r.IntN(size))
		for i := range c.result {
			c.result[i] = byte(r.Uint32())
		}
	}
	c.effects = max(0, r.IntN(effectsN+2)-1)
	return c
}

func keyOf(id int) onefold.Key { return onefold.Key{Scope: scope, ID: fmt.Sprintf("order-%d", id)} }

func printOf(seed uint64, id int) onefold.Fingerprint {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], seed)
	binary.BigEndian.PutUint64(b[8:], uint64(id))
	sum := sha256.Sum256(b[:])
	return onefold.Fingerprint{Version: 1, Sum: [16]byte(sum[:16])}
}

// entry is what the worker commits.
func (c content) entry(id int) onefold.Entry {
	e := onefold.Entry{
		Key: c.key, Fingerprint: c.print, Outcome: onefold.Succeeded, Result: c.result, Retain: retain,
		Writes: []onefold.Write{
			{Table: slots, Key: c.slot, Value: fmt.Append(nil, id)},
			{Table: owned, Key: c.own, Value: c.print.Sum[:]},
		},
	}
	for i := range c.effects {
		f := onefold.Effect{
			ID: c.key.EffectID(i), Kind: onefold.KindMessage, Target: "charges",
			Header: onefold.Header{"Order": {fmt.Sprint(id)}, "Effect": {fmt.Sprint(i)}}, Payload: c.print.Sum[:],
		}
		if i == 1 {
			f.OrderKey = c.slot
		}
		e.Effects = append(e.Effects, f)
	}
	return e
}
