package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
)

// This file is how live processes on one durable notice each other. Metadata tells of a store that is not
// here; two processes that are both here, perhaps with two copies of one directory, ask each other, over plain
// NATS: whoever serves a durable answers on a subject of its own.

// presencePrefix is followed by stream and consumer. Streams must not capture it.
const presencePrefix = "onefold.presence."

// presenceTimeout is how long an answer may take. If nobody listens, the server says so at once; it is
// waited for only if a process has died so recently that the server has not noticed.
const presenceTimeout = 500 * time.Millisecond

// presence is one process that serves a durable: what it asks with and answers with.
type presence struct {
	Session uint64    `json:"session"` // drawn at random
	Store   string    `json:"store"`
	Shared  bool      `json:"shared"` // its store serves several processes
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Since   time.Time `json:"since"`
}

// excludes reports why p must not serve what other serves already.
func (p presence) excludes(other presence) error {
	if other.Session == p.Session || (p.Shared && other.Shared && p.Store == other.Store) {
		return nil
	}
	return fmt.Errorf("%w: process %d on %s has served the durable since %s with store %s, and this one would with store %s: stop one of them, or give each a Config.Name, filter subjects and store of its own",
		ErrServedElsewhere, other.PID, other.Host, other.Since.UTC().Format(time.RFC3339), other.Store, p.Store)
}

// introduce is the presence of this session.
func (s *session) introduce() presence {
	own := s.st.Info()
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	return presence{Session: s.process, Store: own.ID, Shared: !own.OneProcess, Host: host, PID: os.Getpid(), Since: s.clock.Wall()}
}

// askPresence asks who serves the durable, and refuses if it is somebody whose store is not ours. Then it
// answers such questions itself, until leavePresence.
func (s *session) askPresence(ctx context.Context) error {
	conn, subject := s.js.Conn(), presencePrefix+s.cfg.Stream+"."+s.cfg.Name
	own := s.introduce()
	question, err := json.Marshal(own)
	if err != nil {
		return fmt.Errorf("encode the presence: %w", err)
	}
	if other, found := askOne(ctx, conn, subject, question); found {
		if err := own.excludes(other); err != nil {
			return err
		}
	}
	answers := conn.NewInbox()
	s.announce = func() { _ = conn.PublishRequest(subject, answers, question) }
	listen := func(to string, react func(m *nats.Msg, other presence)) error {
		sub, err := conn.Subscribe(to, func(m *nats.Msg) {
			var other presence
			if json.Unmarshal(m.Data, &other) == nil && other.Session != 0 {
				react(m, other)
			}
		})
		if err == nil {
			s.listening = append(s.listening, sub)
		}
		return err
	}
	err = errors.Join(
		listen(subject, func(m *nats.Msg, other presence) {
			if other.Session != own.Session {
				_ = m.Respond(question)
			}
		}),
		listen(answers, func(_ *nats.Msg, other presence) {
			if err := own.excludes(other); err != nil {
				s.fail(err)
			}
		}))
	if err != nil {
		return fmt.Errorf("listen on %s: %w", subject, err)
	}
	// Two that start at the same moment have asked before either listened: each hears of the other now.
	s.announce()
	return nil
}

// askOne returns the first answer, if there is one in time.
func askOne(ctx context.Context, conn *nats.Conn, subject string, question []byte) (answer presence, found bool) {
	ctx, cancel := context.WithTimeout(ctx, presenceTimeout)
	defer cancel()
	m, err := conn.RequestWithContext(ctx, subject, question)
	if err != nil {
		return answer, false
	}
	return answer, json.Unmarshal(m.Data, &answer) == nil && answer.Session != 0
}

// leavePresence stops answering.
func (s *session) leavePresence() {
	for _, sub := range s.listening {
		_ = sub.Unsubscribe()
	}
	s.listening = nil
}
