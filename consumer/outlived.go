package consumer

import (
	"sync"

	"github.com/onefold-go/onefold"
)

// outlived are the keys of counted starts that have lost their claim while this process lived on: the store can take
// such a start for nothing but one that was cut short, and this process knows better. It is forgotten with the session;
// one death more then counts against such a message.
type outlived struct {
	mu     sync.Mutex
	starts map[onefold.Key]int
}

// maxOutlived bounds the keys that are remembered.
const maxOutlived = 4096

func (o *outlived) add(k onefold.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.starts == nil {
		o.starts = map[onefold.Key]int{}
	}
	if len(o.starts) < maxOutlived || o.starts[k] > 0 {
		o.starts[k]++
	}
}

// correct takes the starts that this process has outlived out of a history.
func (o *outlived) correct(k onefold.Key, h onefold.History) onefold.History {
	o.mu.Lock()
	defer o.mu.Unlock()
	h.Starts = max(h.Starts-o.starts[k], min(h.Starts, h.Failures))
	return h
}
