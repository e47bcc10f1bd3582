package outbox

import (
	"testing"

	"go.uber.org/goleak"
)

// A publisher of nats.go that is cleaned up before its watcher of the connection has begun to run leaves the watcher
// behind: it reads the channel that it is to watch when there is none any more.
const watcher = "github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreTopFunction(watcher)) }
