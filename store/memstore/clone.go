package memstore

import "maps"

// Clone returns a copy of d, as it would be if its Store were closed now: records, rows, state, history, identity and
// the store clock, but no claims. Nobody has the copy open, and neither changes with the other from now on. d may be
// open and in use. Tests try several continuations of one past with it.
//
// The copy has d's identity, like a copy of a file: it is another place for the same data, not more data.
func (d *Data) Clone() *Data {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &Data{
		identity: d.identity, created: d.created, clean: d.clean, epoch: d.epoch, position: d.position,
		clock: d.clock, nextPass: d.nextPass, longest: d.longest,
		records: make(map[id]*record, len(d.records)), attention: make(map[id]*record, len(d.attention)),
		history: make(map[id]*history, len(d.history)), state: maps.Clone(d.state), rows: make([]*row, 0, len(d.rows)),
	}
	if d.live != nil {
		c.clock, c.clean = d.live.now(), true
	}
	// A record has one copy, wherever it is named: rows count themselves off in it. Bytes are never changed in place,
	// so both sides may hold them.
	copies := map[*record]*record{}
	copyOf := func(r *record) *record {
		if copies[r] == nil {
			one := *r
			copies[r] = &one
		}
		return copies[r]
	}
	for k, r := range d.records {
		c.records[k] = copyOf(r)
	}
	for k, r := range d.attention {
		c.attention[k] = copyOf(r)
	}
	for k, h := range d.history {
		one := *h
		c.history[k] = &one
	}
	for _, r := range d.rows {
		one := *r
		one.owner, one.feed = copyOf(r.owner), nil // Open frees what was out
		c.rows = append(c.rows, &one)
	}
	return c
}
