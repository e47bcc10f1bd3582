package onefold

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Limits bounds what an Effects accepts. Zero fields take the documented defaults.
type Limits struct {
	MaxPayload int // bytes of one message, headers included; default DefaultMaxPayload
	MaxEntry   int // bytes of one entry; default DefaultMaxEntry; engines pass Info.MaxEntry
}

// The defaults of Limits, and the server's bound on a header block, which cannot be changed.
const (
	DefaultMaxPayload = 1 << 20
	DefaultMaxEntry   = 8 << 20
	MaxHeaderBytes    = 64 << 10
	MaxSubjectBytes   = 1 << 10
	MaxStateKeyBytes  = 1 << 10
)

// ReservedTablePrefix starts the names of state tables that belong to the framework.
const ReservedTablePrefix = "onefold."

// RunInfo describes the run that an Effects belongs to.
type RunInfo struct {
	Key     Key
	Attempt int       // 1 for the first
	Token   uint64    // fencing token of the claim; 0 outside a claim
	First   time.Time // when the first attempt began, as far as known
	Limits  Limits

	// StoreKind is the Info.Kind of the store that will commit the run; a [Join] for another is refused when it is
	// buffered. Empty: not known, so that the commit refuses it.
	StoreKind string
}

// StateReader is the part of a [Store] that Effects reads state through.
type StateReader interface {
	Read(ctx context.Context, table, key string) (Value, error)
}

// Effects buffers what one run of a handler asks for. Nothing is visible outside before the commit, and
// all of it together after.
//
// What cannot be committed or can never leave (a bad subject, a reserved header, too many bytes, a value
// that does not encode) is found when it is buffered: the first such error is kept, reported by [Effects.Err]
// and ends the message as if the handler had returned it with [Permanent].
//
// Its methods may be called from several goroutines of the handler. After the handler has returned they
// change nothing any more: what can report it returns [ErrSealed], and [Effects.Late] counts such calls.
type Effects struct {
	mu     sync.Mutex
	run    RunInfo
	state  StateReader
	entry  Entry
	bytes  int
	err    error
	sealed bool
	late   int
}

// ErrSealed reports a call on an Effects whose run is over.
var ErrSealed = errors.New("onefold: effects used after the handler returned")

// NewEffects returns an empty buffer for one run. Engines call it; handlers receive one.
// state may be nil if the run reads no state.
func NewEffects(run RunInfo, state StateReader) *Effects {
	fx := &Effects{}
	fx.Init(run, state)
	return fx
}

// Init prepares a zero Effects, for engines that keep it inside a larger value. It must not be called on
// one that has been used.
func (fx *Effects) Init(run RunInfo, state StateReader) {
	if run.Limits.MaxPayload <= 0 {
		run.Limits.MaxPayload = DefaultMaxPayload
	}
	if run.Limits.MaxEntry <= 0 {
		run.Limits.MaxEntry = DefaultMaxEntry
	}
	fx.run, fx.state, fx.bytes = run, state, len(run.Key.Scope)+len(run.Key.ID)
}

// Key is the identity that the message is deduped by.
func (fx *Effects) Key() Key { return fx.run.Key }

// Attempt is 1 in the first run of this key and grows with each counted failure.
func (fx *Effects) Attempt() int { return fx.run.Attempt }

// First is when the first known attempt of this key began.
func (fx *Effects) First() time.Time { return fx.run.First }

// Token is the fencing token of this run. It grows with every acquisition of a key, across restarts too:
// a resource that remembers the highest token it has seen can refuse a run that was overtaken.
func (fx *Effects) Token() uint64 { return fx.run.Token }

// IdempotencyKey is a key to pass on to an outside service called directly from the handler. It is the
// same in every rerun. name tells several calls of one handler apart.
func (fx *Effects) IdempotencyKey(name string) string { return fx.run.Key.IdempotencyKey(name) }

// Get reads one value of state and remembers its version: if another entry changes it before this one is
// committed, the commit is refused and the handler runs again. Own earlier Put and Delete are seen.
// ok is false if the key is absent; that, too, is a remembered read.
func (fx *Effects) Get(ctx context.Context, table, key string) (data []byte, ok bool, err error) {
	written, err := fx.beforeRead(table, key)
	if err != nil {
		return nil, false, err
	}
	if written != nil {
		return slices.Clone(written.Value), !written.Delete, nil
	}
	// The lock is not held over the read: a goroutine that a handler has left behind in here must not keep
	// the handler's own return waiting.
	v, err := fx.state.Read(ctx, table, key)
	if err != nil {
		return nil, false, fmt.Errorf("read state %q/%s: %w", table, showID(key), err)
	}
	return fx.noteRead(table, key, v)
}

