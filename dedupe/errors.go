package dedupe

import (
	"fmt"
	"time"

	"github.com/onefold-go/onefold"
)

// BusyError says that the key is being run by another. It matches [onefold.ErrBusy].
type BusyError struct {
	Key        onefold.Key
	RetryAfter time.Duration // when asking again makes sense; at most the holder's lease
}

// Error names the key and the time.
func (e *BusyError) Error() string {
	return fmt.Sprintf("%v: %v is running; ask again in %v", onefold.ErrBusy, e.Key, e.RetryAfter)
}

// Is reports whether target is [onefold.ErrBusy].
func (e *BusyError) Is(target error) bool { return target == onefold.ErrBusy }

// MismatchError says that the key was used for something else. It matches [onefold.ErrMismatch].
type MismatchError struct {
	Key    onefold.Key
	Stored onefold.Fingerprint // of what is stored, or runs
	Given  onefold.Fingerprint
}

// Error names the key and both digests.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("%v: %v holds %v, given %v; use another ID for another request",
		onefold.ErrMismatch, e.Key, e.Stored, e.Given)
}

// Is reports whether target is [onefold.ErrMismatch].
func (e *MismatchError) Is(target error) bool { return target == onefold.ErrMismatch }
