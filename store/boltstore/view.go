package boltstore

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore/internal/guard"
)

// View runs fn in a read transaction on the store's file, for handlers that have to read buckets of their own before
// they decide; see [Tx] for writing them. fn sees every commit that has returned, and nothing that is not durable
// yet.
//
// fn must be short: while it runs the file cannot be mapped anew, so commits that need it wait, and pages that have
// become free are kept. It must not call the store, which may be waiting for it, and must not keep tx, buckets or
// values: they are valid in fn alone. Several calls run at once.
//
// A handler that decides on what it has read here must see to it that it still holds at the commit: the fn that it
// gives to Tx reads again, and returns [onefold.ErrConflict] if something has changed.
//
// View waits for a moment at which all that is visible is durable. That lasts no longer than a commit, and ends with
// ctx, except while a commit maps the file anew or has joins: nobody can read then.
//
// Errors: those of fn as they are; [onefold.ErrUnavailable], [onefold.ErrDamaged] (also if a page that fn reads is),
// [onefold.ErrClosed], the error of ctx; [onefold.ErrInvalid] (fn is nil). A panic of fn itself is passed on.
func (s *Store) View(ctx context.Context, fn func(tx *bolt.Tx) error) error {
	if fn == nil {
		return fmt.Errorf("%w: View: fn is nil; give the function that reads", onefold.ErrInvalid)
	}
	s.views.enter()
	defer s.views.leave()
	for {
		if err := s.enter(ctx); err != nil {
			return err
		}
		changed, err := s.viewOnce(fn)
		if changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-s.closing:
		case <-ctx.Done():
		}
	}
}

// viewOnce runs fn, unless what a transaction would show now is not durable yet. Then it returns a channel that is
// closed when that has changed.
func (s *Store) viewOnce(fn func(tx *bolt.Tx) error) (changed <-chan struct{}, err error) {
	s.snap.mu.Lock()
	locked := true
	unlock := func() {
		if locked {
			locked = false
			s.snap.mu.Unlock()
		}
	}
	defer unlock()
	if s.snap.err != nil {
		return nil, s.snap.err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer damagedPage(&err)
	err = s.db.View(func(tx *bolt.Tx) error {
		// A commit is visible to new transactions before its sync has ended, and to the snapshot after that.
		if tx.ID() != s.snap.tx.ID() {
			changed = s.snap.await()
			return nil
		}
		unlock()
		return fn(tx)
	})
	return changed, err
}

// damagedPage is deferred. It turns a panic of bbolt on a page that cannot be right, or a fault of the mapped file,
// into ErrDamaged, and passes on every other.
func damagedPage(err *error) {
	value := recover()
	if value == nil {
		return
	}
	_, fault := value.(interface{ Addr() uintptr })
	misused := strings.Contains(fmt.Sprint(value), "managed tx")
	if misused || !fault && !panickedInBbolt() {
		panic(value)
	}
	*err = guard.Damage("read", value)
}

// panickedInBbolt reports whether the panic that is being recovered began in bbolt.
func panickedInBbolt() bool {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers[:])])
	for panicking := false; ; {
		frame, more := frames.Next()
		switch {
		case frame.Function == "runtime.gopanic":
			panicking = true
		case panicking && !strings.HasPrefix(frame.Function, "runtime."):
			return strings.HasPrefix(frame.Function, "go.etcd.io/bbolt")
		}
		if !more {
			return false
		}
	}
}

// views counts the calls of View, for Close to wait for.
type views struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when there is none; nil: nobody waits
}

func (v *views) enter() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.n++
}

func (v *views) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.n--; v.n == 0 && v.idle != nil {
		close(v.idle)
		v.idle = nil
	}
}

// ended returns a channel that is closed when no call is left.
func (v *views) ended() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	idle := v.idle
	if idle == nil {
		idle = make(chan struct{})
	}
	if v.n == 0 {
		close(idle)
		return idle
	}
	v.idle = idle
	return idle
}