// beforeRead returns the write that answers a read already, or why there can be none.
func (fx *Effects) beforeRead(table, key string) (*Write, error) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	if fx.sealed {
		return nil, fx.noteLate()
	}
	if err := checkStateName(table, key); err != nil {
		return nil, fx.fail(err)
	}
	for i := len(fx.entry.Writes) - 1; i >= 0; i-- {
		if w := fx.entry.Writes[i]; w.Table == table && w.Key == key {
			return &w, nil
		}
	}
	if fx.state == nil {
		return nil, fx.fail(fmt.Errorf("%w: this run has no state to read", ErrUnsupported))
	}
	return nil, nil
}

// noteRead remembers the version that was read.
func (fx *Effects) noteRead(table, key string, v Value) (data []byte, ok bool, err error) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	if fx.sealed {
		return nil, false, fx.noteLate()
	}
	for _, r := range fx.entry.Reads {
		if r.Table == table && r.Key == key {
			if r.Version != v.Version {
				return nil, false, fmt.Errorf("read state %q/%s again: %w", table, showID(key), ErrConflict)
			}
			return v.Data, v.Version != 0, nil
		}
	}
	fx.grow(len(table) + len(key) + 16)
	fx.entry.Reads = append(fx.entry.Reads, Read{Table: table, Key: key, Version: v.Version})
	return v.Data, v.Version != 0, nil
}

// Put writes one value of state in the commit. Without a Get of the same key in this run the write is
// blind.
func (fx *Effects) Put(table, key string, data []byte) {
	fx.write(Write{Table: table, Key: key, Value: slices.Clone(data)})
}

// PutFor is Put with a life: the value counts as absent after retain, which must be positive.
func (fx *Effects) PutFor(table, key string, data []byte, retain time.Duration) {
	if retain <= 0 {
		fx.Fail(fmt.Errorf("%w: state %q/%s: retain is %v; it must be positive", ErrInvalid, table, showID(key), retain))
		return
	}
	fx.write(Write{Table: table, Key: key, Value: slices.Clone(data), Retain: retain})
}

// Delete removes one value of state in the commit.
func (fx *Effects) Delete(table, key string) {
	fx.write(Write{Table: table, Key: key, Delete: true})
}

func (fx *Effects) write(w Write) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	if fx.sealed {
		_ = fx.noteLate()
		return
	}
	if err := checkStateName(w.Table, w.Key); err != nil {
		_ = fx.fail(err)
		return
	}
	fx.entry.Writes = slices.DeleteFunc(fx.entry.Writes, func(o Write) bool {
		if o.Table != w.Table || o.Key != w.Key {
			return false
		}
		fx.bytes -= writeBytes(&o)
		return true
	})
	if fx.grow(writeBytes(&w)) {
		fx.entry.Writes = append(fx.entry.Writes, w)
	}
}

// Join adds a write of the store's own kind to the commit. Packages of stores call it; handlers call theirs,
// such as boltstore.Tx. A join for another kind of store than the run's is refused here.
//
// Errors: [ErrInvalid] (j is nil), [ErrUnsupported] (it is for another kind of store), [ErrSealed]. Except for the
// last they are kept as [Effects.Err].
func (fx *Effects) Join(j Join) error {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	if fx.sealed {
		return fx.noteLate()
	}
	if j == nil {
		return fx.fail(fmt.Errorf("%w: join is nil; make it with the package of the store", ErrInvalid))
	}
	if made, kind := j.StoreKind(), fx.run.StoreKind; kind != "" && made != kind {
		return fx.fail(fmt.Errorf("%w: the join is for a %q store and this run commits to a %q one; use a join of its package",
			ErrUnsupported, made, kind))
	}
	fx.entry.Joins = append(fx.entry.Joins, j)
	return nil
}

// Publish asks for one message on subject. v is sent as it is if it is a []byte, else as JSON.
func (fx *Effects) Publish(subject string, v any) {
	payload, err := encode(v)
	if err != nil {
		fx.Fail(fmt.Errorf("%w: publish to %q: %w", ErrInvalid, subject, err))
		return
	}
	fx.emit(Effect{Kind: KindMessage, Target: subject, Payload: payload})
}

