package consumer

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/onefold-go/onefold"
)

// This file keeps over a restart which messages are missed in their lanes: in a state table with a row for each,
// under its position. What the rows say is looked into before it is believed (see gone), so that one too many does
// no harm. A further row tells that the last session has ended in peace, with every delivery answered.

const (
	laneTable = "onefold.order/" // followed by the scope
	cleanRow  = "clean"
)

func (s *session) laneTable() string { return laneTable + laneName(s.cfg.Scope) }

// missedRow is the stored form of a missed message. Names are bytes, because they need not be text.
type missedRow struct {
	Lane, Scope, ID []byte
	Gen             uint32
	Stored          int64
}

func rowName(sequence uint64) string { return strconv.FormatUint(sequence, 10) }

// loadMissed takes up what is stored, notes that a session is under way, and reports whether the last one has
// ended in peace.
func (s *session) loadMissed(ctx context.Context) (clean bool, err error) {
	for item, err := range s.st.Scan(ctx, onefold.Query{What: onefold.WhatState, Table: s.laneTable()}) {
		if err != nil {
			return false, fmt.Errorf("read what Config.OrderBy has to wait for: %w", err)
		}
		if item.Key == cleanRow {
			// A session without an order, which does not take the row away, may have crashed since.
			ended, err := strconv.ParseUint(string(item.Value.Data), 10, 64)
			clean = err == nil && ended+1 >= s.st.Info().Epoch
			continue
		}
		sequence, err := strconv.ParseUint(item.Key, 10, 64)
		var r missedRow
		if err == nil {
			err = json.Unmarshal(item.Value.Data, &r)
		}
		if err != nil {
			return false, fmt.Errorf("%w: what Config.OrderBy has to wait for, row %q: %w", onefold.ErrDamaged, item.Key, err)
		}
		s.reg.miss(string(r.Lane), missed{place: place{sequence, r.Stored}, due: s.clock.Mono() - s.beat.ackWait, saved: true,
			key: onefold.Key{Scope: string(r.Scope), ID: string(r.ID), Gen: r.Gen}})
	}
	err = s.writeState(ctx, []onefold.Write{{Table: s.laneTable(), Key: cleanRow, Delete: true}})
	return clean, err
}

// saveMissed stores what is missed in lanes.
func (s *session) saveMissed(ctx context.Context, lanes map[string][]missed) error {
	var writes []onefold.Write
	for lane, all := range lanes {
		for _, m := range all {
			value, _ := json.Marshal(missedRow{Lane: []byte(lane), Scope: []byte(m.key.Scope), ID: []byte(m.key.ID), Gen: m.key.Gen, Stored: m.stored})
			writes = append(writes, onefold.Write{Table: s.laneTable(), Key: rowName(m.sequence), Value: value})
		}
	}
	return s.writeState(ctx, writes)
}

// dropRows takes out of the store what is settled. What fails stays, and is looked into at the next start.
func (s *session) dropRows(ctx context.Context) {
	over := s.reg.overRows()
	writes := make([]onefold.Write, len(over))
	for i, sequence := range over {
		writes[i] = onefold.Write{Table: s.laneTable(), Key: rowName(sequence), Delete: true}
	}
	_ = s.writeState(ctx, writes)
}

// endOrder stores what is missed and, if every delivery was answered, that the session has ended in peace.
func (s *session) endOrder(ctx context.Context, answered bool) {
	s.dropRows(ctx)
	if err := s.saveMissed(ctx, s.reg.missing()); err == nil && answered {
		// If this fails the next session waits longer than it must.
		epoch := strconv.FormatUint(s.st.Info().Epoch, 10)
		_ = s.writeState(ctx, []onefold.Write{{Table: s.laneTable(), Key: cleanRow, Value: []byte(epoch)}})
	}
}

// maxWrites bounds one entry of state: with the longest IDs that headers can hold it stays below
// onefold.DefaultMaxEntry.
const maxWrites = 64

// writeState commits writes in pieces.
func (s *session) writeState(ctx context.Context, writes []onefold.Write) error {
	for len(writes) > 0 {
		n := min(len(writes), maxWrites)
		c := onefold.Commit{Entry: onefold.Entry{Writes: writes[:n]}}
		if err := s.st.Commit(ctx, []*onefold.Commit{&c}); err != nil {
			return err
		}
		if c.Err != nil {
			return c.Err
		}
		writes = writes[n:]
	}
	return nil
}
