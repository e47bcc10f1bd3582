package consumer

import (
	"context"
	"fmt"
	"time"

	"github.com/onefold-go/onefold"
)

// scopeScope is the scope of the claims by which consumers of one store notice each other: two that dedupe
// under one name would take each other's messages for duplicates.
const scopeScope = "onefold.consumer"

// holdScope claims the scope for this session. A store shared by several processes has one consumer of a
// scope in each of them, so there nothing is claimed and the result is nil.
func (s *session) holdScope(ctx context.Context) (*onefold.Claim, error) {
	if !s.st.Info().OneProcess {
		return nil, nil
	}
	grant, err := s.st.Begin(ctx, onefold.Request{Key: onefold.Key{Scope: scopeScope, ID: s.cfg.Scope}, Lease: s.cfg.Lease, Holder: s.holder()})
	if err != nil {
		return nil, fmt.Errorf("claim scope %q: %w", s.cfg.Scope, err)
	}
	if grant.Verdict != onefold.Granted {
		return nil, fmt.Errorf("%w: %q; give this consumer another Config.Scope, or stop the other", ErrScopeInUse, s.cfg.Scope)
	}
	return grant.Claim, nil
}

// keepScope renews the claim until ctx ends.
func (s *session) keepScope(ctx context.Context, c *onefold.Claim) {
	if c == nil {
		return
	}
	ticker := time.NewTicker(s.cfg.Lease / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			// A lost scope claim breaks nothing by itself: it is a guard against a mistake at start.
			_ = s.st.Renew(ctx, c, s.cfg.Lease)
		}
	}
}

func (s *session) releaseScope(ctx context.Context, c *onefold.Claim) {
	if c != nil {
		_ = s.st.Release(ctx, c, onefold.Failure{Reason: "consumer stopped"})
	}
}
