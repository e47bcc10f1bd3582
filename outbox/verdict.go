package outbox

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onefold-go/onefold"
)

// verdict is what one answer means for its row.
type verdict uint8

const (
	sent    verdict = iota + 1
	refused         // try again; the attempt counts
	waiting         // try again; the attempt does not count: nothing is wrong with the row
	hopeless
	doubtful // a call that may have happened and must not happen twice: a person decides
	untold   // nothing is recorded: the row goes back with the feed, and whoever gets it finds out
)

// String names the verdict.
func (v verdict) String() string {
	switch v {
	case sent:
		return "sent"
	case refused:
		return "refused"
	case waiting:
		return "waiting"
	case hopeless:
		return "hopeless"
	case doubtful:
		return "doubtful"
	case untold:
		return "untold"
	}
	return "none"
}

// scene is what is known besides the error when an answer is judged.
type scene struct {
	connected bool
	capture   capture
}

// The server's error codes that decide otherwise than their class does.
const (
	codeAccountResources   jetstream.ErrorCode = 10002 // the account's storage is used up
	codeNotLeader          jetstream.ErrorCode = 10009
	codeInsufficient       jetstream.ErrorCode = 10023
	codeMemoryExceeded     jetstream.ErrorCode = 10028
	codeStorageExceeded    jetstream.ErrorCode = 10047
	codeMessageTooLarge    jetstream.ErrorCode = 10054
	codeStoreFailed        jetstream.ErrorCode = 10077 // the stream is full, or its disk
	codeHeaderTooLarge     jetstream.ErrorCode = 10097
	codeStreamOffline      jetstream.ErrorCode = 10118
	codeDuplicateInProcess jetstream.ErrorCode = 10158 // the ID is reserved, its message not yet stored
	codeStreamOfflineWhy   jetstream.ErrorCode = 10194
)

// judge decides what err means for a row. It is the only place that does. Nothing is parked because a
// server is away; a row that a server would refuse for ever is.
func judge(err error, s scene) (verdict, onefold.Class) {
	var api *jetstream.APIError
	switch {
	case err == nil:
		return sent, onefold.ClassNone
	case errors.Is(err, errNotStored):
		return hopeless, onefold.ClassRefused
	case errors.Is(err, errUnverified):
		return waiting, onefold.ClassUnavailable
	case isAny(err, nats.ErrMaxPayload, nats.ErrBadSubject, nats.ErrHeadersNotSupported, nats.ErrBadHeaderMsg):
		return hopeless, onefold.ClassRefused
	case errors.As(err, &api):
		return judgeAPI(api)
	case timedOut(err) && s.connected && s.capture == notCaptured:
		return refused, onefold.ClassRefused // who listens there is no stream, and cannot answer
	case timedOut(err), errors.Is(err, nats.ErrDisconnected):
		// The message may be stored. The same ID goes out again.
		return waiting, onefold.ClassUnknown
	case !s.connected, isAny(err, away...):
		return waiting, onefold.ClassUnavailable
	case nobodyAnswered(err):
		if s.capture == notCaptured {
			return refused, onefold.ClassRefused
		}
		return waiting, onefold.ClassUnavailable
	}
	return refused, onefold.ClassRefused
}

// away are the errors of a client that cannot send now.
var away = []error{
	nats.ErrConnectionClosed, nats.ErrConnectionDraining, nats.ErrDrainTimeout, nats.ErrReconnectBufExceeded,
	nats.ErrConnectionReconnecting, nats.ErrNoServers, nats.ErrStaleConnection, nats.ErrInvalidConnection,
	jetstream.ErrTooManyStalledMsgs, jetstream.ErrJetStreamPublisherClosed, context.Canceled,
}

// judgeAPI decides by the server's own answer.
func judgeAPI(e *jetstream.APIError) (verdict, onefold.Class) {
	switch e.ErrorCode {
	case codeMessageTooLarge, codeHeaderTooLarge:
		return hopeless, onefold.ClassRefused
	case codeAccountResources, codeNotLeader, codeInsufficient, codeMemoryExceeded, codeStorageExceeded,
		codeStoreFailed, codeStreamOffline, codeStreamOfflineWhy, codeDuplicateInProcess:
		return waiting, onefold.ClassUnavailable
	}
	if e.Code == 503 || e.Code == 429 {
		return waiting, onefold.ClassUnavailable
	}
	return refused, onefold.ClassRefused
}

// nobodyAnswered reports whether the server said that nobody listens on the subject: no stream takes it,
// or its stream has no leader now.
func nobodyAnswered(err error) bool {
	return isAny(err, jetstream.ErrNoStreamResponse, nats.ErrNoResponders)
}

// timedOut reports whether no answer came in time.
func timedOut(err error) bool {
	return isAny(err, nats.ErrTimeout, jetstream.ErrAsyncPublishTimeout, context.DeadlineExceeded)
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
