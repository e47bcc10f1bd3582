package consumer

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// healthTimeout bounds one answer: whoever asks a sick process waits no longer.
const healthTimeout = 2 * time.Second

// ReadyHandler answers GET and HEAD with [Health] as JSON: 200 if [Health.Ready], 503 if not, with 405 for other
// methods. It is for a readiness probe and for people; it tells error texts, which may name subjects and IDs, so
// serve it where only they can ask.
func (c *Consumer) ReadyHandler() http.Handler { return c.answer(Health.Ready) }

// LiveHandler is as ReadyHandler with [Health.Live]: 503 says that Run has ended with an error, so that a new
// process may help. Of a server or a store that is away it says 200, because a new process would wait as this one.
func (c *Consumer) LiveHandler() http.Handler { return c.answer(Health.Live) }

func (c *Consumer) answer(good func(Health) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are answered", http.StatusMethodNotAllowed)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
		defer cancel()
		h := c.Health(ctx)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if !good(h) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(h) // whoever has asked may have gone
	})
}
