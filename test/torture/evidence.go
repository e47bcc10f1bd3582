package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/consumer"
)

// readStreams adds what the streams of effects and of dead letters hold to the facts.
func (r *rig) readStreams(js jetstream.JetStream, epoch int) error {
	err := eachMessage(js, effectsStream, func(m jetstream.Msg) error {
		var e effect
		if err := json.Unmarshal(m.Data(), &e); err != nil {
			return err
		}
		r.effects = append(r.effects, sentEffect{e, m.Headers().Get(onefold.HeaderID), epoch})
		return nil
	})
	if err != nil {
		return err
	}
	return eachMessage(js, deadStream, func(m jetstream.Msg) error {
		h := m.Headers()
		if strings.HasSuffix(m.Subject(), "."+sinkName) {
			return fmt.Errorf("the sink has given up %s: %s", h.Get(consumer.HeaderDeadID), h.Get(consumer.HeaderDeadReason))
		}
		r.letters = append(r.letters, letter{h.Get(consumer.HeaderDeadID), h.Get(consumer.HeaderDeadReason), epoch})
		return nil
	})
}

// eachMessage calls f with all that a stream holds.
func eachMessage(js jetstream.JetStream, name string, f func(jetstream.Msg) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	state := s.CachedInfo().State
	if state.Msgs == 0 {
		return nil
	}
	c, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	messages, err := c.Messages(jetstream.PullMaxMessages(5000))
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if err := f(m); err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if meta.Sequence.Stream >= state.LastSeq {
			return nil
		}
	}
}

// readOffline reads the data of a server that was killed, with another server that only the rig knows.
func (r *rig) readOffline() error {
	port, err := freePort()
	if err != nil {
		return err
	}
	s := r.server.base
	s.Port, s.Name = port, "offline"
	p := r.process(s)
	ended := make(chan error, 1)
	go func() { ended <- p.run() }()
	ctx, cancel := context.WithTimeout(context.Background(), serverStart)
	defer cancel()
	err = p.awaitReady(ctx)
	if err == nil {
		err = r.readFrom(fmt.Sprintf("nats://127.0.0.1:%d", port))
	}
	p.end()
	return errors.Join(err, <-ended)
}

func (r *rig) readFrom(url string) error {
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return r.readStreams(js, int(r.epoch.Load()))
}

// readStore has another process say what a store holds.
func readStore(p *process, scope string) (s stored, err error) {
	text, err := json.Marshal(spec{Role: "dump", Name: scope, Dir: p.base.Dir})
	if err != nil {
		return s, err
	}
	self, err := os.Executable()
	if err != nil {
		return s, err
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(context.Background(), self)
	cmd.Env = append(os.Environ(), specVariable+"="+string(text))
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return s, fmt.Errorf("read the store of %s: %w: %s", p.base.Name, err, errs.String())
	}
	return s, json.Unmarshal(out.Bytes(), &s)
}

// readNeeds counts deliveries, and finds what the workers needed at most.
func (f *facts) readNeeds(dir string) error {
	return readJournals(dir, func(fields []string) {
		switch fields[2] {
		case "received":
			f.deliveries++
		case "stats":
			var heap, goroutines int64
			if n, _ := fmt.Sscan(fields[4], &heap, &goroutines); n == 2 {
				f.heap, f.goroutines = max(f.heap, heap), max(f.goroutines, goroutines)
			}
		}
	})
}
