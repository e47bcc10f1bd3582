package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onefold-go/onefold"
)

// scopeScope is the scope of the claims by which consumers of one store notice each other: two that dedupe
// under one scope would take each other's messages for duplicates, and two on one durable under different
// scopes would each run what the other has done.
const scopeScope = "onefold.consumer"

// holdScope claims the scope and the durable for this session. A store shared by several processes has one
// consumer of a scope in each of them, so there nothing is claimed.
func (s *session) holdScope(ctx context.Context) error {
	if !s.st.Info().OneProcess {
		return nil
	}
	for _, name := range []string{"scope " + s.cfg.Scope, "durable " + s.cfg.Stream + "/" + s.cfg.Name} {
		grant, err := s.st.Begin(ctx, onefold.Request{Key: onefold.Key{Scope: scopeScope, ID: name}, Lease: s.cfg.Lease, Holder: s.holder()})
		if err == nil && grant.Verdict != onefold.Granted {
			err = fmt.Errorf("%w; stop that one, or give this one a Config.Name of its own", ErrScopeInUse)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.scope = append(s.scope, grant.Claim)
	}
	return nil
}

// keepScope renews the claims until ctx ends. It also is how an idle consumer notices that its store is
// closed.
func (s *session) keepScope(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.Lease / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, c := range s.scope {
			// A lost claim breaks nothing by itself: it is a guard against a mistake at start.
			if err := s.st.Renew(ctx, c, s.cfg.Lease); errors.Is(err, onefold.ErrClosed) {
				s.fail(err)
			}
		}
		if permit := s.permit.Load(); permit != nil {
			_ = s.st.Renew(ctx, permit, s.cfg.Lease) // the run that holds it may just have ended
		}
	}
}

func (s *session) releaseScope(ctx context.Context) {
	for _, c := range s.scope {
		_ = s.st.Release(ctx, c, onefold.Failure{Reason: "consumer stopped"})
	}
}
