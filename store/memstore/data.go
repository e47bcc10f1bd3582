package memstore

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/onefold-go/onefold"
)

// Data is what survives the end of a Store: records, rows, state, history, identity and the store clock.
// At most one Store has it open at a time. Its methods may be called concurrently.
type Data struct {
	mu       sync.Mutex // guards everything below and everything in the Store that has it open
	live     *Store     // nil: not open
	identity string
	created  time.Time
	clean    bool
	epoch    uint64
	position uint64        // last number given to a record, a row or a value
	clock    time.Duration // store clock when it was last written; it counts only while a Store is open
	nextPass time.Duration // store clock at which the next sweep is due
	longest  time.Duration // longest retention seen

	records   map[id]*record
	attention map[id]*record // dead letters and unknown outcomes; they outlive their retention
	history   map[id]*history
	state     map[stateKey]value
	rows      []*row // in commit order
}

// id stands for a key of any length, so that nothing of an erased key has to stay.
type id [sha256.Size]byte

func idOf(k onefold.Key) id { return sha256.Sum256(k.Append(nil)) }

// record is a stored outcome.
type record struct {
	onefold.Record
	expires time.Duration // store clock
}

// history is what is known of a key that has no outcome.
type history struct {
	onefold.History
	touched time.Duration // store clock
}

type stateKey struct{ table, key string }

type value struct {
	onefold.Value
	expires time.Duration // store clock
}

// row is one effect that has not left.
type row struct {
	position uint64
	owner    *record
	id       id
	key      onefold.Key
	effect   onefold.Effect
	stored   time.Duration // store clock of the commit
	attempts int
	tried    bool
	reason   string

	delayedTo  time.Time     // zero: not delayed by a settlement
	delayedFor time.Duration // store clock at which the delay is over at the latest
	parked     bool
	keepsOrder bool // parked with Hold

	// hold is the ticket that may settle the row: of the feed that has it, or of the person who looks at
	// a parked one. 0: nobody's. A ticket is never used twice.
	hold uint64
	feed *feed // who has it out; nil if parked or waiting

	settledHold  uint64 // the last settlement that kept the row, so that repeating it is success
	settledState onefold.State
}

// NewData returns empty data, made now by clock. The zero Clock is the machine's.
func NewData(clock onefold.Clock) *Data {
	var name [16]byte
	rand.Read(name[:]) // never fails
	return &Data{
		identity:  hex.EncodeToString(name[:]),
		created:   clock.OrSystem().Wall(),
		clean:     true,
		records:   map[id]*record{},
		attention: map[id]*record{},
		history:   map[id]*history{},
		state:     map[stateKey]value{},
	}
}

// Crash cuts off the Store that has d open, as the death of its process would: its calls fail with
// [onefold.ErrClosed] from now on, what it had not stored is gone, and d can be opened again, uncleanly.
// Without an open Store it does nothing.
func (d *Data) Crash() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.live != nil {
		d.live.end()
	}
}

// Options are the settings of Open. The zero value is good.
type Options struct {
	Clock      onefold.Clock // zero: the machine's clock
	MaxRecords int           // live records and claims at which Begin refuses fresh keys; 0: no limit
	MaxEntry   int           // bytes of one entry; 0: onefold.DefaultMaxEntry

	// BeforeWrite is called by each Commit between the moment its entries are accepted and the moment
	// they are written. Tests keep a commit in flight with it. nil: nothing is called.
	BeforeWrite func()
}

// Open makes a Store on d. o may be nil. The returned Store is for concurrent use; close it with Close.
//
// Errors: [onefold.ErrInUse] (another Store has d open), [onefold.ErrInvalid].
func Open(d *Data, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	if o.MaxRecords < 0 || o.MaxEntry < 0 {
		return nil, fmt.Errorf("%w: MaxRecords is %d and MaxEntry is %d; neither may be negative", onefold.ErrInvalid, o.MaxRecords, o.MaxEntry)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.live != nil {
		return nil, fmt.Errorf("%w: data %s; close that store first", onefold.ErrInUse, d.identity)
	}
	d.epoch++
	s := newStore(d, *o)
	d.live, d.clean = s, false
	for _, r := range d.rows {
		if !r.parked {
			r.hold, r.feed = 0, nil
		}
	}
	return s, nil
}

// New opens a Store with default options on fresh data.
func New() *Store {
	s, err := Open(NewData(onefold.Clock{}), nil)
	if err != nil {
		panic(err) // fresh data is not in use
	}
	return s
}

// next returns the next position.
func (d *Data) next() uint64 {
	d.position++
	return d.position
}

// later is now + d, or the end of time.
func later(now, d time.Duration) time.Duration {
	if now > 0 && d > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + d
}

// leastHistory is how long the history of a key without an outcome is kept at least.
const leastHistory = 24 * time.Hour

// sweepEvery is the time between two sweeps.
const sweepEvery = time.Minute

// sweep removes what has expired by now. Whether something has expired is decided when it is read, so
// this only gives memory back. History of a key that never gets an outcome goes when nothing was added to
// it for the longest retention seen.
func (d *Data) sweep(now time.Duration) {
	d.nextPass = later(now, sweepEvery)
	for k, r := range d.records {
		if !r.live(now) {
			delete(d.records, k)
		}
	}
	for k, v := range d.state {
		if v.expires <= now {
			delete(d.state, k)
		}
	}
	for k, h := range d.history {
		if later(h.touched, max(d.longest, leastHistory)) <= now {
			delete(d.history, k)
		}
	}
}
