package boltstore

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/guard"
)

// Tx makes fn part of the commit of fx: what it writes through tx becomes durable with the entry of the run, or
// not at all. It is for data of the program itself that has to change together with the mark: fn makes root
// buckets of its own in the store's file and keeps there what it likes. Read them outside a commit with
// [Store.View].
//
// Within an entry fn runs when the versions that were read have been checked, before the state of the entry is
// written. An entry with an fn comes last in its group, and what it asks for is then decided by fn:
//
//   - nil: the entry is stored.
//   - An error that wraps [onefold.ErrConflict]: nothing of the entry is stored, and the run is repeated.
//   - Another error, a panic or a runtime.Goexit: nothing of the entry is stored, and its commit fails with
//     [onefold.ErrRejected], which wraps the error. The claim is still held. Neighbours are stored as if the entry had
//     not been there.
//
// fn runs in the writer, while every other commit of the store waits. So it
//
//   - must be short: no network, no waiting. Entries that do not fit into a group any more since others have taken
//     their time wait for the next one.
//   - may run several times for one commit, and has to set whatever it captures anew each time.
//   - must not call the store: it would wait for itself.
//   - must not touch the bucket "onefold", which is the store's. One whose buckets are gone fails.
//   - must not commit or roll back tx, which panics, nor keep tx, a bucket or a value for later: they are valid in fn
//     alone. Nor may another goroutine use them after fn has returned.
//   - should write little: room on the disk is made sure of before a commit for [JoinBytes] a join. A disk that is
//     full beyond that still costs no more than the commit, but takes the store longer to recover from.
//
// Errors, of which all but ErrSealed are kept in fx as well: [onefold.ErrInvalid] (fn is nil),
// [onefold.ErrUnsupported] (the run commits to a store of another kind), [onefold.ErrSealed].
func Tx(fx *onefold.Effects, fn func(tx *bolt.Tx) error) error {
	if fn == nil {
		err := fmt.Errorf("%w: boltstore.Tx: fn is nil; give the function that writes", onefold.ErrInvalid)
		fx.Fail(err)
		return err
	}
	return fx.Join(&join{fn})
}

// JoinBytes is how many bytes of keys and values a join may write with room on the disk made sure of before.
const JoinBytes = 64 << 10

// The bounds of what joins may cost a group.
const (
	joinTime        = 20 * time.Millisecond // spent in joins, after which further entries with joins go into the next group
	maxJoinFailures = 3                     // in one group; what is left goes one entry with joins a group
	joinGroupBytes  = 16 << 20              // room made sure of for all joins of a group
	pagesPerNode    = 3                     // that a node changed by a join becomes: it splits, and a neighbour is merged with it
)

// join is a function that takes part in a commit.
type join struct{ fn func(tx *bolt.Tx) error }

// StoreKind implements [onefold.Join].
func (*join) StoreKind() string { return Kind }

// checkJoins refuses joins that were not made here.
func checkJoins(joins []onefold.Join) error {
	for i, j := range joins {
		if _, ok := j.(*join); !ok {
			return fmt.Errorf("%w: Entry.Joins[%d] is a %T; make it with boltstore.Tx", onefold.ErrUnsupported, i, j)
		}
	}
	return nil
}

// run calls fn in a goroutine of its own, which it waits for, so that a runtime.Goexit does not end the writer.
func (j *join) run(tx *bolt.Tx) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = onefold.ErrGoexit // unless call returns
		err = j.call(tx)
	}()
	<-done
	return err
}

// call turns a panic of fn into an error. That of bbolt on a page that cannot be right is one too: the entry is
// refused, and the store finds out by itself whether its own pages are right.
func (j *join) call(tx *bolt.Tx) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	ended := false
	defer func() {
		if ended {
			return
		}
		if value := recover(); value != nil {
			stack := debug.Stack()
			err = &onefold.PanicError{Value: value, Stack: stack[:min(len(stack), onefold.MaxStackBytes)]}
		}
	}()
	err = j.fn(tx)
	ended = true
	return err
}

// joined is what the joins of one try of a group have done.
type joined struct {
	ran   int
	bytes int // allowed for
	nodes int // pages that were read to be changed
}

// joinError ends a try of a group: it is to be tried again without the flight.
type joinError struct {
	flight *flight
	err    error // for the caller
}

func (f *joinError) Error() string { return "a join has failed: " + f.err.Error() }

// join runs the joins of an entry. Its error is a *joinError.
func (f *flight) join(g *group) error {
	if f.encoded.more == nil || len(f.encoded.more.joins) == 0 {
		return nil
	}
	began, nodes := g.store.clock.Mono(), g.nodes()
	defer func() {
		g.joinTime += g.store.clock.Mono() - began
		g.joined.nodes += g.nodes() - nodes
	}()
	for i, j := range f.encoded.more.joins {
		g.joined.ran++
		g.joined.bytes = min(g.joined.bytes+JoinBytes, joinGroupBytes)
		err := j.(*join).run(g.tx)
		if err == nil {
			err = g.intact()
		}
		if err != nil {
			return &joinError{f, refusedBy(i, f.claim, err)}
		}
	}
	return nil
}

// nodes is how many pages have been read to be changed.
func (g *group) nodes() int {
	stats := g.tx.Stats()
	return int(stats.GetNodeCount())
}

// intact reports an error if the buckets of the store are not those of the beginning of the transaction any
// more. bbolt gives the same ones again as long as they are there.
func (g *group) intact() error {
	var now buckets
	err := guard.Run("look after a join", func() (err error) {
		now, err = bucketsOf(g.tx)
		return err
	})
	if err == nil && now.same(&g.b) {
		return nil
	}
	return fmt.Errorf("it has damaged bucket %q, which is the store's; keep to buckets of your own", rootName)
}

// same reports whether b and o are the same buckets of one transaction.
func (b *buckets) same(o *buckets) bool {
	all, others := b.all(), o.all()
	for i := range all {
		if all[i].raw != others[i].raw {
			return false
		}
	}
	return b.meta == o.meta
}

// refusedBy is the error of an entry whose join has failed.
func refusedBy(i int, c *claim, err error) error {
	if errors.Is(err, onefold.ErrConflict) {
		return fmt.Errorf("%w: join %d of %v: %w", onefold.ErrConflict, i, c.public.Key, &foreignError{err})
	}
	return fmt.Errorf("%w: join %d of %v: %w", onefold.ErrRejected, i, c.public.Key, &foreignError{err})
}

// foreignError is the error of a join. It is found in what wraps it, except that it never stands for an error of
// the store contract: a join that has met another store must not speak for this one.
type foreignError struct{ err error }

func (e *foreignError) Error() string { return e.err.Error() }

// Is implements the match of [errors.Is].
func (e *foreignError) Is(target error) bool {
	for _, own := range []error{
		onefold.ErrLost, onefold.ErrUnknown, onefold.ErrConflict, onefold.ErrRejected, onefold.ErrBusy, onefold.ErrMismatch,
		onefold.ErrTooLarge, onefold.ErrFull, onefold.ErrUnavailable, onefold.ErrDamaged, onefold.ErrClosed,
		onefold.ErrUnsupported, onefold.ErrInvalid,
	} {
		if target == own {
			return false
		}
	}
	return errors.Is(e.err, target)
}

// As implements the match of [errors.As].
func (e *foreignError) As(target any) bool { return errors.As(e.err, target) }
