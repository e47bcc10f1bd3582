// Command torture tries to break the promises of docs/guarantees.md from outside.
//
//	go run ./test/torture -for 60s -seed 1
//
// It starts a NATS server, workers, and a consumer of what the workers send, each a process of its own, publishes orders
// with copies, storms of copies and reused IDs, and strikes all of them with the faults of a plan that the seed
// decides. Then it heals everything, waits until nothing is left to do, and compares what every process has stored and
// every stream holds with its own ledger. README.md has the method. The last line is one JSON object; the exit
// code is 1 if a promise was broken.
//
// It imports the framework, nats.go, the NATS server, and toxiproxy for links that fail.
package main
