package onefold

import "fmt"

// MaxCallNameBytes is the longest name of a function that can be asked for.
const MaxCallNameBytes = 256

// Call asks for one call of the function that the relay has registered under name (outbox.Config.Functions), after
// the commit. v is given to it as it is if it is a []byte, else as JSON.
//
// It is called at least once: again after an error, and after a crash that came before its end was recorded. Each
// time it gets the ID of this effect, which a rerun of the handler does not change, as its idempotency key.
func (fx *Effects) Call(name string, v any) { fx.call(name, v, false) }

// CallOnce is [Effects.Call] for what must not happen twice and has no use for a key: it is called at most once,
// unless it is known that an earlier call had no effect. That a call is about to be made is durable before it is
// made. When its outcome is not known afterwards, the function's probe is asked, and where there is none or it does
// not know, the row is parked for a person.
func (fx *Effects) CallOnce(name string, v any) { fx.call(name, v, true) }

func (fx *Effects) call(name string, v any, once bool) {
	payload, err := encode(v)
	if err != nil {
		fx.Fail(fmt.Errorf("%w: call of %q: %w", ErrInvalid, showID(name), err))
		return
	}
	fx.emit(Effect{Kind: KindCall, Target: name, Payload: payload, Once: once})
}

// CheckCallName reports why no function can have this name, or nil: it must be a token, as the name of a header is
// ([IsHeaderName]), of at most [MaxCallNameBytes]. The error wraps [ErrInvalid].
func CheckCallName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: name of a function is empty; give the one it is registered under", ErrInvalid)
	case len(name) > MaxCallNameBytes:
		return fmt.Errorf("%w: name of a function has %d bytes, the limit is %d; shorten it", ErrInvalid, len(name), MaxCallNameBytes)
	case !IsHeaderName(name):
		return fmt.Errorf("%w: name of a function is %q; only letters, digits and !#$%%&'*+-.^_`|~ are allowed", ErrInvalid, showID(name))
	}
	return nil
}

// checkCall refuses a call that no relay could make. Its payload does not pass through a server, so that only the
// store limits it.
func checkCall(e *Effect) error {
	if err := CheckCallName(e.Target); err != nil {
		return fmt.Errorf("field Target: %w", err)
	}
	if e.Once && e.Timer != "" {
		return fmt.Errorf("%w: Once is set on the timer %q; a replaced timer may have called already, so leave one of them out",
			ErrInvalid, showID(e.Timer))
	}
	_, err := checkHeader(e.Header)
	return err
}
