package boltstore

import "context"

// countAttempts makes the attempts of rows durable that were in the file when the store was opened
// unclean: one of them may have ended the process, and would do so for ever if its attempts were
// forgotten each time.
func (f *feed) countAttempts(ctx context.Context, out []handed) error {
	o := &attemptsOp{answer: newAnswer()}
	for _, h := range out {
		if h.suspect {
			o.out = append(o.out, h)
			o.bytes += h.ref.size
		}
	}
	if len(o.out) == 0 {
		return nil
	}
	// The disk may take its time, which is not to end the lease.
	q := &f.store.rows
	q.mu.Lock()
	f.begin(&f.writing)
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		f.done(&f.writing)
		q.mu.Unlock()
	}()
	if err := f.store.queue.add(o); err != nil {
		return err
	}
	if err := o.wait(ctx); err != nil {
		return err
	}
	return o.err
}

// attemptsOp writes attempts of rows that are about to be handed out.
type attemptsOp struct {
	answer
	out   []handed
	bytes int
}

func (o *attemptsOp) weight() load {
	return load{entries: len(o.out), bytes: o.bytes, puts: len(o.out)}
}
func (o *attemptsOp) prepare(*group) {}

func (o *attemptsOp) apply(g *group) error {
	for _, h := range o.out {
		if err := g.writeAttempts(h.ref.position, h.attempts); err != nil {
			return err
		}
	}
	return nil
}

func (o *attemptsOp) publish(g *group) {
	q := &g.store.rows
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, h := range o.out {
		h.ref.written = h.attempts
	}
}
