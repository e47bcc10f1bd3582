// Package crashtest holds the test that kills a worker process with SIGKILL at each named crash point of the
// pipeline and the relay, restarts it, and counts the effects. It has no code of its own.
//
// Its tests import the packages that a service imports, and internal/natstest.
package crashtest
