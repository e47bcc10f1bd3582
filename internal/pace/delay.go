package pace

import "time"

// Delay is the time before the next try after attempt tries have failed: lowest, doubled with each attempt
// up to highest, and shortened by up to a fifth, so that what failed together does not come back together.
// It is a pure function of attempt and seed: a restart changes nothing. An attempt below 1 counts as the
// first, a negative bound as 0, and highest decides if it is below lowest.
func Delay(attempt int, seed uint64, lowest, highest time.Duration) time.Duration {
	lowest, highest = max(lowest, 0), max(highest, 0)
	delay := highest
	if shift := max(attempt, 1) - 1; lowest == 0 || shift < 63 && lowest <= highest>>shift {
		delay = lowest << shift
	}
	return delay - time.Duration(mix(seed+uint64(attempt))%uint64(delay/5+1))
}

// mix spreads the bits of x (the finalizer of SplitMix64, Steele, Lea and Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}
