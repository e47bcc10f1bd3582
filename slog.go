package onefold

import (
	"context"
	"errors"
	"log/slog"
)

// SlogObserver logs through l what a person wants to read: dead letters, parked and discarded rows, lost claims and zombies as
// warnings, as is a copy of what became a dead letter earlier, a change of state that has a reason and a setting that
// weakens the promise; retries
// and other changes of state as information; the rest at debug level. A panic is logged with its stack. It
// never logs a payload, and IDs only quoted and cut.
func SlogObserver(l *slog.Logger) *Observer {
	delivery := func(level slog.Level, text string) func(DeliveryEvent) {
		return func(e DeliveryEvent) {
			if l.Enabled(context.Background(), level) {
				l.LogAttrs(context.Background(), level, text, deliveryAttrs(e)...)
			}
		}
	}
	row := func(level slog.Level, text string) func(RowEvent) {
		return func(e RowEvent) {
			if l.Enabled(context.Background(), level) {
				l.LogAttrs(context.Background(), level, text, rowAttrs(e)...)
			}
		}
	}
	zombie := func(text string) func(DeliveryEvent) {
		return func(e DeliveryEvent) {
			l.LogAttrs(context.Background(), slog.LevelWarn, text, append(deliveryAttrs(e), slog.Duration("took", e.Took), slog.Int("zombies", e.Zombies))...)
		}
	}
	return &Observer{
		Received:  delivery(slog.LevelDebug, "received"),
		Claimed:   delivery(slog.LevelDebug, "claimed"),
		Handled:   delivery(slog.LevelDebug, "handled"),
		Committed: delivery(slog.LevelDebug, "committed"),
		Acked:     delivery(slog.LevelDebug, "acked"),
		Duplicate: func(e DeliveryEvent) {
			if e.Outcome == DeadLettered || e.Outcome == ParkedUnknown {
				delivery(slog.LevelWarn, "acked as a duplicate of a dead letter")(e)
			} else {
				delivery(slog.LevelDebug, "duplicate acked")(e)
			}
		},
		Followed:     delivery(slog.LevelDebug, "copy waits for the running one"),
		GivenBack:    delivery(slog.LevelDebug, "given back unstarted"),
		Dropped:      delivery(slog.LevelDebug, "delivery not answered"),
		Retried:      delivery(slog.LevelInfo, "comes again"),
		DeadLettered: delivery(slog.LevelWarn, "dead letter"),
		Lost:         delivery(slog.LevelWarn, "claim lost, result refused"),
		Zombie:       zombie("handler ignores the end of its context"),
		ZombieEnded:  zombie("handler that ignored the end of its context has returned"),
		Fetched:      row(slog.LevelDebug, "row fetched"),
		Published:    row(slog.LevelDebug, "row published"),
		Settled:      row(slog.LevelDebug, "row settled"),
		RowDelayed:   row(slog.LevelInfo, "row not sent, tried again"),
		RowParked:    row(slog.LevelWarn, "row parked"),
		RowResumed:   row(slog.LevelInfo, "parked row resumed"),
		RowDiscarded: row(slog.LevelWarn, "parked row discarded"),
		Upkeep:       func(e UpkeepEvent) { logUpkeep(l, e) },
		Warned: func(e WarnEvent) {
			l.LogAttrs(context.Background(), slog.LevelWarn, "promise weakened", slog.String("part", e.Part), slog.String("why", e.Text))
		},
		State: func(e StateEvent) {
			level, attrs := slog.LevelInfo, []slog.Attr{slog.String("part", e.Part), slog.String("from", e.From), slog.String("to", e.To)}
			if e.Err != nil {
				level, attrs = slog.LevelWarn, append(attrs, slog.String("err", e.Err.Error()))
			}
			l.LogAttrs(context.Background(), level, "state", attrs...)
		},
	}
}

func logUpkeep(l *slog.Logger, e UpkeepEvent) {
	level, attrs := slog.LevelDebug, []slog.Attr{slog.String("work", e.Work), slog.Int("records", e.Records)}
	if e.Err != nil {
		level, attrs = slog.LevelWarn, append(attrs, slog.String("err", e.Err.Error()))
	}
	l.LogAttrs(context.Background(), level, "work of a store in the background", attrs...)
}

func deliveryAttrs(e DeliveryEvent) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("stream", e.Stream), slog.String("consumer", e.Consumer), slog.String("subject", e.Subject),
		slog.Uint64("seq", e.Sequence), slog.String("key", e.Key.String()), slog.Int("attempt", e.Attempt),
	}
	if e.Delay > 0 {
		attrs = append(attrs, slog.Duration("delay", e.Delay))
	}
	return appendError(attrs, e.Class, e.Err)
}

func rowAttrs(e RowEvent) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("key", e.Key.String()), slog.String("id", e.ID), slog.String("kind", e.Kind),
		slog.String("target", e.Target), slog.Int("attempt", e.Attempt), slog.Bool("duplicate", e.Duplicate),
	}
	if e.Delay > 0 {
		attrs = append(attrs, slog.Duration("delay", e.Delay))
	}
	if e.Reason != "" {
		attrs = append(attrs, slog.String("reason", e.Reason))
	}
	return appendError(attrs, e.Class, e.Err)
}

func appendError(attrs []slog.Attr, class Class, err error) []slog.Attr {
	if err == nil {
		return attrs
	}
	attrs = append(attrs, slog.String("class", string(class)), slog.String("err", err.Error()))
	var panicked *PanicError
	if errors.As(err, &panicked) && len(panicked.Stack) > 0 {
		attrs = append(attrs, slog.String("stack", string(panicked.Stack)))
	}
	return attrs
}
