package diskfault

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

// question asks the inspector whether a directory holds what was answered.
type question struct {
	Dir   string
	Seed  uint64
	Value int
	Seg   int
	All   int  // entries have numbers below it
	Again bool // write to the store, close it, and look again
	Facts facts
}

// finding is the inspector's answer.
type finding struct {
	Opened   bool
	Class    string // of the error of Open
	Text     string
	Breaches []string
	Records  int
}

// inspection is one look at a store.
type inspection struct {
	question
	store    *boltstore.Store
	rows     map[string]map[int]string // order -> effect -> where
	breaches []string
}

// maxBreaches bounds a finding.
const maxBreaches = 12

func (i *inspection) breach(format string, args ...any) {
	if len(i.breaches) < maxBreaches {
		i.breaches = append(i.breaches, fmt.Sprintf(format, args...))
	}
}

// inspect opens the store and compares it with the facts.
func inspect(q question) finding {
	ctx := context.Background()
	for round := 0; ; round++ {
		s, err := boltstore.Open(q.Dir, options(q.Seg))
		if err != nil {
			return finding{Class: classOfOpen(err), Text: err.Error()}
		}
		i := &inspection{question: q, store: s, rows: map[string]map[int]string{}}
		i.look(ctx)
		records := 0
		if round == 0 && q.Again {
			i.write(ctx, &q.Facts)
		}
		if st, err := s.Stats(ctx); err == nil {
			records = int(st.Records)
		} else {
			i.breach("Stats: %v", err)
		}
		if err := s.Close(ctx); err != nil {
			i.breach("Close: %v", err)
		}
		if round > 0 || !q.Again || len(i.breaches) > 0 {
			return finding{Opened: true, Breaches: i.breaches, Records: records}
		}
	}
}

// write uses the store for new entries, and adds what it says to the facts.
func (i *inspection) write(ctx context.Context, known *facts) {
	f := known.clone()
	if f.Of == nil {
		f.Of = map[int]fact{}
	}
	for id := range 5 {
		id += i.All + 1000
		c := contentOf(i.Seed, i.Value, id)
		one := &onefold.Commit{Entry: c.entry(id)}
		err := i.store.Commit(ctx, []*onefold.Commit{one})
		if err == nil {
			err = one.Err
		}
		if err != nil {
			i.breach("a store that was opened refuses a commit: %v", err)
			return
		}
		f.Of[id] = fact{Fate: acked}
	}
	*known = f
}

func (i *inspection) look(ctx context.Context) {
	i.listRows(ctx, onefold.WhatWaiting)
	i.listRows(ctx, onefold.WhatParked)
	i.listRecords(ctx)
	if i.Facts.Opened && i.store.Info().Epoch <= i.Facts.Epoch {
		i.breach("epoch is %d and was %d", i.store.Info().Epoch, i.Facts.Epoch)
	}
	for id := range i.All {
		i.lookAt(ctx, id, i.Facts.Of[id])
	}
	for id, f := range i.Facts.Of {
		if id >= i.All {
			i.lookAt(ctx, id, f)
		}
	}
	i.lookAtSlots(ctx)
}

// listRows notes where each row is.
func (i *inspection) listRows(ctx context.Context, what onefold.What) {
	for item, err := range i.store.Scan(ctx, onefold.Query{What: what}) {
		if err != nil {
			i.breach("Scan %s: %v", what, err)
			return
		}
		id := item.Row.Effect.Header["Order"][0]
		n, _ := strconv.Atoi(item.Row.Effect.Header["Effect"][0])
		if i.rows[id] == nil {
			i.rows[id] = map[int]string{}
		}
		if i.rows[id][n] != "" {
			i.breach("effect %d of %s stands twice", n, id)
		}
		i.rows[id][n] = string(what)
	}
}

// listRecords looks for records that nobody wrote, and for two of one key.
func (i *inspection) listRecords(ctx context.Context) {
	seen := map[onefold.Key]bool{}
	for item, err := range i.store.Scan(ctx, onefold.Query{What: onefold.WhatRecords}) {
		if err != nil {
			i.breach("Scan records: %v", err)
			return
		}
		k := item.Record.Key
		if k.IsZero() {
			continue // erased
		}
		var id int
		if _, err := fmt.Sscanf(k.ID, "order-%d", &id); err != nil || i.Facts.Of[id].Fate == untried {
			i.breach("a record of %v, which was never committed", k)
		}
		if seen[k] {
			i.breach("two records of %v", k)
		}
		seen[k] = true
	}
}

