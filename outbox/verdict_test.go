package outbox

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"

	"github.com/onefold-go/onefold"
)

func api(code int, errorCode jetstream.ErrorCode) error {
	return fmt.Errorf("nats: %w", &jetstream.APIError{Code: code, ErrorCode: errorCode})
}

func TestAnAnswerDecidesWhatBecomesOfItsRow(t *testing.T) {
	up := scene{connected: true}
	tests := []struct {
		name  string
		err   error
		scene scene
		want  verdict
		class onefold.Class
	}{
		{"stored or duplicate", nil, up, sent, onefold.ClassNone},

		{"no answer in time", jetstream.ErrAsyncPublishTimeout, up, waiting, onefold.ClassUnknown},
		{"client timeout", nats.ErrTimeout, up, waiting, onefold.ClassUnknown},
		{"deadline", context.DeadlineExceeded, up, waiting, onefold.ClassUnknown},
		{"connection lost with the message out", nats.ErrDisconnected, scene{}, waiting, onefold.ClassUnknown},
		{"connection lost and back already", nats.ErrDisconnected, up, waiting, onefold.ClassUnknown},

		{"connection closed", nats.ErrConnectionClosed, scene{}, waiting, onefold.ClassUnavailable},
		{"draining", nats.ErrConnectionDraining, up, waiting, onefold.ClassUnavailable},
		{"reconnect buffer full", nats.ErrReconnectBufExceeded, scene{}, waiting, onefold.ClassUnavailable},
		{"publisher cleaned up", jetstream.ErrJetStreamPublisherClosed, up, waiting, onefold.ClassUnavailable},
		{"client window full", jetstream.ErrTooManyStalledMsgs, up, waiting, onefold.ClassUnavailable},
		{"anything while not connected", errors.New("strange"), scene{}, waiting, onefold.ClassUnavailable},

		{"nobody answers, subject is captured", jetstream.ErrNoStreamResponse, scene{true, captured}, waiting, onefold.ClassUnavailable},
		{"nobody answers, JetStream neither", jetstream.ErrNoStreamResponse, scene{true, captureUnknown}, waiting, onefold.ClassUnavailable},
		{"nobody answers, no stream captures", jetstream.ErrNoStreamResponse, scene{true, notCaptured}, refused, onefold.ClassRefused},
		{"no responders, no stream captures", nats.ErrNoResponders, scene{true, notCaptured}, refused, onefold.ClassRefused},

		{"stream full", api(503, 10077), up, waiting, onefold.ClassUnavailable},
		{"insufficient resources", api(503, 10023), up, waiting, onefold.ClassUnavailable},
		{"account storage used up", api(400, 10002), up, waiting, onefold.ClassUnavailable},
		{"storage exceeded", api(500, 10047), up, waiting, onefold.ClassUnavailable},
		{"memory exceeded", api(500, 10028), up, waiting, onefold.ClassUnavailable},
		{"not leader", api(500, 10009), up, waiting, onefold.ClassUnavailable},
		{"stream offline", api(500, 10118), up, waiting, onefold.ClassUnavailable},
		{"JetStream unavailable", api(503, 10008), up, waiting, onefold.ClassUnavailable},
		{"too many requests", api(429, 10167), up, waiting, onefold.ClassUnavailable},
		{"ID in process", api(409, 10158), up, waiting, onefold.ClassUnavailable},

		{"message too large for the stream", api(400, 10054), up, hopeless, onefold.ClassRefused},
		{"headers too large", api(400, 10097), up, hopeless, onefold.ClassRefused},
		{"payload too large for the server", nats.ErrMaxPayload, up, hopeless, onefold.ClassRefused},
		{"payload too large, while not connected", nats.ErrMaxPayload, scene{}, hopeless, onefold.ClassRefused},
		{"bad subject", nats.ErrBadSubject, up, hopeless, onefold.ClassRefused},

		{"sealed stream", api(400, 10109), up, refused, onefold.ClassRefused},
		{"other refusal", api(400, 10060), up, refused, onefold.ClassRefused},
		{"unknown server error", api(500, 19999), up, refused, onefold.ClassRefused},
		{"answer that is no JetStream answer", jetstream.ErrInvalidJSAck, up, refused, onefold.ClassRefused},
		{"unknown error", errors.New("strange"), up, refused, onefold.ClassRefused},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, class := judge(tt.err, tt.scene)
			assert.Equal(t, tt.want.String(), v.String())
			assert.Equal(t, tt.class, class)
		})
	}
}
