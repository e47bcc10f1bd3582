package sim

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
)

func formatUint(n uint64) string { return strconv.FormatUint(n, 10) }

func genOf(text string) uint32 {
	n, _ := strconv.ParseUint(text, 10, 32)
	return uint32(n)
}

// ledger is what really happened, told by the store that keeps it, by the handlers and by the target stream, and
// the judgement on it: each method says what is wrong, or "".
type ledger struct {
	setup    setup
	keys     map[onefold.Key]*account
	effects  map[string]*effect // by ID
	calls    map[string]onefold.Key
	counts   map[string]int // successes by counter
	ordered  map[string]int // number of the last effect of an ordering key that has arrived
	commits  int
	numbered int                        // effects so far
	rejected map[identity]time.Duration // when, because of a run
}

// account is the history of one key.
type account struct {
	outcome   onefold.Outcome // the latest; 0: none
	print     onefold.Fingerprint
	ended     map[onefold.Fingerprint]bool // payloads that had an outcome; true: a success
	token     uint64                       // of the outcome
	at        time.Duration
	unsettled map[string]bool // effects of the outcome that are not settled
	ids       []string        // of the outcome's effects
	effects   []string        // the IDs of the latest success

	granted uint64 // highest token
	holder  onefold.Holder
	until   time.Duration // the lease of that token ends; 0: it is given back
	frozen  uint64        // token whose commit is under way and was begun within its lease

	failures int  // counted, since the last outcome
	unknown  bool // a run has begun and nothing has said how it ended
	call     string
}

// effect is one thing that has to leave.
type effect struct {
	key     onefold.Key
	target  string
	payload string
	order   string
	number  int
	arrived bool
}

func newLedger(s setup) *ledger {
	return &ledger{setup: s, keys: map[onefold.Key]*account{}, effects: map[string]*effect{}, calls: map[string]onefold.Key{},
		counts: map[string]int{}, ordered: map[string]int{}, rejected: map[identity]time.Duration{}}
}

func (l *ledger) of(k onefold.Key) *account {
	a := l.keys[k]
	if a == nil {
		a = &account{}
		l.keys[k] = a
	}
	return a
}

// remembered reports whether the outcome must still be known.
func (a *account) remembered(now time.Duration) bool {
	return a.outcome != 0 && (now-a.at < retention || len(a.unsettled) > 0)
}

// died forgets the claims, which end with the process.
func (l *ledger) died() {
	for _, a := range l.keys {
		a.until, a.frozen = 0, 0
	}
}

// committing notes that commits begin, or end. A claim whose lease has ended before may be taken by somebody else.
func (l *ledger) committing(batch []*onefold.Commit, begin bool, now time.Duration) {
	for _, c := range batch {
		if c.Claim == nil {
			continue
		}
		switch a := l.of(c.Entry.Key); {
		case begin && c.Claim.Token == a.granted && now < a.until:
			a.frozen = c.Claim.Token
		case !begin && c.Claim.Token == a.frozen:
			a.frozen = 0
		}
	}
}

// begun judges the answer to a Begin.
func (l *ledger) begun(r onefold.Request, g onefold.Grant, now time.Duration) string {
	a := l.of(r.Key)
	switch {
	case g.Verdict == onefold.Done && a.outcome == 0:
		return fmt.Sprintf("%v is said to be done, and has no outcome", r.Key)
	case g.Verdict == onefold.Done && a.print.Conflicts(r.Fingerprint):
		return fmt.Sprintf("%v is said to be done, with another payload than it was done with", r.Key)
	case g.Verdict != onefold.Granted:
		return ""
	case a.remembered(now):
		return fmt.Sprintf("%v was granted although it %v %v ago", r.Key, a.outcome, now-a.at)
	case g.Claim.Token == a.granted && r.Holder == a.holder:
		a.until = now + r.Lease
		return ""
	case a.frozen != 0:
		return fmt.Sprintf("%v was granted while a commit of it was under way", r.Key)
	case now < a.until:
		return fmt.Sprintf("%v was granted while another held it for %v more", r.Key, a.until-now)
	case g.Claim.Token <= a.granted:
		return fmt.Sprintf("%v was granted with token %x after token %x", r.Key, g.Claim.Token, a.granted)
	}
	a.granted, a.holder, a.until = g.Claim.Token, r.Holder, now+r.Lease
	return ""
}

// released judges a Release that the store has accepted.
func (l *ledger) released(c *onefold.Claim, f onefold.Failure) string {
	a := l.of(c.Key)
	if c.Token != a.granted || a.until == 0 {
		return fmt.Sprintf("claim %x of %v was released although %x is its latest, and held: %t", c.Token, c.Key, a.granted, a.until != 0)
	}
	a.until = 0
	if f.Counted {
		a.failures++
	}
	return ""
}

