package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/onefold-go/onefold"
)

// ErrUnrouted reports a message that no route takes. The reason of its dead letter says it.
var ErrUnrouted = errors.New("no route")

// RouteBySubject makes one handler of several, each for the subjects that a pattern matches. A pattern is a
// subject as NATS has it, with "*" for one token and a last ">" for one or more.
//
// The most specific pattern decides: "orders.new" before "orders.*" before "orders.>". The order of writing
// never matters: where two patterns overlap and neither lies in the other one, such as "*.new" and "orders.*",
// what both match must be a route itself ("orders.new").
//
// A message that no pattern matches goes to unrouted. With nil it becomes a dead letter at once, with
// [ErrUnrouted] and its subject as the reason; [Ignore] acks it. Routes see what the stream's consumer is
// given: Config.FilterSubjects keeps away what no route is for.
//
// All routes share the consumer's Config; for attempts and times of their own see [GiveUpAfter] and [Timeout].
// A route may itself be a handler made by RouteBySubject or [RouteByHeader]. routes is copied. The handler is
// safe for concurrent use if the routes are.
//
// Errors: [onefold.ErrInvalid], naming every pattern that is malformed, has no handler, or leaves open which
// route decides.
func RouteBySubject(routes map[string]onefold.Handler, unrouted onefold.Handler) (onefold.Handler, error) {
	errs := checkRoutes("subject", routes)
	patterns := slices.Sorted(maps.Keys(routes))
	for _, p := range patterns {
		if err := checkFilter(p); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		errs = undecided(patterns, routes)
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("%w: route by subject: %w", onefold.ErrInvalid, errors.Join(errs...))
	}
	exact := make(map[string]onefold.Handler)
	var wild []route
	for _, p := range patterns {
		if hasWildcard(p) {
			wild = append(wild, route{p, routes[p]})
		} else {
			exact[p] = routes[p]
		}
	}
	slices.SortFunc(wild, func(a, b route) int { return moreSpecific(a.pattern, b.pattern) })
	return func(ctx context.Context, msg *onefold.Message, fx *onefold.Effects) error {
		if handle, ok := exact[msg.Subject]; ok {
			return handle(ctx, msg, fx)
		}
		for i := range wild {
			if matches(wild[i].pattern, msg.Subject) {
				return wild[i].handle(ctx, msg, fx)
			}
		}
		if unrouted != nil {
			return unrouted(ctx, msg, fx)
		}
		return onefold.Permanent(fmt.Errorf("%w for the subject %s", ErrUnrouted, shown(msg.Subject)))
	}, nil
}

// route is a pattern with wildcards and its handler.
type route struct {
	pattern string
	handle  onefold.Handler
}

// RouteByHeader makes one handler of several, each for the messages whose header has a value: their type, such
// as "order.created". The first value of the header counts. Names and values are compared exactly, case
// included.
//
// A message without the header or with another value goes to unrouted; see [RouteBySubject] for that and for
// what else holds of routes.
//
// Errors: [onefold.ErrInvalid], naming every value that is empty, could not stand in a header or has no
// handler, and a name that is no header's.
func RouteByHeader(name string, routes map[string]onefold.Handler, unrouted onefold.Handler) (onefold.Handler, error) {
	errs := checkRoutes("value", routes)
	if !onefold.IsHeaderName(name) {
		errs = append(errs, fmt.Errorf("the name is %q; give a header's name, such as \"Type\"", name))
	}
	for _, value := range slices.Sorted(maps.Keys(routes)) {
		if value == "" || !onefold.IsHeaderValue(value) {
			errs = append(errs, fmt.Errorf("no header has the value %q; it is empty, or has a line break or a blank at an end", value))
		}
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("%w: route by header: %w", onefold.ErrInvalid, errors.Join(errs...))
	}
	routes = maps.Clone(routes)
	return func(ctx context.Context, msg *onefold.Message, fx *onefold.Effects) error {
		value := msg.Header.Get(name)
		if handle, ok := routes[value]; ok {
			return handle(ctx, msg, fx)
		}
		if unrouted != nil {
			return unrouted(ctx, msg, fx)
		}
		return onefold.Permanent(fmt.Errorf("%w for the value %s of header %s", ErrUnrouted, shown(value), name))
	}, nil
}

// Ignore does nothing and succeeds: the message is acked, and its key is done without effects. Give it as the
// last argument of [RouteBySubject] or [RouteByHeader] to skip what no route is for. What is ignored is not
// seen again: a route that is added later gets new IDs only.
func Ignore(context.Context, *onefold.Message, *onefold.Effects) error { return nil }

// checkRoutes reports routes without a handler. what says what a route is named by.
func checkRoutes(what string, routes map[string]onefold.Handler) (errs []error) {
	if len(routes) == 0 {
		errs = append(errs, fmt.Errorf("there is no route; give one %s and its handler", what))
	}
	for _, name := range slices.Sorted(maps.Keys(routes)) {
		if routes[name] == nil {
			errs = append(errs, fmt.Errorf("the handler for %q is nil; set it, or leave the route out", name))
		}
	}
	return errs
}

// undecided reports overlaps of which no route says who decides. If the overlap of any two patterns is a route,
// then of all patterns that match a subject one lies in all others.
func undecided(patterns []string, routes map[string]onefold.Handler) (errs []error) {
	for i, a := range patterns {
		for _, b := range patterns[i+1:] {
			both, ok := overlap(a, b)
			if ok && routes[both] == nil {
				errs = append(errs, fmt.Errorf("%q and %q both match %q; add a route for that, to say which decides", a, b, both))
			}
		}
	}
	return errs
}

// shownBytes is how much of a subject or header value is shown in a reason.
const shownBytes = 128

// shown quotes what others have sent and cuts it, so that nothing raw reaches a log line.
func shown(s string) string {
	if len(s) > shownBytes {
		return fmt.Sprintf("%+q... (%d bytes)", s[:shownBytes], len(s))
	}
	return fmt.Sprintf("%+q", s)
}
