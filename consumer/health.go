package consumer

import (
	"context"
	"time"

	"github.com/onefold-go/onefold"
)

// Health is how a consumer is at one moment. Ages are 0 where there is nothing that could have one.
type Health struct {
	At    time.Time `json:"at"`
	Part  string    `json:"part"`  // "consumer STREAM/NAME"
	State string    `json:"state"` // one of the State constants
	Since time.Time `json:"since"` // when the state was entered
	// Error is the last reason that was given for a change of state, and ErrorAt when. It stays when the state is
	// well again.
	Error   string    `json:"error,omitempty"`
	ErrorAt time.Time `json:"error_at,omitzero"`

	Running       int           `json:"running"`        // handlers
	Zombies       int           `json:"zombies"`        // handlers beside these that ignore the end of their context; see Config.HandlerTimeout
	Concurrency   int           `json:"concurrency"`    // handlers that may run at once
	OldestRunning time.Duration `json:"oldest_running"` // nanoseconds, as all ages
	Held          int           `json:"held"`           // deliveries not answered yet, copies not counted
	OldestHeld    time.Duration `json:"oldest_held"`    // since it arrived here
	Waiting       int           `json:"waiting"`        // of those, for an earlier message of their ordering key or for the rate limit

	// MaxAckPending is how many unanswered messages the server allows (0: any number), Delayed how many of these
	// are held by messages that stay away for a delay, and DelayedAllowed how many of them there may be before less
	// is asked for. If Delayed reaches MaxAckPending the server hands out nothing new until a delay ends: find out
	// why so many messages fail, or raise MaxAckPending.
	MaxAckPending  int `json:"max_ack_pending"`
	Delayed        int `json:"delayed"`
	DelayedAllowed int `json:"delayed_allowed"`

	// Of the whole store, other consumers on it included: Rows are the effects that wait for a relay, OldestRow the age
	// of the oldest one that is due, and Attention counts what needs a person: parked rows until they are settled, dead
	// letters until the key is erased (Store.Erase), redriven or not. RelayAsked is how long ago a relay has last asked;
	// negative: never.
	Rows       uint64        `json:"rows"`
	OldestRow  time.Duration `json:"oldest_row"`
	Attention  uint64        `json:"attention"`
	RelayAsked time.Duration `json:"relay_asked"`
	StoreError string        `json:"store_error,omitempty"` // why the store does not answer, or refuses claims
}

// Live reports whether starting the process anew could not help: everything but an end of Run is waited out.
func (h Health) Live() bool { return h.State != StateStopped || h.Error == "" }

// Ready reports whether messages are handled as they come.
func (h Health) Ready() bool { return h.State == StateRunning }

// Health tells how the consumer is. It may be called at any time, from any goroutine; ctx bounds the question to
// the store. It asks the server nothing, and may be asked every second.
func (c *Consumer) Health(ctx context.Context) Health {
	c.live.mu.Lock()
	s, status := c.live.session, c.live.status
	c.live.mu.Unlock()
	if status == nil {
		status = newStatus(c.cfg)
	}
	h := Health{At: c.cfg.Clock.Wall(), Part: c.cfg.part(), Concurrency: c.cfg.Concurrency, RelayAsked: -1}
	status.tell(&h)
	if s != nil {
		s.pull.tell(&h)
		h.count(s.reg.snapshot(nil), s.clock.Mono())
		h.Zombies = len(s.zombies.list())
	}
	h.tellStore(c.st.Stats(ctx))
	return h
}

// count sums up what is held.
func (h *Health) count(all []held, now time.Duration) {
	h.Held = len(all)
	for _, d := range all {
		h.OldestHeld = max(h.OldestHeld, now-d.received)
		switch d.at() {
		case stageWaiting:
			h.Waiting++
		case stageRunning, stageStopping:
			h.Running++
			if ran := d.ran.Load(); ran > 0 {
				h.OldestRunning = max(h.OldestRunning, now-time.Duration(ran))
			}
		}
	}
}

func (h *Health) tellStore(s onefold.Stats, err error) {
	if err == nil {
		h.Rows, h.OldestRow, h.Attention, h.RelayAsked = s.Waiting, s.OldestWaiting, s.Attention, s.LastFeed
		err = s.Err
	}
	if err != nil {
		h.StoreError = err.Error()
	}
}

// tell fills in what the puller knows.
func (p *puller) tell(h *Health) {
	p.mu.Lock()
	defer p.mu.Unlock()
	slots := p.fetch.slots
	h.MaxAckPending, h.Delayed, h.DelayedAllowed = slots.max, slots.delayed, slots.allowed()
}

// tell fills in the state.
func (s *status) tell(h *Health) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.State, h.Since, h.ErrorAt = s.now, s.at, s.bad
	if s.err != nil {
		h.Error = s.err.Error()
	}
}
