package consumer

import "strconv"

// monitored is the metadata by which "nats server check consumer" finds its thresholds. Only what is wrong
// for any application is in it: no place left for another unanswered message, half of the places taken
// by messages that come again, and pulls piling up. A backlog that is too long for yours is yours to say
// (io.nats.monitor.unprocessed-critical); onefold leaves metadata that is not its own as it is.
func monitored(maxAckPending int) map[string]string {
	return map[string]string{
		"io.nats.monitor.enabled":                  "true",
		"io.nats.monitor.outstanding-ack-critical": strconv.Itoa(maxAckPending),
		"io.nats.monitor.redelivery-critical":      strconv.Itoa(max(maxAckPending/2, 1)),
		"io.nats.monitor.waiting-critical":         strconv.Itoa(waitingCritical),
	}
}

// waitingCritical is half of the pulls that a server lets wait by default. One process has a few.
const waitingCritical = 256
