package main

import (
	"sync"
)

// ledger is what the rig knows of what it has published.
type ledger struct {
	mu       sync.Mutex
	orders   map[string]*entry
	accepted int // messages that the server has confirmed
}

// entry is what is known of one ID.
type entry struct {
	account  string
	accepted bool // the server has confirmed a message with its first payload
	reused   bool // and one with another payload
	epoch    int  // how often the server had lost its data when the first payload was confirmed last
	reusedIn int  // and the other
}

func newLedger() *ledger { return &ledger{orders: map[string]*entry{}} }

// confirm notes that the server has a message.
func (l *ledger) confirm(o order, epoch int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.orders[o.ID]
	if e == nil {
		e = &entry{account: o.Account}
		l.orders[o.ID] = e
	}
	l.accepted++
	if o.Variant == 0 {
		e.accepted, e.epoch = true, epoch
	} else {
		e.reused, e.reusedIn = true, epoch
	}
}
