// Package pace decides how long to wait: [Delay] for messages and rows that failed, [Store] and [Conflict]
// for calls that are repeated in place, [Sleep] and [Outlive] for waits that a context ends.
//
// It imports cenkalti/backoff and nothing of this module.
package pace
