package storetest

import "slices"

// cases is the suite, in the order of a message's life.
func cases() []testCase {
	return slices.Concat(
		claimCases(), printCases(), leaseCases(), commitCases(), claimlessCases(), unknownCases(), stateCases(), historyCases(),
		retentionCases(), feedCases(), settleCases(), triedCases(), orderCases(), laneCases(), timerCases(), recordCases(), eraseCases(), scanCases(),
		reopenCases(), shareCases(), closeCases(),
	)
}
