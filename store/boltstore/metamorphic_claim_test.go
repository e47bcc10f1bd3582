package boltstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/onefold-go/onefold"
)

// held is a claim of both stores, current or not.
type held struct {
	key         onefold.Key
	fingerprint onefold.Fingerprint
	holder      onefold.Holder
	durable     bool
	mem, bolt   *onefold.Claim
}

// key draws a key: one of the latest, any, or a fresh one.
func (w *world) key(r *rand.Rand) onefold.Key {
	n := len(w.keys)
	switch at := r.IntN(10); {
	case at < 2 || n < 3:
		k := onefold.Key{Scope: []string{"ORDERS/billing", "ORDERS/mail", ""}[r.IntN(3)], ID: fmt.Sprint(n), Gen: uint32(r.IntN(2))}
		if r.IntN(12) == 0 {
			k.ID += strings.Repeat("long", 200) // its history stands under a digest
		}
		w.keys = append(w.keys, k)
		return k
	case at < 8:
		return w.keys[max(1, n-6)+r.IntN(min(n-1, 6))]
	}
	return w.keys[r.IntN(n)]
}

func fingerprint(r *rand.Rand) onefold.Fingerprint {
	if r.IntN(2) == 0 {
		return onefold.Fingerprint{}
	}
	return onefold.Fingerprint{Version: uint8(1 + r.IntN(2)), Sum: [16]byte{byte(r.IntN(8) / 7)}}
}

func lease(r *rand.Rand) time.Duration {
	return []time.Duration{30 * time.Second, time.Minute, 10 * time.Minute}[r.IntN(3)]
}

func (w *world) request(r *rand.Rand) onefold.Request {
	w.attempt++
	q := onefold.Request{
		Key: w.key(r), Fingerprint: fingerprint(r), Lease: lease(r), Durable: r.IntN(4) == 0,
		Holder: onefold.Holder{Process: 1 + uint64(r.IntN(2)), Attempt: w.attempt},
	}
	if c := w.claim(r); c != nil && r.IntN(6) == 0 { // the same attempt asks again
		q.Key, q.Fingerprint, q.Holder, q.Durable = c.key, c.fingerprint, c.holder, c.durable
	}
	if r.IntN(60) == 0 {
		q.Lease = 0
	}
	return q
}

func (w *world) begin(r *rand.Rand) {
	q := w.request(r)
	w.tell("%v fingerprint %v holder %v durable %v", q.Key, q.Fingerprint, q.Holder, q.Durable)
	m, errM := w.mem.Begin(context.Background(), q)
	b, errB := w.bolt.Begin(context.Background(), q)
	if !w.same("Begin", showGrant(m, errM), showGrant(b, errB)) || errM != nil {
		return
	}
	w.tell("-> %v", m.Verdict)
	switch m.Verdict {
	case onefold.Busy:
		if b.RetryAfter <= 0 || b.RetryAfter > 10*time.Minute {
			w.disagree("RetryAfter is %v", b.RetryAfter)
		}
	case onefold.Granted:
		w.sameHistory(q.Key, m.History, b.History)
		again := w.grant(&held{q.Key, q.Fingerprint, q.Holder, q.Durable, m.Claim, b.Claim})
		if q.Durable && !again {
			w.wrote()
		}
	}
}

// grant takes in a claim and reports whether it is a former one, given to its holder again.
func (w *world) grant(h *held) bool {
	for _, c := range w.claims {
		if c.mem.Token == h.mem.Token {
			w.same("token of the same claim", c.bolt.Token, h.bolt.Token)
			c.durable = c.durable || h.durable
			return true
		}
	}
	if h.bolt.Token <= w.tokens[h.key] {
		w.disagree("token %d of %v does not grow, it was %d", h.bolt.Token, h.key, w.tokens[h.key])
	}
	w.tokens[h.key] = h.bolt.Token
	w.claims = append(w.claims, h)
	return false
}

// sameHistory compares what is known of earlier attempts. A crash may have forgotten failures that were not
// written, and that a durable start was taken back; it forgets no durable start.
func (w *world) sameHistory(k onefold.Key, m, b onefold.History) {
	if w.unsure[k] {
		if b.Failures > m.Failures || b.Starts < m.Starts {
			w.disagree("history of %v after a crash: memstore says %+v and boltstore says %+v", k, m, b)
		}
		return
	}
	if w.jumped {
		m.First, b.First = time.Time{}, time.Time{}
	}
	w.same(fmt.Sprintf("history of %v", k), showHistory(m), showHistory(b))
}

