// Package dedupe answers "have I seen this?": where a message's ID is found ([IDSource]), which digest
// guards against one ID with two payloads ([Fingerprinter]), how a publisher makes an ID ([Stamp], [StableID]), and
// [Guard], which runs work once when it arrives another way than through a consumer, for instance as an HTTP request.
//
// A consumer takes its source and its fingerprint from here:
//
//	consumer.Config{
//		ID:          dedupe.FirstOf(dedupe.HeaderID("Order-Id"), dedupe.DefaultID),
//		Fingerprint: dedupe.BodyOnly,
//		// ...
//	}
//
// A source says where an ID is: in a header ([DefaultID], [HeaderID]), in the attributes of a CloudEvent
// ([CloudEventID]), in the position of the message ([PositionID]), or the first that has one ([FirstOf]).
// A program that publishes by itself puts it there with [Stamp].
//
// A fingerprint says what two messages of one ID must have in common. Choose by what changes between two tries
// of one sender:
//
//	SubjectAndBody, BodyOnly        nothing: the bytes are the same (the default)
//	SubjectAndJSON, JSONOnly        the order of fields, blanks, escapes
//	WithoutFields, OnlyFields       some fields: a time of sending, a request ID
//	Selected                        anything that a function of yours leaves out
//	Off                             nothing is compared
//
// Every choice has its own version, which is stored with the fingerprint; fingerprints of two versions are
// never compared. Changing the choice in a deploy therefore makes no false alarms, and guards new messages only.
//
// A Guard claims an ID, runs a function and commits what the function asked for together with the mark
// that the ID is done:
//
//	guard, err := dedupe.NewGuard(st, dedupe.GuardOptions{Scope: "http/payments"})
//	// ...
//	result, err := guard.Do(ctx, request.Header.Get("Idempotency-Key"),
//		dedupe.BodyFingerprint("POST /payments", body),
//		func(ctx context.Context, fx *onefold.Effects) error {
//			fx.Publish("payments.made", payment)
//			fx.Result(receipt)
//			return nil
//		})
//	switch {
//	case errors.Is(err, onefold.ErrBusy):     // the first request still runs: 409, ask again; or wait, with GuardOptions.Wait
//	case errors.Is(err, onefold.ErrMismatch): // the ID was used for another request: 422
//	case errors.Is(err, onefold.ErrUnknown):  // no answer from the store: 503, ask again with the same ID
//	case err != nil:                          // the function failed, nothing is stored
//	default:
//		reply(result.Record.Result) // of this run or of the first one
//	}
//
// What is promised, per ID and within GuardOptions.Retention: the effects of at most one run are committed,
// a repeat is answered from the stored result without running, and an ID that was used for something else
// is refused, not answered. What is not promised: that the function runs once. It may run again after an
// error, a conflict or a crash; only its effects are once. Messages asked for leave through a relay of
// package outbox on the same store.
//
// [Assess] judges whether the settings of a consumer, its stream and its store carry the promise, and says so in a report.
//
// Reading order: ids.go, cloudevents.go, fingerprints.go, json.go and json_fields.go (pure functions of a message),
// stamp.go (IDs of outgoing messages), guard.go (claim), guard_wait.go (waiting for one), run.go (run and commit), keeper.go (renewal).
//
// It imports package onefold, internal/safecall, internal/commit and internal/pace; never NATS and never a
// store.
package dedupe
