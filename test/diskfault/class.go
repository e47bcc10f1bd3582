package diskfault

import (
	"errors"
	"strings"

	"github.com/onefold-go/onefold"
)

// classes are the names of errors, the one that decides first.
var classes = []struct {
	name string
	err  error
}{
	{"unknown", onefold.ErrUnknown}, {"damaged", onefold.ErrDamaged}, {"full", onefold.ErrFull},
	{"unavailable", onefold.ErrUnavailable}, {"lost", onefold.ErrLost}, {"closed", onefold.ErrClosed},
	{"busy", onefold.ErrBusy}, {"conflict", onefold.ErrConflict}, {"mismatch", onefold.ErrMismatch},
	{"not-found", onefold.ErrNotFound}, {"in-use", onefold.ErrInUse}, {"newer", onefold.ErrNewerFormat},
	{"not-store", onefold.ErrNotStore}, {"invalid", onefold.ErrInvalid}, {"too-large", onefold.ErrTooLarge},
}

// class is the name of an error in a line: "ok", a name of the contract, or what it says.
func class(err error) string {
	if err == nil {
		return "ok"
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return "unnamed:" + strings.ReplaceAll(err.Error(), " ", "_")
}

// classOfOpen is class for Open and Close, which may give errors of the file system as they are.
func classOfOpen(err error) string { return strings.Replace(class(err), "unnamed:", "system:", 1) }
