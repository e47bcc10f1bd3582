package consumer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/onefold-go/onefold"
)

// RedriveOptions changes how dead letters are redriven. The zero value redrives at once and leaves the letters
// where they are.
type RedriveOptions struct {
	DryRun    bool    // check all that can be checked, and publish nothing
	AllowOld  bool    // redrive letters that are older than their retention, too; see ErrLetterTooOld
	Remove    bool    // remove a letter from its stream when its message is stored
	PerSecond float64 // letters redriven each second, of a selection; 0: no limit
}

// Redriven is what became of one dead letter.
type Redriven struct {
	Letter    *Letter     // nil if it could not be read
	Key       onefold.Key // that the message goes on under; see Letter.Next
	Sequence  uint64      // position of the message in its stream; 0 if it was not published
	Duplicate bool        // the stream had the message of an earlier redrive already
	Removed   bool        // the letter was removed
}

// Redrive brings the message of a dead letter to its consumer again: same subject, body, headers and ID, next
// generation. The consumer runs it as work that it has not seen, with a fresh count of attempts; what its
// handler asks for has IDs of its own. Only that consumer runs it (see HeaderRedriveFor).
//
// Redriving a letter again runs nothing again, within the letter's retention: the server drops the second copy
// within its duplicate window, the consumer acks it as a duplicate later, whether the first has succeeded, has
// become another dead letter, or is still waiting. So after an error the call may be repeated.
//
// Errors: [ErrLetterTooOld]; [onefold.ErrInvalid] (the letter cannot be redriven, its consumer does not select its
// subject); [onefold.ErrTooLarge] (with our headers it exceeds the server's limits); jetstream.ErrStreamNotFound,
// jetstream.ErrConsumerNotFound (nobody would run it); what the stream answers. If only the removal failed, the result
// has a Sequence.
func (d *DeadLetters) Redrive(ctx context.Context, l *Letter, o RedriveOptions) (Redriven, error) {
	if l == nil {
		return Redriven{}, fmt.Errorf("redrive: %w: the letter is nil; read one with DeadLetters.Get or Select", onefold.ErrInvalid)
	}
	r := redriver{letters: d, options: o}
	return r.redrive(ctx, l)
}

// Redrive redrives the selected letters one after the other, as fast as the results are taken and
// RedriveOptions.PerSecond allows, and tells of each what [DeadLetters.Redrive] would. A letter that cannot be read or
// redriven is left as it is, and the next one follows. If ctx ends or the server cannot be reached, that error is
// the last; redriving the same selection again then goes on where it ended, at the cost of a duplicate for each
// letter before. To stop, leave the loop.
func (s *Selection) Redrive(ctx context.Context, o RedriveOptions) iter.Seq2[Redriven, error] {
	return func(yield func(Redriven, error) bool) {
		if !(o.PerSecond >= 0) || math.IsInf(o.PerSecond, 1) {
			yield(Redriven{}, fmt.Errorf("redrive: %w: RedriveOptions.PerSecond is %v; leave it 0 for no limit or give a positive number", onefold.ErrInvalid, o.PerSecond))
			return
		}
		pace := rate.NewLimiter(rate.Inf, 1)
		if o.PerSecond > 0 && !o.DryRun {
			pace.SetLimit(rate.Limit(o.PerSecond))
		}
		r := redriver{letters: s.letters, options: o}
		for l, err := range s.Letters(ctx) {
			if err == nil {
				err = pace.Wait(ctx)
			}
			var done Redriven
			if err == nil {
				done, err = r.redrive(ctx, l)
			}
			if !yield(done, err) || ctx.Err() != nil || unreachable(err) {
				return
			}
		}
	}
}

// unreachable reports whether trying another letter would end in the same way.
func unreachable(err error) bool {
	return passing(err) && !errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrConnectionClosed)
}

// redriver redrives letters, and remembers what it knows of their consumers.
type redriver struct {
	letters *DeadLetters
	options RedriveOptions
	targets map[string]target
}

// target is a consumer that letters are for.
type target struct {
	filter string // see filterOf
	err    error  // why it cannot have them

	at time.Time     // at the server when it was looked up; zero: not said
	by time.Duration // on our monotonic clock
}

// now is the later of our time and the server's. A letter has the server's, and a machine whose clock was set back must
// not take it for a young one.
func (t target) now(ours onefold.Clock) time.Time {
	now := ours.Wall()
	if server := t.at.Add(ours.Mono() - t.by); !t.at.IsZero() && server.After(now) {
		return server
	}
	return now
}

func (r *redriver) redrive(ctx context.Context, l *Letter) (done Redriven, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("dead letter %d of stream %s, of consumer %s/%s: %w", l.Sequence, l.Stream, l.Message.Stream, l.Message.Consumer, err)
		}
	}()
	done.Letter = l
	js := r.letters.js
	m, err := redriveMessage(l, js.Conn().MaxPayload())
	if err != nil {
		return done, err
	}
	done.Key, _ = l.Next() // redriveMessage has asked before
	t, err := r.target(ctx, &l.Message)
	if err == nil && !r.options.AllowOld {
		err = checkAge(l, t.now(r.letters.clock))
	}
	if err != nil || r.options.DryRun {
		return done, err
	}
	ack, err := js.PublishMsg(ctx, m)
	if err != nil {
		return done, fmt.Errorf("publish to %q: %w", m.Subject, err)
	}
	done.Sequence, done.Duplicate = ack.Sequence, ack.Duplicate
	if r.options.Remove {
		if err := r.letters.remove(ctx, l); err != nil {
			return done, fmt.Errorf("it is redriven; remove it: %w", err)
		}
		done.Removed = true
	}
	return done, nil
}

// target looks up who is to have a message, and refuses one that its consumer would not get.
func (r *redriver) target(ctx context.Context, m *onefold.Message) (target, error) {
	name := m.Stream + "/" + m.Consumer
	t, known := r.targets[name]
	if !known {
		c, err := r.letters.js.Consumer(ctx, m.Stream, m.Consumer)
		switch {
		case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
			t.err = fmt.Errorf("nobody would run it: %w", err)
		case err != nil:
			return t, fmt.Errorf("look up its consumer: %w", err)
		default:
			t.filter = filterOf(filtersOf(c.CachedInfo().Config))
			t.at, t.by = c.CachedInfo().TimeStamp, r.letters.clock.Mono()
		}
		if r.targets == nil {
			r.targets = map[string]target{}
		}
		r.targets[name] = t
	}
	if t.err == nil && !selects(t.filter, m.Subject) {
		return t, fmt.Errorf("%w: nobody would run it: its consumer selects %q, and its subject is %q; widen Config.FilterSubjects", onefold.ErrInvalid, t.filter, m.Subject)
	}
	return t, t.err
}

// remove takes all parts of a letter out of its stream. What is gone already is as good.
func (d *DeadLetters) remove(ctx context.Context, l *Letter) error {
	stream, err := d.js.Stream(ctx, l.Stream)
	if err != nil {
		return err
	}
	for _, sequence := range l.parts {
		if err := stream.DeleteMsg(ctx, sequence); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return fmt.Errorf("message %d: %w", sequence, err)
		}
	}
	return nil
}