// runs judges the start of a handler.
func (l *ledger) runs(fx *onefold.Effects) string {
	a, k := l.of(fx.Key()), fx.Key()
	call := fx.IdempotencyKey("call")
	owner, known := l.calls[call]
	l.calls[call] = k
	switch {
	case known && owner != k:
		return fmt.Sprintf("%v and %v have the same idempotency key", k, owner)
	case a.call != "" && a.call != call:
		return fmt.Sprintf("%v has another idempotency key than in an earlier run", k)
	case fx.Token() > a.granted:
		return fmt.Sprintf("%v runs under token %x, which nobody has granted", k, fx.Token())
	case l.setup.park && a.unknown && fx.Token() == a.granted:
		return fmt.Sprintf("%v runs again although nobody knows what its last run has done", k)
	case fx.Token() == a.granted && fx.Attempt() != a.failures+1:
		return fmt.Sprintf("%v runs as attempt %d after %d counted failures", k, fx.Attempt(), a.failures)
	case fx.Attempt() > l.setup.maxAttempts:
		return fmt.Sprintf("%v runs for the %dth time, of %d", k, fx.Attempt(), l.setup.maxAttempts)
	}
	a.call = call
	if fx.Token() == a.granted { // else somebody else answers for the key by now
		a.unknown = true
	}
	return ""
}

// committed judges an entry that the store says it has stored.
func (l *ledger) committed(c *onefold.Commit, token uint64, now time.Duration) string {
	e := &c.Entry
	a := l.of(e.Key)
	switch {
	case a.remembered(now):
		return fmt.Sprintf("a second outcome of %v (%v) was stored %v after the first (%v)", e.Key, e.Outcome, now-a.at, a.outcome)
	case c.Claim != nil && c.Claim.Token != a.granted:
		return fmt.Sprintf("%v was committed under token %x, and %x is the latest", e.Key, c.Claim.Token, a.granted)
	case a.outcome != 0 && token <= a.token:
		return fmt.Sprintf("token %x of the outcome of %v is not above %x, that of the one before", token, e.Key, a.token)
	}
	if wrong := l.attempted(a, e); wrong != "" {
		return wrong
	}
	if wrong := l.endsOnce(e, now); wrong != "" {
		return wrong
	}
	l.commits++
	before := a.effects
	a.outcome, a.print, a.token, a.at, a.ids = e.Outcome, e.Fingerprint, token, now, nil
	a.failures, a.unknown, a.until = 0, false, 0
	if a.ended == nil {
		a.ended = map[onefold.Fingerprint]bool{}
	}
	a.ended[e.Fingerprint] = a.ended[e.Fingerprint] || e.Outcome == onefold.Succeeded
	a.unsettled = map[string]bool{}
	for i := range e.Effects {
		if wrong := l.owes(a, e.Key, &e.Effects[i]); wrong != "" {
			return wrong
		}
	}
	if e.Outcome == onefold.Succeeded {
		if before != nil && !slices.Equal(before, a.ids) {
			return fmt.Sprintf("the effects of %v have other IDs than those of its earlier success", e.Key)
		}
		if len(a.ids) != 2 || len(e.Writes) != 1 {
			return fmt.Sprintf("%v was committed with %d effects and %d writes, and a run has 2 and 1", e.Key, len(a.ids), len(e.Writes))
		}
		a.effects = a.ids
		for _, w := range e.Writes {
			l.counts[w.Key]++
		}
	}
	return ""
}

// identity is a message as far as it can be told from others: what it is, and what it says.
type identity struct {
	key   onefold.Key
	print onefold.Fingerprint
}

// endsOnce judges whether a message that was rejected because its ID was held by a run with another payload has run
// nevertheless. It is asked only with -strict.
func (l *ledger) endsOnce(e *onefold.Entry, now time.Duration) string {
	if len(e.Effects) > 0 && e.Effects[0].Header.Get(consumer.HeaderDeadClass) == string(onefold.ClassMismatch) {
		h := e.Effects[0].Header
		k := onefold.Key{Scope: scope, ID: h.Get(consumer.HeaderDeadID), Gen: genOf(h.Get(consumer.HeaderDeadGen))}
		if !l.of(k).remembered(now) { // else it was held by an outcome
			l.rejected[identity{k, e.Fingerprint}] = now
		}
		return ""
	}
	at, rejected := l.rejected[identity{e.Key, e.Fingerprint}]
	if *strict && rejected && now-at < retention {
		return fmt.Sprintf("%v was rejected %v ago because a run held its ID with another payload; that run has ended without an outcome, and now it %v, too",
			e.Key, now-at, e.Outcome)
	}
	return ""
}

