package consumer

import (
	"context"
	"encoding/json"

	"github.com/onefold-go/onefold"
)

// This file decides which messages may be what killed an earlier process, and how they run; alone.go carries
// it out. A message that kills its process leaves no failure behind, so it would come again for ever. The
// store knows whether it was closed cleanly. After an unclean end every message that may have been running is
// a suspect: its start is counted durably before it runs. A start that no failure followed was cut short. A
// message with one such start runs alone, so that the next death has one culprit; with a second one it becomes
// a dead letter. Messages that were first delivered after the start are no suspects and cost nothing.

// suspectsTable is the state table in which each consumer keeps its suspicion, under its scope.
const suspectsTable = "onefold.suspects"

// suspicion says which messages are suspects.
type suspicion struct {
	Created int64  // when the stream was made: its identity
	Epoch   uint64 // of the store, when it was last decided
	Until   uint64 // messages up to this position are suspects; 0: none
	Deaths  int    // unclean ends of the store in a row
}

// opening is what a suspicion depends on when a session opens.
type opening struct {
	clean     bool   // the store was closed cleanly
	epoch     uint64 // of the store
	created   int64  // when the stream was made
	last      uint64 // last position of the stream
	floor     uint64 // everything up to here is settled
	seen      uint64 // highest position that is known to have arrived
	delivered uint64 // highest position that the server has sent
	pending   int    // unanswered messages that the server allows; < 1: any number
}

// next is the suspicion of a session that opens now. What the server has sent is exact unless the server
// died too: it may then have forgotten the last of it, and beyond what it knows MaxAckPending is a guess. If a
// guess was wrong the process dies again; after the second death in a row everything that the stream held at the
// start is a suspect.
func (x suspicion) next(o opening) suspicion {
	if x.Created != o.created {
		x = suspicion{Created: o.created}
	}
	switch {
	case x.Epoch == o.epoch && x.Epoch != 0: // the store was not opened anew since
	case o.clean:
		x.Deaths = 0
		if x.Until <= o.floor {
			x.Until = 0
		}
	default:
		x.Deaths++
		if x.Until = max(x.Until, o.seen, o.delivered) + uint64(max(o.pending, 0)); x.Deaths > 1 || o.pending < 1 {
			x.Until = o.last
		}
		x.Until = min(x.Until, o.last)
	}
	x.Epoch = o.epoch
	return x
}

// caution is how a message that was claimed may run.
type caution uint8

const (
	cautionNone  caution = iota // like any other
	cautionCount                // count its start durably first
	cautionAlone                // count its start, and let nothing run beside it
	cautionBlame                // not at all: it becomes a dead letter
	cautionPark                 // not at all: it is parked
)

// maxCutShort is with how many cut-short starts a message is taken for what kills the process: one may have been
// another's doing, the second happened alone.
const maxCutShort = 2

// reasonKills is the reason of such a message's dead letter.
const reasonKills = "kills the process"

// beforeRun decides how a message runs. wary says that not all suspects are settled, park is Config.ParkUnknown, under
// which the start is counted with the claim.
func beforeRun(h onefold.History, suspect, wary, park bool) caution {
	cut := h.Starts - h.Failures
	switch {
	case park && cut > 0:
		return cautionPark
	case park:
		return cautionNone
	case cut >= maxCutShort:
		return cautionBlame
	case !wary || !suspect: // other runs do not make room, now or any moment, so a start that is counted would prove nothing
		return cautionNone
	case cut > 0:
		return cautionAlone
	}
	return cautionCount
}

// suspect loads the suspicion of the last session, decides that of this one, and stores it.
func (s *session) suspect(ctx context.Context, o opening) error {
	v, err := s.st.Read(ctx, suspectsTable, s.cfg.Scope)
	if err != nil {
		return err
	}
	var old suspicion
	if len(v.Data) > 0 {
		if err := json.Unmarshal(v.Data, &old); err != nil {
			return err
		}
	}
	s.suspects = old.next(o)
	s.wary.Store(s.suspects.Until > o.floor && !s.cfg.ParkUnknown)
	if s.suspects == old || (len(v.Data) == 0 && s.suspects.Until == 0) {
		return nil
	}
	data, _ := json.Marshal(s.suspects) // numbers always encode
	c := onefold.Commit{Entry: onefold.Entry{Writes: []onefold.Write{{Table: suspectsTable, Key: s.cfg.Scope, Value: data}}}}
	if err := s.st.Commit(ctx, []*onefold.Commit{&c}); err != nil {
		return err
	}
	return c.Err
}
