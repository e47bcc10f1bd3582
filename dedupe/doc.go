// Package dedupe answers "have I seen this?": where a message's ID is found ([IDSource]), which digest
// guards against one ID with two payloads ([Fingerprinter]), and [Guard], which runs work once when it
// arrives another way than through a consumer, for instance as an HTTP request.
//
// It imports package onefold, internal/safecall and cenkalti/backoff; never NATS and never a store.
package dedupe
