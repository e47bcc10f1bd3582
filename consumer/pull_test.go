package consumer

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"

	"github.com/onefold-go/onefold"
)

// sized is a message of some size.
type sized struct {
	jetstream.Msg
	body []byte
}

func (m sized) Data() []byte { return m.body }

func TestLargeMessagesAfterManySmallOnesTakeBackWhatWasAskedFor(t *testing.T) {
	p := newPuller(nil, nil, prefetch{target: maxPrefetch, concurrency: 8, max: maxPrefetch}, onefold.Clock{}.OrSystem(), func(jetstream.Msg) {}, nil)
	w := &window{left: 8000}
	p.asked = 8000
	for range 1000 {
		p.arrived(w, sized{body: make([]byte, 10)})
	}
	assert.False(t, p.wantsClose())
	large := sized{body: make([]byte, 1<<20)}
	for range maxPrefetchBytes>>20 + 1 {
		p.arrived(w, large)
	}
	assert.True(t, p.wantsClose(), "more is on its way than fits")
	p.closing = false
	p.giveUp(w)
	assert.Zero(t, p.fetch.missing(p.asked, p.held, p.bytes))
	for range maxPrefetchBytes >> 20 {
		p.end(&delivery{ack: large})
	}
	for range 1000 {
		p.end(&delivery{ack: sized{body: make([]byte, 10)}})
	}
	assert.Equal(t, 1<<20, p.bytes)
	assert.LessOrEqual(t, p.fetch.missing(p.asked, p.held, p.bytes), 31, "sized by the large ones")
}
