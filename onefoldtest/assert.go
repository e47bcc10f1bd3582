package onefoldtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
)

// Published asserts that exactly these bodies have been sent to subject, in this order, each ID counted once. Without
// bodies it asserts that nothing has. They become bytes as in fx.Publish.
func (k *Kit) Published(subject string, bodies ...any) {
	k.tb.Helper()
	k.compareSent(onefold.KindMessage, subject, bodies)
}

// Called asserts that exactly these calls of the function name were asked for with fx.Call or fx.CallOnce and have been
// made, in this order, each ID counted once. No function runs in the kit. The arguments become bytes as in fx.Call.
func (k *Kit) Called(name string, args ...any) {
	k.tb.Helper()
	k.compareSent(onefold.KindCall, name, args)
}

func (k *Kit) compareSent(kind, target string, bodies []any) {
	k.tb.Helper()
	var got, want []string
	same := true
	for _, s := range k.world.sent {
		if s.Kind == kind && s.Target == target {
			got = append(got, excerpt(string(s.Payload), 0))
			if n := len(got); n <= len(bodies) {
				same = same && bytes.Equal(s.Payload, k.bytes(bodies[n-1]))
			}
		}
	}
	for _, b := range bodies {
		want = append(want, excerpt(string(k.bytes(b)), 0))
	}
	if same && len(got) == len(want) {
		return
	}
	k.tb.Errorf("%s to %s: %d were sent and %d are expected%s%s", kind, target, len(got), len(want),
		listed("sent", got), listed("expected", want)+k.hint())
}

// listed is a titled list on lines of its own.
func listed(title string, items []string) string {
	var out strings.Builder
	for _, item := range items {
		fmt.Fprintf(&out, "\n  %s: %s", title, item)
	}
	return out.String()
}

// hint tells of what is not sent yet.
func (k *Kit) hint() string {
	waiting, err := k.world.waiting(context.Background())
	if err != nil || len(waiting) == 0 {
		return ""
	}
	return fmt.Sprintf("\n  %d more wait for their time; let it pass with Advance", len(waiting))
}

// Sent returns everything that was sent so far, each ID once, in the order in which it first left; dead letters too.
func (k *Kit) Sent() []onefold.Effect {
	effects := make([]onefold.Effect, 0, len(k.world.sent))
	for _, s := range k.world.sent {
		effects = append(effects, s.Effect)
	}
	return effects
}

// Succeeded asserts that msg is done and its effects are committed.
func (k *Kit) Succeeded(msg *onefold.Message) {
	k.tb.Helper()
	k.ended(msg, onefold.Succeeded)
}

// Result asserts that msg is done and its stored result is want, which becomes bytes as in fx.Result.
func (k *Kit) Result(msg *onefold.Message, want any) {
	k.tb.Helper()
	record, ok := k.ended(msg, onefold.Succeeded)
	if ok && !bytes.Equal(record.Result, k.bytes(want)) {
		k.tb.Errorf("the result of %v is not as expected%s%s", record.Key,
			listed("stored", []string{excerpt(string(record.Result), 0)}), listed("expected", []string{excerpt(string(k.bytes(want)), 0)}))
	}
}

// ended asserts how the key of msg has ended.
func (k *Kit) ended(msg *onefold.Message, want onefold.Outcome) (onefold.Record, bool) {
	k.tb.Helper()
	id, err := k.cfg.ID(msg)
	if err != nil {
		k.tb.Errorf("%s at position %d has no ID, so nothing is stored of it: %v", msg.Subject, msg.Sequence, err)
		return onefold.Record{}, false
	}
	key := onefold.Key{Scope: k.cfg.Scope, ID: id}
	record, err := k.world.store.Lookup(context.Background(), key)
	switch {
	case errors.Is(err, onefold.ErrNotFound):
		k.tb.Errorf("%v is not done; deliver it with Run, which goes on until it is", key)
	case err != nil:
		k.tb.Errorf("look up %v: %v", key, err)
	case record.Outcome != want:
		k.tb.Errorf("%v has ended as %v and should be %v%s", key, record.Outcome, want, listed("reason", k.reasonsOf(msg)))
	}
	return record, err == nil && record.Outcome == want
}

// DeadLetter asserts that msg was given up, with a dead letter whose reason contains part.
func (k *Kit) DeadLetter(msg *onefold.Message, part string) {
	k.tb.Helper()
	reasons := k.reasonsOf(msg)
	for _, r := range reasons {
		if strings.Contains(r, part) {
			return
		}
	}
	k.tb.Errorf("there is no dead letter of %s at position %d whose reason contains %q%s", msg.Subject, msg.Sequence, part,
		listed("reason", reasons))
}

// reasonsOf are the reasons of the dead letters of msg.
func (k *Kit) reasonsOf(msg *onefold.Message) (reasons []string) {
	for _, s := range k.world.sent {
		if s.Target == k.cfg.DeadLetterSubject && s.Header.Get(consumer.HeaderDeadSequence) == fmt.Sprint(msg.Sequence) {
			if reason := s.Header.Get(consumer.HeaderDeadReason); reason != "" {
				reasons = append(reasons, reason)
			}
		}
	}
	return reasons
}

// State asserts a value of state; want becomes bytes as in [Kit.Seed]. nil asserts that there is none.
func (k *Kit) State(table, key string, want any) {
	k.tb.Helper()
	v, err := k.world.store.Read(context.Background(), table, key)
	k.check(err)
	name := fmt.Sprintf("state %q/%q", table, key)
	switch {
	case want == nil && v.Version != 0:
		k.tb.Errorf("%s is %s and should be absent", name, excerpt(string(v.Data), 0))
	case want != nil && v.Version == 0:
		k.tb.Errorf("%s is absent and should be %s", name, excerpt(string(k.bytes(want)), 0))
	case want != nil && !bytes.Equal(v.Data, k.bytes(want)):
		k.tb.Errorf("%s is %s and should be %s", name, excerpt(string(v.Data), 0), excerpt(string(k.bytes(want)), 0))
	}
}
