package boltstore

import "math"

// farewell is the last op of a store: it makes durable what lives in memory only, attempts of rows, and
// marks the store as cleanly closed.
type farewell struct {
	answer
	size int
}

func (o *farewell) weight() load {
	return load{entries: 1, bytes: o.size, puts: 2 * (o.size / rowHeadLen)}
}
func (o *farewell) publish(*group) {}

func (o *farewell) prepare(g *group) {
	list := g.store.changes.take(math.MaxInt)
	g.changed = append(g.changed, list...)
	g.history = append(g.history, g.store.collectHistory(list)...)
}

func (o *farewell) apply(g *group) error {
	for _, r := range g.store.rows.unwritten() {
		p := g.row(r.position)
		if p == nil || p.gone {
			continue
		}
		if p.filedParked != p.parked {
			// Its parking was overtaken by another feed.
			if err := g.rewrite(p, ""); err != nil {
				return err
			}
			continue
		}
		if err := g.writeAttempts(r.position, p.attempts); err != nil {
			return err
		}
	}
	g.head.clean = true
	return nil
}

// unwritten returns the waiting rows of which the file does not say how often they were handed out, or
// that they wait.
func (q *rowQueue) unwritten() []*rowRef {
	q.mu.Lock()
	defer q.mu.Unlock()
	var list []*rowRef
	for _, r := range q.refs {
		if !r.parked && (r.attempts != r.written || r.filedParked) {
			list = append(list, r)
		}
	}
	return list
}

// unwrittenBytes is how much is written again for them.
func (q *rowQueue) unwrittenBytes() int {
	n := 0
	for _, r := range q.unwritten() {
		n += r.size + rowHeadLen
	}
	return n
}

// writeAttempts sets the number of attempts of a waiting row in the file.
func (g *group) writeAttempts(at uint64, attempts uint32) error {
	key := position(at)
	stored, err := g.b.rows.get(key)
	if stored == nil || err != nil {
		return err // nil: ended meanwhile
	}
	w, err := parseRow(stored)
	if err != nil {
		return unreadable(err, "row %d", at)
	}
	w.attempts = attempts
	value, err := rewriteRow(stored, w.rowHead, w.reason)
	if err != nil {
		return unreadable(err, "row %d", at)
	}
	return g.b.rows.put(key, value)
}