// Emit asks for one effect with all its fields: headers, an ordering key, a time not to be sent before,
// a timer name. Kind defaults to KindMessage; ID is set here and must be empty. Header and Payload are
// copied: the caller may use them again.
//
// NotBefore is an appointment by the wall clock: the effect stays in the store, restarts included, and leaves when the
// time has come and a relay runs.
//
// Timer gives an effect a name in the scope of the key, so that later messages of the same consumer (or later work of
// the same Key.Scope, with outbox.Enqueue) can replace it by one of the same name, or remove it with Cancel, as long as
// it has not left. The name says what the timer is about, "overdue/order-7": one that is called "overdue" for every order
// is one timer for all of them. Nothing is replaced or removed unless this run is committed, and cancelling what is not there is no
// error. Each setting leaves under an ID of its own: one that is set again after it has left is no duplicate. Two rules
// go with it. One that is leaving just now may be cancelled and leave nevertheless, so whoever gets it looks whether it
// is still wanted. And the commits decide which setting is the last: where several messages set and cancel one timer
// give them an order, with consumer.Config.OrderBy.
func (fx *Effects) Emit(e Effect) {
	e.Header, e.Payload = e.Header.clone(), slices.Clone(e.Payload)
	fx.emit(e)
}

// emit takes an effect that nobody else holds.
func (fx *Effects) emit(e Effect) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	if fx.sealed {
		_ = fx.noteLate()
		return
	}
	index := len(fx.entry.Effects)
	if e.Kind == "" {
		e.Kind = KindMessage
	}
	if err := checkEffect(&e, fx.run.Limits); err != nil {
		_ = fx.fail(fmt.Errorf("effect %d: %w", index, err))
		return
	}
	if !fx.grow(effectBytes(&e)) {
		return
	}
	if e.Timer != "" {
		e.ID = fx.run.Key.timerPlace(e.Timer)
	} else {
		e.ID = fx.run.Key.EffectID(index)
	}
	fx.entry.Effects = append(fx.entry.Effects, e)
}

// Result sets what repeats of this key are answered with: as it is if v is a []byte, else as JSON. The
// last call counts.
func (fx *Effects) Result(v any) {
	data, err := encode(v)
	if err != nil {
		fx.Fail(fmt.Errorf("%w: result: %w", ErrInvalid, err))
		return
	}
	fx.mu.Lock()
	defer fx.mu.Unlock()
	if fx.sealed {
		_ = fx.noteLate()
		return
	}
	if fx.grow(len(data) - len(fx.entry.Result)) {
		fx.entry.Result = data
	}
}

// Fail keeps err as if buffering had failed with it; only the first error is kept. Helpers that build
// effects use it, since buffering has no error result.
func (fx *Effects) Fail(err error) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	if fx.sealed {
		_ = fx.noteLate()
		return
	}
	_ = fx.fail(err)
}

// Err is the first error of buffering, marked by [Permanent], or nil.
func (fx *Effects) Err() error {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	return fx.err
}

// Seal ends the run: it returns what was buffered, with the key filled in, and refuses further calls.
// Engines call it once when the handler has returned, and read the error before they use the entry.
func (fx *Effects) Seal() (Entry, error) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	fx.sealed = true
	fx.entry.Key = fx.run.Key
	return fx.entry, fx.err
}

// Late is how many calls came after Seal.
func (fx *Effects) Late() int {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	return fx.late
}

func (fx *Effects) noteLate() error {
	fx.late++
	return ErrSealed
}

func (fx *Effects) fail(err error) error {
	err = Permanent(err)
	if fx.err == nil {
		fx.err = err
	}
	return err
}

// grow accounts for n more bytes and reports whether they fit.
func (fx *Effects) grow(n int) bool {
	fx.bytes += n
	if fx.bytes <= fx.run.Limits.MaxEntry {
		return true
	}
	_ = fx.fail(fmt.Errorf("%w: effects, writes and result of one message take %d bytes, the store's limit is %d; send large bodies by reference",
		ErrTooLarge, fx.bytes, fx.run.Limits.MaxEntry))
	return false
}

// encode is the one rule by which values become bytes.
func encode(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []byte:
		return slices.Clone(v), nil
	}
	return json.Marshal(v)
}
