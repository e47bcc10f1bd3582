package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/store/boltstore"
)

// stored is what a store holds when all is over, as a dump says it.
type stored struct {
	Records  map[string]onefold.Outcome // by ID, of the consumer's scope
	Accounts map[string]account
	Applied  map[string]int
	Waiting  []string // effects that have not left, with the reason
	Parked   []string
	Ordered  bool // it is the store of a worker that keeps the order of an account
}

// dump writes what a store holds to standard output. The store must not be open.
func dump(ctx context.Context, s spec, _ *offsetClock) error {
	st, err := boltstore.Open(s.Dir, nil)
	if err != nil {
		return err
	}
	all := stored{Records: map[string]onefold.Outcome{}, Accounts: map[string]account{}, Applied: map[string]int{}}
	for _, q := range []onefold.Query{
		{What: onefold.WhatRecords, Scope: s.Name}, {What: onefold.WhatState, Table: "accounts"}, {What: onefold.WhatState, Table: "applied"},
		{What: onefold.WhatWaiting}, {What: onefold.WhatParked},
	} {
		for item, err := range st.Scan(ctx, q) {
			if err == nil {
				err = all.take(q, &item)
			}
			if err != nil {
				return fmt.Errorf("scan %s: %w", q.What, err)
			}
		}
	}
	out := bufio.NewWriter(os.Stdout)
	if err := json.NewEncoder(out).Encode(all); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return st.Close(ctx)
}

func (x *stored) take(q onefold.Query, item *onefold.Item) error {
	switch {
	case q.What == onefold.WhatRecords:
		x.Records[item.Record.Key.ID] = item.Record.Outcome
	case q.Table == "accounts":
		var a account
		if err := json.Unmarshal(item.Value.Data, &a); err != nil {
			return err
		}
		x.Accounts[item.Key] = a
	case q.Table == "applied":
		x.Applied[item.Key] = len(item.Value.Data)
	case q.What == onefold.WhatWaiting:
		x.Waiting = append(x.Waiting, item.Row.Key.ID+": "+item.Reason)
	case q.What == onefold.WhatParked:
		x.Parked = append(x.Parked, item.Row.Key.ID+": "+item.Reason)
	}
	return nil
}
