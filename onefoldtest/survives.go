package onefoldtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/onefold-go/onefold"
)

// Survives runs each message to its end, in the order given, and then once more for each of the troubles below, each
// time in a world of its own. That is a copy of what the kit has now (what is stored and was sent, runs and calls so
// far, the time), with a process that has just started; the stand-ins of the test are not copied. What is there at the
// end (outcomes, results, what was sent, state) must be what the undisturbed run has left. The kit itself goes on
// behind the undisturbed run. The first trouble with a difference is reported. A handler that fails alike in every world
// differs in none: say besides what has to be there, with [Kit.Succeeded], [Kit.Published] or [Kit.DeadLetter].
//
//   - the process dies at each [Point], and the message is delivered again;
//   - the message, and copies of it, are delivered when it is done, before and after a restart;
//   - the message, and copies of it, are delivered here and elsewhere while the handler runs;
//   - the lease ends while the handler runs, and another process takes the message over;
//   - the server has forgotten all acks and delivers all messages again, the last one first.
func (k *Kit) Survives(msgs ...*onefold.Message) {
	k.tb.Helper()
	if len(msgs) == 0 {
		k.tb.Fatalf("onefoldtest: Survives without a message; give one made with Message")
	}
	want := k.leaves("undisturbed", func() { k.each(msgs, func(m *onefold.Message) { k.Run(m) }) })
	failed := k.flush()
	for _, t := range k.troubles(msgs) {
		if failed {
			break
		}
		got := k.leaves(t.name, t.do)
		if failed = k.flush(); failed {
			break
		}
		if difference := diff(want, got); difference != "" {
			k.report("left after "+t.name, "%s: not the same is left (+) as without trouble (-):\n%sDoes the handler depend on "+
				"something besides the message and the state that it reads with fx.Get?", t.name, difference)
		}
		failed = k.flush()
	}
	for _, m := range msgs {
		k.Run(m)
	}
}

// AnyOrder delivers the messages in the order given, in reverse, and rotated, each time in a world of its own as in
// [Kit.Survives], and compares what is left. The kit itself goes on behind the order given. It is for handlers that do not
// rely on an order; one that rests on Config.OrderBy cannot be tried here.
func (k *Kit) AnyOrder(msgs ...*onefold.Message) {
	k.tb.Helper()
	if len(msgs) < 2 {
		k.tb.Fatalf("onefoldtest: AnyOrder with %d messages; give at least two", len(msgs))
	}
	in := func(order []*onefold.Message) func() {
		return func() { k.each(order, func(m *onefold.Message) { k.Run(m) }) }
	}
	reversed := slices.Clone(msgs)
	slices.Reverse(reversed)
	want := k.leaves("in order", in(msgs))
	failed := k.flush()
	for _, t := range []trouble{
		{"in reverse", in(reversed)},
		{"the first one last", in(slices.Concat(msgs[1:], msgs[:1]))},
	} {
		if failed {
			break
		}
		if difference := diff(want, k.leaves(t.name, t.do)); difference != "" {
			k.report("left "+t.name, "delivered %s, the messages leave something else (+) than in the order given (-):\n%s"+
				"Unless Config.OrderBy promises an order, compare versions or times from the messages with those in the state.", t.name, difference)
		}
		failed = k.flush()
	}
	for _, m := range msgs {
		k.Run(m)
	}
}

// trouble is something that a handler has to survive.
type trouble struct {
	name string
	do   func()
}

func (k *Kit) troubles(msgs []*onefold.Message) (all []trouble) {
	add := func(name string, do func(m *onefold.Message)) {
		all = append(all, trouble{name, func() { k.each(msgs, do) }})
	}
	crash := func(p Point) {
		add(fmt.Sprintf("crash at [%s]", p), func(m *onefold.Message) {
			k.CrashAt(p, m)
			k.Run(m)
		})
	}
	crash(Handled) // first, because it makes the handler run twice, which is what most mistakes show in
	for _, p := range Points() {
		if p != Handled {
			crash(p)
		}
	}
	add("delivered again when done", func(m *onefold.Message) {
		copied := k.repeat(m)
		k.Run(m)
		k.Deliver(m)
		k.Run(copied)
		k.Crash()
		k.Run(m)
		k.Run(copied)
	})
	add("copies during the run", func(m *onefold.Message) {
		copied := k.repeat(m)
		k.whileRunning(m, func() {
			k.Deliver(m)
			k.Deliver(copied)
			k.Elsewhere(m)
			k.Elsewhere(copied)
		})
		k.Run(m)
		k.Run(copied)
	})
	add("lease lost during the run", func(m *onefold.Message) {
		k.whileRunning(m, func() {
			k.Advance(k.beyondLease())
			k.Elsewhere(m)
		})
		k.Run(m)
	})
	all = append(all, trouble{"acks forgotten, all delivered again in reverse", func() {
		k.each(msgs, func(m *onefold.Message) { k.CrashAt(Acked, m) })
		k.Crash()
		for _, m := range slices.Backward(msgs) {
			k.Run(m)
		}
	}})
	return all
}

// repeat is a copy of m at another position, or m itself if its ID depends on the position.
func (k *Kit) repeat(m *onefold.Message) *onefold.Message {
	copied := k.Copy(m)
	id, err := k.cfg.ID(m)
	if again, errAgain := k.cfg.ID(copied); err != nil || errAgain != nil || id != again {
		return m
	}
	return copied
}

// whileRunning is During for messages that may not run at all.
func (k *Kit) whileRunning(m *onefold.Message, do func()) {
	k.world.during = do
	k.Deliver(m)
	k.world.during = nil
}

func (k *Kit) each(msgs []*onefold.Message, do func(*onefold.Message)) {
	for _, m := range msgs {
		do(m)
	}
}

// leaves does something in a copy of the present world and describes what is there then.
func (k *Kit) leaves(name string, do func()) (left []line) {
	k.tb.Helper()
	k.elsewhere(name, func() {
		do()
		var err error
		left, err = k.world.describe(context.Background())
		k.check(err)
	})
	return left
}

// describe lists outcomes, results, what was or will be sent, and state.
func (w *world) describe(ctx context.Context) (lines []line, err error) {
	for item, err := range w.store.Scan(ctx, onefold.Query{What: onefold.WhatRecords}) {
		if err != nil {
			return nil, err
		}
		lines = append(lines, line{item.Record.Key.String(), item.Record.Outcome.String()})
		lines = append(lines, line{"result of " + item.Record.Key.String(), string(item.Record.Result)})
	}
	waiting, err := w.waiting(ctx)
	if err != nil {
		return nil, err
	}
	effects := make([]onefold.Effect, 0, len(w.sent)+len(waiting))
	for _, s := range w.sent {
		effects = append(effects, s.Effect)
	}
	for _, r := range waiting {
		effects = append(effects, r.Effect)
	}
	for _, e := range effects {
		lines = append(lines, line{fmt.Sprintf("%s to %s, ID %s", e.Kind, e.Target, e.ID), string(e.Payload)})
	}
	for table := range w.tables {
		for item, err := range w.store.Scan(ctx, onefold.Query{What: onefold.WhatState, Table: table}) {
			if err != nil {
				return nil, err
			}
			lines = append(lines, line{fmt.Sprintf("state %q/%q", table, item.Key), string(item.Value.Data)})
		}
	}
	slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(a.name, b.name) })
	return lines, nil
}
