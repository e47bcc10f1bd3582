package consumer

import (
	"github.com/onefold-go/onefold"
	"github.com/onefold-go/onefold/dedupe"
)

// This file asks functions of the application what a message is.

// findKey returns the key of a message that comes for the first time; redriven.go has the others.
func (s *session) findKey(d *delivery) (onefold.Key, error) {
	if d.redriven {
		return s.findRedrivenKey(d)
	}
	id, err := s.findID(&d.msg)
	return onefold.Key{Scope: s.cfg.Scope, ID: id}, err
}

// findID and digest call functions of the application; a panic in one of them rejects the message instead
// of ending the process.
func (s *session) findID(m *onefold.Message) (id string, err error) {
	defer recoverAs(&err)
	if id, err = s.cfg.ID(m); err == nil {
		_, err = dedupe.CheckID(id) // a blank one is none; others are taken as they are
	}
	return id, err
}

func (s *session) digest(m *onefold.Message) (f onefold.Fingerprint, err error) {
	defer recoverAs(&err)
	return s.cfg.Fingerprint(m), nil
}

func recoverAs(err *error) {
	if v := recover(); v != nil {
		*err = &onefold.PanicError{Value: v}
	}
}
