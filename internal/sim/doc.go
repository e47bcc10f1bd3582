// Package sim holds the deterministic simulation: a test that takes the stages of the consumer, the decisions of the
// relay and the memory store through thousands of schedules a second, with crashes, lost answers and jumps of the clock
// at every point, and judges what has happened. It has no code of its own.
//
// # What is real and what is a model
//
// Real are consumer.Rehearsal (receive, claim, handle, commit, finish; the registry; the floor; dead letters; redriven
// messages), outbox.Rehearsal (the feed, the verdicts on answers, settlement, parking and resuming) and memstore. A
// model are JetStream (positions, redelivery after AckWait and after naks, late and lost answers, acks that a restart
// forgets, the ack floor, the duplicate window of the stream that effects go to), the network, the processes (two
// consumers and a relay on one store, which die together), and time: the clocks of the processes move when a schedule
// says so, the wall clock also by itself, and monotonic time starts anew with each process.
//
// # A schedule
//
// A schedule is a list of steps with their arguments, drawn from a seed, or made of the bytes of a fuzzer. Something can
// stand still at a point (inside a handler, or at one of the crash points) while the steps that follow happen; so runs
// overlap, leases end, and messages arrive twice, although one goroutine moves at a time. A schedule always runs
// alike. At its end all trouble ends, and everything has the time to arrive.
//
// # What is judged
//
// A ledger between consumer and store knows what the store has really stored, and the model knows what has arrived. While
// it runs and at the end: a key has one outcome within its retention; no two hold a claim, also not during a commit;
// tokens grow and no commit under an old one succeeds; what was committed is there; counters agree with the
// successes; attempts are those that were counted; IDs are those of their key alone, and the same in each run; an ack
// comes after a durable outcome, for a dead letter after its arrival; a row is settled after its arrival; nothing is
// published that was not committed; rows of an ordering key arrive in their order; what was committed arrives; every
// message ends; with ParkUnknown no run follows one of which nobody knows how it ended.
//
// A schedule that fails is shortened as long as it fails, and told in words. breakage_test.go breaks the store and the
// handler in a dozen ways and shows that each is noticed.
//
// # How to run it
//
//	go test ./internal/sim                                          some ten seconds
//	go test ./internal/sim -run TestSchedules -schedules 1000000    a million seeds
//	go test ./internal/sim -run TestSchedules -seed 42 -v           one seed, told in words
//	go test ./internal/sim -fuzz FuzzSchedule
//
// -strict judges one thing more, which does not hold yet: a message is rejected because a run holds its ID with another
// payload. If that run ends without an outcome before the dead letter has left, and the process dies or another takes over,
// the rejected message runs when it comes again, beside its dead letter.
//
// # What it cannot show
//
// Races between goroutines: one moves at a time, and time stands still in between. The heartbeat (renewals, hard
// deadlines, zombies), pulling, order within keys, rate limits, batches, requests and calls of functions. Suspects after
// an unclean end. What only files can do: bbolt, torn writes, full disks. A server that behaves unlike the model. These
// belong to the tests of the packages, to internal/crashtest and to rigs that work from outside.
//
// Its tests import the packages that a service imports.
package sim
