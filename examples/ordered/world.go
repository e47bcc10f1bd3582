package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
)

// The events. Those of the accounts take turns in the stream.
const (
	accountCount = 20
	perAccount   = 30
	copyEvery    = 7  // one event in so many is published again at once, and again at the end
	feeEvery     = 10 // one event in so many of an account is a fee

	heldAccount = "account-03"
	heldNumber  = 5 // of this account: fails as long as other accounts have work left
	otherCount  = (accountCount - 1) * perAccount
)

// events returns all events in the order of the stream.
func events() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for n := range accountCount * perAccount {
			account, number := fmt.Sprintf("account-%02d", n%accountCount), n/accountCount+1
			e := Event{ID: fmt.Sprintf("%s/%d", account, number), Account: account, Number: number, Deposit: 100 + n}
			if number%feeEvery == 0 {
				e.Deposit, e.Fee = 0, 10
			}
			if !yield(e) {
				return
			}
		}
	}
}

// publishEvents makes the streams and publishes the events, some with a copy at once and another at the very end, among
// them the one that is held up. It returns how many messages that makes.
func publishEvents(ctx context.Context, js jetstream.JetStream) (messages int, err error) {
	for stream, subjects := range map[string]string{"ACCOUNTS": "accounts.*", "LEDGER": "ledger.*"} {
		if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: stream, Subjects: []string{subjects}}); err != nil {
			return 0, fmt.Errorf("create stream %s: %w", stream, err)
		}
	}
	var all, late []Event
	for e := range events() {
		all = append(all, e)
		if e.Number%copyEvery == heldNumber {
			all, late = append(all, e), append(late, e)
		}
	}
	all = append(all, late...)
	for _, e := range all {
		body, err := json.Marshal(e)
		if err != nil {
			return 0, err
		}
		m := &nats.Msg{Subject: "accounts." + e.Account, Data: body, Header: nats.Header{onefold.HeaderID: {e.ID}}}
		if _, err := js.PublishMsg(ctx, m); err != nil {
			return 0, fmt.Errorf("publish %s: %w", e.ID, err)
		}
	}
	return len(all), nil
}

// audit compares the ledger, in the order of its stream, with what the events make of each account.
func audit(ctx context.Context, js jetstream.JetStream, b *bank, messages int) error {
	ledger, err := js.Stream(ctx, "LEDGER")
	if err != nil {
		return err
	}
	last := map[string]Entry{}
	var wrong []error
	entries := int(ledger.CachedInfo().State.LastSeq)
	for sequence := range entries {
		m, err := ledger.GetMsg(ctx, uint64(sequence)+1)
		if err != nil {
			return fmt.Errorf("read entry %d: %w", sequence+1, err)
		}
		var e Entry
		if err := json.Unmarshal(m.Data, &e); err != nil {
			return fmt.Errorf("decode entry %d: %w", sequence+1, err)
		}
		if before := last[e.Account].Number; e.Number != before+1 {
			wrong = append(wrong, fmt.Errorf("the ledger has entry %d of %s after entry %d", e.Number, e.Account, before))
		}
		last[e.Account] = e
	}
	want := map[string]Entry{}
	for e := range events() {
		want[e.Account] = want[e.Account].after(e)
	}
	for account, w := range want {
		if last[account] != w {
			wrong = append(wrong, fmt.Errorf("%s ends with entry %d and a balance of %d, not with %d and %d",
				account, last[account].Number, last[account].Balance, w.Number, w.Balance))
		}
	}
	if b.failures.Load() == 0 {
		wrong = append(wrong, fmt.Errorf("event %d of %s has not failed once: nothing was held up", heldNumber, heldAccount))
	}
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	fmt.Printf("event %d of %s failed %d times, until all %d events of other accounts were through\n",
		heldNumber, heldAccount, b.failures.Load(), otherCount)
	fmt.Printf("%d events of %d accounts, %d copies, %d entries, each account in its order, 0 double\n",
		accountCount*perAccount, accountCount, messages-accountCount*perAccount, entries)
	return nil
}