// lookAt compares one entry.
func (i *inspection) lookAt(ctx context.Context, id int, f fact) {
	c := contentOf(i.Seed, i.Value, id)
	g, err := i.store.Begin(ctx, onefold.Request{
		Key: c.key, Fingerprint: c.print, Lease: lease, Holder: onefold.Holder{Process: 9, Attempt: uint64(id) + 1},
	})
	if err != nil {
		i.breach("Begin of %d: %v", id, err)
		return
	}
	stored := g.Verdict == onefold.Done
	switch {
	case !stored && g.Verdict != onefold.Granted:
		i.breach("%d is answered with %v", id, g.Verdict)
	case !stored && f.Fate == acked:
		i.breach("%d was acked and is granted", id)
	case !stored && f.Published:
		i.breach("an effect of %d has left and it is granted", id)
	case stored && f.Fate == refused:
		i.breach("%d was answered as not stored and is done", id)
	case stored && f.Fate == untried:
		i.breach("%d was never committed and is done", id)
	case !stored && g.Claim.Token <= i.Facts.Token:
		i.breach("token %d of %d is not above %d, which was given out earlier", g.Claim.Token, id, i.Facts.Token)
	}
	own, err := i.store.Read(ctx, owned, c.own)
	switch {
	case err != nil:
		i.breach("Read of %d: %v", id, err)
	case stored && !bytes.Equal(own.Data, c.print.Sum[:]), !stored && own.Version != 0:
		i.breach("%d: done is %v and its state is %x, version %d", id, stored, own.Data, own.Version)
	}
	if !stored {
		if len(i.rows[c.own]) > 0 {
			i.breach("%d is not done and has rows %v", id, i.rows[c.own])
		}
		if f.Fate != untried {
			_ = i.store.Release(ctx, g.Claim, onefold.Failure{})
		}
		return
	}
	i.lookAtRecord(ctx, id, f, &c, g.Record)
}

// lookAtRecord compares a stored record and its rows.
func (i *inspection) lookAtRecord(ctx context.Context, id int, f fact, c *content, r *onefold.Record) {
	switch {
	case r.Fingerprint != c.print:
		i.breach("%d is done with fingerprint %v, not %v", id, r.Fingerprint, c.print)
	case r.Erased && !f.Erasing, f.Erased && !r.Erased:
		i.breach("%d: erased is %v, asked for %v, answered %v", id, r.Erased, f.Erasing, f.Erased)
	case !r.Erased && !bytes.Equal(r.Result, c.result):
		i.breach("%d has another result", id)
	}
	other := onefold.Request{Key: c.key, Fingerprint: printOf(i.Seed+1, id), Lease: lease, Holder: onefold.Holder{Process: 8, Attempt: 1}}
	if g, err := i.store.Begin(ctx, other); err != nil || g.Verdict != onefold.Mismatch {
		i.breach("%d with another payload: %v, %v", id, g.Verdict, err)
	}
	rows := i.rows[c.own]
	if r.Unsettled != len(rows) {
		i.breach("%d: %d unsettled and %d rows", id, r.Unsettled, len(rows))
	}
	for n := range c.effects {
		where, fate := rows[n], f.Rows[n]
		gone := where == ""
		switch {
		case gone && !r.Erased && (fate == waiting || fate == parked):
			i.breach("effect %d of %d is lost", n, id)
		case gone:
		case r.Erased, fate == sent, n >= c.effects:
			i.breach("effect %d of %d is still %s; erased is %v", n, id, where, r.Erased)
		case fate == parked && where != string(onefold.WhatParked):
			i.breach("effect %d of %d was parked and is %s", n, id, where)
		}
	}
}

// lookAtSlots checks that every value of shared state was written by an entry that is stored.
func (i *inspection) lookAtSlots(ctx context.Context) {
	for id, f := range i.Facts.Of {
		if f.Fate != acked {
			continue
		}
		v, err := i.store.Read(ctx, slots, fmt.Sprint(id%slotsN))
		if err != nil || v.Version == 0 {
			i.breach("slot of %d: version %d, %v", id, v.Version, err)
			continue
		}
		writer, _ := strconv.Atoi(string(v.Data))
		if _, err := i.store.Lookup(ctx, keyOf(writer)); err != nil {
			i.breach("slot %d was written by %d, which is not stored: %v", id%slotsN, writer, err)
		}
	}
}
