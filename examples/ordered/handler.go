package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/onefold-go/onefold"
)

// Event changes one account.
type Event struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	Number  int    `json:"number"` // within its account, from 1
	Deposit int    `json:"deposit,omitempty"`
	Fee     int    `json:"fee,omitempty"` // percent of the balance
}

// Entry is what the ledger gets of an event, and what is kept of an account.
type Entry struct {
	Account string `json:"account"`
	Number  int    `json:"number"`
	Balance int    `json:"balance"`
}

// after is the entry that e makes of the one before it.
func (last Entry) after(e Event) Entry {
	balance := last.Balance + e.Deposit
	return Entry{Account: e.Account, Number: e.Number, Balance: balance - balance*e.Fee/100}
}

var errAway = errors.New("the branch of this account does not answer")

// bank posts events.
type bank struct {
	others   atomic.Int64 // events of accounts that are not held up, posted or refused
	failures atomic.Int64 // of the event that is
}

// post may rely on the order of an account: the event before this one is posted or given up.
func (b *bank) post(ctx context.Context, e Event, fx *onefold.Effects) error {
	time.Sleep(rand.N(2 * time.Millisecond)) // handlers take more or less time, as they do
	if e.Account == heldAccount && e.Number == heldNumber && b.others.Load() < otherCount {
		b.failures.Add(1)
		return errAway
	}
	last, err := lastOf(ctx, e.Account, fx)
	if err != nil {
		return err
	}
	if e.Account != heldAccount {
		b.others.Add(1)
	}
	if e.Number != last.Number+1 {
		return onefold.Permanent(fmt.Errorf("event %d of %s comes after event %d", e.Number, e.Account, last.Number))
	}
	entry, err := json.Marshal(last.after(e))
	if err != nil {
		return onefold.Permanent(err)
	}
	fx.Put("accounts", e.Account, entry)
	// Messages of one OrderKey leave one at a time, in the order of their commits.
	fx.Emit(onefold.Effect{Target: "ledger." + e.Account, Payload: entry, OrderKey: e.Account})
	return nil
}

// lastOf reads the last entry of an account; a new one has none.
func lastOf(ctx context.Context, account string, fx *onefold.Effects) (last Entry, err error) {
	data, ok, err := fx.Get(ctx, "accounts", account)
	if err != nil || !ok {
		return last, err
	}
	if err := json.Unmarshal(data, &last); err != nil {
		return last, onefold.Permanent(fmt.Errorf("last entry of %s: %w", account, err))
	}
	return last, nil
}