// lost judges the answer that a claim has ended. A commit that was stored is success however often it is repeated.
func (l *ledger) lost(c *onefold.Commit, now time.Duration) string {
	if a := l.of(c.Entry.Key); c.Claim != nil && a.remembered(now) && a.token == c.Claim.Token {
		return fmt.Sprintf("the commit of %v was stored, and when it is repeated its claim is said to be lost", c.Entry.Key)
	}
	return ""
}

// attempted judges by its attempts whether a message may be given up.
func (l *ledger) attempted(a *account, e *onefold.Entry) string {
	if e.Outcome != onefold.DeadLettered || len(e.Effects) == 0 {
		return ""
	}
	h := e.Effects[0].Header
	switch onefold.Class(h.Get(consumer.HeaderDeadClass)) {
	case onefold.ClassHandler, onefold.ClassPanic:
		if a.failures+1 != l.setup.maxAttempts {
			return fmt.Sprintf("%v was given up after %d counted failures, and %d attempts are allowed", e.Key, a.failures+1, l.setup.maxAttempts)
		}
	}
	return ""
}

// owes enters an effect of k. What k has caused before the end of its retention is over: another outcome of k has the
// same IDs.
func (l *ledger) owes(a *account, k onefold.Key, f *onefold.Effect) string {
	known := l.effects[f.ID]
	switch {
	case known != nil && known.key != k:
		return fmt.Sprintf("effect %q to %s of %v has the ID of effect %q to %s of %v", f.Payload, f.Target, k, known.payload, known.target, known.key)
	case slices.Contains(a.ids, f.ID):
		return fmt.Sprintf("two effects of %v have one ID", k)
	case known == nil || known.target != f.Target || known.payload != string(f.Payload):
		l.numbered++
		l.effects[f.ID] = &effect{key: k, target: f.Target, payload: string(f.Payload), order: f.OrderKey, number: l.numbered}
	}
	a.ids = append(a.ids, f.ID)
	a.unsettled[f.ID] = true
	return ""
}

// published judges what arrives at the target stream.
func (l *ledger) published(id, subject, payload string) string {
	f := l.effects[id]
	switch {
	case f == nil:
		return fmt.Sprintf("%q was published to %s under an ID that was never committed", payload, subject)
	case f.target != subject || f.payload != payload:
		return fmt.Sprintf("%q was published to %s under the ID of %q to %s", payload, subject, f.payload, f.target)
	case f.arrived || f.order == "":
	case f.number < l.ordered[f.order]:
		return fmt.Sprintf("%q has been overtaken by what was committed later under its ordering key", payload)
	default:
		l.ordered[f.order] = f.number
	}
	f.arrived = true
	return ""
}

// settled judges a row that the store has taken out.
func (l *ledger) settled(r *onefold.Row) string {
	if f := l.effects[r.Effect.ID]; f == nil || !f.arrived {
		return fmt.Sprintf("%q to %s was settled as sent and has never arrived", r.Effect.Payload, r.Effect.Target)
	}
	delete(l.of(r.Key).unsettled, r.Effect.ID)
	return ""
}

// mayBeAcked judges the ack of a message. What was rightly acked once may be acked for ever, whatever becomes of its key
// beyond its retention.
func (l *ledger) mayBeAcked(m *stored, t *target) string {
	if m.ended {
		return ""
	}
	wrong := l.hasEnded(m, t)
	m.ended = wrong == ""
	return wrong
}

// hasEnded looks for the durable outcome of a message.
func (l *ledger) hasEnded(m *stored, t *target) string {
	if m.key.IsZero() {
		if !t.letterOf(m, onefold.ClassMissingID) {
			return fmt.Sprintf("message %d has no ID and was acked before its dead letter has arrived", m.seq)
		}
		return ""
	}
	if t.letterOf(m, onefold.ClassMismatch) {
		return ""
	}
	a := l.of(m.key)
	success, ended := a.ended[m.print]
	switch {
	case !ended:
		return fmt.Sprintf("message %d (%v, %q) was acked and has no outcome", m.seq, m.key, m.msg.Data)
	case success || a.print != m.print:
		return ""
	}
	for _, id := range a.ids {
		if !l.effects[id].arrived {
			return fmt.Sprintf("message %d (%v) was acked before its dead letter has arrived", m.seq, m.key)
		}
	}
	return ""
}

// complete judges the end, when everything had time to arrive.
func (l *ledger) complete(s *server) string {
	for _, m := range s.messages {
		if wrong := l.mayBeAcked(m, &s.target); wrong != "" {
			return "at the end: " + wrong
		}
	}
	for _, f := range l.effects {
		if !f.arrived {
			return fmt.Sprintf("at the end %q to %s of %v was committed and has never arrived", f.payload, f.target, f.key)
		}
	}
	return ""
}