// wrote notes that the store under test has just written a group: the failures given to Release before are
// durable, and so is the time.
func (w *world) wrote() {
	clear(w.released)
	w.written = 0
}

// claim draws a claim, mostly one of the latest; nil if there is none.
func (w *world) claim(r *rand.Rand) *held {
	n := len(w.claims)
	if n == 0 {
		return nil
	}
	if r.IntN(5) > 0 {
		return w.claims[n-1-r.IntN(min(n, 4))]
	}
	return w.claims[r.IntN(n)]
}

func (w *world) renew(r *rand.Rand) {
	c, d := w.claim(r), lease(r)
	if c == nil {
		return
	}
	w.tell("%v claim %d for %v", c.key, c.mem.Token, d)
	w.same("Renew", class(w.mem.Renew(context.Background(), c.mem, d)), class(w.bolt.Renew(context.Background(), c.bolt, d)))
}

func (w *world) release(r *rand.Rand) {
	c := w.claim(r)
	if c == nil {
		return
	}
	f := onefold.Failure{Counted: r.IntN(3) > 0, Reason: fmt.Sprint("failure ", r.IntN(100))}
	if r.IntN(10) == 0 {
		f.Reason = "x" + strings.Repeat("ä", onefold.MaxReasonBytes)
	}
	w.tell("%v claim %d counted %v", c.key, c.mem.Token, f.Counted)
	err := w.mem.Release(context.Background(), c.mem, f)
	w.same("Release", class(err), class(w.bolt.Release(context.Background(), c.bolt, f)))
	if err == nil {
		w.released[c.key] = true
	}
}

func (w *world) read(r *rand.Rand) {
	w.readCell(someCell(r))
}

func someCell(r *rand.Rand) cell {
	return cell{[]string{"stock", "seen"}[r.IntN(2)], fmt.Sprint("k", r.IntN(4))}
}

// readCell reads one value of both stores and keeps its two versions.
func (w *world) readCell(c cell) bothVersions {
	m, errM := w.mem.Read(context.Background(), c.table, c.key)
	b, errB := w.bolt.Read(context.Background(), c.table, c.key)
	w.same(fmt.Sprint("Read of ", c), showValue(m, errM), showValue(b, errB))
	v := bothVersions{m.Version, b.Version}
	w.versions[c] = append(w.versions[c], v)
	if b.Version == 0 {
		return v
	}
	if w.used[c] == nil {
		w.used[c] = map[uint64]string{}
	}
	data := string(b.Data)
	if before, ok := w.used[c][b.Version]; ok && before != data {
		w.disagree("version %d of %v was %q and is %q", b.Version, c, before, data)
	}
	w.used[c][b.Version] = data
	return v
}

func (w *world) lookup(r *rand.Rand) { w.lookupKey(w.key(r)) }

func (w *world) lookupKey(k onefold.Key) {
	m, errM := w.mem.Lookup(context.Background(), k)
	b, errB := w.bolt.Lookup(context.Background(), k)
	w.same(fmt.Sprint("Lookup of ", k), showLookup(m, errM), showLookup(b, errB))
}

func (w *world) wait(r *rand.Rand) {
	k := w.key(r)
	w.tell("%v", k)
	m, errM := w.mem.Wait(newImpatient(), k)
	b, errB := w.bolt.Wait(newImpatient(), k)
	w.same(fmt.Sprint("Wait for ", k), showLookup(m, errM), showLookup(b, errB))
}

// erase may find nothing where a record has expired: it is gone when it is collected, and until then an
// Erase may still remove it.
func (w *world) erase(r *rand.Rand) {
	k := w.key(r)
	_, found := w.mem.Lookup(context.Background(), k)
	m, b := class(w.mem.Erase(context.Background(), k)), class(w.bolt.Erase(context.Background(), k))
	w.tell("%v -> %v", k, m)
	if found != nil && (m == "" || m == "not found") && (b == "" || b == "not found") {
		w.written = 0
		return
	}
	if w.same(fmt.Sprint("Erase of ", k), m, b) && m == "" {
		w.wrote()
		delete(w.unsure, k)
	}
}
